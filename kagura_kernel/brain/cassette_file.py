"""A cassette's file: only a plain file of sensible size is ever read, and whoever names something else is told so.

A path comes from a person, who may name a pipe, a device or a disk image by mistake. Nothing here waits for one, and
nothing here takes more memory than `LIMIT`.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import BinaryIO

from kagura_kernel.domain.errors import CassetteBroken, CassetteMissing

LIMIT = 64 * 2**20
"""Bytes; a larger file is no cassette that this package plays."""

# Opening a pipe without this waits for somebody who writes into it; a terminal would become ours.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BOM = b"\xef\xbb\xbf"


def read_text(path: Path) -> str:
    """The whole text, without a byte order mark.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is no plain file, too large, or no UTF-8 text; `foreign` unless it begins as a cassette does.
    """
    with open_plain(path) as file:
        foreign = not starts_as_cassette(file)
        file.seek(0)
        try:
            # One byte more than is allowed, whatever size the file claims: it may grow, or be one of the system's.
            data = file.read(LIMIT + 1)
        except OSError as error:
            raise CassetteBroken(str(path), 1, f"it cannot be read ({error.strerror})", foreign=True) from error
    if len(data) > LIMIT:
        raise CassetteBroken(str(path), 1, f"it is larger than {LIMIT // 2**20} MiB", foreign=foreign)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CassetteBroken(str(path), line, "it is not UTF-8 text", foreign=foreign) from error


def open_plain(path: Path) -> BinaryIO:
    """The file, open for reading, if it is a plain one; waits for nobody.

    Raises:
        CassetteMissing: there is no such file.
        CassetteBroken: it is something else, or may not be read.
    """
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise CassetteMissing(str(path)) from error
    except OSError as error:
        raise CassetteBroken(str(path), 1, f"it cannot be read ({error.strerror})", foreign=True) from error
    except ValueError as error:
        raise CassetteBroken(str(path), 1, f"that is no file name ({error})", foreign=True) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise CassetteBroken(str(path), 1, f"it cannot be read (it is {_kind(mode)})", foreign=True)
    return os.fdopen(handle, "rb")


def starts_as_cassette(file: BinaryIO) -> bool:
    """Whether the first line that is not empty is a cassette's header, of whatever version."""
    left = LIMIT
    try:
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            if line := line.removeprefix(_BOM).strip():
                return is_header(json.loads(line))
    except (OSError, ValueError, RecursionError, MemoryError):
        pass  # what cannot be read or understood is no header
    return False


def is_header(value: object) -> bool:
    """Whether a parsed line is a cassette's header, of whatever version."""
    # `true` is a number to Python and 1 at that.
    return isinstance(value, dict) and type(value.get("kagura_cassette")) is int


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")
