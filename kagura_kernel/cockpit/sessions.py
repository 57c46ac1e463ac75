"""Sessions of this process, and the one run that each may have."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kagura_kernel.domain.errors import SessionBusy


class Sessions:
    """Which session is running what; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}

    def enter(self, session_id: str, run_id: str, *, stopping: Callable[[str], bool]) -> str:
        """Take a session for a run: the run that it has to wait for, because that one is being stopped, or nothing.

        Raises:
            SessionBusy: it has a run that goes on.
        """
        with self._lock:
            before = self._running.get(session_id, "")
            if before and not stopping(before):
                raise SessionBusy(session_id, before)
            self._running[session_id] = run_id
            return before

    def leave(self, session_id: str, run_id: str) -> None:
        """Give a session back; nothing happens when another run has it."""
        with self._lock:
            if self._running.get(session_id) == run_id:
                del self._running[session_id]
