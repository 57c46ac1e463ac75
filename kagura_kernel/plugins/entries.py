"""How one permission is written: a path, a host, or `{field}` for what a person configures. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.membrane.egress.addresses import why_never
from kagura_kernel.membrane.egress.names import HTTP, HTTPS, Target, address_of, bracketed, parse_target

_OTHER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_SQLITE = re.compile(r"sqlite(?:\+[a-z0-9_]+)?:", re.ASCII | re.IGNORECASE)
_FILE = re.compile(r"file:", re.IGNORECASE)
_MEMORY = ":memory:"
_STARTS = ("/", "~/", "./")


class NotShown(Exception):
    """A path that no jail sees; the text says why, as a sentence without its end."""


@dataclass(frozen=True, slots=True)
class Written:
    """A path as it was written."""

    path: str  # Absolute, with `~/`, or relative to the project
    prefix: str = ""  # What stands before it in a URL: `sqlite:///`; empty for a plain path
    suffix: str = ""  # What stands behind it: `?mode=ro`
    sqlite: bool = False  # Whether it is a SQLite database

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


MAX_ENTRY = 1024
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9_]{0,63})\}", re.ASCII)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://([^/?#\\]*)([/?#][^\\]*)?", re.ASCII)
_PORTS = {"https": HTTPS, "wss": HTTPS, "http": HTTP, "ws": HTTP}
_LABELS = 2


@dataclass(frozen=True, slots=True)
class NetRule:
    """Hosts that a jail may reach through the membrane."""

    # `name`: this name and every name below it; `one-level`: exactly one label before it; `exact`: this host
    kind: Literal["name", "one-level", "exact"]
    host: str  # In its one spelling, without `*.`
    port: int = HTTPS  # 443 for the first two

    def __str__(self) -> str:
        if self.kind == "name":
            return self.host
        return f"*.{self.host}" if self.kind == "one-level" else f"{bracketed(self.host)}:{self.port}"


def field_of(entry: str) -> str:
    """The field that an entry stands for; empty when it is a literal."""
    found = _FIELD.fullmatch(entry)
    return found[1] if found else ""


def check_entry(kind: str, entry: str) -> str:
    """What is wrong with one entry of a manifest, as a sentence without its end; empty when nothing is.

    Args:
        kind: `read`, `write` or `net`.
        entry: As it was written.
    """
    if field_of(entry):
        return ""
    if not entry or len(entry) > MAX_ENTRY or not entry.isprintable():
        return f"an entry is a text of 1 to {MAX_ENTRY} letters that can all be seen"
    if "{" in entry or "}" in entry:
        return f"{entry!r}: an entry is a literal or one {{field}}, not a mixture"
    if kind != "net":
        return check_path(entry)
    try:
        parse_net(entry)
    except HostNotUnderstood as error:
        return error.message.rstrip(".")
    return ""


def parse_net(text: str, *, person: bool = False) -> NetRule:
    """The rule that an entry, or a person's value, stands for: `NAME`, `*.NAME`, `NAME:PORT` or a URL.

    Args:
        text: As it was written; no database's URL.
        person: Whether a person configured it: then a URL may lead to an address, or to a name of one label.

    Raises:
        HostNotUnderstood: it is none, or wider than any entry may be; a password is not repeated.
    """
    if "://" in text:
        target = _of_url(text)
        check_host(text, target.host, person=person)
        return NetRule("exact", target.host, target.port)
    wild = text.removeprefix("*.")
    if "*" in wild:
        raise HostNotUnderstood(text, "a wildcard is written *.NAME and stands for one label")
    if wild != text and ":" in wild:
        raise HostNotUnderstood(text, "a wildcard has no port; it is 443")
    target = parse_target(wild, HTTPS)
    check_host(text, target.host, person=False)
    if wild != text:
        return NetRule("one-level", target.host)
    return NetRule("exact" if ":" in wild else "name", target.host, target.port)


def check_host(text: str, host: str, *, person: bool) -> None:
    """Refuse a host that a plugin's author may not name, or that nobody may.

    Args:
        text: What names it, for the error.
        host: In its one spelling.
        person: Whether a person configured it.

    Raises:
        HostNotUnderstood: it is such a host.
    """
    address = address_of(host)
    if address is not None and (why := why_never(address)):
        raise HostNotUnderstood(text, f"it is {why}")
    if person:
        return
    if address is not None:
        raise HostNotUnderstood(text, "a permission names a host, not an address")
    if len(host.split(".")) < _LABELS:
        raise HostNotUnderstood(text, "a name of one label means something else in every network")


def _of_url(text: str) -> Target:
    found = _URL.fullmatch(text)
    if found is None:
        raise HostNotUnderstood(text, "it is no URL: SCHEME://HOST")
    scheme, authority = found[1].lower(), found[2]
    if "@" in authority:
        shown = f"{scheme}://***@{authority.rpartition('@')[2]}"
        raise HostNotUnderstood(shown, "a user name or password in it would reach the plugin")
    try:
        return parse_target(authority, _PORTS.get(scheme))
    except HostNotUnderstood as error:
        # What was not escaped in a password may stand in any part.
        raise HostNotUnderstood(f"{scheme}://…", error.why) from None
