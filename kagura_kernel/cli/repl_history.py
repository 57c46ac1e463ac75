"""The lines of earlier conversations: remembered without secrets, in a file that only this user can read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

MOST = 2000
"""So many lines are kept."""


class History:
    """One file, a line for each entry; what cannot be read or written is as if nothing were remembered.

    Args:
        path: Where it lies.
        clean: Takes secrets out of a line.
    """

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        self._path = path
        self._clean = clean

    def lines(self) -> list[str]:
        """What is remembered, the oldest first; the file is made shorter when it has grown too long."""
        try:
            found = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        if len(found) > 2 * MOST:
            with contextlib.suppress(OSError):
                self._write("".join(f"{line}\n" for line in found[-MOST:]))
        return found[-MOST:]

    def add(self, line: str) -> str:
        """Remember a line; returns it as it is remembered."""
        told = self._clean(" ".join(line.split()))
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                # A file that was there may have been made by somebody with other habits.
                os.fchmod(file, 0o600)
                os.write(file, f"{told}\n".encode("utf-8", "replace"))
            finally:
                os.close(file)
        return told

    def _write(self, text: str) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, text.encode("utf-8", "replace"))
        finally:
            os.close(file)
        beside.replace(self._path)
