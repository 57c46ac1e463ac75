"""One PostgreSQL database as a person configured it: a URL taken apart, with its password kept out of every text. Pure.

No error repeats a part of the URL that could be a piece of its password: where one was not escaped, what looks like a
host, a port or a parameter may be one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.egress.hosts import MAX_PORT, Target, make_target, why_never

DEFAULT_PORT = 5432
SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
OPTIONS = ("application_name", "connect_timeout", "options", "sslrootcert")
"""Further parameters that a URL may have, by the names that libpq gives them."""

MAX_URL = 4096
MAX_CONNECT_SECONDS = 300

SYSTEM_TRUST = "system"
"""As `sslrootcert`: what this machine trusts."""

_SOURCE = "The database URL"
_SCHEME = re.compile(r"(?:postgresql|postgres)(?:\+[a-z0-9_]+)?://", re.ASCII | re.IGNORECASE)
_REST = re.compile(r"(?P<authority>[^/?#]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?(?P<fragment>#.*)?", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DIGITS = re.compile(r"[0-9]{1,5}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PostgresService:
    """A database that the membrane signs in to, so that the password never enters a box."""

    host: str  # Normalised name or address
    port: int  # TCP port
    user: str  # Who signs in
    password: Secret = field(hash=False)  # Theirs; empty when there is none
    database: str  # Name of the database
    sslmode: str = "prefer"  # One of `SSL_MODES`, with the meaning that libpq gives it
    # Some of `OPTIONS` with their values, for the way from the membrane to the server
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    jail_port: int = 0  # On the box's loopback; 0 lets the box choose
    private: bool = False  # Whether it may lie outside the public network: a person typed the URL, and nobody else

    @property
    def target(self) -> Target:
        """Where it is."""
        return Target(self.host, self.port)

    @property
    def connect_seconds(self) -> float | None:
        """How long signing in may take; None when the URL does not say."""
        text = self.options.get("connect_timeout", "")
        return float(text) if text else None

    def box_url(self, port: int = 0) -> str:
        """The URL for a program in the box: of a port of its own loopback (default `jail_port`), without a password."""
        user, database = quote(self.user, safe=""), quote(self.database, safe="")
        return f"postgresql://{user}@127.0.0.1:{port or self.jail_port}/{database}?sslmode=disable"


def is_postgres_url(text: str) -> bool:
    """Whether a text is meant as the URL of a PostgreSQL database; `parse_url` says whether it is one."""
    return _SCHEME.match(text) is not None


def parse_url(url: str, *, jail_port: int = 0, private: bool = False) -> PostgresService:
    """The database that a `postgresql://USER[:PASSWORD]@HOST[:PORT][/DATABASE][?PARAMETERS]` URL names.

    Nothing else is looked at: no password file, no service file, no environment variable. The database is by default
    named like the user, as libpq has it. What is no plain letter or digit in user, password and database is
    percent-encoded.

    Raises:
        ConfigurationError: with everything that is wrong; never with the password.
    """
    parts = _split(url)
    problems: list[str] = []
    user, password = _credentials(parts["authority"] or "", problems)
    target = _target(parts["authority"] or "", problems)
    database = _decoded("database", parts["path"] or "", problems)
    query = _parameters(parts["query"] or "", problems)
    sslmode = query.pop("sslmode", "prefer")
    if problems or target is None:
        raise ConfigurationError(_SOURCE, problems)
    return PostgresService(
        target.host, target.port, user, Secret(password), database or user, sslmode, query, jail_port, private
    )


def _split(url: str) -> Mapping[str, str | None]:
    found = _SCHEME.match(url)
    rest = _REST.fullmatch(url, found.end()) if found else None
    if rest is None:
        raise ConfigurationError(_SOURCE, ["it begins with postgresql://"])
    parts = rest.groupdict()
    authority = parts["authority"] or ""
    problem = ""
    if len(url) > MAX_URL:
        problem = f"it is longer than {MAX_URL} letters"
    elif not url.isprintable() or " " in url:
        problem = "a space or control character in it is written as %20 and the like"
    elif "@" not in authority and "@" not in url:
        problem = "it names no user: postgresql://USER@HOST/DATABASE"
    elif "@" in url[rest.end("authority") :] or authority.count("@") > 1 or parts["fragment"]:
        problem = "the letters / ? # @ in a user name, password or parameter are written as %2F %3F %23 %40"
    elif _BAD_ESCAPE.search(url):
        problem = "a % in it is written as %25"
    if problem:
        # Nothing that follows could be told from a piece of the password.
        raise ConfigurationError(_SOURCE, [problem])
    return parts


def _credentials(authority: str, problems: list[str]) -> tuple[str, str]:
    name, _, password = authority.rpartition("@")[0].partition(":")
    user = _decoded("user name", name, problems)
    if not name:
        problems.append("it names no user: postgresql://USER@HOST/DATABASE")
    return user, _decoded("password", password, problems)


def _target(authority: str, problems: list[str]) -> Target | None:
    place = authority.rpartition("@")[2]
    host, port = place, ""
    if place.startswith("["):
        inner, closed, rest = place[1:].partition("]")
        host, port = f"[{inner}]", rest.removeprefix(":")
        if not closed or (rest and not rest.startswith(":")):
            problems.append("an IPv6 address stands in brackets: [ADDRESS]:PORT")
            return None
    elif ":" in place:
        host, _, port = place.partition(":")
    if "," in place:
        problems.append("it names more than one host")
    elif not host or host.lower().startswith("%2f"):
        problems.append("it names no host; the socket of a server on this machine cannot be used, localhost can")
    elif port and not (_DIGITS.fullmatch(port) and 1 <= int(port) <= MAX_PORT):
        problems.append(f"a port is a number from 1 to {MAX_PORT}")
    else:
        return _checked(host, int(port) if port else DEFAULT_PORT, problems)
    return None


def _checked(host: str, port: int, problems: list[str]) -> Target | None:
    try:
        target = make_target(host, port)
    except HostNotUnderstood as error:
        problems.append(f"its host is none: {error.why}")
        return None
    if target.address is not None and (why := why_never(target.address)):
        problems.append(f"its host is {why}, which cannot be reached from a box")
        return None
    return target


def _decoded(what: str, text: str, problems: list[str]) -> str:
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        problems.append(f"the {what} is no UTF-8 text")
        return ""
    if "\0" in decoded:
        problems.append(f"the {what} holds a zero byte")
    return decoded


def _parameters(query: str, problems: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    unknown: list[str] = []
    for part in filter(None, query.split("&")):
        written, _, text = part.partition("=")
        name = written if _NAME.fullmatch(written) else ""
        if name not in (*OPTIONS, "sslmode"):
            unknown.append(name or "one that is no name")
        elif name in found:
            problems.append(f"the parameter {name} stands twice in it")
        else:
            found[name] = _decoded(f"parameter {name}", text, problems)
    if unknown:
        known = ", ".join(("sslmode", *OPTIONS))
        problems.append(f"unknown parameters: {', '.join(dict.fromkeys(unknown))}; it may have {known}")
    _check_trust(found.get("sslmode", "prefer"), found.get("sslrootcert", ""), problems)
    seconds = found.get("connect_timeout", "1")
    if not (_DIGITS.fullmatch(seconds) and 1 <= int(seconds) <= MAX_CONNECT_SECONDS):
        problems.append(f"connect_timeout is a number of seconds from 1 to {MAX_CONNECT_SECONDS}")
    return found


def _check_trust(sslmode: str, root: str, problems: list[str]) -> None:
    if sslmode not in SSL_MODES:
        problems.append(f"sslmode is one of {', '.join(SSL_MODES)}")
    elif sslmode == "verify-ca" and root in ("", SYSTEM_TRUST):
        problems.append("sslmode=verify-ca needs sslrootcert=FILE; with what this machine trusts, use verify-full")
    elif root == SYSTEM_TRUST and sslmode != "verify-full":
        problems.append("sslrootcert=system needs sslmode=verify-full")
    elif root and sslmode in ("disable", "prefer"):
        problems.append("sslrootcert needs sslmode=require, verify-ca or verify-full")
    elif root not in ("", SYSTEM_TRUST) and not root.startswith(("/", "~/")):
        problems.append("sslrootcert is an absolute path, one that begins with ~/, or the word system")
