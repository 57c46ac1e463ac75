"""Takes away what no build and no run needs any more: half-made versions of dead processes, old versions, old kits."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from kagura_kernel.kit.staging.holding import hold_directory, hold_file
from kagura_kernel.kit.staging.state import forget_state
from kagura_kernel.kit.staging.versions import DEAD, LINK, MAKING, Shelf
from kagura_kernel.kit.staging.writing import remove_tree

KEPT = timedelta(minutes=10)
"""How long a version stays after its latest use, when another is newer."""
FEW = 8
MANY = 64
"""Of a kit that changes all the time, so many older versions stay that long; those in use, and the newest, always."""
_STAY = ((MANY, timedelta(0)), (FEW, timedelta(seconds=30)), (0, KEPT))
FORGOTTEN = timedelta(days=30)
"""How long the kits of an agent stay after their latest use."""


def reap(shelf: Shelf, now: datetime) -> None:
    """Take away what is left over in one folder. What cannot be taken away now is tried again by the next build."""
    with contextlib.suppress(OSError):
        with shelf.turn():
            dead = [*_left_behind(shelf), *_outlived(shelf, now)]
        for path in dead:
            remove_tree(path)


def reap_forgotten(root: Path, now: datetime, *, but: str) -> None:
    """Take away the kits of agents that were not used for a long time.

    Their folders stay, with nothing in them: somebody may be about to use one.

    Args:
        root: The folder of all kits.
        now: The time.
        but: Whose kits stay, whatever their age.
    """
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            if folder.name != but and (folder / LINK).is_symlink():
                _reap_forgotten(Shelf(root, folder.name), now)


def _left_behind(shelf: Shelf) -> Iterator[Path]:
    """What processes that are gone were making, and what they had begun to take away."""
    for path in shelf.versions.iterdir():
        if path.name.startswith(DEAD):
            yield path
        elif path.name.startswith(MAKING) and (held := hold_directory(path)) is not None:
            yield _renamed(path)
            held.let_go()
    for path in shelf.folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def _outlived(shelf: Shelf, now: datetime) -> Iterator[Path]:
    newest = shelf.newest()
    unused: list[tuple[float, Path]] = []
    for path in shelf.versions.iterdir():
        name = path.name
        if name.endswith(".lock"):
            if not shelf.version(name.removesuffix(".lock")).exists() and hold_file(path, alone=True) is not None:
                path.unlink(missing_ok=True)
        elif (
            not name.startswith((DEAD, MAKING)) and name != newest and (used := _unused_since(shelf, name)) is not None
        ):
            unused.append((used, path))
    unused.sort(reverse=True)
    for number, (used, path) in enumerate(unused):
        # Whoever follows the link without holding a version has a while to read it.
        stays = next(longest for most, longest in _STAY if number >= most)
        if used < (now - stays).timestamp() or not stays:
            yield _renamed(path)
            # Whoever wants to hold it waits for its turn.
            shelf.lock_of(path.name).unlink(missing_ok=True)


def _unused_since(shelf: Shelf, digest: str) -> float | None:
    """When a version was last used, seconds since 1970; None while somebody holds it. Asked by whoever has the turn."""
    held = hold_file(shelf.lock_of(digest), alone=True)
    if held is None:
        return None
    used = shelf.lock_of(digest).stat().st_mtime
    held.let_go()
    return used


def _reap_forgotten(shelf: Shelf, now: datetime) -> None:
    with contextlib.suppress(OSError):
        with shelf.turn():
            names = [path.name for path in shelf.versions.iterdir()]
            digests = [name for name in names if not name.startswith((DEAD, MAKING)) and not name.endswith(".lock")]
            uses = [_unused_since(shelf, digest) for digest in digests]
            if any(used is None or used >= (now - FORGOTTEN).timestamp() for used in uses):
                return
            forget_state(shelf.folder)
            shelf.link.unlink(missing_ok=True)
            dead = [_renamed(shelf.version(digest)) for digest in digests]
        for path in dead:
            remove_tree(path)


def _renamed(path: Path) -> Path:
    return path.rename(path.with_name(f"{DEAD}{secrets.token_hex(8)}"))
