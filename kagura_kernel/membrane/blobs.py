"""Contents of changed files, kept by their hash: the new ones until a person has decided, the old ones for an undo."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.outcome import content_name

FORGOTTEN_SECONDS = 3600.0
"""Age of an unfinished content that nobody can still be writing."""


class BlobStore:
    """A directory of files named by the SHA-256 of their content; 0700, files 0600, never changed once written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def put(self, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        """Store a content that comes in pieces; its hash and size. Half a content is never left behind.

        Raises:
            JournalUnwritable: the disk is full or read-only. What the pieces raise comes through as it is.
        """
        digest = hashlib.sha256()
        size = 0
        handle, unfinished = self._begun()
        try:
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    with self._translated():
                        file.write(chunk)
                with self._translated():
                    file.flush()
            self._name(unfinished, digest.hexdigest())
        finally:
            _forget(unfinished)
        return digest.hexdigest(), size

    async def keep(self, content: bytes) -> str:
        """Store a content that is there as a whole; its hash. Errors are as for `put`."""
        return self.hold(content)

    def hold(self, content: bytes) -> str:
        """The same for whoever does not wait."""
        sha256 = hashlib.sha256(content).hexdigest()
        handle, unfinished = self._begun()
        try:
            with self._translated(), os.fdopen(handle, "wb") as file:
                file.write(content)
            self._name(unfinished, sha256)
        finally:
            _forget(unfinished)
        return sha256

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that is gone afterwards; what a killed process leaves of one is pruned like half a content.

        Raises:
            JournalUnwritable: the disk is full or read-only.
        """
        with self._translated():
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = tempfile.TemporaryDirectory(dir=self._directory, prefix=".new-", ignore_cleanup_errors=True)
        with folder as name:
            yield Path(name)

    def _begun(self) -> tuple[int, Path]:
        """A file for a content that is not whole yet: its descriptor, and where it lies."""
        with self._translated():
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".new-")
        return handle, Path(name)

    def get(self, sha256: str) -> bytes:
        """A stored content.

        Raises:
            FileNotFoundError: it was never stored, or has been pruned.
        """
        return self._path(sha256).read_bytes()

    def head(self, sha256: str, limit: int) -> bytes:
        """At most so many bytes of a stored content's beginning; raises like `get`."""
        with self._path(sha256).open("rb") as file:
            return file.read(limit)

    def has(self, sha256: str) -> bool:
        """Whether a content is kept."""
        return self._path(sha256).is_file()

    def prune(self, older_than_days: float = 30.0, *, keep: Callable[[], Collection[str]] = tuple) -> int:
        """Remove what nobody has decided about in that time; how many contents went.

        What cannot be removed stays, and what another kernel removes at the same time is not counted. `keep` gives
        hashes of contents that somebody needs for longer, and is asked only when something would go.
        """
        now = time.time()
        before = now - older_than_days * 86400
        old = [path for path in self._directory.glob("*/*") if _is_older(path, before)]
        kept = frozenset(keep()) if old else ()
        gone = sum(_forget_older(path, before) for path in old if path.name not in kept)
        for path in self._directory.glob(".new-*"):
            _forget_older(path, now - FORGOTTEN_SECONDS)
        return gone

    def _name(self, unfinished: Path, sha256: str) -> None:
        target = self._path(sha256)
        with self._translated():
            target.parent.mkdir(exist_ok=True, mode=0o700)
            unfinished.replace(target)

    def _path(self, sha256: str) -> Path:
        return self._directory / content_name(sha256)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalUnwritable(str(self._directory), error.strerror or "the system refuses it") from error


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


def _is_older(path: Path, before: float) -> bool:
    try:
        return path.stat().st_mtime < before
    except OSError:
        return False


def _forget_older(path: Path, before: float) -> bool:
    try:
        if not _is_older(path, before):
            return False
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:
        return False
    return True
