"""The program's own streams: what could not be written is told once, and nothing else ever stands in their place.

A shell may start a program without them (`>&-`), and whatever it opens next would get their number: a journal as
standard output. A closed one is therefore taken by the null device, which for standard output can only be read, so that
writing to it fails as it does on a full disk.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kagura_kernel.domain.errors import OutputUnwritable

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


def guard_streams() -> None:
    """Take the place of closed streams, and let a failure to write say what it is a failure of."""
    for descriptor, mode in ((_INPUT, os.O_RDONLY), (_OUTPUT, os.O_RDONLY), (_ERRORS, os.O_WRONLY)):
        _occupy(descriptor, mode)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(_INPUT, closefd=False)), encoding="utf-8")
    sys.stdout = _stream(_OUTPUT, sys.stdout, "strict", _refuse)
    # Who cannot hear what went wrong can be told nothing at all.
    sys.stderr = _stream(_ERRORS, sys.stderr, "backslashreplace", _swallow)


def flush_output() -> None:
    """Write what is still held back.

    Raises:
        OutputUnwritable: it cannot be written.
        BrokenPipeError: the reader has gone.
    """
    sys.stdout.flush()


def drop_output() -> None:
    """Let what could not be written go nowhere: Python tries again when it ends, and would complain."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _Raw(io.FileIO):
    """One of them; what fails is handed to `failed`."""

    def __init__(self, descriptor: int, failed: Callable[[OSError], None]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._failed = failed

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self._failed(error)
            return memoryview(data).nbytes


def _stream(
    descriptor: int, before: io.TextIOWrapper | object, errors: str, failed: Callable[[OSError], None]
) -> io.TextIOWrapper:
    """The same stream as before, as far as there was one."""
    told = before if isinstance(before, io.TextIOWrapper) else None
    if told is not None:
        told.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Raw(descriptor, failed)),
        encoding=told.encoding if told is not None else "utf-8",
        errors=told.errors if told is not None else errors,
        # Unbuffered, as containers like it, comes down to lines.
        line_buffering=told.line_buffering or told.write_through if told is not None else descriptor == _ERRORS,
    )


def _refuse(error: OSError) -> None:
    if isinstance(error, BrokenPipeError):
        raise error
    closed = error.errno == errno.EBADF
    raise OutputUnwritable("it is closed" if closed else (error.strerror or str(error)).lower()) from None


def _swallow(_: OSError) -> None:
    """Nobody is left who could be told."""


def _occupy(descriptor: int, mode: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        # The lowest free number is taken: those below are occupied already. Children have it too, as they would have
        # what stood there.
        os.set_inheritable(os.open(os.devnull, mode), True)  # noqa: FBT003 - the call has no names
