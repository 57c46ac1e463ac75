"""From the options of a cell to an intent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.options import (
    CellOptions,
    KaguraOptions,
    SandboxOptions,
    parse_kagura,
    parse_sandbox,
)
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.jupyter.usage import KAGURA_USAGE, SANDBOX_USAGE

if TYPE_CHECKING:
    from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun


def parse_cell(magic: str, line: str, body: str) -> KaguraOptions | SandboxOptions:
    """The options of a cell that has something to do.

    Raises:
        UsageError: bad options, or an empty cell.
    """
    options: KaguraOptions | SandboxOptions = parse_kagura(line) if magic == "kagura" else parse_sandbox(line)
    if not body.strip():
        usage = KAGURA_USAGE if magic == "kagura" else SANDBOX_USAGE
        what = "task" if magic == "kagura" else "program"
        raise UsageError(f"%%{magic}: the cell is empty; the {what} goes into the lines below.\n{usage}")
    return options


def intent_of(options: KaguraOptions | SandboxOptions, body: str, surface: Surface) -> LaunchRun | LaunchCell:
    """What the cell asks for."""
    from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun

    if isinstance(options, SandboxOptions):
        return LaunchCell(code=body, language=options.language, **_shared(options, surface))
    return LaunchRun(
        task=body.strip(),
        brain=options.brain,
        model=options.model,
        budget_usd=options.budget_usd,
        max_turns=options.max_turns,
        record=options.record,
        replay=options.replay,
        **_shared(options, surface),
    )


def _shared(options: CellOptions, surface: Surface) -> dict[str, Any]:
    from kagura_kernel.jupyter.cards.view import INSIDE_MAGIC

    origins = {Surface.TERMINAL: "terminal", Surface.INSIDE: INSIDE_MAGIC}
    return {
        "session": options.session,
        "new_session": options.new_session,
        "box": options.box,
        "image": options.image,
        "command_timeout": options.timeout,
        "idle_timeout": options.idle,
        "write_mode": options.write,
        "net": options.net,
        "grants": options.grants,
        "writable_root": options.writable_root,
        "headless": surface in {Surface.HEADLESS, Surface.INSIDE},
        "origin": origins.get(surface, "notebook"),
    }
