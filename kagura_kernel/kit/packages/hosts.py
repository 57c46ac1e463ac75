"""Toolsets to what installs them, and to the exact hosts that takes: granted to a run only if it can need them.

Deciding is pure; what has to be asked of a package registry is asked through a callable.

The files of a release, and which of them a machine can run. Pure.

Makers name the files of their releases as they like. What is chosen is a file for Linux and for the machine, an archive
or a program, whose checksum is known; where several are left, the one for the usual C library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from kagura_kernel.domain.errors import ToolHostsUnresolved
from kagura_kernel.domain.kit import UnresolvedTool
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.kit.definitions.toolsets import Installer, Pin, parse_pin
from kagura_kernel.kit.packages.registry import KnownTool, Package, Registry, Sources, sources_of

ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip", ".gz")
"""What a box can unpack with Python alone."""

_MACHINES = {
    "x86_64": re.compile(r"(?:^|[^a-z0-9])(?:x86[_-]?64|amd64|x64|64bit|linux64)(?:[^a-z0-9]|$)"),
    "aarch64": re.compile(r"(?:^|[^a-z0-9])(?:aarch64|arm64)(?:[^a-z0-9]|$)"),
    "armv7l": re.compile(r"(?:^|[^a-z0-9])(?:armv7l?|armhf)(?:[^a-z0-9]|$)"),
    "riscv64": re.compile(r"(?:^|[^a-z0-9])riscv64(?:gc)?(?:[^a-z0-9]|$)"),
}
_LINUX = re.compile(r"linux", re.ASCII)
_ELSEWHERE = re.compile(
    r"android|darwin|macos|apple|windows|win32|win64|freebsd|openbsd|netbsd|illumos|solaris|wasm|musleabi"
)
_NO_PROGRAM = re.compile(
    r"\.(?:deb|rpm|apk|msi|exe|dmg|pkg|vsix|whl|jar|appimage|flatpak|snap|sha\d+(?:sum)?|md5|sig|asc|minisig|sbom|json|ya?ml|txt|"
    r"pem|crt|cert|intoto\.jsonl|zst|7z|rb|tar)$|(?:^|[._-])(?:debug|debuginfo|dbg|src|source|sources|docs|profile)(?:[._-]|$)"
)
# Not every one of these is static, and the usual boxes have the other C library.
_MUSL = re.compile(r"musl")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of a release."""

    name: str  # Its file name
    url: str  # Where it lies
    sha256: str  # Its checksum, in hex
    size: int = 0  # Bytes, as the release says


def is_for_linux(name: str) -> bool:
    """Whether a file may be a program for Linux, on whatever machine."""
    low = name.lower()
    named = any(pattern.search(low) for pattern in _MACHINES.values())
    return (named or _LINUX.search(low) is not None) and not _ELSEWHERE.search(low) and not _NO_PROGRAM.search(low)


def choose(
    assets: Sequence[Asset], machine: str, command: str, patterns: Mapping[str, str] | None = None
) -> Asset | None:
    """The file for a machine; None when there is none.

    Args:
        assets: Those of the release.
        machine: As `uname -m` has it.
        command: The program that is wanted.
        patterns: By machine, the pattern of the file's name, for makers whose names say too little.
    """
    if patterns:
        pattern = patterns.get(machine, "")
        return next((one for one in assets if fnmatchcase(one.name, pattern)), None)
    fits = [one for one in assets if is_for_linux(one.name) and _is_of(one.name.lower(), machine)]
    return min(fits, key=lambda one: _rank(one.name.lower(), command.lower()), default=None)


def _is_of(name: str, machine: str) -> bool:
    asked = _MACHINES.get(machine)
    if asked is None:
        return machine.lower() in name
    # Nobody writes down a machine that everybody has.
    anonymous = machine == "x86_64" and not any(pattern.search(name) for pattern in _MACHINES.values())
    return asked.search(name) is not None or (
        anonymous and not re.search(r"i[3-6]86|386|32bit|ppc|powerpc|s390|arm|loong|mips|sparc", name)
    )


def _rank(name: str, command: str) -> tuple[bool, bool, bool, int, str]:
    words = re.split(r"[^a-z0-9]+", name)
    ours = name.startswith(command) or command in words
    packed = not name.endswith(ARCHIVES)
    return (not ours, _MUSL.search(name) is not None, packed, len(name), name)


def parse_sums(text: str, single: str = "") -> dict[str, str]:
    """File names to checksums, from a file of them as `sha256sum` writes it.

    Args:
        text: What the file holds.
        single: The only file that it can be about, when it may hold the sum alone.
    """
    found = {}
    for line in text.splitlines()[:10_000]:
        words = line.strip().split()
        if words and re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
            name = words[-1].lstrip("*").rpartition("/")[2] if len(words) > 1 else single
            if name:
                found[name] = words[0].lower()
    return found


MAX_AT_ONCE = 8


class LookUpFailed(Exception):
    """A package is not there, or nobody could be asked; the text is half a sentence."""


class Installable(Protocol):
    """What has to be known of a toolset; remote ones have no command."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def command(self) -> str:
        """What is started in the box; empty for a remote server."""
        ...

    @property
    def version(self) -> str:
        """Of what: empty for the newest, a version, `INSTALLER:PACKAGE[@VERSION]`, or `off`."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What a package registry says about a package."""

    version: str  # The exact one
    hosts: tuple[str, ...] = ()  # Where its files lie, as far as the registry says so, each `HOST` or `HOST:PORT`
    assets: tuple[Asset, ...] = ()  # Of a release: its files for Linux whose checksum is known


LookUp = Callable[[Package], Found]
"""Asks about a package, and may take seconds; raises `LookUpFailed`."""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """How the command of one toolset is installed in a box that does not have it."""

    toolset: str  # Its name
    command: str  # The program that is wanted; of `uvx mcp-server-time` it is uvx
    package: Package  # What is installed, in this version; where the version is empty, the newest that the box is given
    # The version that the definition asks for; empty when any will do, so that what the box has is taken
    asked: str = ""
    companions: tuple[Package, ...] = ()  # Further packages of the same installer that it does not work without
    hosts: tuple[str, ...] = ()  # Where the box has to connect to for that, each `HOST` or `HOST:PORT`
    assets: tuple[Asset, ...] = ()  # Of a release: its files for Linux
    # Of a release: by machine, the pattern of the file's name, where makers' names say too little
    patterns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolHosts:
    """What a run's toolsets need so that they can be installed."""

    needed: bool = False  # Whether any of them can need to be installed at all
    # What has to be opened, each `HOST` or `HOST:PORT`, sorted; empty when nothing is needed
    hosts: tuple[str, ...] = ()
    # Toolsets whose hosts could not be found out; because of them `hosts` are all that any installer needs
    unresolved: tuple[UnresolvedTool, ...] = ()
    # By a toolset's name, how it is installed; not there for one that is never installed, and for one of which nobody
    # knows how
    installs: Mapping[str, InstallPlan] = field(default_factory=dict)


def tool_hosts(
    toolsets: Sequence[Installable],
    registry: Registry,
    *,
    look_up: LookUp | None = None,
    sources: Sources | None = None,
    strict: bool = False,
) -> ToolHosts:
    """What these toolsets need so that they can be installed. Blocks while packages are looked up.

    Args:
        toolsets: A run's; those of sub-agents too.
        registry: Which command comes from which package.
        look_up: Asks the package registries; None asks nobody and takes every package for one that is there.
        sources: Where installers look, mirrors considered; None is the public registries.
        strict: Raise rather than open every host that installs.

    Raises:
        ToolHostsUnresolved: strict, and not all could be found out.
    """
    sources = sources_of({}) if sources is None else sources
    needs = [need for toolset in toolsets if (need := _need(toolset, registry)) is not None]
    answers = _look_up({one.tool.package for one in needs if one.tool is not None}, look_up)
    hosts: set[str] = set()
    unresolved: list[UnresolvedTool] = []
    installs: dict[str, InstallPlan] = {}
    for need in needs:
        if need.runs:
            hosts.update(sources[need.runs].hosts)
        answer = answers[need.tool.package] if need.tool is not None else need.unknown
        plan = None if need.tool is None else _plan(need, need.tool, answer, sources)
        if plan is not None:
            installs[need.toolset] = plan
            hosts.update(plan.hosts)
        if isinstance(answer, str) and answer:
            unresolved.append(UnresolvedTool(need.toolset, need.command, need.version, answer))
    if unresolved:
        if strict:
            raise ToolHostsUnresolved([f"{one.toolset}: {one.command}: {one.reason}" for one in unresolved])
        hosts.update(*(source.hosts for source in sources.values()))
    return ToolHosts(bool(needs), tuple(sorted(hosts)), tuple(unresolved), installs)


@dataclass(frozen=True, slots=True)
class _Need:
    """A toolset that can need to be installed."""

    toolset: str  # Its name
    command: str  # What it starts
    version: str  # As the definition has it
    asked: str = ""  # The exact version that was asked for
    tool: KnownTool | None = None  # Where it comes from; None when that is not known, or when nothing installs it
    runs: Installer | Literal[""] = ""  # The installer that its command asks for what it runs; empty for none
    unknown: str = ""  # Why it is not known where it comes from; empty for a runner that nothing installs


def _need(toolset: Installable, registry: Registry) -> _Need | None:
    """What can be needed for a toolset; None for nothing: remote, never installed, or in every box."""
    command, pin = toolset.command, parse_pin(toolset.version)
    # What has a path is a file of the box.
    if not command or "/" in command or pin.off:
        return None
    runs: Installer | Literal[""] = registry.runners.get(command, "")
    tool = _tool(pin, registry.tools.get(command))
    if tool is not None:
        # A version that belongs to no package of its own was checked to be one of the registry's.
        return _Need(toolset.name, command, toolset.version, pin.version, tool, runs)
    if runs:
        return _Need(toolset.name, command, toolset.version, runs=runs)
    if command in registry.present:
        return None
    return _Need(toolset.name, command, toolset.version, unknown="no registry says which package it comes from")


def _tool(pin: Pin, known: KnownTool | None) -> KnownTool | None:
    """Where a command comes from: the package that was named, otherwise the one that the registry knows."""
    if pin.installer:
        package = Package(pin.installer, pin.package, pin.version)
        ours = known is not None and known.package.at("") == package.at("")
        return replace(known, package=package) if known is not None and ours else KnownTool(package)
    if known is not None and pin.version:
        return replace(known, package=known.package.at(pin.version))
    return known


def _look_up(packages: Collection[Package], look_up: LookUp | None) -> dict[Package, Found | str]:
    """What is found of each package, or why nothing is."""

    def ask(package: Package) -> Found | str:
        if look_up is None:
            return Found(package.version)
        try:
            return look_up(package)
        except LookUpFailed as problem:
            return str(problem)

    if len(packages) <= 1:
        return {package: ask(package) for package in packages}
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(MAX_AT_ONCE, len(packages)), "look-up") as threads:
        return dict(zip(packages, threads.map(ask, packages), strict=True))


def _plan(need: _Need, tool: KnownTool, answer: Found | str | None, sources: Sources) -> InstallPlan | None:
    """How it is installed; None for a release of which no file is known."""
    found = answer if isinstance(answer, Found) else Found(tool.package.version)
    if tool.package.installer == "github" and not found.assets:
        return None
    hosts = {*sources[tool.package.installer].hosts, *found.hosts, *tool.hosts}
    return InstallPlan(
        toolset=need.toolset,
        command=need.command,
        package=tool.package.at(found.version),
        asked=need.asked,
        companions=tool.companions,
        hosts=tuple(sorted(hosts)),
        assets=found.assets,
        patterns=tool.assets,
    )
