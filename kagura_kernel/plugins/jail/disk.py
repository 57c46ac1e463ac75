"""Room on the disks of the host that a jail may write to: what a plugin cannot be left to use up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from kagura_kernel.domain.clock import Clock

RESERVE = 2**30
"""Bytes that have to stay free, or a tenth of a small file system."""

INTERVAL = 0.25
"""Seconds between looks. What can be written meanwhile is far less than the reserve."""

Look = Callable[[Path], os.statvfs_result]


def why_full(path: Path, found: os.statvfs_result) -> str:
    """Why nothing more may be written there, half a sentence; empty while there is room."""
    total = found.f_blocks * found.f_frsize
    free = found.f_bavail * found.f_frsize
    if free < min(RESERVE, total // 10):
        return f"the disk of {path} has no more than {free // 2**20} MiB left"
    # Some file systems do not count files.
    if found.f_files and found.f_favail < found.f_files // 20:
        return f"the disk of {path} has no more than {found.f_favail} files left"
    return ""


async def until_full(paths: Sequence[Path], clock: Clock, look: Look = os.statvfs) -> str:
    """Return when one of these places has no room for a plugin any more: why.

    A place that is gone has none.
    """
    while True:
        for path in paths:
            try:
                # A disk on another machine may take its time.
                why = why_full(path, await asyncio.to_thread(look, path))
            except OSError as error:
                return f"{path} cannot be looked at any more ({(error.strerror or str(error)).lower()})"
            if why:
                return why
        await clock.sleep(INTERVAL)
