"""Tools and files as a brain sees them: a name, a schema, a call, a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from kagura_kernel.domain.images import Image
from kagura_kernel.domain.late_dataclass import dataclass

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


NO_OUTPUT = "(no output)"
"""What a result says of a command that printed nothing."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool offered to a brain."""

    name: str  # A Python identifier, unique in a toolbox
    description: str  # For the model; says what is refused
    input_schema: Mapping[str, Any]  # JSON Schema of the arguments, an object
    # It changes nothing, so a brain may have several calls of such tools under way at once. Calls of other tools in one
    # answer of a model are made in their order, one after the other.
    read_only: bool = False
    foreign: bool = False  # Its schema is another program's, which checks the arguments itself
    # Arguments that stand in no journal: what they say can be erased, and a journal only grows
    private: tuple[str, ...] = ()
    # It may change something, and a brain may have several calls of it under way at once all the same
    side_by_side: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A brain asks for a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers; a failing command is a result with `is_error`."""

    text: str  # What the brain reads, bounded
    is_error: bool = False  # Whether the brain should take it as a failure
    exit_code: int | None = None  # Of the command behind it, if there was one
    route: str = "sandbox"  # `sandbox` or `host`; empty for tools that run nothing
    spill: str | None = None  # Name of the file with the full output, if it was cut
    recorded: str | None = None  # What the journal says instead of the text; None for the text itself
    images: tuple[Image, ...] = ()  # What the brain looks at beside the text; for one that takes images
    shows: bool = False  # Whether a program in the box may have left something to be shown


def failed(text: str) -> ToolResult:
    """What a tool answers that has run nothing; the text says why."""
    return ToolResult(text, is_error=True, route="")


ShowImage = Callable[[str, Image], Awaitable[Image]]
"""Makes an image ready for the brain and records that it is sent, with the id of the call that it answers.

Raises `NoImageError` where it is not sent.
"""

CallTool = Callable[[ToolCall], Awaitable[ToolResult]]
"""How a brain reaches the toolbox. Raises only what must end the run; a refusal is a result."""
