"""One `%%kagura` or `%%sandbox` cell, from its text to its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.errors import calm, check
from kagura_kernel.jupyter.launching import intent_of, parse_cell
from kagura_kernel.jupyter.surface import Surface, person, surface_of
from kagura_kernel.jupyter.usage import help_text, wants_help

if TYPE_CHECKING:
    from kagura_kernel.domain.outcome import RunOutcome
    from kagura_kernel.jupyter.background import BackgroundRun


async def run_cell(
    shell: Any, magic: str, line: str, body: str, *, surface: Surface | None = None
) -> RunOutcome | BackgroundRun | None:
    """Run a cell and wait for it, or return at once with `--bg`; with `--help` only the usage is printed.

    Args:
        shell: IPython.
        magic: `kagura` or `sandbox`.
        line: The options; `{name}` and `$name` are filled in as in other magics.
        body: The task or the program, as it stands in the cell.
        surface: Where it is shown; None finds out.

    Raises:
        KaguraError: it could not start, failed, or was stopped; shown as one line.
    """
    with calm():
        line = shell.var_expand(line, depth=1) if line else ""
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
        handle = cockpit.launch(intent_of(options, body, place))
        display = display_for(place, cockpit, handle.run_id)
        if options.background:
            from kagura_kernel.jupyter.background import BackgroundRun

            return BackgroundRun(handle, display, shell if place is Surface.HEADLESS else None)
        return check(await follow(handle, display), person())
