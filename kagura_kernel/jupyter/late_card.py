"""The card of a run in the background where nobody watches: shown once, in the first cell that can still show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.follow import Watched

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.jupyter.live_run import RunDisplay

_EVENT = "post_run_cell"

_waiting: dict[str, LateCard] = {}


def shown_already(run_id: str) -> None:
    """A cell shows this run by itself: no later one has to."""
    card = _waiting.get(run_id)
    if card is not None:
        card.drop()


class LateCard:
    """Waits for the run's end and for a cell.

    Whatever runs notebooks without a person takes no output for a cell that is over. So the card goes into the cell
    that awaits the run, or else into the first one that ends after it.
    """

    def __init__(self, handle: RunHandle, display: RunDisplay, shell: Any) -> None:
        self._handle = handle
        self._watched = Watched(handle, display)
        self._shell = shell
        self._shown = False
        _waiting[handle.run_id] = self
        shell.events.register(_EVENT, self._cell_over)

    def show(self, *, awaited: bool = False) -> None:
        """Show the card now, in the cell that is running; nothing happens before the run's end, or the second time.

        Args:
            awaited: Whether that cell awaits the run, and tells itself by whom it was stopped.
        """
        if not self._shown and self._handle.done:
            self._watched.view.awaited = awaited
            self._forget()
            self._watched.finish(self._error())

    def drop(self) -> None:
        """Show it nowhere."""
        if not self._shown:
            self._forget()
            self._watched.leave()

    def _forget(self) -> None:
        self._shown = True
        _waiting.pop(self._handle.run_id, None)
        self._shell.events.unregister(_EVENT, self._cell_over)

    def _error(self) -> BaseException | None:
        try:
            self._handle.result(0)
        # Whatever ended the run: its card says so, and whoever awaits the run is told.
        except Exception as why:  # noqa: BLE001
            return why
        return None

    def _cell_over(self, _result: object) -> None:
        self._watched.take()
        self.show()
