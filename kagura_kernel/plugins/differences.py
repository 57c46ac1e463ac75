"""What is other about a plugin than it was: in its files, and in what it asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.plugins.content import MAX_DEPTH

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginPermissions
    from kagura_kernel.plugins.manifest import Found

_MAX_TRACED = 1000
_SHOWN_FILES = 12
_WORDS = (("reads", "read"), ("writes", "write"), ("reaches", "net"))


@dataclass(frozen=True, slots=True)
class Difference:
    """What is other; paths are relative to the plugin's directory."""

    versions: tuple[str, str]  # Before, and now
    changed: tuple[str, ...]  # Files with other bytes, or another execute bit
    added: tuple[str, ...]
    removed: tuple[str, ...]
    asks_more: tuple[str, ...]  # Permissions that it did not ask for before, each as `reaches example.org`
    asks_less: tuple[str, ...]  # Those that it asks for no more
    asks_still: tuple[str, ...]  # Those that it asks for as before
    modules: tuple[str, ...] = ()  # Those that guest code could not import from it before

    @property
    def files(self) -> str:
        """The files, for a person."""
        told = [
            *(f"{path} changed" for path in self.changed),
            *(f"{path} added" for path in self.added),
            *(f"{path} removed" for path in self.removed),
        ]
        more = len(told) - _SHOWN_FILES
        return ", ".join([*told[:_SHOWN_FILES], *([f"{more} more"] if more > 0 else [])]) or "none changed"

    @property
    def permissions(self) -> str:
        """The permissions, for a person."""
        told = [
            f"{word}: {', '.join(entries)}"
            for word, entries in (("new", self.asks_more), ("gone", self.asks_less), ("as before", self.asks_still))
            if entries
        ]
        return "; ".join(told) or "none, as before"

    def lines(self) -> Sequence[str]:
        """All of it for a person, each a line."""
        before, now = self.versions
        version = [f"version: {before}, now {now}"] if before != now else []
        modules = [f"new modules: {', '.join(self.modules)}"] if self.modules else []
        return [*version, f"files: {self.files}", f"permissions: {self.permissions}", *modules]


def difference(before: Found, now: Found) -> Difference:
    """What is other about a plugin."""
    old, new = before.content, now.content
    same = old.files.keys() & new.files.keys()
    asked, asks = _asked(before.manifest.permissions), _asked(now.manifest.permissions)
    return Difference(
        versions=(before.manifest.version, now.manifest.version),
        changed=tuple(
            sorted(
                path
                for path in same
                if old.files[path] != new.files[path] or (path in old.executable) != (path in new.executable)
            )
        ),
        added=tuple(sorted(new.files.keys() - same)),
        removed=tuple(sorted(old.files.keys() - same)),
        asks_more=tuple(one for one in asks if one not in asked),
        asks_less=tuple(one for one in asked if one not in asks),
        asks_still=tuple(one for one in asks if one in asked),
        modules=tuple(one for one in now.manifest.host_modules if one not in before.manifest.host_modules),
    )


def _asked(permissions: PluginPermissions) -> list[str]:
    return [f"{word} {entry}" for word, kind in _WORDS for entry in getattr(permissions, kind)]


Trace = frozenset[tuple[object, ...]]
"""What the system tells of a plugin's files without their being read; that of other bytes is another one."""


def trace(root: Path) -> Trace:
    """The trace of what lies in a directory now; costs a few calls of the system, and follows no link.

    Times of change are in it, which nobody can set as they like.
    """
    return frozenset(_traced(str(root), 1))


def _traced(directory: str, depth: int) -> Iterator[tuple[object, ...]]:
    try:
        with os.scandir(directory) as entries:
            for _, entry in zip(range(_MAX_TRACED), entries, strict=False):
                one = entry.stat(follow_symlinks=False)
                yield entry.path, one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns
                if depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                    yield from _traced(entry.path, depth + 1)
    except OSError as error:
        yield directory, error.errno
