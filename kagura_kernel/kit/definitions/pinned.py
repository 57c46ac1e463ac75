"""Documents that are known by their digest, kept so that none is fetched twice; checked whenever they are read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from kagura_kernel.kit.definitions.document import MAX_BYTES

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def sha256(data: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text is SHA-256 as hex."""
    return _DIGEST.fullmatch(text) is not None


class PinnedDocuments:
    """A folder of documents by digest. What cannot be written is not kept; what does not match is not there.

    Args:
        folder: Need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> bytes | None:
        """The document of this digest; None where it is not kept or no longer what it was."""
        try:
            with (self._folder / digest).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        return data if sha256(data) == digest else None

    def keep(self, data: bytes) -> None:
        """Keep a document under its digest; whoever reads meanwhile sees all of it or nothing."""
        making = self._folder / f"making-{secrets.token_hex(8)}"
        # A full disk or a folder of somebody else costs the next fetch, not this one.
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                making.write_bytes(data)
                os.replace(making, self._folder / sha256(data))  # noqa: PTH105 - the two are in one folder
            finally:
                making.unlink(missing_ok=True)
