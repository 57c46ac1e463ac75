"""Work in a process of its own, which the system ends when its time is up, whatever it is in the middle of.

A database can be kept busy in one step of its machine for hours, where nothing that only asks it to stop is heard.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from . import faults
from .faults import DatabaseUnavailable, PluginFault, QueryTimeout, TooLarge

_CHUNK = 64 * 1024
# One at a time: a child that had the end of another's pipe would keep that one from being heard to its end.
_FORKING = threading.Lock()


def apart(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The answer of `work`, which JSON can hold, out of a child of this process.

    Args:
        work: Runs in the child; what it changes there is gone with it.
        seconds: What it may take.

    Raises:
        PluginFault: what `work` raised.
        QueryTimeout: it took longer.
        TooLarge: the system ended it, as it does what needs too much memory.
        DatabaseUnavailable: it broke down.
    """
    with _FORKING, warnings.catch_warnings():
        # Other threads are none of the child's business: it takes no lock that one of them could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _carry_out(work, seconds, writer)
        os.close(writer)
    said = bytearray()
    try:
        while data := os.read(reader, _CHUNK):
            said += data
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    return _answer(bytes(said), status)


def _carry_out(work: Callable[[], dict[str, Any]], seconds: float, writer: int) -> NoReturn:
    code = 1
    try:
        # Not by a handler, which Python would run after the step: the system itself ends the process.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(_said(work)).encode())
        code = 0
    finally:
        # Nothing of what the parent would do at its end is done here.
        os._exit(code)


def _said(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"answer": work()}
    except PluginFault as fault:
        return {"fault": type(fault).__name__, "text": str(fault)}


def _answer(said: bytes, status: int) -> dict[str, Any]:
    if status == 0:
        found = json.loads(said)
        if "answer" in found:
            return dict(found["answer"])
        raise getattr(faults, found["fault"])(found["text"])
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        raise QueryTimeout("The statement took too long and was stopped.")
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        raise TooLarge("The statement needs more memory than it may have.")
    raise DatabaseUnavailable("The database cannot be read: reading it broke down.")
