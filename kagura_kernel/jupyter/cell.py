"""One `%%kagura` or `%%sandbox` cell, from its text to its value."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.errors import calm, check
from kagura_kernel.jupyter.formatting import filled, filled_line, wants_fmt
from kagura_kernel.jupyter.launching import intent_of, parse_cell
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.jupyter.usage import help_text, wants_help

if TYPE_CHECKING:
    from kagura_kernel.domain.outcome import RunOutcome
    from kagura_kernel.jupyter.background import BackgroundRun
    from kagura_kernel.jupyter.options import CellOptions


async def run_cell(
    shell: Any, magic: str, line: str, body: str, *, surface: Surface | None = None, at_once: bool = False
) -> RunOutcome | BackgroundRun | None:
    """Run a cell and wait for it, with `--bg` only for its beginning; with `--help` only the usage is printed.

    Args:
        shell: IPython.
        magic: `kagura` or `sandbox`.
        line: The options.
        body: The task or the program, as it stands in the cell. Nothing is filled into either of them without `--fmt`.
        surface: Where it is shown; None finds out.
        at_once: With `--bg`, wait for nothing at all.

    Raises:
        KaguraError: it could not start, failed, or was stopped; shown as one line.
    """
    with calm():
        if wants_fmt(line):
            line = filled_line(line, shell.user_ns, f"%%{magic}")
            body = filled(body, shell.user_ns, f"%%{magic}")
        if wants_help(line):
            print(help_text(magic))  # noqa: T201  # a magic answers by printing
            return None
        options = parse_cell(magic, line, body)
        place = surface or surface_of(shell)
        # From here on it costs: the first cell brings the engine, the journal and the displays in.
        from kagura_kernel.assembly import get_cockpit
        from kagura_kernel.jupyter.follow import follow
        from kagura_kernel.jupyter.live_run import display_for

        cockpit = get_cockpit()
        handle = cockpit.launch(intent_of(options, body, place, shell=shell))
        display = display_for(place, cockpit, handle.run_id)
        if options.background:
            from kagura_kernel.jupyter.background import BackgroundRun

            arrive = partial(_arrive, shell, options) if options.outputs else None
            background = BackgroundRun(handle, display, shell, place, arrive, cockpit.attach)
            if not at_once:
                await background.begun()
            return background
        outcome = check(await follow(handle, display, attach=cockpit.attach))
        if options.outputs:
            _arrive(shell, options, outcome)
        return outcome


def _arrive(shell: Any, options: CellOptions, outcome: RunOutcome) -> None:
    from kagura_kernel.jupyter.variables import bring_back

    bring_back(shell, outcome, options)
