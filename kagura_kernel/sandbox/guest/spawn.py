"""Starting one program as the leader of its own session, with its descriptors and nothing of the guest's."""

# ruff: noqa: PTH112, PTH113 - pathlib takes milliseconds to import, and paths in a box are bytes
from __future__ import annotations

import errno
import os

from .signals import SIG_DFL, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ, signal

DEFAULTS = (SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ)
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
            signal(number, SIG_DFL)
        os.execve(program, argv, env)  # noqa: S606 - the caller chose the program
    finally:
        os._exit(NOT_FOUND)
