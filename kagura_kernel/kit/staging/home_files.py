"""Files of a person's home, listed, named and read without being led out of the directory that they belong to.

A path is walked component by component, each opened with `O_NOFOLLOW` relative to the descriptor before it. A link is
read and its components take its place; one that leads above the root is refused, however the tree is changed meanwhile,
since `..` goes back along the descriptors that were walked and never along names. A file is looked at before it is
opened, so that no device and no pipe is, and is read from the one descriptor that was checked.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.kit.definitions.document import unseen
from kagura_kernel.kit.staging.planned import Stamp
from kagura_kernel.membrane.names import folded, shown

MAX_PART = 255
"""Bytes of one component, as most file systems have it."""
MAX_PATH = 1024
MAX_SKILL_NAME = 64

# Names that mean a device to some systems that a kit may be unpacked on.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.ASCII)
_BETWEEN = re.compile(r"[\s_-]+")


def why_not_named(name: str) -> str:
    """Why one component of a path may not be staged, half a sentence; empty when it may."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "its name is no text"
    if name in ("", ".", "..") or "/" in name:
        return "its name is none"
    if not (name.isascii() and name.isprintable()) and (sign := unseen(name)):
        return f"its name holds {sign}, which nobody would see"
    if "\\" in name:
        return "its name holds a backslash"
    if len(encoded) > MAX_PART:
        return "its name is too long"
    return ""


def why_not_asked(path: str) -> str:
    """Why a prompt file may not be asked for by this name, half a sentence; empty when it may."""
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path):
        return "a prompt file is named relative to the directories that it is looked for in"
    parts = path.split("/")
    if ".." in parts:
        return "a prompt file's name does not lead upwards with .."
    for part in parts:
        if why := why_not_named(part):
            return why
        if _RESERVED.fullmatch(folded(part)):
            return "its name means a device on some systems"
    return "its name is too long" if len(path) > MAX_PATH else ""


def skill_name(written: str) -> str:
    """A skill's name in kebab-case as it is staged, empty when there is nothing to make one of: `CSV Tools`."""
    # Before the form is made: of many accents in a row that takes a time that grows with the square of their number.
    if len(written) > MAX_PART:
        return ""
    plain = unicodedata.normalize("NFKC", written).strip().casefold()
    name = _BETWEEN.sub("-", plain).strip("-")
    return name if len(name) <= MAX_SKILL_NAME and AGENT_NAME.fullmatch(name) else ""


BAD_NAME = "its name holds what looks like a secret"


def without_secret(name: str, plain: Callable[[str], str]) -> str:
    """A name, or what may be seen of it when it is a secret as it is written, or in a form that it may be given.

    Args:
        name: As somebody wrote it.
        plain: Takes secrets out of a text.
    """
    alike = unicodedata.normalize("NFKC", name)
    words = alike.split()
    forms = (name, alike, alike.casefold(), "".join(words), "-".join(words), "-".join(words).casefold())
    return next((clean for form in dict.fromkeys(forms) if (clean := plain(form)) != form), name)


def shown_name(name: str) -> str:
    """A name on one line, whatever is in it, at most 200 characters."""
    plain = "".join(f"⟨U+{ord(sign):04X}⟩" if unseen(sign) else sign for sign in shown(name))
    return plain if len(plain) <= 200 else f"{plain[:199]}…"  # noqa: PLR2004 - as the docstring says


class Names:
    """Names of one directory, told apart as the most forgiving file system would."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def clash(self, name: str) -> str:
        """Why a name may not stand beside those before it, half a sentence; empty when it may, and then it does."""
        other = self._taken.setdefault(key := folded(name), "")
        if not other:
            self._taken[key] = name
            return ""
        return (
            "its name is taken"
            if other == name
            else f"its name differs from {shown_name(other)!r} by case or form only"
        )


DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, so that a pipe that was put in a file's place does not wait for its other end.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_LINKS = 40
_MAX_PARTS = 512

_KINDS = (
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISDIR, "it is a directory"),
)

OUTSIDE = "it is a link that leads out of its directory"
CIRCLE = "it is a link that goes round in a circle"
SWAPPED = "it was put into another's place while it was read"
CHANGED = "it changed while it was read"
HARD_LINK = "it is a hard link: it has another name elsewhere"


class Unfit(Exception):
    """Something that is not read; the text says why, half a sentence without a name or a place."""


def why_unread(error: OSError) -> str:
    """What an error of the system means for a file, half a sentence without a name or a place."""
    return f"it cannot be read: {(error.strerror or 'unknown reason').lower()}"


def stamp_of(found: os.stat_result) -> Stamp:
    """The state of a file in one value."""
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def check_regular(found: os.stat_result, most: int) -> None:
    """Refuse what is no plain file with one name and at most so many bytes.

    Raises:
        Unfit: it is something else.
    """
    if not stat.S_ISREG(found.st_mode):
        raise Unfit(next((words for test, words in _KINDS if test(found.st_mode)), "it is no plain file"))
    if found.st_nlink > 1:
        raise Unfit(HARD_LINK)
    if found.st_size > most:
        raise Unfit(f"it is larger than {size_in_words(most)}")


def size_in_words(size: int) -> str:
    """A limit for a person, in MiB or KiB."""
    return f"{size >> 20:,} MiB" if size >= 1 << 20 else f"{size >> 10:,} KiB"


class Root:
    """A directory that is open, below which files are found; a context manager."""

    def __init__(self, handle: int, place: Path) -> None:
        self.handle = handle  # Its descriptor
        self.place = place  # Where it lies, absolute: an absolute link that leads there is walked from here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def below(self, path: str) -> Root:
        """A directory below this one, open.

        Raises:
            Unfit: it is no directory, or lies elsewhere.
            OSError: it cannot be opened; FileNotFoundError if there is none.
        """
        with _walked(self, path) as way:
            if not stat.S_ISDIR(way.found.st_mode):
                raise Unfit("it is no directory")
            return Root(os.dup(way.handle), self.place / path)

    def look(self, path: str) -> os.stat_result:
        """What there is at a path, links followed as far as they stay here. Raises as `below`."""
        with _walked(self, path) as way:
            return way.found

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """All bytes of a plain file, and its state.

        Args:
            path: Relative to this directory.
            most: Bytes that it may have.

        Raises:
            Unfit: it is something else, lies elsewhere, is larger, or changed meanwhile.
            OSError: it cannot be read; FileNotFoundError if there is none.
        """
        with _walked(self, path) as way:
            check_regular(way.found, most)
            handle = _open_leaf(way.name, way.handle)
            try:
                return _read(handle, most)
            finally:
                os.close(handle)

    def head(self, path: str, most: int) -> bytes:
        """The first bytes of a plain file of any size; raises as `read`."""
        with _walked(self, path) as way:
            check_regular(way.found, way.found.st_size)
            handle = _open_leaf(way.name, way.handle)
            try:
                check_regular(os.fstat(handle), 1 << 62)
                return _bytes(handle, most)
            finally:
                os.close(handle)


def open_root(place: Path) -> Root:
    """A directory as the root of what is read; the links on the way to it are the person's own.

    Raises:
        OSError: it is none, or cannot be opened.
    """
    return Root(os.open(place, DIRECTORY & ~os.O_NOFOLLOW), place)


def _open_leaf(name: str, parent: int) -> int:
    try:
        return os.open(name, _FILE, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise Unfit(SWAPPED) from error
        raise


def _read(handle: int, most: int) -> tuple[bytes, os.stat_result]:
    before = os.fstat(handle)
    # What was looked at may not be what was opened.
    check_regular(before, most)
    data = _bytes(handle, most + 1)
    after = os.fstat(handle)
    if len(data) != after.st_size or stamp_of(before) != stamp_of(after):
        raise Unfit(CHANGED)
    return data, after


def _bytes(handle: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(handle, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


class _Way:
    """Where a walk has come: a stack of directories, and what is at its end."""

    def __init__(self, root: Root) -> None:
        self._root = root.handle
        self._entered: list[int] = []
        self.name = ""  # The last component in its directory; empty when the walk ended at a directory
        self.found = os.fstat(root.handle)  # What is there

    @property
    def handle(self) -> int:
        """The directory that the walk is in."""
        return self._entered[-1] if self._entered else self._root

    def up(self) -> None:
        if not self._entered:
            raise Unfit(OUTSIDE)
        os.close(self._entered.pop())
        self.found = os.fstat(self.handle)

    def enter(self, name: str, found: os.stat_result) -> None:
        try:
            handle = os.open(name, DIRECTORY, dir_fd=self.handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Unfit(SWAPPED) from error
            raise
        self._entered.append(handle)
        self.found = found

    def back_to_root(self) -> None:
        while self._entered:
            os.close(self._entered.pop())


@contextmanager
def _walked(root: Root, path: str) -> Iterator[_Way]:
    way = _Way(root)
    try:
        _walk(way, path, str(root.place))
        yield way
    finally:
        way.back_to_root()


def _walk(way: _Way, path: str, place: str) -> None:
    """Follow a path to its end, which is a directory that was entered, or anything else that is only looked at."""
    parts = deque(path.split("/"))
    links = 0
    while parts:
        part = parts.popleft()
        if part in ("", "."):
            continue
        if way.name:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if part == "..":
            way.up()
            continue
        found = os.stat(part, dir_fd=way.handle, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            parts.extendleft(reversed(_parts_of_link(way, part, place)))
            if links > _MAX_LINKS or len(parts) > _MAX_PARTS:
                raise Unfit(CIRCLE)
        elif stat.S_ISDIR(found.st_mode):
            way.enter(part, found)
        else:
            way.name, way.found = part, found


def _parts_of_link(way: _Way, name: str, place: str) -> list[str]:
    try:
        target = os.readlink(name, dir_fd=way.handle)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unfit(SWAPPED) from error
        raise
    if target.startswith("/"):
        if target != place and not target.startswith(f"{place.rstrip('/')}/"):
            raise Unfit(OUTSIDE)
        way.back_to_root()
        target = target[len(place.rstrip("/")) :]
    return target.split("/")


MAX_FILES = 2_000
"""Files of one skill."""
MAX_FILE_BYTES = 16 << 20
MAX_DEPTH = 16
_MAX_ENTRIES = 10_000
_MAX_ODD = 1_000

_ELSEWHERE = {
    ".git": "a repository's own files are not staged",
    ".hg": "a repository's own files are not staged",
    ".jj": "a repository's own files are not staged",
    ".svn": "a repository's own files are not staged",
    ".venv": "what was installed on the host is not staged",
    "node_modules": "what was installed on the host is not staged",
    "__pycache__": "what was compiled on the host is not staged",
}


@dataclass(slots=True)
class Tree:
    """What a directory holds."""

    # The state of each plain file by its path, parts joined by `/`
    files: dict[str, os.stat_result] = field(default_factory=dict)
    odd: list[tuple[str, str]] = field(default_factory=list)  # What is not staged: its path, fit to be shown, and why
    refused: str = ""  # Why nothing of it is staged, half a sentence; empty when it is

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(found.st_size for found in self.files.values())


def list_tree(root: Root) -> Tree:
    """Everything below a directory; what cannot be staged is told with its reason and never raised."""
    walk = _Walk(root)
    walk.directory(os.dup(root.handle), "", (_identity(os.fstat(root.handle)),))
    walk.tree.odd.sort()
    walk.tree.files = {path: walk.tree.files[path] for path in sorted(walk.tree.files)}
    return walk.tree


class _Walk:
    def __init__(self, root: Root) -> None:
        self.tree = Tree()
        self._root = root
        self._entries = 0

    def directory(self, handle: int, prefix: str, above: tuple[tuple[int, int], ...]) -> None:
        """Everything in one directory, whose descriptor is closed; `above` is it and those that it lies in."""
        names = Names()
        try:
            for name in self._names(handle, prefix):
                self._entries += 1
                if self._entries > _MAX_ENTRIES or len(self.tree.odd) > _MAX_ODD:
                    self.tree.refused = f"it holds more than {_MAX_FILES_TOLD}"
                if self.tree.refused:
                    return
                if why := why_not_named(name) or names.clash(name):
                    self._odd(f"{prefix}{name}", why)
                else:
                    self._entry(handle, prefix, name, above)
        finally:
            os.close(handle)

    def _names(self, handle: int, prefix: str) -> list[str]:
        try:
            with os.scandir(handle) as entries:
                # One more than is allowed, so that the walk sees that there are too many.
                names = [entry.name for entry, _ in zip(entries, range(_MAX_ENTRIES + 1), strict=False)]
        except OSError as error:
            self._odd(prefix.rstrip("/"), why_unread(error))
            return []
        return sorted(names)

    def _entry(self, parent: int, prefix: str, name: str, above: tuple[tuple[int, int], ...]) -> None:
        path = f"{prefix}{name}"
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return  # gone since it was listed: no part of the directory
        try:
            if stat.S_ISLNK(found.st_mode):
                found = self._root.look(path)
            if stat.S_ISDIR(found.st_mode):
                self._descend(path, name, found, above)
                return
            check_regular(found, MAX_FILE_BYTES)
        except FileNotFoundError:
            self._odd(path, "it is a link that leads nowhere")
        except Unfit as error:
            self._odd(path, str(error))
        except OSError as error:
            self._odd(path, why_unread(error))
        else:
            self._take(path, found)

    def _descend(self, path: str, name: str, found: os.stat_result, above: tuple[tuple[int, int], ...]) -> None:
        me = _identity(found)
        if why := _ELSEWHERE.get(name.casefold(), ""):
            self._odd(path, why)
        elif me in above:
            self._odd(path, CIRCLE)
        elif len(above) >= MAX_DEPTH or len(path) > MAX_PATH:
            self._odd(path, f"it lies more than {MAX_DEPTH} directories deep")
        else:
            below = self._root.below(path)
            self.directory(below.handle, f"{path}/", (*above, me))

    def _take(self, path: str, found: os.stat_result) -> None:
        if len(self.tree.files) >= MAX_FILES:
            self.tree.refused = f"it holds more than {_MAX_FILES_TOLD}"
        elif len(path) > MAX_PATH:
            self._odd(path, "its path is too long")
        else:
            self.tree.files[path] = found

    def _odd(self, path: str, why: str) -> None:
        self.tree.odd.append(("/".join(shown_name(part) for part in path.split("/")), why))


_MAX_FILES_TOLD = f"{MAX_FILES:,} files"


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
