"""A project coming in over the pipe: entries written into the empty workspace, then its state recorded.

The stream is records of four bytes length and JSON (`path`, `kind`, `mode`, `modified` in ns, `target`). A file's
record is followed by pieces of four bytes length and content; a piece of length zero ends the file, as its size may
change while it is sent.
"""

# ruff: noqa: PTH101, PTH103, PTH211 - pathlib takes milliseconds to import, and paths in a box are bytes
from __future__ import annotations

import os

from . import frames
from .changes import record
from .jobs import INPUT
from .spawn import text_bytes

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from .changes import Baseline
    from .jobs import Input, Operation

    Reading = Generator[Input, bytes | None, bytes]


class Reader:
    """Exact numbers of bytes out of whatever pieces come in."""

    def __init__(self) -> None:
        self._have = bytearray()

    def take(self, count: int) -> Reading:
        """The next `count` bytes; b"" when the stream ends before the first of them."""
        while len(self._have) < count:
            data = yield INPUT
            if not data:
                return b""
            self._have += data
        taken = bytes(self._have[:count])
        del self._have[:count]
        return taken

    def length(self) -> Generator[Input, bytes | None, int]:
        """The next length; -1 at the end of the stream."""
        head = yield from self.take(frames.LENGTH.size)
        return frames.LENGTH.unpack(head)[0] if head else -1


def unpack(root: bytes, baseline: Baseline, protected: tuple[bytes, ...]) -> Operation:
    """Write everything that comes in below `root`, then fill `baseline` with the state of it."""
    reader = Reader()
    directories: list[tuple[bytes, int]] = []
    while True:
        length = yield from reader.length()
        if length < 0:
            break
        entry = frames.loads((yield from reader.take(length)))
        path = root + b"/" + text_bytes(entry["path"])
        if entry["kind"] == "directory":
            os.makedirs(path, exist_ok=True)
            directories.append((path, entry["mode"]))
        elif entry["kind"] == "link":
            os.symlink(text_bytes(entry["target"]), path)
        else:
            yield from _file(reader, path, entry)
    # A directory that may not be written gets its mode when everything in it is there.
    for path, mode in reversed(directories):
        os.chmod(path, mode)
    baseline.clear()
    for count, (path, mark) in enumerate(record(root, protected)):
        baseline[path] = mark
        if count % 256 == 0:
            yield None
    return {"files": len(baseline)}


def _file(reader: Reader, path: bytes, entry: dict[str, Any]) -> Generator[Input, bytes | None, None]:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while True:
            length = yield from reader.length()
            if length <= 0:
                break
            rest = memoryview((yield from reader.take(length)))
            while rest:
                rest = rest[os.write(fd, rest) :]
        os.fchmod(fd, entry["mode"])
        os.utime(fd, ns=(entry["modified"], entry["modified"]))
    finally:
        os.close(fd)
