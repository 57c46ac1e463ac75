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
    for path in shelf.versions.iterdir():
        name = path.name
        if name.endswith(".lock"):
            if not shelf.version(name.removesuffix(".lock")).exists() and hold_file(path, alone=True) is not None:
                path.unlink(missing_ok=True)
        elif not name.startswith((DEAD, MAKING)) and name != newest and _is_unused(shelf, name, now - KEPT):
            yield _renamed(path)


def _is_unused(shelf: Shelf, digest: str, since: datetime) -> bool:
    """Whether nobody holds a version, and nobody did after that time. Asked by whoever has the turn."""
    held = hold_file(shelf.lock_of(digest), alone=True)
    if held is None:
        return False
    used = shelf.lock_of(digest).stat().st_mtime
    held.let_go()
    return used < since.timestamp()


def _reap_forgotten(shelf: Shelf, now: datetime) -> None:
    with contextlib.suppress(OSError):
        with shelf.turn():
            names = [path.name for path in shelf.versions.iterdir()]
            digests = [name for name in names if not name.startswith((DEAD, MAKING)) and not name.endswith(".lock")]
            if not all(_is_unused(shelf, digest, now - FORGOTTEN) for digest in digests):
                return
            forget_state(shelf.folder)
            shelf.link.unlink(missing_ok=True)
            dead = [_renamed(shelf.version(digest)) for digest in digests]
        for path in dead:
            remove_tree(path)


def _renamed(path: Path) -> Path:
    return path.rename(path.with_name(f"{DEAD}{secrets.token_hex(8)}"))
