"""The rules for known formats: compiled once in a data directory, read once in a process, and begun before all else.

They take a quarter of a second to read, and seconds to compile, most of it beside the interpreter. So this module imports
next to nothing: whatever needs a redactor soon can begin here while the redactor itself is still imported.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "redaction"
"""Where compiled rules are kept in a data directory."""
_PATIENCE = 6.0
"""Seconds that another process which compiles the same rules is waited for; a little more than it takes."""

_kept: list[Any] = []
_keeping = threading.Lock()


def scanner(folder: Path | None) -> Any:
    """The one of this process: its rules are the same wherever they are kept, and reading them again takes long.

    Args:
        folder: Where compiled rules are kept; made as 0700, and the one above it too. None keeps none.
    """
    with _keeping:
        if not _kept:
            _kept.append(_compiled(folder))
        return _kept[0]


def begin(folder: Path) -> None:
    """Begin to read the rules, or to compile them where there are none; returns at once, and again does nothing."""
    if not (_kept or _keeping.locked()):
        threading.Thread(target=_read, args=(folder,), name="kagura-rules", daemon=True).start()


def _read(folder: Path) -> None:
    # Whatever stands against it is told by the text that is looked through.
    with contextlib.suppress(Exception):
        scanner(folder)


def has_rules(folder: Path) -> bool:
    """Whether rules were compiled there by anybody. Those of an older release count: runs make them anew."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return any(not entry.name.startswith(".") for entry in entries)
    return False


def _compiled(folder: Path | None) -> Any:
    from kingfisher_sdk import Rules, Scanner

    if folder is None:
        return Scanner(Rules(cache=False), base64=False)
    # In a notebook this is often the first that makes the data directory, which is the person's alone as well.
    for one in (folder.parent, folder):
        one.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The library takes no rules from a place behind a link, and a person's data directory may be one.
    place = os.path.realpath(folder)
    with turn(folder, _PATIENCE):
        # What base64 means is looked at here, with the rules for what a word nearby gives away.
        return Scanner(Rules(cache_dir=place), base64=False)


LOCK = ".compiling"
_LOOK_SECONDS = 0.05


@contextlib.contextmanager
def turn(folder: Path, patience: float) -> Iterator[None]:
    """Let another process finish what it compiles in this folder, so that its rules are found; then it is our turn.

    Args:
        folder: Where compiled rules are kept; it is there.
        patience: Seconds. A slow one is not waited for longer: compiling twice does no harm. Nor does a folder
            without locks.
    """
    descriptor = _opened(folder)
    try:
        end = time.monotonic() + patience
        while descriptor is not None and not _taken(descriptor) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_taken(folder: Path) -> bool:
    """Whether a process compiles there now; makes nothing."""
    if not (folder / LOCK).exists() or (descriptor := _opened(folder)) is None:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None


def _taken(descriptor: int) -> bool:
    """Take the lock; False while another process has it. A file system without locks counts as taken by us."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
