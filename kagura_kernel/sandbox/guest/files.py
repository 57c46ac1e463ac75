"""Files in the box, one generator for each operation, run in short steps with input and output under credit."""

from __future__ import annotations

import errno
import os
import stat

from . import frames
from .loop import Link, Loop

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    Deeper = tuple[bytes, list[Any], str]


class Input:
    """What an operation yields when it wants the next bytes from the host; it gets b"" at their end."""


INPUT = Input()

if TYPE_CHECKING:
    # Yields bytes to send, None to let others work, or INPUT; returns the fields of its RESULT; raises OSError.
    Operation = Generator[bytes | Input | None, bytes | None, dict[str, Any]]


class Job:
    """One operation between its OPEN and its RESULT."""

    def __init__(self, loop: Loop, link: Link, stream: int, operation: Operation, done: Callable[[int], None]) -> None:
        self._loop = loop
        self._link = link
        self.stream = stream
        self._operation = operation
        self._done = done
        self._credit = frames.WINDOW
        self._input: list[bytes] = []
        self._ended = False
        self._work = self._steps()
        loop.resume(self._work)

    def feed(self, data: bytes) -> None:
        """More input."""
        self._input.append(data)
        self._go_on()

    def end_input(self) -> None:
        """No more input."""
        self._ended = True
        self._go_on()

    def add_credit(self, count: int) -> None:
        """The host has taken `count` bytes."""
        self._credit += count
        self._go_on()

    def stop(self, _grace: float) -> None:
        """Leave it, undoing what is half done."""
        self._loop.drop(self._work)
        self._operation.close()
        self._finish({"error": "ECANCELED", "text": "called off"})

    def _go_on(self) -> None:
        self._loop.resume(self._work)

    def _finish(self, outcome: dict[str, Any]) -> None:
        self._link.send_json(frames.RESULT, self.stream, outcome)
        self._done(self.stream)

    def _steps(self) -> Iterator[bool]:
        given: bytes | None = None
        while True:
            try:
                asked = self._operation.send(given)
            except StopIteration as end:
                self._finish(end.value)
                return
            except OSError as problem:
                self._finish(described(problem))
                return
            # A guest that ended would take the whole box along: whatever a box has laid in the way of one operation
            # (links or names without end, too little memory) must be the end of that operation only.
            except Exception as problem:  # noqa: BLE001
                self._finish({"error": "EIO", "text": f"It cannot be done ({type(problem).__name__})"})
                return
            given = None
            if isinstance(asked, Input):
                while not self._input and not self._ended:
                    yield False
                given = self._take()
            elif asked is not None:
                yield from self._send(asked)
            yield True

    def _take(self) -> bytes:
        if not self._input:
            return b""
        data = self._input.pop(0)
        self._link.send(frames.CREDIT, self.stream, frames.CREDIT_BODY.pack(len(data)))
        return data

    def _send(self, data: bytes) -> Iterator[bool]:
        rest = memoryview(data)
        while rest:
            while self._credit <= 0 or self._link.full:
                if self._link.full:
                    self._link.when_free(self._go_on)
                yield False
            count = min(len(rest), self._credit, frames.MAX_DATA)
            self._credit -= count
            self._link.send(frames.DATA, self.stream, bytes(rest[:count]))
            rest = rest[count:]


def described(problem: OSError) -> dict[str, Any]:
    """A system error as the fields of a RESULT."""
    name = errno.errorcode.get(problem.errno or 0, "EIO")
    return {"error": name, "text": problem.strerror or name}


CHUNK = 256 * 1024
BATCH = 128


def name_of(path: bytes) -> str:
    """A path for the host; bytes that are no UTF-8 travel as lone surrogates."""
    return path.decode("utf-8", "surrogateescape")


def kind_of(mode: int) -> str:
    """The host's word for a file type."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def describe(path: bytes, shown: str) -> dict[str, Any]:
    """One path without following it."""
    found = os.lstat(path)
    target = name_of(os.readlink(path)) if stat.S_ISLNK(found.st_mode) else ""
    return {
        "path": shown,
        "kind": kind_of(found.st_mode),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "modified": found.st_mtime,
        "target": target,
    }


def read(path: bytes, offset: int, limit: int | None) -> Operation:
    """A regular file's bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, "Is a directory")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        if offset:
            os.lseek(fd, offset, os.SEEK_SET)
        left = limit
        while left is None or left > 0:
            data = os.read(fd, CHUNK if left is None else min(CHUNK, left))
            if not data:
                break
            if left is not None:
                left -= len(data)
            yield data
    finally:
        os.close(fd)
    return {}


def write(path: bytes, mode: int | None) -> Operation:
    """Replace a file by what comes in; either all of it is there afterwards or nothing has changed.

    The folder is held on to from before the first byte: programs may put another one in its place meanwhile.
    """
    path = os.path.realpath(path)
    old_mode = _old_mode(path)
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    folder = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield from _replace(folder, name, mode if mode is not None else old_mode)
    finally:
        os.close(folder)
    return {}


def _replace(folder: int, name: bytes, mode: int | None) -> Operation:
    temporary = b".kagura-" + os.urandom(6).hex().encode() + b".tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o666, dir_fd=folder)
    kept = False
    try:
        while True:
            data = yield INPUT
            if not data:
                break
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        if mode is not None:
            os.fchmod(fd, mode)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        kept = True
    finally:
        if not kept:
            _undo(fd, temporary, folder)
        os.close(fd)
    return {}


def _undo(fd: int, temporary: bytes, folder: int) -> None:
    """Leave nothing of a file that is half there: it may hold a secret, and a program may have moved it."""
    os.ftruncate(fd, 0)
    try:
        os.unlink(temporary, dir_fd=folder)
    except OSError:
        return


def _old_mode(path: bytes) -> int | None:
    try:
        found = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise OSError(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "Not a regular file")
    return stat.S_IMODE(found)


def describe_one(path: bytes, shown: str) -> Operation:
    """One path."""
    yield None
    return describe(path, shown)


def list_dir(path: bytes, shown: str) -> Operation:
    """A directory's entries by name."""
    names = sorted(os.listdir(path))
    prefix = shown.rstrip("/") + "/" if shown not in ("", ".") else ""
    yield from in_batches(_entry(path, name, prefix) for name in names)
    return {}


def _entry(path: bytes, name: bytes, prefix: str) -> dict[str, Any] | None:
    try:
        return describe(path + b"/" + name, prefix + name_of(name))
    except FileNotFoundError:
        return None


def in_batches(entries: Iterator[Any]) -> Iterator[bytes | Input | None]:
    """Entries as one JSON text a line, many lines at a time; None entries only let others work."""
    lines: list[bytes] = []
    for steps, entry in enumerate(entries, 1):
        if entry is not None:
            lines.append(frames.dumps(entry) + b"\n")
        if len(lines) >= BATCH:
            yield b"".join(lines)
            lines = []
        elif steps % BATCH == 0:
            yield None
    if lines:
        yield b"".join(lines)


def glob(root: bytes, pattern: str, limit: int) -> Operation:
    """Paths that match, in the order of a sorted walk, at most `limit`."""
    absolute = pattern.startswith("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise OSError(errno.EINVAL, "A pattern must not go up")
    base = b"/" if absolute else root
    if not os.path.isdir(base):
        raise OSError(errno.ENOENT, "No such file or directory")
    yield from in_batches(_limited(_matches(base, _compiled(parts), "/" if absolute else ""), limit))
    return {}


def _limited(found: Iterator[str | None], limit: int) -> Iterator[str | None]:
    seen: set[str] = set()
    for path in found:
        if path is None:
            yield None
        elif path not in seen:
            if len(seen) >= limit:
                return
            seen.add(path)
            yield path


def _compiled(parts: list[str]) -> list[Any]:
    """One test for each part; None is `**`. Imports late: patterns are rarer than commands."""
    import fnmatch
    import re

    return [None if part == "**" else (part, re.compile(fnmatch.translate(part)).match) for part in parts]


def _matches(base: bytes, parts: list[Any], prefix: str) -> Iterator[str | None]:
    """Depth first, in the order of names. A name that begins with a dot is matched only by a part that does."""
    # Directories that are being looked at, since a box may nest them deeper than calls may be nested.
    open_ones = [_level(base, parts, prefix)]
    while open_ones:
        for found in open_ones[-1]:
            if isinstance(found, tuple):
                open_ones.append(_level(*found))
                break
            yield found
        else:
            open_ones.pop()


def _level(directory: bytes, parts: list[Any], prefix: str) -> Iterator[str | Deeper | None]:
    """What matches directly in a directory, and where to look next, in the order in which it is wanted."""
    if not parts:
        return
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    if parts[0] is None:
        yield directory, parts[1:], prefix
    for entry in entries:
        yield None
        yield from _below(entry, parts, prefix)


def _below(entry: os.DirEntry[bytes], parts: list[Any], prefix: str) -> Iterator[str | Deeper | None]:
    first, rest = parts[0], parts[1:]
    name = name_of(entry.name)
    is_dir = entry.is_dir(follow_symlinks=False)
    if first is None:
        if name.startswith("."):
            return
        following, is_match = parts, not rest
    else:
        text, match = first
        if (name.startswith(".") and not text.startswith(".")) or not match(name):
            return
        following, is_match = rest, not rest
    if is_match:
        yield prefix + name
    if is_dir and following:
        yield entry.path, following, prefix + name + "/"
