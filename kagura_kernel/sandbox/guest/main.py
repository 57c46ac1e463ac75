"""The guest: hides itself, says hello, and serves what the host opens until the pipe ends."""

from __future__ import annotations

# The `signal` package costs three milliseconds, its engine nothing.
import _signal  # type: ignore[import-not-found]
import errno
import os

from . import frames
from .commands import GRACE, Running
from .files import Job, described
from .loop import READ, Link, Loop
from .processes import descendants, freeze, harden, kill_all, signal_all, text_bytes

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .files import Operation
    from .listeners import Listening
    from .resident import Resident, Residents

    Served = Running | Job

FIRST_OWN_FD = 100


class Guest:
    """What is open in this box."""

    def __init__(self, config: dict[str, Any], read_fd: int, write_fd: int) -> None:
        self._config = config
        self._workspace = text_bytes(config["workspace"])
        self._protected: tuple[bytes, ...] = tuple(text_bytes(path) for path in config["protected"])
        self._env = {text_bytes(key): text_bytes(value) for key, value in config["env"].items()}
        self._secret = os.urandom(8).hex()
        self._baseline: dict[bytes, Any] = {}
        self._served: dict[int, Served] = {}
        self._by_pid: dict[int, Running | Resident] = {}
        self._residents: Residents | None = None
        self._listening: Listening | None = None
        self._loop = Loop()
        self._link = Link(self._loop, read_fd, write_fd, self._frame)

    def run(self, hardened: bool) -> None:
        """Serve until the pipe ends, then end everything that was started."""
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._loop.watch(wake_read, READ, lambda _events: self._reap(wake_read))
        _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._link.send_json(frames.HELLO, 0, {"version": frames.VERSION, "hardened": hardened})
        try:
            self._loop.run()
        finally:
            kill_all(descendants)

    # ----------------------------------------------------------------- frames

    def _frame(self, kind: int, stream: int, view: memoryview) -> None:
        if stream % 2 == 0:
            if self._listening is not None and kind != frames.ALIVE:
                self._listening.frame(kind, stream, view)
            return
        payload = bytes(view)
        if kind == frames.OPEN:
            self._open(stream, frames.loads(payload))
            return
        served = self._served.get(stream)
        if served is None:
            # It ended while this frame was under way, or is a listener.
            if kind == frames.CANCEL and self._listening is not None:
                self._listening.stop(stream)
        elif kind == frames.DATA:
            served.feed(payload)
        elif kind == frames.EOF:
            served.end_input()
        elif kind == frames.CREDIT:
            served.add_credit(frames.CREDIT_BODY.unpack(payload)[0])
        elif kind == frames.CANCEL:
            served.stop(float(frames.loads(payload).get("grace", GRACE)))

    def _open(self, stream: int, request: dict[str, Any]) -> None:
        if request["kind"] == frames.EXEC:
            self._start(stream, request)
        elif request["kind"] == frames.LISTEN:
            self._listen(stream, request)
        elif request["kind"] == frames.REST:
            if request["on"]:
                freeze(descendants)
            else:
                signal_all(descendants(), _signal.SIGCONT)
            self._link.send_json(frames.RESULT, stream, {})
        else:
            self._served[stream] = Job(self._loop, self._link, stream, self._operation(request), self._done)

    def _done(self, stream: int) -> None:
        served = self._served.pop(stream, None)
        if isinstance(served, Running):
            self._by_pid.pop(served.pid, None)

    def _listen(self, stream: int, request: dict[str, Any]) -> None:
        if self._listening is None:
            try:
                from . import listeners
            except ImportError:
                text = "The box's Python has no sockets"
                self._link.send_json(frames.RESULT, stream, {"error": "ENOSYS", "text": text})
                return
            self._listening = listeners.Listening(self._loop, self._link)
        self._listening.open(stream, request)

    # --------------------------------------------------------------- commands

    def _start(self, stream: int, request: dict[str, Any]) -> None:
        marker = f"{self._secret}-{stream}"
        stays = request.get("resident")
        env = dict(self._env)
        for key, value in request.get("env", {}).items():
            # A program that stays has each call's variables for that call alone: secrets may be among them.
            if not stays or key in ("PATH", "PYTHONPATH"):
                env[text_bytes(key)] = text_bytes(value)
        env[b"KAGURA_COMMAND"] = marker.encode()
        told = b"KAGURA_COMMAND=" + marker.encode() + b"\0"
        cwd = self._path(request.get("cwd") or ".")
        if not stays:
            running = Running(self._loop, self._link, stream, told, self._done)
        else:
            from . import resident

            self._residents = self._residents or resident.Residents(self._loop, self._stays)
            running = resident.Call(self._loop, self._link, stream, told, self._done, self._residents)
        self._served[stream] = running
        running.start(request, env, cwd)
        if running.pid:
            self._by_pid[running.pid] = running

    def _stays(self, resident: Resident) -> None:
        self._by_pid[resident.pid] = resident

    def _reap(self, wake_fd: int) -> None:
        os.read(wake_fd, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            running = self._by_pid.pop(pid, None)
            if running is not None:
                running.reaped(status)

    # ------------------------------------------------------------------ files

    def _path(self, path: str) -> bytes:
        given = text_bytes(path)
        return given if given.startswith(b"/") else os.path.normpath(self._workspace + b"/" + given)

    def _operation(self, request: dict[str, Any]) -> Operation:
        try:
            return self._chosen(request)
        except OSError as problem:
            return _failed(problem)
        except ValueError:
            return _failed(OSError(errno.EINVAL, "Not a path"))

    def _chosen(self, request: dict[str, Any]) -> Operation:  # noqa: PLR0911 - a table of operations
        from . import changes, files

        name, shown = request["op"], request.get("path", "")
        if "\0" in shown:
            raise OSError(errno.EINVAL, "Embedded null byte")
        path = self._path(shown)
        if name == "read":
            return files.read(path, request["offset"], request["limit"])
        if name == "write":
            self._check_writable(path)
            return files.write(path, request["mode"])
        if name == "stat":
            return files.describe_one(path, shown)
        if name == "list":
            return files.list_dir(path, shown)
        if name == "glob":
            return files.glob(self._workspace, request["pattern"], request["limit"])
        if name == "populate":
            return changes.unpack(path, self._baseline if path == self._workspace else {}, self._protected)
        if name == "changes":
            return changes.report(self._differences())
        raise OSError(errno.ENOSYS, "Unknown operation")

    def _check_writable(self, path: bytes) -> None:
        inside = path == self._workspace or path.startswith(self._workspace + b"/")
        if inside and not self._config["writable"]:
            raise OSError(errno.EROFS, "Read-only file system")

    def _differences(self) -> Any:
        from . import changes

        if self._config["upper"] is None:
            return changes.since(self._workspace, self._baseline, self._protected)
        upper, lower = (text_bytes(self._config[layer]) for layer in ("upper", "lower"))
        return changes.in_overlay(upper, lower, self._protected)


def _failed(problem: OSError) -> Operation:
    yield None
    return described(problem)


def _take_pipe() -> tuple[int, int]:
    """Move the pipe away from 0 and 1, close on exec, and leave nothing in its place."""
    import fcntl

    os.closerange(3, FIRST_OWN_FD)
    read_fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN_FD)
    write_fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN_FD)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return read_fd, write_fd


def main(config: dict[str, Any]) -> None:
    """Be the guest of the box described by `config`; returns when the host is gone."""
    for name in ("SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM", "SIGXFSZ"):
        _signal.signal(getattr(_signal, name), _signal.SIG_IGN)
    read_fd, write_fd = _take_pipe()
    hardened = harden()
    Guest(config, read_fd, write_fd).run(hardened)
