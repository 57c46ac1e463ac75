"""Sessions of this process, and the one run that each may have."""

from __future__ import annotations

import threading

from kagura_kernel.domain.errors import SessionBusy


class Sessions:
    """Which session is running what; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}

    def enter(self, session_id: str, run_id: str) -> None:
        """Take a session for a run.

        Raises:
            SessionBusy: it has a run already.
        """
        with self._lock:
            if session_id in self._running:
                raise SessionBusy(session_id, self._running[session_id])
            self._running[session_id] = run_id

    def leave(self, session_id: str, run_id: str) -> None:
        """Give a session back; nothing happens when another run has it."""
        with self._lock:
            if self._running.get(session_id) == run_id:
                del self._running[session_id]
