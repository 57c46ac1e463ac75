"""What a plugin's jail opens: how a permission is written, and paths and hosts from it and the configured values."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood, PluginNotConfigured, WorkspaceRefused
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.plugins import PluginPermissions
from kagura_kernel.membrane.egress.hosts import HTTP, HTTPS, Target, address_of, bracketed, parse_target, why_never
from kagura_kernel.membrane.names import PROTECTED_NAMES, is_protected_name
from kagura_kernel.membrane.postgres.service import PostgresService, is_postgres_url, parse_url
from kagura_kernel.membrane.project import refuse_private
from kagura_kernel.plugins.configuration import Schema, Value
from kagura_kernel.plugins.text import hint, reason
from kagura_kernel.sandbox.backend import ShownPath

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
    Raises `NotShown`: it names no file of this machine.
    """
    if (found := _SQLITE.match(text)) is not None:
        return _read_sqlite(text[found.end() :])
    if (found := _FILE.match(text)) is not None:
        return _read_file(text[found.end() :])
    return None if _OTHER.match(text) else Written(text)


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
    """What is wrong with one entry of a manifest, as a sentence without its end; empty when nothing is."""
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

    A URL that a person configured may lead to an address, or to a name of one label. Raises `HostNotUnderstood`: it is
    none, or wider than any entry may be; a password is not repeated.
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
    """Refuse a host, in its one spelling, that a plugin's author may not name, or that nobody may.

    Raises `HostNotUnderstood`: it is such a host.
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


@dataclass(frozen=True, slots=True)
class Ground:
    """What paths begin with, and what is nobody's business."""

    project: Path  # What `./` and a person's relative path begin with
    home: Path | None  # What `~/` begins with; None where there is none
    private: Sequence[Path]  # Directories of ours and of Jupyter's


def find_path(written: Written, ground: Ground, *, writable: bool, person: bool) -> Path:
    """The file or directory of the host, absolute and without links.

    Raises `NotShown`: there is none, or it is one that is never shown.
    """
    named = _absolute(written.path, ground)
    try:
        found = named.resolve(strict=True)
        mode = found.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise NotShown(_why_missing(written, named, error)) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise NotShown("it is neither a file nor a directory")
    inside = _is_in(found, ground.project.resolve())
    if not inside and not person and not written.path.startswith(("/", "~")):
        # A project that came from somewhere could hold such a link.
        raise NotShown("it leads out of the project by a link")
    try:
        refuse_private(found, home=ground.home, private=ground.private)
    except WorkspaceRefused as error:
        raise NotShown(f"{found} is shown to no plugin: {error.why}") from error
    if not inside:
        _refuse_hidden(found, ground.home)
    if writable:
        _refuse_acted_on(found)
    return found


def _absolute(text: str, ground: Ground) -> Path:
    if "\0" in text:
        raise NotShown("it holds a zero byte")
    if text == "~" or text.startswith("~/"):
        if ground.home is None:
            raise NotShown("there is no home directory here")
        return ground.home / text[1:].lstrip("/")
    if text.startswith("~"):
        raise NotShown("write out whose home directory it is")
    return ground.project / text


def _why_missing(written: Written, named: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        relative = written.sqlite and not written.path.startswith(("/", "~"))
        more = "; a SQLite URL has four slashes before an absolute path" if relative else ""
        return f"there is no file or directory {named}{more}"
    why = reason(error) if isinstance(error, OSError) else "it leads in a circle"
    return f"{named} cannot be looked at: {why}"


def _refuse_hidden(found: Path, home: Path | None) -> None:
    """Refuse `~/.anything`: in a home directory that is where programs keep keys, and what they run when they start."""
    if home is None or not _is_in(found, home.resolve()):
        return
    first = found.relative_to(home.resolve()).parts[0]
    if first.startswith("."):
        raise NotShown(f"{first} in your home directory is where programs keep their settings and keys")


def _refuse_acted_on(found: Path) -> None:
    """Refuse to have changed what tells programs of the host what to run."""
    if is_protected_name(str(found)):
        raise NotShown(f"programs of this machine act on what is in {found}; it can be read, not written")
    if held := sorted(name for name in PROTECTED_NAMES if (found / name).exists()):
        raise NotShown(f"{found} holds {held[0]}, on which programs of this machine act; name a directory below it")


def _is_in(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


READ = "/plugin/read"
WRITE = "/plugin/write"
SERVICE_PORT = 5432
"""Port of the first service on the jail's loopback; the next ones follow."""

_AUTHORITY = re.compile(r"[A-Za-z0-9]://([^\s/?#]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class JailPlan:
    """Everything that one configured plugin's jail opens."""

    shown: tuple[ShownPath, ...] = ()  # Files and directories of the host, and where the plugin finds them
    net: tuple[NetRule, ...] = ()  # Hosts that it may reach, services not among them
    services: tuple[PostgresService, ...] = ()  # Databases that the membrane signs in to on its behalf
    # What `create_host_functions` gets, as JSON has it: without paths of the host that are shown under another one, and
    # without passwords
    config: Mapping[str, Any] = field(default_factory=dict)
    # Where the plugin finds what its manifest names literally, by the entry as it stands there
    places: Mapping[str, str] = field(default_factory=dict)
    # The same as a person may read it, for the journal
    permissions: PluginPermissions = field(default_factory=PluginPermissions)


def plan_jail(
    permissions: PluginPermissions, schema: Schema, values: Mapping[str, Value], ground: Ground, *, plugin: str
) -> JailPlan:
    """The plan for one configured plugin; the values are all of them, as `complete` gives them.

    Raises `PluginNotConfigured`: with every path, host and URL that is refused.
    """
    planner = _Planner(schema, values, ground)
    planner.problems += check_declared(permissions, schema)
    # Those to write first: what may be written may be read in the same place.
    for entry in permissions.write:
        planner.add_path(entry, writable=True)
    for entry in permissions.read:
        planner.add_path(entry, writable=False)
    for entry in permissions.net:
        planner.add_net(entry)
    planner.refuse_passwords()
    if planner.problems:
        raise PluginNotConfigured(plugin, planner.problems)
    return planner.plan()


def check_declared(permissions: PluginPermissions, schema: Schema) -> tuple[str, ...]:
    """What is wrong with declared permissions, once the schema is known: fields that are none, or hold no text."""
    problems = []
    for kind in ("read", "write", "net"):
        for entry in getattr(permissions, kind):
            if not (name := field_of(entry)):
                continue
            if name not in schema:
                problems.append(f"permissions, {kind}: SCHEMA has no field {name!r}{hint(name, schema)}")
            elif (schema[name].items if schema[name].type == "array" else schema[name].type) != "string":
                problems.append(f"permissions, {kind}: the field {name!r} holds no text")
    return tuple(problems)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str  # A path, a host, a URL
    field: str  # The field that holds it; empty for a literal
    person: bool  # Whether a person gave it; a default is the author's

    @property
    def place(self) -> str:
        """What a problem begins with."""
        return self.field or repr(self.text)


class _Planner:
    def __init__(self, schema: Schema, values: Mapping[str, Value], ground: Ground) -> None:
        self.problems: list[str] = []
        self._schema = schema
        self._values = values
        self._ground = ground
        self._targets: dict[tuple[Path, bool], str] = {}
        self._shown: list[ShownPath] = []
        self._net: dict[NetRule, None] = {}
        self._services: dict[str, PostgresService] = {}
        self._instead: dict[tuple[str, str], str] = {}

    def add_path(self, entry: str, *, writable: bool) -> None:
        for one in self._texts(entry):
            if (one.field, one.text) in self._instead:
                continue
            try:
                written = read_path(one.text)
                if written is None:
                    continue
                found = find_path(written, self._ground, writable=writable, person=one.person)
            except NotShown as error:
                self.problems.append(f"{one.place}: {error}")
                continue
            target = self._target(found, writable=writable)
            self._instead[one.field, one.text] = written.at(target)

    def add_net(self, entry: str) -> None:
        for one in self._texts(entry):
            try:
                if is_postgres_url(one.text):
                    self._add_service(one)
                # A URL of a file or of a SQLite database leads to no host.
                elif not (_SQLITE.match(one.text) or _FILE.match(one.text)):
                    self._net[parse_net(one.text, person=one.person)] = None
            except HostNotUnderstood as error:
                self.problems.append(f"{one.place}: {error.message.rstrip('.')}")
            except ConfigurationError as error:
                self.problems += [f"{one.field or 'net'}: {problem}" for problem in error.problems]

    def refuse_passwords(self) -> None:
        """Refuse what would carry a password to the plugin: every other URL that has one."""
        for name, value in self._values.items():
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str) and (name, text) not in self._instead and _has_password(text):
                    self.problems.append(f"{name}: {_why_no_password(text)}")

    def plan(self) -> JailPlan:
        services = tuple(self._services.values())
        return JailPlan(
            tuple(self._shown),
            tuple(self._net),
            services,
            {name: self._config(name, value) for name, value in self._values.items()},
            {text: instead for (name, text), instead in self._instead.items() if not name},
            PluginPermissions(
                tuple(str(path) for path, writable in self._targets if not writable),
                tuple(str(path) for path, writable in self._targets if writable),
                (*map(str, self._net), *(str(service.target) for service in services)),
            ),
        )

    def _texts(self, entry: str) -> Iterator[_Text]:
        name = field_of(entry)
        if not name:
            yield _Text(entry, "", person=False)
            return
        if name not in self._schema or name not in self._values:
            return  # told by check_declared
        value, default = self._values[name], self._schema[name].default
        authors = default if isinstance(default, tuple) else (default,)
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and text:
                yield _Text(text, name, person=text not in authors)

    def _target(self, found: Path, *, writable: bool) -> str:
        known = self._targets.get((found, writable))
        if known is not None:
            return known
        number = sum(1 for _, other in self._targets if other is writable)
        target = f"{WRITE if writable else READ}/{number}"
        self._targets[found, writable] = target
        self._shown.append(ShownPath(found, target, writable))
        return target

    def _add_service(self, one: _Text) -> None:
        service = self._services.get(one.text)
        if service is None:
            service = parse_url(one.text, jail_port=SERVICE_PORT + len(self._services), private=one.person)
            check_host(f"postgresql://…@{service.target}", service.host, person=one.person)
            self._services[one.text] = service
        self._instead[one.field, one.text] = service.box_url()

    def _config(self, name: str, value: Value) -> Any:
        if isinstance(value, tuple):
            return [self._instead.get((name, item), item) if isinstance(item, str) else item for item in value]
        return self._instead.get((name, value), value) if isinstance(value, str) else value


def _why_no_password(text: str) -> str:
    if any(is_postgres_url(word) for word in text.split()):
        return (
            "its password would reach the plugin; only the URL of a PostgreSQL database that the plugin names under "
            "`net` may have one"
        )
    return (
        "a password in a URL of this kind would reach the plugin; only postgresql:// URLs are signed in to by the "
        "membrane"
    )


def _has_password(text: str) -> bool:
    """Whether a text holds a URL with a password; one that was not escaped makes what looks like a port no number."""
    for found in _AUTHORITY.finditer(text):
        user, at, host = found[1].rpartition("@")
        port = host.rpartition(":")[2] if ":" in host and not host.endswith("]") else ""
        if (at and ":" in user) or not (port == "" or port.isdigit()):
            return True
    return False
