"""Files as tools see them, in a box or on the host alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

FileKind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is known of one path without opening it."""

    path: str  # As it was asked for, or joined to the directory that was listed
    kind: FileKind  # A link is never followed
    size: int  # Bytes
    mode: int  # Permission bits
    modified: float  # Seconds since 1970
    target: str = ""  # Where a link points; empty otherwise


class FileSystem(Protocol):
    """File access for tools. Relative paths start at `root`.

    Every method raises `BoxFileError` with the system's reason (`ENOENT`, `EACCES`, `EISDIR`, …) when the file
    says no, and `SandboxUnavailable` when the box behind it is gone.
    """

    @property
    def root(self) -> str:
        """The directory that relative paths start from."""
        ...

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file, from `offset`, at most `limit`."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Replace a file as a whole, atomically; parent directories are made."""
        ...

    async def stat(self, path: str) -> FileStat:
        """One path; a link is described, not followed."""
        ...

    async def list_dir(self, path: str) -> list[FileStat]:
        """A directory's entries by name."""
        ...

    async def glob(self, pattern: str, *, limit: int = 1000) -> list[str]:
        """Paths below the root that match, sorted, at most `limit`; `**` crosses directories, never links."""
        ...
