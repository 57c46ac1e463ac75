"""Which memory a setting means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.memory.store import MemoryStore

if TYPE_CHECKING:
    from kagura_kernel.memory.sqlite.meanings import TextEncoder

FILE = "memory.sqlite3"
"""Its name in the data directory, where the settings name none."""


def open_memory(
    where: str,
    home: Path,
    environ: Mapping[str, str],
    *,
    clock: Clock | None = None,
    meaning: bool = True,
) -> MemoryStore:
    """The memory that a setting names; a file is made where there is none, a server is not asked yet.

    Args:
        where: Empty for the file in the data directory, a path, a `postgresql://` URL, `cloud`, or an `https://` address.
        home: Our data directory.
        environ: Variables.
        clock: The time.
        meaning: Whether memories are found by meaning too, where the optional model is installed.

    Raises:
        MemoryUnavailable: it cannot be used.
    """
    from kagura_kernel.memory.sqlite.store import SqliteMemory

    path = Path(where).expanduser() if where else home / FILE
    return SqliteMemory(path, clock=clock or SystemClock(), encoder=_encoder() if meaning else None)


def _encoder() -> TextEncoder | None:
    return None
