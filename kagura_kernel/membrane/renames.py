"""Renames that never destroy what they meet: an exchange of two names, and a rename to a name that is free.

Both are one step of the kernel, so nothing can come between looking and doing.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import cache

# The system's own numbers, for "the name must be free" and "exchange the two".
_NEW, _EXCHANGE = (0x4, 0x2) if sys.platform == "darwin" else (0x1, 0x2)
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


class CannotExchange(Exception):
    """This system, or this file system, has no such rename; never shown to people."""


def exchange(one: str, other: str, *, directory: int) -> None:
    """Let two names in a directory change places.

    Raises:
        CannotExchange: not possible here; nothing was done.
        OSError: one of them is missing, or the directory cannot be written.
    """
    _rename(one, other, directory, _EXCHANGE)


def rename_to_new(old: str, new: str, *, directory: int) -> None:
    """Give a file another name, which must be free.

    Raises:
        CannotExchange: not possible here; nothing was done.
        FileExistsError: there is something of that name.
        OSError: `old` is missing, or the directory cannot be written.
    """
    _rename(old, new, directory, _NEW)


def _rename(old: str, new: str, directory: int, how: int) -> None:
    call = _system_call()
    if call is None:
        raise CannotExchange
    number = call(directory, os.fsencode(old), directory, os.fsencode(new), how)
    if number in _UNSUPPORTED:
        raise CannotExchange
    if number:
        raise OSError(number, os.strerror(number), new)


@cache
def _system_call() -> Callable[[int, bytes, int, bytes, int], int] | None:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(from_directory: int, old: bytes, to_directory: int, new: bytes, how: int) -> int:
        return 0 if function(from_directory, old, to_directory, new, how) == 0 else ctypes.get_errno()

    return call
