"""The processes in the box: started, found in /proc, stopped as a family, and the guest's own hiding."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import os

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PASSES = 40
FIELDS = 4
MOST_ENVIRON = 64  # pieces of 64 KiB


class Process:
    """One living process: what /proc/PID/stat says of its relations."""

    def __init__(self, pid: int, parent: int, group: int, session: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session


def harden() -> bool:
    """Hide the guest from its commands, and make it the parent of all orphans; whether both worked.

    An undumpable process cannot be traced, and its descriptors and memory cannot be opened, by others of its user.
    """
    try:
        import _ctypes

        engine: Any = _ctypes
        prctl = engine.dlsym(engine.dlopen(None, 0), "prctl")
        hidden = engine.call_function(prctl, (PR_SET_DUMPABLE, 0, 0, 0, 0))
        reaper = engine.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return False
    return bool(hidden == 0 and reaper == 0)


def listing() -> list[Process]:
    """All living processes; zombies are left out."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = _look(name)
            if process is not None:
                found.append(process)
    return found


def family(leader: int, marker: bytes) -> set[int]:
    """A command's processes: its session and group, their descendants, and whoever still carries its marker."""
    everyone = listing()
    me = os.getpid()
    found = {p.pid for p in everyone if leader in (p.session, p.group, p.pid)}
    found |= {p.pid for p in everyone if p.pid not in found and p.pid != me and _carries(p.pid, marker)}
    return _with_descendants(found, everyone) - {me}


def descendants() -> set[int]:
    """Every process below the guest; as it adopts orphans, these are all that commands ever started."""
    me = os.getpid()
    return _with_descendants({me}, listing()) - {me}


def signal_all(pids: set[int], signal: int) -> None:
    """Send `signal` to each that still exists."""
    for pid in pids:
        try:
            os.kill(pid, signal)
        except OSError:
            continue


def freeze(find: Callable[[], set[int]]) -> set[int]:
    """Stop what `find` finds until there is nothing new, so that nobody can fork away: all that was found."""
    seen: set[int] = set()
    for _ in range(PASSES):
        new = find() - seen
        if not new:
            break
        signal_all(new, _signal.SIGSTOP)
        seen |= new
    return seen


def kill_all(find: Callable[[], set[int]]) -> None:
    """Freeze what `find` finds, then kill it all."""
    signal_all(freeze(find), _signal.SIGKILL)


def _look(name: str) -> Process | None:
    text = _content("/proc/" + name + "/stat", 1)
    # The name in parentheses may hold spaces and parentheses of its own.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < FIELDS or fields[0] in (b"Z", b"X"):
        return None
    return Process(int(name), int(fields[1]), int(fields[2]), int(fields[3]))


def _carries(pid: int, marker: bytes) -> bool:
    return marker in _content(f"/proc/{pid}/environ", MOST_ENVIRON)


def _content(path: str, most: int) -> bytes:
    """At most so many pieces of a file of the system's; empty where it cannot be read."""
    parts: list[bytes] = []
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        while len(parts) < most and (part := os.read(fd, 65536)):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)


def _with_descendants(roots: set[int], everyone: list[Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process.pid)
    found = set(roots)
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


DEFAULTS = tuple(getattr(_signal, name) for name in ("SIGHUP", "SIGINT", "SIGPIPE", "SIGQUIT", "SIGTERM", "SIGXFSZ"))
NOT_FOUND = 127
NOT_EXECUTABLE = 126


def text_bytes(text: str) -> bytes:
    """A path or argument as the host meant it: bytes that are no UTF-8 travel as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def words(problem: Exception) -> bytes:
    """A system error as text."""
    return (getattr(problem, "strerror", None) or str(problem)).encode("utf-8", "replace")


class CannotStart(Exception):
    """The program could not be started: the exit code and the text that a shell would have shown."""

    def __init__(self, exit_code: int, text: bytes) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.text = text + b"\n"


def spawn(argv: list[str], cwd: bytes, env: dict[bytes, bytes], fds: tuple[int, int, int]) -> int:
    """Start `argv` in `cwd` and return its process id.

    Raises:
        CannotStart: there is no such program (127), or it cannot be executed, or there is no such directory (126).
    """
    try:
        os.chdir(cwd)
    except OSError as problem:
        raise CannotStart(NOT_EXECUTABLE, cwd + b": " + words(problem)) from problem
    try:
        line = [text_bytes(word) for word in argv]
        program = _find(line[0], env.get(b"PATH", b"/usr/bin:/bin"))
        try:
            return _start(program, line, env, fds)
        except OSError as problem:
            if problem.errno != errno.ENOEXEC:
                raise
            return _start(b"/bin/sh", [b"sh", program, *line[1:]], env, fds)
    except ValueError as problem:
        raise CannotStart(NOT_EXECUTABLE, words(problem)) from problem
    except OSError as problem:
        code = NOT_FOUND if problem.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
        raise CannotStart(code, text_bytes(argv[0]) + b": " + words(problem)) from problem


def _find(name: bytes, path: bytes) -> bytes:
    if b"/" in name:
        if os.path.isdir(name):
            raise CannotStart(NOT_EXECUTABLE, name + b": Is a directory")
        return name
    unusable = b""
    for directory in path.split(b":") if name else ():
        candidate = (directory or b".") + b"/" + name
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
        if os.path.isfile(candidate):
            unusable = candidate
    if unusable:
        raise CannotStart(NOT_EXECUTABLE, unusable + b": Permission denied")
    raise CannotStart(NOT_FOUND, name + b": command not found")


def _start(program: bytes, argv: list[bytes], env: dict[bytes, bytes], fds: tuple[int, int, int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(fds)]
    try:
        return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigdef=DEFAULTS)
    except NotImplementedError:
        return _fork(program, argv, env, fds)


def _fork(program: bytes, argv: list[bytes], env: dict[bytes, bytes], fds: tuple[int, int, int]) -> int:
    """For C libraries whose posix_spawn cannot start a session; a failing exec ends with 127 and no text."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        for number in DEFAULTS:
            _signal.signal(number, _signal.SIG_DFL)
        os.execve(program, argv, env)  # noqa: S606 - the caller chose the program
    finally:
        os._exit(NOT_FOUND)
