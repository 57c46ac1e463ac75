"""Which command comes from which package: what is shipped, and a person's own file over it.

A file is read as data and no more (`kit.document`). Nothing of it is run, and a package is only ever a name.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood
from kagura_kernel.kit.definitions.document import MAX_BYTES, NotReadable, hint, read_document
from kagura_kernel.kit.definitions.toolsets import Installer
from kagura_kernel.kit.packages.package_sources import INSTALLERS, Package, parse_package, word_of
from kagura_kernel.membrane.egress.hosts import HTTPS, parse_target

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
