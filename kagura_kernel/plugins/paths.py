"""How a path is written in a permission or in a configured value: plainly, or as a URL of SQLite or of a file. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_OTHER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_SQLITE = re.compile(r"sqlite(?:\+[a-z0-9_]+)?:", re.ASCII | re.IGNORECASE)
_FILE = re.compile(r"file:", re.IGNORECASE)
_MEMORY = ":memory:"
_STARTS = ("/", "~/", "./")


class NotShown(Exception):
    """A path that no jail sees; the text says why, as a sentence without its end."""


@dataclass(frozen=True, slots=True)
class Written:
    """A path as it was written.

    Attributes:
        path: Absolute, with `~/`, or relative to the project.
        prefix: What stands before it in a URL: `sqlite:///`; empty for a plain path.
        suffix: What stands behind it: `?mode=ro`.
        sqlite: Whether it is a SQLite database.
    """

    path: str
    prefix: str = ""
    suffix: str = ""
    sqlite: bool = False

    def at(self, place: str) -> str:
        """The same with another path, as a plugin gets it."""
        return f"{self.prefix}{quote(place) if self.prefix else place}{self.suffix}"


def read_path(text: str) -> Written | None:
    """The path in a text; None for a URL that names none, and for a database in memory.

    `sqlite:////data/x.db` and `file:///data/x.db` are absolute; `sqlite:///x.db` and `file:x.db` lie in the project.

    Raises:
        NotShown: it names no file of this machine.
    """
    if (found := _SQLITE.match(text)) is not None:
        return _read_sqlite(text[found.end() :])
    if (found := _FILE.match(text)) is not None:
        return _read_file(text[found.end() :])
    return None if _OTHER.match(text) else Written(text)


def names_file(text: str) -> bool:
    """Whether a text is a URL of a file or of a SQLite database, which leads to no host."""
    return _SQLITE.match(text) is not None or _FILE.match(text) is not None


def check_path(text: str) -> str:
    """What is wrong with how a manifest writes a path; empty when nothing is. Whether it is shown is decided later."""
    try:
        written = read_path(text)
    except NotShown as error:
        return f"{text!r}: {error}"
    if written is None:
        return f"{text!r}: it names no file"
    path = written.path
    if "\0" in path:
        return f"{text!r}: a path holds no zero byte"
    if not path.startswith(_STARTS) and path != "." and not written.prefix:
        return f"{text!r}: a path begins with /, with ~/ (the home directory) or with ./ (the project)"
    if ".." in path.split("/"):
        return f"{text!r}: a path does not lead upwards with .."
    return ""


def _read_sqlite(rest: str) -> Written | None:
    if rest in ("", "//"):
        return None
    if not rest.startswith("///"):
        raise NotShown("a SQLite URL has three slashes and a path in the project, or four and an absolute one")
    path, mark, parameters = rest[3:].partition("?")
    if path in ("", _MEMORY):
        return None
    return Written(unquote(path), "sqlite:///", mark + parameters, sqlite=True)


def _read_file(rest: str) -> Written:
    path, mark, parameters = rest.partition("?")
    if path.startswith("//"):
        host, _, path = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise NotShown("a file: URL names a file of this machine: file:///PATH")
        path = f"/{path}"
    return Written(unquote(path), "file://", mark + parameters)
