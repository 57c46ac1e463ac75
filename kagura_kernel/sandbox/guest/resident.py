"""A program that stays: it is started once, and handed one call after another.

Its standard input is one end of a socket. For each call it is sent one message with four descriptors: the call's
input, output and errors, and a file that holds the call's `argv` and `env` as JSON. When the call is over it answers
with its exit code in digits, which is the box's word like every exit code.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
from struct import pack

from . import frames
from .commands import Running
from .loop import READ
from .processes import NOT_EXECUTABLE, CannotStart, family, kill_all, spawn

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Link, Loop

CALLED_OFF = 0.5  # seconds that an interrupted call may take to end at least, before the program is ended with it
LARGEST_EXIT = 255


def _nameless() -> int:
    """A file in memory that nobody can open by a name: its content may be secret."""
    try:
        return os.memfd_create("call", os.MFD_CLOEXEC)
    except PermissionError:
        # Refused where memory is limited for each process alone.
        return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)  # noqa: S108 - it has no name


class Resident:
    """One program that stays."""

    def __init__(self, loop: Loop, argv: list[str], cwd: bytes, env: dict[bytes, bytes], marker: bytes) -> None:
        """Start it.

        Raises:
            CannotStart: it cannot be started.
        """
        try:
            import _socket
        except ImportError as problem:
            raise CannotStart(NOT_EXECUTABLE, b"the box's Python has no sockets") from problem
        self._loop = loop
        self._marker = marker
        self._call: Call | None = None
        self.alive = True
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
        nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            self.pid = spawn(argv, cwd, env, (theirs.fileno(), nothing, nothing))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(nothing)
        self._control: Any = ours
        self._rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        loop.watch(ours.fileno(), READ, self._heard)

    def begin(self, call: Call, argv: list[str], env: dict[str, str], fds: list[int]) -> None:
        """Hand a call over.

        Raises:
            CannotStart: it has not finished the one before, or is about to end.
        """
        if self._call is not None:
            raise CannotStart(NOT_EXECUTABLE, b"it has not finished the call before")
        asked = _nameless()
        try:
            with open(os.dup(asked), "wb") as file:
                file.write(frames.dumps({"argv": argv, "env": env}))
            os.lseek(asked, 0, os.SEEK_SET)
            self._control.sendmsg([b"call"], [(*self._rights, pack("4i", *fds, asked))])
        except OSError as problem:
            raise CannotStart(NOT_EXECUTABLE, b"it is about to end") from problem
        finally:
            os.close(asked)
        self._call = call

    def family(self) -> set[int]:
        """Its processes, itself among them."""
        return family(self.pid, self._marker)

    def end(self) -> None:
        """End it and whatever it has started."""
        self._let_go()
        kill_all(self.family)

    def reaped(self, status: int) -> None:
        """It has ended."""
        self._let_go()
        self._over(status)

    def _let_go(self) -> None:
        if self.alive:
            self.alive = False
            self._loop.forget(self._control.fileno())
            self._control.close()

    def _heard(self, _events: int) -> None:
        try:
            code = int(self._control.recv(16))
        except (OSError, ValueError):
            # It has closed its end, or says something else: nothing that it does can be known any more.
            self.end()
            return
        self._over(min(max(code, 0), LARGEST_EXIT) << 8)

    def _over(self, status: int) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.reaped(status)


class Residents:
    """Those of one box, by what started them.

    Args:
        loop: The guest's.
        started: Told of each that was started, so that its end is noticed.
    """

    def __init__(self, loop: Loop, started: Callable[[Resident], None]) -> None:
        self._loop = loop
        self._started = started
        self._found: dict[tuple[str, ...], Resident] = {}

    def take(
        self, request: dict[str, Any], cwd: bytes, env: dict[bytes, bytes], marker: bytes
    ) -> tuple[Resident, bool]:
        """The one that a request names, and whether it was started for it; raises like `Resident`."""
        line = tuple(request["resident"])
        found = self._found.get(line)
        if found is not None and found.alive and not request.get("restart"):
            return found, False
        if found is not None:
            found.end()
        found = self._found[line] = Resident(self._loop, list(line), cwd, env, marker)
        self._started(found)
        return found, True


class Call(Running):
    """One call of such a program: like a command whose process somebody else has started."""

    ASKS: int = _signal.SIGINT

    def __init__(
        self, loop: Loop, link: Link, stream: int, marker: bytes, done: Callable[[int], None], residents: Residents
    ) -> None:
        super().__init__(loop, link, stream, marker, done)
        self._residents = residents
        self._resident: Resident | None = None
        self._fresh = False

    def stop(self, grace: float) -> None:
        """Interrupt it; the program goes on when it takes that in time, and is ended with its family otherwise."""
        super().stop(max(grace, CALLED_OFF))

    def _begin(self, request: dict[str, Any], cwd: bytes, env: dict[bytes, bytes], fds: list[int]) -> None:
        self._resident, self._fresh = self._residents.take(request, cwd, env, self._marker)
        self._resident.begin(self, request["argv"], request.get("env", {}), fds)

    def _members(self) -> set[int]:
        if self._resident is None or (self._status is not None and self._resident.alive):
            return set()
        return self._resident.family()

    def _look(self) -> None:
        """Its end is told by the program, and by no process of its own."""

    def _outcome(self) -> dict[str, Any]:
        gone = self._resident is None or not self._resident.alive
        return {**super()._outcome(), "resident": "gone" if gone else "new" if self._fresh else "kept"}
