"""The workspace: a project coming in over the pipe, and what differs from it later.

A project is a stream of records: four bytes length and JSON (`path`, `kind`, `mode`, `modified` in ns, `target`). A
file's record is followed by pieces of four bytes length and content; a piece of length zero ends the file, as its size
may change while it is sent. What differs is read from an overlay's upper directory, or the present is compared with
the state that was recorded at the end of the stream.
"""

from __future__ import annotations

import errno
import os
import stat

from . import frames
from .files import INPUT, in_batches, name_of
from .processes import text_bytes

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any

    from .files import Input, Operation

    Mark = tuple[int, int, int, int, int]
    Baseline = dict[bytes, Mark]
    Change = dict[str, Any]
    Reading = Generator[Input, bytes | None, bytes]


OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")


def report(found: Iterator[Change | None]) -> Operation:
    """The changes, counted, as lines."""
    yield from in_batches(_counted(found))
    return {}


def _counted(found: Iterator[Change | None]) -> Iterator[Change | None]:
    count = 0
    for change in found:
        if change is not None:
            count += 1
            if count > frames.MAX_ENTRIES // 2:
                raise OSError(errno.E2BIG, f"More than {frames.MAX_ENTRIES // 2} files changed")
        yield change


def is_protected(path: bytes, protected: tuple[bytes, ...]) -> bool:
    """Whether `path`, relative to the workspace, is one of these or lies below one."""
    return any(path == one or path.startswith(one + b"/") for one in protected)


def told(path: bytes, status: str, found: os.stat_result, target: bytes) -> Change:
    """One change for the host."""
    link = stat.S_ISLNK(found.st_mode)
    return {
        "path": name_of(path),
        "status": status,
        "kind": "link" if link else "file",
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "target": name_of(target),
    }


def gone(path: bytes) -> Change:
    """One deletion for the host."""
    return {"path": name_of(path), "status": "deleted"}


def _target(path: bytes, found: os.stat_result) -> bytes:
    return os.readlink(path) if stat.S_ISLNK(found.st_mode) else b""


def _is_told(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)


def walk(root: bytes, below: bytes, protected: tuple[bytes, ...]) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything below `root`/`below` but the protected, as (path relative to `root`, stat), directories first."""
    # A list of what is still to come, since a box may nest directories deeper than calls may be nested.
    waiting = _inside(root, below)
    while waiting:
        path = waiting.pop()
        if is_protected(path, protected):
            continue
        try:
            found = os.lstat(root + b"/" + path)
        except OSError:
            continue
        yield path, found
        if stat.S_ISDIR(found.st_mode):
            waiting += _inside(root, path)


def _inside(root: bytes, below: bytes) -> list[bytes]:
    """Paths of a directory's entries, the last name first; none of one that cannot be read."""
    try:
        names = os.listdir(root + b"/" + below if below else root)
    except OSError:
        return []
    return [below + b"/" + name if below else name for name in sorted(names, reverse=True)]


# ------------------------------------------------------------- recorded state


def mark(found: os.stat_result) -> Mark:
    """What cannot stay the same when a file is written, replaced or given another mode."""
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def record(root: bytes, protected: tuple[bytes, ...]) -> Iterator[tuple[bytes, Mark]]:
    """The state to compare with later."""
    for path, found in walk(root, b"", protected):
        if _is_told(found):
            yield path, mark(found)


def since(root: bytes, baseline: Baseline, protected: tuple[bytes, ...]) -> Iterator[Change | None]:
    """How `root` differs from a recorded state."""
    seen: set[bytes] = set()
    for path, found in walk(root, b"", protected):
        yield None
        if not _is_told(found):
            continue
        seen.add(path)
        before = baseline.get(path)
        if before != mark(found):
            status = "added" if before is None else "modified"
            yield told(path, status, found, _target(root + b"/" + path, found))
    for path in baseline:
        if path not in seen and not is_protected(path, protected):
            yield gone(path)


# -------------------------------------------------------------------- overlay


def in_overlay(upper: bytes, lower: bytes, protected: tuple[bytes, ...]) -> Iterator[Change | None]:
    """What an overlay's upper directory adds to, changes in and hides of `lower`."""
    for path, found in walk(upper, b"", protected):
        yield None
        old = _lstat(lower + b"/" + path)
        if stat.S_ISCHR(found.st_mode):
            if found.st_rdev == 0:
                yield from _hidden(path, old, lower, protected)
        elif stat.S_ISDIR(found.st_mode):
            yield from _merged(path, old, upper, lower, protected)
        elif _is_told(found):
            yield from _present(path, found, old, upper, lower)
            if old is not None and stat.S_ISDIR(old.st_mode):
                yield from _hidden(path, old, lower, protected)


def _lstat(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _hidden(path: bytes, old: os.stat_result | None, lower: bytes, protected: tuple[bytes, ...]) -> Iterator[Change]:
    """A whiteout, or whatever stands where a directory was: all files that were there are gone."""
    if old is not None and stat.S_ISDIR(old.st_mode):
        for inner, found in walk(lower, path, protected):
            if _is_told(found):
                yield gone(inner)
    elif old is not None and _is_told(old):
        yield gone(path)


def _merged(
    path: bytes,
    old: os.stat_result | None,
    upper: bytes,
    lower: bytes,
    protected: tuple[bytes, ...],
) -> Iterator[Change]:
    """A directory in the upper one: an opaque one, or one that replaced a file, hides what was below."""
    if old is None:
        return
    if not stat.S_ISDIR(old.st_mode):
        if _is_told(old):
            yield gone(path)
    elif _is_opaque(upper + b"/" + path):
        for inner, found in walk(lower, path, protected):
            if _is_told(found) and _lstat(upper + b"/" + inner) is None:
                yield gone(inner)


def _is_opaque(path: bytes) -> bool:
    for name in OPAQUE:
        try:
            if os.getxattr(path, name, follow_symlinks=False) in (b"y", b"x"):
                return True
        except OSError:
            continue
    return False


def _present(
    path: bytes,
    found: os.stat_result,
    old: os.stat_result | None,
    upper: bytes,
    lower: bytes,
) -> Iterator[Change]:
    target = _target(upper + b"/" + path, found)
    if old is None or not _is_told(old):
        yield told(path, "added", found, target)
    elif not _same(upper + b"/" + path, found, lower + b"/" + path, old):
        yield told(path, "modified", found, target)


def _same(new_path: bytes, new: os.stat_result, old_path: bytes, old: os.stat_result) -> bool:
    """Whether a file that was only opened for writing, or touched, is still what it was."""
    if new.st_mode != old.st_mode or new.st_size != old.st_size:
        return False
    try:
        if stat.S_ISLNK(new.st_mode):
            return os.readlink(new_path) == os.readlink(old_path)
        with open(new_path, "rb") as one, open(old_path, "rb") as other:
            while True:
                left, right = one.read(65536), other.read(65536)
                if left != right:
                    return False
                if not left:
                    return True
    except OSError:
        return False


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
            _directory(path)
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


def _directory(path: bytes) -> None:
    """Make it, unless it is there; a link that is there is none."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise


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
