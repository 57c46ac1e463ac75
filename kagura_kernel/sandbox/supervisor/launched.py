"""The supervisor's process with our end of its socket; one can be started before anybody knows that it is needed."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = str(Path(__file__).resolve().parents[3])
_PROGRAM = """import sys
sys.path.append(sys.argv[1])
from kagura_kernel.sandbox.supervisor.main import main
main(int(sys.argv[2]), sys.argv[3:])"""
_END_SECONDS = 12


class Launched(NamedTuple):
    """A supervisor that has been sent its `setup`; it ends with its socket."""

    socket: socket.socket
    process: subprocess.Popen[bytes]

    def end(self) -> threading.Thread:
        """Close the socket and reap the process, which still frees what it held: the thread that waits for it."""
        self.socket.close()
        ending = threading.Thread(target=_wait, args=(self.process,), name="kagura-supervisor-end", daemon=True)
        ending.start()
        return ending


class _Spare(NamedTuple):
    """A supervisor that nobody has asked for yet."""

    wanted: tuple[str, str, str]  # the interpreter, the options and the setup that it was started with
    of_process: int  # a fork of the process has the same memory, and no right to it
    launched: Launched


_lock = threading.Lock()
_spare: _Spare | None = None


def launch(python: str, options: str, view: Mapping[str, Any]) -> Launched:
    """Start a supervisor, or take the one that was started ahead for just this; returns at once.

    Args:
        python: Interpreter that it runs on.
        options: Its mapping and kind, as JSON.
        view: What boxes see of a Python.

    Raises:
        OSError: the interpreter does not start.
    """
    wanted = (python, options, _setup(view))
    if (spare := _taken()) is not None:
        if spare.wanted == wanted and spare.launched.process.poll() is None:
            return spare.launched
        spare.launched.end()
    return _start(*wanted)


def launch_ahead(view: Mapping[str, Any]) -> None:
    """Start the supervisor that the first box will most likely ask for; there is one such at most.

    Raises:
        OSError: the interpreter does not start.
    """
    global _spare  # noqa: PLW0603 - one for the process, whichever of its loops asks first
    with _lock:
        if _spare is None:
            wanted = (sys.executable, options_of(), _setup(view))
            _spare = _Spare(wanted, os.getpid(), _start(*wanted))


def end_spare() -> None:
    """End the supervisor that was started ahead, where none has asked for it; may be called twice."""
    if (spare := _taken()) is not None:
        spare.launched.end()


def _taken() -> _Spare | None:
    """The one that was started ahead, which is nobody else's from now on; None where there is none of this process."""
    global _spare
    with _lock:
        spare, _spare = _spare, None
    return spare if spare is not None and spare.of_process == os.getpid() else None


def options_of(mapping: object = (), *, gvisor: bool = False) -> str:
    """The options of a supervisor as it takes them."""
    return json.dumps({"mapping": mapping, "gvisor": gvisor})


def _setup(view: Mapping[str, Any]) -> str:
    return json.dumps({"op": "setup", "python": dict(view)})


def _start(python: str, options: str, setup: str) -> Launched:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [python, "-I", "-S", "-c", _PROGRAM, _ROOT, str(theirs.fileno()), options],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)  # noqa: FBT003 - the method's only argument
    # That it has ended already is found out by whoever reads.
    with contextlib.suppress(OSError):
        ours.send(setup.encode())
    return Launched(ours, process)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
