"""What a cell asks for with where it comes from, and what goes on in the place of a run that a person has stopped.

*Stop and go on with this*, pressed in a card, stops the run; whoever shows it goes on with the next one in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.surface import Surface, person, place_of
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.views.run import INSIDE_MAGIC

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle

_wanted: dict[str, str] = {}


def from_cell(request: RunRequest, surface: Surface, shell: Any, *, room: int) -> RunRequest:
    """The request with where it comes from, and the shell's variables, which may have `room` bytes together.

    Raises:
        VariableError: a variable is not there, or cannot cross.
    """
    origins = {Surface.TERMINAL: "terminal", Surface.CONSOLE: "terminal", Surface.INSIDE: INSIDE_MAGIC}
    request = request._replace(
        headless=surface in {Surface.HEADLESS, Surface.INSIDE},
        origin=origins.get(surface, "notebook"),
        place=place_of(shell),
    )
    if request.expressions or request.outputs:
        from kagura_kernel.jupyter.variables import inputs_of

        request = request._replace(inputs=inputs_of(shell, request, room))
    return request


def want(cockpit: Cockpit, run_id: str, text: str) -> None:
    """Stop a run, and have it gone on with this once it is over.

    Raises:
        RunError: there is nothing to stop.
    """
    _wanted[run_id] = text
    try:
        cockpit.kill(run_id, by=person())
    except KaguraError:
        del _wanted[run_id]
        raise


def successor(
    cockpit: Cockpit, run_id: str, surface: Surface, shell: Any, asked: RunRequest | None = None
) -> RunHandle | None:
    """The run that goes on in the place of one that is over; None where nobody wants one.

    Raises:
        KaguraError: it cannot begin.
    """
    text = _wanted.pop(run_id, None)
    if text is None:
        return None
    from kagura_kernel.cockpit.restart import going_on

    request = going_on(cockpit.journal, run_id, text, asked)
    return cockpit.launch(from_cell(request, surface, shell, room=cockpit.room))
