"""Further directories of the host in a box: where they may lie there, and whether they are still those that it shows.

Only decides, and looks; how each back-end shows them is its own affair.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec

_TAKEN = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/proc", "/root"),
    *("/run", "/sbin", "/sys", "/tmp", "/usr", "/var", WORKSPACE),  # noqa: S108 - the box's own /tmp
)
"""What a box of some back-end has: a directory there would hide it, or could not be put there at all."""


def refuse_further(spec: BoxSpec, backend: str) -> None:
    """Say no to places that a further directory cannot have in every box.

    Raises:
        SandboxUnsupported: it is not an absolute path in its shortest form, is the box's own, or lies in another one.
    """
    targets: list[str] = []
    for source, target in spec.extra_read_only:
        if why := _why_not(source, target, targets):
            raise SandboxUnsupported(backend, f"showing {source} as {target}: {why}")
        targets.append(target)


def _why_not(source: Path, target: str, others: list[str]) -> str:
    if not source.is_absolute():
        return "the path on the host is not absolute"
    straight = posixpath.normpath(target) == target and not target.startswith("//")
    if not target.startswith("/") or target == "/" or not straight or "\0" in target:
        return "the path in the box is not an absolute path in its shortest form"
    for taken in (*_TAKEN, *others):
        if _within(target, taken) or _within(taken, target):
            return f"the box has {taken} already"
    return ""


def _within(path: str, place: str) -> bool:
    return f"{path}/".startswith(f"{place}/")


def identities(spec: BoxSpec) -> tuple[tuple[int, int] | None, ...]:
    """Which directories the sources are now, as (device, number); None for one that is gone.

    What is mounted in a box stays what it was when another directory takes its name.
    """
    return tuple(_identity(source) for source, _ in spec.extra_read_only)


def _identity(source: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(source)
    except OSError:
        return None
    return found.st_dev, found.st_ino
