"""Which command comes from which package, and where installers look for it, with a person's own word over ours.

A person's file is read as data and no more (`kit.document`). Nothing of it is run.

A mirror (`settings.mirrors`) says which hosts a box connects to; a variable (`settings.env`) says which address an
installer asks. Where there is a mirror and no variable, the address that answers questions is not known, and nobody is
asked.

A package is named in a definition that may come from anywhere, and its name becomes an argument of an installer. So a
name is only ever a name: no option, no address, no path, no range of versions (`kit.toolsets.parse_pin`).
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.kit.definitions.document import MAX_BYTES, NotReadable, hint, read_document
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
    parse_target,
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


SHIPPED = "tool_registry.yaml"
MAX_TOOLS = 2000

_COMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9._*?+-]{1,200}", re.ASCII)
_MACHINE = re.compile(r"[a-z0-9_]{1,32}", re.ASCII)
_SECTIONS = ("tools", "runners", "present")
_FIELDS = ("package", "with", "hosts", "assets")
_SAID_FOR_GITHUB = "the files of a release are named for github alone"


@dataclass(frozen=True, slots=True)
class KnownTool:
    """Where one command comes from."""

    package: Package  # What installs it
    companions: tuple[Package, ...] = ()  # Further packages of the same installer that it does not work without
    hosts: tuple[str, ...] = ()  # Further hosts that installing it connects to, each `HOST` or `HOST:PORT`
    # Of a release: a machine (`x86_64`, `aarch64`) to the pattern of its file's name
    assets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registry:
    """Commands and where they come from."""

    tools: Mapping[str, KnownTool] = field(default_factory=dict)  # By command
    # Commands that fetch by themselves what they run, with the installer whose hosts they ask
    runners: Mapping[str, Installer] = field(default_factory=dict)
    present: frozenset[str] = frozenset()  # Commands that every box has

    def over(self, other: Registry) -> Registry:
        """Both; what this one says of a command replaces what the other says."""
        return Registry(
            MappingProxyType({**other.tools, **self.tools}),
            MappingProxyType({**other.runners, **self.runners}),
            (other.present | self.present) - frozenset(self.tools),
        )


def load_registry(own: Path | None = None) -> Registry:
    """What is shipped, and over it a person's own file.

    Args:
        own: `settings.tool_registry`; None for none.

    Raises:
        ConfigurationError: the file cannot be read or used; with every problem.
    """
    if own is None:
        return _shipped()
    source = f"The registry of tools {str(own)!r}"
    try:
        with own.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(source, [f"it cannot be read: {error.strerror}"]) from error
    return parse_registry(data, source, own.name).over(_shipped())


def parse_registry(data: bytes, source: str, name: str = "") -> Registry:
    """A registry from YAML or TOML.

    Args:
        data: The file.
        source: What it is called in errors.
        name: Its file name, whose suffix tells the form; empty leaves that to the text.

    Raises:
        ConfigurationError: it is none; with every problem.
    """
    problems: list[str] = []
    found = _read(data, name, problems)
    problems += [f"it says {why}" for why in _unknown(found, _SECTIONS)]
    registry = Registry(
        MappingProxyType(dict(_tools(found.get("tools", {}), problems))),
        MappingProxyType(dict(_runners(found.get("runners", {}), problems))),
        frozenset(_present(found.get("present", []), problems)),
    )
    if problems:
        raise ConfigurationError(source, problems)
    return registry


@cache
def _shipped() -> Registry:
    data = importlib.resources.files(__package__ or "").joinpath(SHIPPED).read_bytes()
    return parse_registry(data, SHIPPED, SHIPPED)


def _read(data: bytes, source: str, problems: list[str]) -> Mapping[str, Any]:
    try:
        found, twice = read_document(data, source)
    except NotReadable as problem:
        problems.append(str(problem).partition(": write ")[0])
        return {}
    problems += twice
    return found


def _tools(given: Any, problems: list[str]) -> Iterator[tuple[str, KnownTool]]:
    for command, entry in _table(given, "tools", problems):
        place = f"tools.{command}"
        fields = {"package": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, dict):
            problems.append(f"{place}: must be INSTALLER:PACKAGE, or a table with {', '.join(_FIELDS)}")
            continue
        problems += [f"{place}: it says {why}" for why in _unknown(fields, _FIELDS)]
        package = _package(fields.get("package"), f"{place}.package", problems)
        if package is not None:
            yield command, _known(package, fields, place, problems)


def _known(package: Package, fields: Mapping[Any, Any], place: str, problems: list[str]) -> KnownTool:
    further = [
        _package(f"{package.installer}:{name}", f"{place}.with", problems)
        for name in _texts(fields.get("with", []), f"{place}.with", problems)
    ]
    assets = fields.get("assets", {})
    patterns = {str(machine): str(pattern) for machine, pattern in assets.items()} if isinstance(assets, dict) else {}
    sound = all(_MACHINE.fullmatch(one) and _PATTERN.fullmatch(patterns[one]) for one in patterns)
    if not isinstance(assets, dict) or not sound:
        problems.append(f"{place}.assets: must be a table of machines (x86_64, aarch64) to patterns of file names")
    elif patterns and package.installer != "github":
        problems.append(f"{place}.assets: {_SAID_FOR_GITHUB}")
    return KnownTool(
        package,
        tuple(one for one in further if one is not None),
        tuple(_hosts(_texts(fields.get("hosts", []), f"{place}.hosts", problems), f"{place}.hosts", problems)),
        MappingProxyType(patterns),
    )


def _runners(given: Any, problems: list[str]) -> Iterator[tuple[str, Installer]]:
    for command, word in _table(given, "runners", problems):
        installer = next((one for one in INSTALLERS if one == word), None)
        if installer is None:
            problems.append(f"runners.{command}: the installer must be one of {', '.join(INSTALLERS)}")
        else:
            yield command, installer


def _present(given: Any, problems: list[str]) -> Iterator[str]:
    for command in _texts(given, "present", problems):
        if _COMMAND.fullmatch(command):
            yield command
        else:
            problems.append(f"present: {_shown(command)} is no name of a command")


def _package(text: Any, place: str, problems: list[str]) -> Package | None:
    try:
        return parse_package(text if isinstance(text, str) else "")
    except ValueError as problem:
        problems.append(f"{place}: {problem}")
        return None


def _hosts(words: Iterable[str], place: str, problems: list[str]) -> Iterator[str]:
    for word in words:
        try:
            yield word_of(parse_target(word, HTTPS))
        except HostNotUnderstood as error:
            problems.append(f"{place}: {'a host has no user name' if '@' in word else error.message}")


def _table(given: Any, place: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    if not isinstance(given, dict) or len(given) > MAX_TOOLS:
        problems.append(f"{place}: must be a table of at most {MAX_TOOLS} commands")
        return
    for command, value in given.items():
        if isinstance(command, str) and _COMMAND.fullmatch(command):
            yield command, value
        else:
            problems.append(f"{place}: {_shown(command)} is no name of a command")


def _texts(given: Any, place: str, problems: list[str]) -> list[str]:
    if isinstance(given, list) and all(isinstance(one, str) for one in given) and len(given) <= MAX_TOOLS:
        return given
    problems.append(f"{place}: must be a list of texts")
    return []


def _unknown(given: Mapping[Any, Any], known: Sequence[str]) -> Iterator[str]:
    for word in given:
        if word not in known:
            yield f"{_shown(word)}, which is none of {', '.join(known)}{hint(str(word), known)}"


def _shown(word: Any) -> str:
    return ascii(str(word)[:60])
