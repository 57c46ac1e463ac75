"""A run that goes on while the cell is done: `%%kagura --bg`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.jupyter.errors import calm, check, shown_as
from kagura_kernel.jupyter.follow import follow, interruptible
from kagura_kernel.jupyter.late_card import LateCard
from kagura_kernel.jupyter.live_run import RunDisplay
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.outcome import RunOutcome


class BackgroundRun:
    """A run under way. `await` it for its outcome; interrupting that wait does not stop the run.

    Attributes:
        run_id: `run-…`, for `%kagura kill`.

    Args:
        handle: The run.
        display: Shows it.
        late_in: The shell whose later cells show the card once the run is over; None shows it live, where it began.
    """

    def __init__(self, handle: RunHandle, display: RunDisplay, late_in: Any = None) -> None:
        self.run_id = handle.run_id
        self._handle = handle
        self._late: LateCard | None = None
        if late_in is None:
            self._shown = asyncio.ensure_future(self._show(display))
        else:
            self._late = LateCard(handle, display, late_in)

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._handle.done

    def kill(self) -> None:
        """Stop it; returns at once."""
        self._handle.kill(person())

    def __await__(self) -> Generator[Any, None, RunOutcome]:
        """Its outcome; raises like a cell that is not in the background."""
        return self._outcome().__await__()

    def __repr__(self) -> str:
        state = "over" if self.done else "going on"
        return f"<BackgroundRun {self.run_id}, {state}; await it, or stop it with .kill()>"

    async def _outcome(self) -> RunOutcome:
        with calm():
            ending = asyncio.ensure_future(self._handle.wait())
            try:
                with interruptible():
                    while not ending.done():
                        # Wakes the loop often enough for an interrupt to be heard.
                        await asyncio.wait({ending}, timeout=0.1)
            except asyncio.CancelledError as error:
                # It stays what it is, for those who cancel the wait on purpose; only its look becomes calm.
                shown_as(error, f"The wait was interrupted; {self.run_id} goes on. {self._how()}")
                raise
            if self._late is not None:
                self._late.show()
            return check(ending.result(), "the person at the notebook")

    def _how(self) -> str:
        return f"Stop it with `%kagura kill {self.run_id}`, or await it again."

    async def _show(self, display: RunDisplay) -> None:
        try:
            await follow(self._handle, display, foreground=False)
        except KaguraError:
            # The card says so, and whoever awaits the run is told.
            return
