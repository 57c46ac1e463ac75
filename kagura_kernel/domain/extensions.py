"""Parts that other packages bring: found by their entry points, loaded when a person names one, and never otherwise.

An entry point only says where something lies. Its code is run the first time that its name is used, so a package that
merely is installed, by whomever, does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from kagura_kernel.domain.errors import ExtensionBroken
from kagura_kernel.domain.late_dataclass import dataclass

BACKENDS, BRAINS = "kagura_kernel.backends", "kagura_kernel.brains"
TOOLS, CREDENTIALS, MEMORIES = "kagura_kernel.tools", "kagura_kernel.credentials", "kagura_kernel.memories"
TRANSPORTS = "kagura_kernel.transports"

KINDS = {
    BACKENDS: "back-end",
    BRAINS: "brain",
    TOOLS: "tool",
    CREDENTIALS: "credential provider",
    MEMORIES: "memory",
    TRANSPORTS: "transport",
}
"""What the entry points of each group give."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extension:
    """One part that an installed package brings."""

    group: str  # Its group of entry points
    name: str  # What a person calls it
    package: str  # The package and its version
    problem: str  # Why it cannot be used, as far as that is seen without running it; empty when nothing is seen
    entry: EntryPoint  # Where it lies

    @property
    def kind(self) -> str:
        """What it is, in a word or two."""
        return KINDS[self.group]


def installed(
    group: str, built_in: Collection[str] = (), *, found: Iterable[EntryPoint] | None = None
) -> dict[str, Extension]:
    """The extensions of one group by name; nothing of them is run.

    Args:
        group: One of `KINDS`.
        built_in: Names of our own, which nobody else can take.
        found: Entry points to look at, instead of those that are installed.
    """
    by_name: dict[str, Extension] = {}
    entries = entry_points(group=group) if found is None else found
    for entry in sorted(entries, key=lambda one: (one.name, one.value)):
        other = by_name.get(entry.name)
        problem = ""
        if not _NAME.fullmatch(entry.name):
            problem = "a name is small letters, digits, - and _, at most 40, and begins with a letter"
        elif entry.name in built_in:
            problem = "the name is built in and cannot be replaced"
        elif other is not None and (other.problem or other.entry.value != entry.value):
            # Which of two comes first is an accident, so neither is used.
            problem = other.problem or f"{other.package} brings one of the same name"
        by_name[entry.name] = Extension(group, entry.name, _package(entry), problem, entry)
    return by_name


def load(extension: Extension, make: Callable[[object], T]) -> T:
    """What an extension gives, made and checked; its code is run now.

    Args:
        extension: Which.
        make: Of what the entry point names, to the part; raises when it is none.

    Raises:
        ExtensionBroken: it is none, for whatever reason.
    """
    if extension.problem:
        raise _broken(extension, extension.problem)
    # Code of a stranger: whatever it raises means that this part does not exist here, and nothing else.
    try:
        return make(extension.entry.load())
    except Exception as error:
        raise _broken(extension, f"{type(error).__name__}: {error}"[:500]) from error


def load_instance(extension: Extension, kind: type[T]) -> T:
    """What an extension names, as it stands there; its code is run now.

    Args:
        extension: Which.
        kind: What it has to be one of.

    Raises:
        ExtensionBroken: it is none, for whatever reason.
    """

    def made(named: object) -> T:
        if not isinstance(named, kind):
            raise TypeError(f"it is no `{kind.__name__}`")
        return named

    return load(extension, made)


def _broken(extension: Extension, why: str) -> ExtensionBroken:
    return ExtensionBroken(extension.kind, extension.name, extension.package, why)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
