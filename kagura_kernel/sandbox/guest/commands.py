"""One command in the box: started, fed, read, limited, stopped with its whole family, and told about."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import fcntl
import os
import time

from . import frames
from .loop import GONE, PAUSED, READ, WRITE, Link, Loop
from .processes import NOT_EXECUTABLE, CannotStart, family, kill_all, signal_all, spawn, words

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

F_SETPIPE_SZ = 1031
SMALL_PIPE = 64 * 1024
PIPE_SIZE = 1024 * 1024
SILENCE = 0.2  # seconds without output after the program's end, then whoever still holds the pipe is left alone
LINGER = 2.0  # a child that goes on printing is left alone after this
GRACE = 0.5  # seconds between asking to end and killing
RECHECK = 0.02
GIVE_UP = 3.0  # seconds after killing in which the family may still be seen (uninterruptible sleep)


class Output:
    """One output pipe of a command, read no faster than the host gives credit."""

    def __init__(self, fd: int, kind: int) -> None:
        self.fd = fd
        self.kind = kind
        self.open = True


class Running:
    """A command between its OPEN and its RESULT."""

    ASKS: int = _signal.SIGTERM  # what it is asked to end with

    def __init__(self, loop: Loop, link: Link, stream: int, marker: bytes, done: Callable[[int], None]) -> None:
        self._loop = loop
        self._link = link
        self.stream = stream
        self.pid = 0
        self._marker = marker
        self._done = done
        self._credit = frames.WINDOW
        self._stdin_fd = -1
        self._stdin: list[memoryview] = []
        self._stdin_ended = False
        self._outputs: list[Output] = []
        self._status: int | None = None
        self._ended_at = 0.0
        self._heard_at = time.monotonic()
        self._stopped = False
        self._shows = ""
        self._kill_at = 0.0
        self._give_up_at = 0.0

    # ------------------------------------------------------------------ start

    def start(self, request: dict[str, Any], env: dict[bytes, bytes], cwd: bytes) -> None:
        """Start it; one that cannot be started has its result at once.

        Its folder for what it shows is made before. Where that cannot be, the program finds that out itself.
        """
        self._shows = request.get("shows", "")
        if self._shows:
            _make_folder(self._shows)
        ours: list[int] = []
        theirs: list[int] = []
        try:
            self._connect(bool(request.get("stdin")), ours, theirs)
            self._begin(request, cwd, env, theirs)
        except (CannotStart, OSError) as problem:
            for fd in ours:
                os.close(fd)
            self._cannot(problem)
            return
        finally:
            for fd in theirs:
                os.close(fd)
        for fd, kind in zip(ours, (frames.DATA, frames.ERRDATA)):  # noqa: B905 - not in Python 3.8
            self._listen(Output(fd, kind))
        for fd in ours[2:]:
            self._stdin_fd = fd
            self._loop.watch(fd, 0, self._stdin_ready)

    def _begin(self, request: dict[str, Any], cwd: bytes, env: dict[bytes, bytes], fds: list[int]) -> None:
        self.pid = spawn(request["argv"], cwd, env, (fds[0], fds[1], fds[2]))

    def _connect(self, wants_input: bool, ours: list[int], theirs: list[int]) -> None:
        """Fill `ours` with what is read of output and errors, and written of input; `theirs` with 0, 1 and 2."""
        if not wants_input:
            theirs.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        for _ in range(2):
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            ours.append(read_end)
            theirs.append(write_end)
        if wants_input:
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            theirs.insert(0, read_end)
            ours.append(write_end)
        for fd in ours:
            os.set_blocking(fd, False)

    def _cannot(self, problem: Exception) -> None:
        if not isinstance(problem, CannotStart):
            problem = CannotStart(NOT_EXECUTABLE, b"the box cannot start another program: " + words(problem))
        self._link.send(frames.ERRDATA, self.stream, problem.text)
        self._finish({"exit": problem.exit_code})

    def _listen(self, output: Output) -> None:
        self._outputs.append(output)
        self._loop.watch(output.fd, READ, lambda _events: self._read(output))

    # ------------------------------------------------------------------ input

    def feed(self, data: bytes) -> None:
        """More for its standard input."""
        if self._stdin_fd < 0:
            self._give_back(len(data))
            return
        self._stdin.append(memoryview(data))
        self._stdin_ready(WRITE)

    def end_input(self) -> None:
        """It shall see the end of its input when all is written."""
        self._stdin_ended = True
        if not self._stdin:
            self._close_stdin()

    def _stdin_ready(self, events: int) -> None:
        written = 0
        try:
            while self._stdin:
                count = os.write(self._stdin_fd, self._stdin[0])
                written += count
                if count < len(self._stdin[0]):
                    self._stdin[0] = self._stdin[0][count:]
                else:
                    del self._stdin[0]
        except BlockingIOError:
            pass
        except OSError:
            written += sum(len(part) for part in self._stdin)
            self._close_stdin()
        if written:
            self._give_back(written)
        if not self._stdin and (self._stdin_ended or events & GONE):
            self._close_stdin()
        elif self._stdin_fd >= 0:
            self._loop.change(self._stdin_fd, WRITE if self._stdin else 0)

    def _give_back(self, count: int) -> None:
        self._link.send(frames.CREDIT, self.stream, frames.CREDIT_BODY.pack(count))

    def _close_stdin(self) -> None:
        self._stdin = []
        if self._stdin_fd >= 0:
            self._loop.forget(self._stdin_fd)
            os.close(self._stdin_fd)
            self._stdin_fd = -1

    # ----------------------------------------------------------------- output

    def add_credit(self, count: int) -> None:
        """The host has taken `count` bytes."""
        self._credit += count
        self._wake()

    def _wake(self) -> None:
        for output in self._outputs:
            if output.open:
                self._loop.change(output.fd, READ)

    def _pause(self) -> None:
        for output in self._outputs:
            if output.open:
                self._loop.change(output.fd, PAUSED)

    def _read(self, output: Output) -> None:
        if self._link.full:
            self._link.when_free(self._wake)
            self._pause()
            return
        if self._credit <= 0:
            self._pause()
            return
        try:
            data = os.read(output.fd, min(self._credit, frames.MAX_DATA))
        except BlockingIOError:
            return
        if not data:
            self._close(output)
            self._look()
            self._check_end()
            return
        if len(data) == SMALL_PIPE:
            _widen(output.fd)
        self._heard_at = time.monotonic()
        self._credit -= len(data)
        self._link.send(output.kind, self.stream, data)

    def _close(self, output: Output) -> None:
        output.open = False
        self._loop.forget(output.fd)
        os.close(output.fd)

    # -------------------------------------------------------------------- end

    def reaped(self, status: int) -> None:
        """The program itself has ended."""
        self._status = status
        self._ended_at = self._heard_at = time.monotonic()
        if self._stopped:
            self._check_gone()
        else:
            self._check_end()

    def _look(self) -> None:
        """Ask for the program's end when its output has ended; mostly its signal need not be waited for."""
        if self._status is not None or any(output.open for output in self._outputs):
            return
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            self._status = status
            self._ended_at = time.monotonic()

    def _check_end(self) -> None:
        if self._status is None or self._stopped:
            return
        now = time.monotonic()
        if any(output.open for output in self._outputs):
            held_up = self._credit <= 0 or self._link.full
            quiet = now - self._heard_at >= SILENCE
            if held_up or not (quiet or now - self._ended_at >= LINGER):
                self._loop.after((self.stream, "end"), SILENCE / 4, self._check_end)
                return
        self._finish(self._outcome())

    def _outcome(self) -> dict[str, Any]:
        status = self._status
        if status is None:
            return {"exit": None}
        if os.WIFSIGNALED(status):
            return {"signal": os.WTERMSIG(status), "exit": 128 + os.WTERMSIG(status)}
        return {"exit": os.WEXITSTATUS(status)}

    def stop(self, grace: float) -> None:
        """End it and its family: asked first, killed after `grace` seconds. The result says that it was ended."""
        if self._stopped:
            return
        self._stopped = True
        self._kill_at = time.monotonic() + grace
        self._give_up_at = self._kill_at + GIVE_UP
        members = self._members()
        if members:
            signal_all(members, self.ASKS)
        self._check_gone()

    def _members(self) -> set[int]:
        return family(self.pid, self._marker)

    def _check_gone(self) -> None:
        now = time.monotonic()
        members = self._members()
        if members and now >= self._kill_at:
            kill_all(self._members)
        if (members or self._status is None) and now < self._give_up_at:
            self._loop.after((self.stream, "gone"), RECHECK, self._check_gone)
            return
        for output in self._outputs:
            if output.open and self._credit > 0 and not self._link.full:
                self._read(output)
        outcome = self._outcome()
        outcome["why"] = "cancel"
        self._finish(outcome)

    def _finish(self, outcome: dict[str, Any]) -> None:
        for name in ("end", "gone"):
            self._loop.cancel((self.stream, name))
        self._close_stdin()
        for output in self._outputs:
            if output.open:
                output.open = False
                self._loop.forget(output.fd)
                if self._stopped:
                    os.close(output.fd)
                else:
                    Drain(self._loop, output.fd)
        if self._shows and _holds_anything(self._shows):
            outcome["shown"] = True
        self._link.send_json(frames.RESULT, self.stream, outcome)
        self._done(self.stream)


class Drain:
    """Keeps a pipe open for a child that outlived its command, so that printing does not kill it.

    What it says is dropped. The oldest is closed when there are too many.
    """

    open_now: list[Drain] = []  # noqa: RUF012 - one list for all
    LIMIT = 64

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        loop.watch(fd, READ, self._read)
        Drain.open_now.append(self)
        if len(Drain.open_now) > Drain.LIMIT:
            Drain.open_now[0].close()

    def _read(self, _events: int) -> None:
        try:
            data = os.read(self._fd, frames.MAX_DATA)
        except BlockingIOError:
            return
        if not data:
            self.close()

    def close(self) -> None:
        """Let go of the pipe."""
        Drain.open_now.remove(self)
        self._loop.forget(self._fd)
        os.close(self._fd)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError):
        return


def _holds_anything(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(True for _ in entries)
    except (OSError, ValueError):
        return False


def _widen(fd: int) -> None:
    """A larger pipe moves more at once; it is asked for only when somebody fills a small one."""
    try:
        fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        return
