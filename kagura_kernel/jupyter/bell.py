"""A run in the background needs its person: a bell in a terminal, and one quiet line below the next cell.

Where nobody is there, nothing: policy answers, and a notebook has to come out the same every time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Event, RunFinished
from kagura_kernel.jupyter.cards.escape import one_line
from kagura_kernel.jupyter.surface import Surface, surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle

_EVENT = "post_run_cell"


class Bell:
    """Tells of the questions of one run in the background, each once, until the run is over.

    Attributes:
        status: `running`, `waiting`, or how the run ended: `done`, `failed`, `stopped`, `killed`, `denied`, `lost`.

    Args:
        handle: The run.
        shell: The shell whose cells the lines stand below.
        surface: Where the run was begun.
    """

    def __init__(self, handle: RunHandle, shell: Any, surface: Surface) -> None:
        self._run_id = handle.run_id
        self._shell = shell
        self._surface = surface
        self._lock = threading.Lock()
        self._open: dict[str, ApprovalRequested] = {}
        self._told: set[str] = set()
        self._ended = ""
        # A notebook's first cell is the one with the run's card, where the question is seen.
        self._in_sight = surface is Surface.NOTEBOOK
        self._stop = handle.subscribe(self._hear)
        if surface in {Surface.NOTEBOOK, Surface.TERMINAL}:
            shell.events.register(_EVENT, self._cell_over)

    @property
    def status(self) -> str:
        """How the run stands."""
        with self._lock:
            return self._ended or ("waiting" if self._open else "running")

    @property
    def waits_for(self) -> str:
        """The title of the oldest question that is open; empty without one."""
        with self._lock:
            return next((one_line(asked.title) for asked in self._open.values()), "")

    def _hear(self, event: Event) -> None:
        # On the engine's thread.
        match event:
            case ApprovalRequested():
                with self._lock:
                    self._open[event.approval_id] = event
                if self._surface is Surface.TERMINAL:
                    from kagura_kernel.jupyter.terminal import ring

                    ring()
            case ApprovalDecided():
                with self._lock:
                    self._open.pop(event.approval_id, None)
            case RunFinished():
                with self._lock:
                    self._open.clear()
                    self._ended = event.status
            case _:
                pass

    def _cell_over(self, _result: object) -> None:
        if self._in_sight:
            self._in_sight = False
            return
        with self._lock:
            over = bool(self._ended)
            fresh = [asked for key, asked in self._open.items() if key not in self._told]
        if over:
            self._shell.events.unregister(_EVENT, self._cell_over)
            self._stop()
        elif fresh and surface_of(self._shell) in {Surface.NOTEBOOK, Surface.TERMINAL}:
            self._told.update(asked.approval_id for asked in fresh)
            self._say(fresh)

    def _say(self, fresh: list[ApprovalRequested]) -> None:
        more = f", and {len(fresh) - 1} more" if len(fresh) > 1 else ""
        what = f"{one_line(fresh[0].title, 80)}{more}"
        print(f"{self._run_id} waits for you: {what}. Answer: %kagura attach {self._run_id}")  # noqa: T201  # as a magic does
