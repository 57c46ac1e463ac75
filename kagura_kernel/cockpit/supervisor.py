"""What started this process and wants to hear how it is: systemd's notification protocol, in the few words we need."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping


class Supervisor:
    """Tells it; says nothing where nobody listens.

    Args:
        environ: What it has set; its words are taken out, so that nothing that is started later speaks for us.

    Attributes:
        patience: Seconds of silence after which it believes that we are stuck; None where it does not ask.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._place = environ.pop("NOTIFY_SOCKET", "")
        micros, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        asked = bool(self._place) and micros.isdigit() and int(micros) > 0 and pid in ("", str(os.getpid()))
        self.patience = int(micros) / 1e6 if asked else None

    def tell(self, *words: str) -> None:
        """Say these, each a `NAME=value` on a line of its own."""
        if not self._place:
            return
        # A name that begins with @ lies in no directory.
        place = "\0" + self._place[1:] if self._place.startswith("@") else self._place
        told = "\n".join(" ".join(word.splitlines()) for word in words)
        # What does not listen any more, or has not read what was said before, cannot be told, and the chats do not
        # suffer for it: nothing waits here.
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as way:
            way.sendto(told.encode(), place)
