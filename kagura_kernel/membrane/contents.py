"""The contents of what a run has changed: read from its box, measured, looked through for secrets, and stored."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from kagura_kernel.domain.errors import BoxFileError, WorkspaceTooLarge
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.difference import MAX_DIFF_INPUT
from kagura_kernel.sandbox.backend import BoxChange

_PIECE = 1 << 20


class SecretFound(Exception):
    """A content holds a live secret; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One content that is stored."""

    sha256: str  # Its name in the store
    size: int  # Bytes, as they came
    content: bytes | None  # The bytes, if they are few enough for a diff
    is_script: bool = False  # Whether they name what runs them


class Contents:
    """Takes the contents of one run, however often it is asked.

    Args:
        blobs: Where they go.
        limit_bytes: What the run may store in all. A content that it has stored before costs nothing.
        scrubber: Knows the secrets that no stored content may hold.
    """

    def __init__(self, blobs: BlobStore, limit_bytes: int, scrubber: Scrubber | None = None) -> None:
        self._blobs = blobs
        self._limit = limit_bytes
        self._scrubber = scrubber
        self._stored = 0
        self._known: set[str] = set()
        self._sizes: dict[str, int] = {}

    async def take(self, files: FileSystem, told: BoxChange) -> Taken:
        """Read and store one file; what a box tells of its size is the most that is read.

        Raises:
            BoxFileError: it cannot be read, or has grown since it was told; nothing of it is kept.
            WorkspaceTooLarge: the run has stored as much as it may.
            SecretFound: it holds a live secret.
        """
        kept = bytearray()
        most = max(0, told.size)
        digest = hashlib.sha256()
        search = self._scrubber.search() if self._scrubber is not None else None
        # Probably what is stored already; only its hash can tell, at its end.
        looks_known = self._sizes.get(told.path) == most

        async def pieces() -> AsyncIterator[bytes]:
            offset = 0
            ended = False
            while not ended:
                asked = min(_PIECE, most - offset + 1)
                piece = await files.read(told.path, offset=offset, limit=asked)
                if search is not None and search.feed(piece):
                    raise SecretFound
                digest.update(piece)
                offset += len(piece)
                if offset > most:
                    raise BoxFileError(told.path, "EFBIG", "it grew while it was read")
                # Less than was asked for is the end, so that a small file takes one question.
                ended = len(piece) < asked
                is_new = digest.hexdigest() not in self._known if ended else not looks_known
                if is_new and self._stored + offset > self._limit:
                    raise WorkspaceTooLarge(told.path, self._stored + offset, self._limit)
                if len(kept) <= MAX_DIFF_INPUT:
                    kept.extend(piece[: MAX_DIFF_INPUT + 1 - len(kept)])
                yield piece

        sha256, size = await self._blobs.put(pieces())
        if sha256 not in self._known:
            self._known.add(sha256)
            self._stored += size
        self._sizes[told.path] = size
        return Taken(sha256, size, bytes(kept) if len(kept) <= MAX_DIFF_INPUT else None, kept.startswith(b"#!"))
