"""A Python that remembers: programs one after another in the same interpreter, each with its own input and output.

Whoever started it sends one message for each program, with descriptors for its input, output and errors, and a file
that holds `argv` and `env` as JSON; the answer is the exit code. An interrupt ends a program and nothing else.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import importlib
import json
import os
import signal
import socket
import sys
from types import ModuleType
from typing import Any

_HIGH = 200  # where the socket lies, out of the way of programs that close what they see
_FOUR = 4
_MOST_CODE = 256

_loop: Any = None


def run_in_loop(codes: list[Any], namespace: dict[str, Any], waits: int) -> None:
    """Run a program that awaits at its top level, in one loop for all programs.

    Args:
        codes: Its parts.
        namespace: Its names.
        waits: The flag of those parts that have to be awaited.
    """
    global _loop  # noqa: PLW0603 - one interpreter has one
    import asyncio

    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
        asyncio.set_event_loop(_loop)
    _loop.run_until_complete(_awaited(codes, namespace, waits))


async def _awaited(codes: list[Any], namespace: dict[str, Any], waits: int) -> None:
    for code in codes:
        waiting = eval(code, namespace)  # noqa: S307 - the program, in its box
        if code.co_flags & waits:
            await waiting


def serve(us: ModuleType) -> int:
    """Run what is asked for until nobody is left to ask.

    Args:
        us: The module `run`.
    """
    control = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _HIGH))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    me, session = os.getpid(), Session(us)
    while True:
        for fd in range(3):
            os.dup2(nothing, fd)
        asked = _received(control)
        if asked is None:
            return 0
        code = session.run(asked["argv"], asked["env"])
        if os.getpid() != me:
            os._exit(code)  # a child that the program forked has come to the end of it
        control.send(b"%d" % (code % _MOST_CODE))


def _received(control: socket.socket) -> Any:
    """The next message, its descriptors in their places; None when there is no more."""
    fds = array.array("i")
    message, ancillary, _, _ = control.recvmsg(16, socket.CMSG_SPACE(_FOUR * fds.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not message or len(fds) != _FOUR:
        return None
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
        os.close(fd)
    with open(fds[3], "rb") as file:  # noqa: PTH123 - a descriptor
        return json.loads(file.read())


class Session:
    """What stays from program to program."""

    def __init__(self, us: ModuleType) -> None:
        self._us: Any = us
        self._screen: Any = None
        self._namespace: dict[str, Any] = {}
        self._inputs: list[str] = []
        self._cell = ""
        self._root = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 - texts are compared
        self._files: dict[str, int] = {}
        self._out: dict[str, int] = {}

    def run(self, argv: list[str], env: dict[str, str]) -> int:
        """Run one program, or keep what is asked for; the exit code."""
        before = {name: os.environ.get(name) for name in env}
        os.environ.update(env)
        try:
            return self._keep(*argv[1:]) if argv[0] == "--keep" else self._program(*argv)
        finally:
            # What was set for this program alone goes with it; what the program has set itself stays.
            for name, old in before.items():
                if os.environ.get(name) == env[name]:
                    os.environ.pop(name) if old is None else os.environ.update({name: old})

    def _program(self, path: str, call: str, inputs: str, cell: str = "") -> int:
        us, folder = self._us, f"{self._us.ROOT}/shown/{call}"
        if self._screen is None:
            self._screen, self._namespace = us.prepare(path, ".", folder)
            self._inputs = us.names(inputs)
        elif cell != self._cell:
            self._inputs = us.names(inputs)
            # Plugins may have come since the interpreter began.
            places = os.environ.get("PYTHONPATH", "").split(":")
            sys.path += [place for place in places if place and place not in sys.path]
        self._cell = cell
        self._screen.begin(folder)
        _own_streams()
        self._namespace["__file__"] = path
        self._drop_changed()
        code = 0
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                us.execute(us.read(path), path, self._namespace, self._inputs)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except SystemExit as end:
            code = _exit_code(end.code)
        except BaseException as error:  # noqa: BLE001 - told as the interpreter tells it
            code = us.told(error)
        us.finish(self._screen, self._namespace, [], 0)
        self._files, self._out = self._sources(), self._left()
        return code

    def _keep(self, outputs: str, room: str) -> int:
        """Keep what programs have left under these names, where no other program has left something later."""
        us = self._us
        later = {file.partition(".")[0] for file, _ in self._left().items() - self._out.items()}
        wanted = [name for name in us.names(outputs) if name not in later]
        for problem in us.part("variables").keep(self._namespace, wanted, us.ROOT, int(room)):
            us.complain(problem)
        return 0

    def _left(self) -> dict[str, int]:
        """What programs have left to be brought back, and when."""
        with contextlib.suppress(OSError):
            return {one.name: one.stat().st_mtime_ns for one in os.scandir(f"{self._us.ROOT}/out")}
        return {}

    def _sources(self) -> dict[str, int]:
        """When the files of modules from the working directory were last changed."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and file.startswith(self._root):
                with contextlib.suppress(OSError):
                    found[name] = os.stat(file).st_mtime_ns  # noqa: PTH116 - for every module, before each program
        return found

    def _drop_changed(self) -> None:
        """Forget modules of the working directory whose file is another one now, so that an import reads it again."""
        importlib.invalidate_caches()
        for name, changed in self._sources().items():
            if self._files.get(name, changed) != changed:
                module = sys.modules.pop(name)
                # Compiled modules know the time of their source in whole seconds.
                with contextlib.suppress(OSError, TypeError):
                    os.unlink(getattr(module, "__cached__", None))  # type: ignore[arg-type]  # noqa: PTH108


def _own_streams() -> None:
    """Print to this program's output, whatever one before has put in the place of it, or closed."""
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            fresh: Any = open(fd, "w" if fd else "r", buffering=1, closefd=False)  # noqa: SIM115 - a descriptor
            setattr(sys, name, fresh)
            setattr(sys, f"__{name}__", fresh)


def _exit_code(code: Any) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1
