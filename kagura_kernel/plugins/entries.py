"""How one permission is written: a path, a host, or `{field}` for what a person configures. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.membrane.egress.addresses import why_never
from kagura_kernel.membrane.egress.names import HTTP, HTTPS, Target, address_of, bracketed, parse_target
from kagura_kernel.plugins.paths import check_path

MAX_ENTRY = 1024
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9_]{0,63})\}", re.ASCII)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://([^/?#\\]*)([/?#][^\\]*)?", re.ASCII)
_PORTS = {"https": HTTPS, "wss": HTTPS, "http": HTTP, "ws": HTTP}
_LABELS = 2


@dataclass(frozen=True, slots=True)
class NetRule:
    """Hosts that a jail may reach through the membrane.

    Attributes:
        kind: `name`: this name and every name below it; `one-level`: exactly one label before it; `exact`: this host.
        host: In its one spelling, without `*.`.
        port: 443 for the first two.
    """

    kind: Literal["name", "one-level", "exact"]
    host: str
    port: int = HTTPS

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
