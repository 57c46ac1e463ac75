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
from kagura_kernel.jupyter.place import place_of
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.jupyter.usage import short_usage

if TYPE_CHECKING:
    from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun


def parse_cell(magic: str, line: str, body: str) -> KaguraOptions | SandboxOptions:
    """The options of a cell that has something to do.

    Raises:
        UsageError: bad options, or an empty cell.
    """
    options: KaguraOptions | SandboxOptions = parse_kagura(line) if magic == "kagura" else parse_sandbox(line)
    resumes = isinstance(options, KaguraOptions) and options.resume is not None
    if not body.strip() and not resumes:
        what = "task" if magic == "kagura" else "program"
        raise UsageError(f"%%{magic}: the cell is empty; the {what} goes into the lines below.\n{short_usage(magic)}")
    return options


def intent_of(
    options: KaguraOptions | SandboxOptions, body: str, surface: Surface, *, shell: Any = None
) -> LaunchRun | LaunchCell:
    """What the cell asks for; with a shell, its variables and its place go along.

    Raises:
        VariableError: a variable is not there, or cannot cross.
    """
    from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun

    shared = _shared(options, surface) | _from_shell(options, shell)
    if isinstance(options, SandboxOptions):
        return LaunchCell(code=body, language=options.language, **shared)
    return LaunchRun(
        task=body.strip(),
        brain=options.brain,
        seal=options.seal,
        model=options.model,
        budget_usd=options.budget_usd,
        max_turns=options.max_turns,
        record=options.record,
        replay=options.replay,
        remember=options.remember,
        agent=options.agent,
        mcp_config=options.mcp_config,
        strict_mcp=options.strict_mcp,
        plan=options.plan,
        verify=options.verify,
        resume=options.resume,
        workers=options.workers,
        **shared,
    )


def _from_shell(options: CellOptions, shell: Any) -> dict[str, Any]:
    if shell is None:
        return {}
    found: dict[str, Any] = {"place": place_of(shell), "outputs": options.outputs}
    if options.inputs or options.outputs:
        from kagura_kernel.jupyter.variables import inputs_of

        found["inputs"] = inputs_of(shell, options)
    return found


def _shared(options: CellOptions, surface: Surface) -> dict[str, Any]:
    from kagura_kernel.views.run import INSIDE_MAGIC

    origins = {Surface.TERMINAL: "terminal", Surface.CONSOLE: "terminal", Surface.INSIDE: INSIDE_MAGIC}
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
