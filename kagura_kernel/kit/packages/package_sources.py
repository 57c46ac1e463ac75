"""Where installers look: the public registries, or what a person's settings put in their place. Pure.

A mirror (`settings.mirrors`) says which hosts a box connects to; a variable (`settings.env`) says which address an
installer asks. Where there is a mirror and no variable, the address that answers questions is not known, and nobody is
asked.

What installs commands, and the packages that it is asked for. Pure.

A package is named in a definition that may come from anywhere, and its name becomes an argument of an installer. So a
name is only ever a name: no option, no address, no path, no range of versions (`kit.toolsets.parse_pin`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import get_args
from urllib.parse import urlsplit

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.kit.definitions.toolsets import Installer, parse_pin
from kagura_kernel.membrane.egress.hosts import (
    CARGO_INSTALL,
    GITHUB_RELEASES,
    GO_INSTALL,
    HOST_SETS,
    HTTPS,
    NPM,
    PYTHON_PACKAGES,
    HostSets,
    Target,
    bracketed,
    parse_url,
)

INSTALLERS: tuple[Installer, ...] = get_args(Installer)
"""All of them."""


@dataclass(frozen=True, slots=True)
class Package:
    """Something that an installer can be asked for."""

    installer: Installer
    name: str  # As the installer knows it: `mcp-server-time`, `@scope/name`, a Go package's path, a crate, OWNER/REPO
    version: str = ""  # Exactly this one (of a release its tag); empty for the newest

    def __str__(self) -> str:
        return f"{self.installer}:{self.name}{f'@{self.version}' if self.version else ''}"

    def at(self, version: str) -> Package:
        """The same in this version."""
        return replace(self, version=version)


def parse_package(text: str) -> Package:
    """`INSTALLER:PACKAGE[@VERSION]`.

    Raises:
        ValueError: it is not written so; the text is half a sentence that does not repeat it.
    """
    pin = parse_pin(text)
    if not pin.installer:
        raise ValueError("must be written INSTALLER:PACKAGE[@VERSION], as in pip:mcp-server-time")
    return Package(pin.installer, pin.package, pin.version)


_SETS: Mapping[Installer, str] = {
    "pip": "python-packages",
    "npm": "npm",
    "go": "go",
    "cargo": "rust",
    "github": "github",
}
# Narrower than the set of the same tool: what fetches toolchains is none of an installer's business. Go's storage takes
# uploads all the same, see `GO_INSTALL`.
_HOSTS: Mapping[Installer, tuple[Target, ...]] = {
    "pip": PYTHON_PACKAGES,
    "npm": NPM,
    "go": GO_INSTALL,
    "cargo": CARGO_INSTALL,
    "github": GITHUB_RELEASES,
}
_ADDRESSES: Mapping[Installer, str] = {
    "pip": f"https://{PYTHON_PACKAGES[0].host}/simple",
    "npm": f"https://{NPM[0].host}",
    "go": f"https://{GO_INSTALL[0].host}",
    "cargo": f"https://{CARGO_INSTALL[0].host}",
    "github": "https://api.github.com",
}
_FIRST: Mapping[Installer, tuple[str, ...]] = {
    "pip": ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "npm": ("npm_config_registry", "NPM_CONFIG_REGISTRY"),
    "go": ("GOPROXY",),
}
_FURTHER: Mapping[Installer, tuple[str, ...]] = {
    "pip": ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Source:
    """Where one installer looks."""

    url: str  # What is asked about packages, without a slash at its end; empty where that is not known
    hosts: tuple[str, ...]  # Where a box has to connect to, each `HOST` or `HOST:PORT`


Sources = Mapping[Installer, Source]
"""Where each installer looks."""


def sources_of(env: Mapping[str, str], sets: HostSets = HOST_SETS) -> Sources:
    """What a person's settings mean for installers.

    Args:
        env: `settings.env`, which every command in a box sees: PIP_INDEX_URL, npm_config_registry, GOPROXY and others.
        sets: The sets of hosts, mirrors considered (`membrane.grant.host_sets(settings.mirrors)`).
    """
    return {installer: _source(installer, env, sets) for installer in INSTALLERS}


def may_ask(url: str) -> bool:
    """Whether an address may be asked: over HTTPS, or on this machine itself; never with a user name in it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return safe and bool(host) and "@" not in parts.netloc


def word_of(target: Target) -> str:
    """How a host is written after `--net`."""
    return bracketed(target.host) if target.port == HTTPS else str(target)


def _source(installer: Installer, env: Mapping[str, str], sets: HostSets) -> Source:
    name = _SETS[installer]
    mirror = () if sets.get(name) == HOST_SETS[name] else sets.get(name, ())
    first = _addresses(env, _FIRST.get(installer, ()))
    hosts = [*mirror, *_targets(first), *_targets(_addresses(env, _FURTHER.get(installer, ())))]
    if not mirror and (not first or _targets(first) & set(_HOSTS[installer])):
        hosts += [target for target in _HOSTS[installer] if not _is_unasked(target, env)]
    known = first[0].rstrip("/") if first else "" if mirror else _ADDRESSES[installer]
    return Source(known if may_ask(known) else "", tuple(dict.fromkeys(map(word_of, hosts))))


def _addresses(env: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Every address in these variables, in order; some hold several."""
    words = " ".join(env.get(name, "") for name in names).replace(",", " ").replace("|", " ").split()
    # uv writes NAME=ADDRESS.
    found = (word if word.startswith("http") else word.partition("=")[2] for word in words)
    return [word for word in found if word.startswith(("https://", "http://"))]


def _targets(addresses: Iterable[str]) -> set[Target]:
    found = set()
    for address in addresses:
        # A user name, or what is no host: it was never said that this may be reached.
        with suppress(HostNotUnderstood):
            found.add(parse_url(address))
    return found


def _is_unasked(target: Target, env: Mapping[str, str]) -> bool:
    """Whether a person has switched off what this host is asked for."""
    return target == GO_INSTALL[1] and env.get("GOSUMDB", "") == "off"
