"""What a run did to the project: a list of files, each with its old and its new state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

ChangeStatus = Literal["added", "modified", "deleted"]
ChangeState = Literal["proposed", "applied", "discarded", "conflict", "protected", "handed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a run added, changed or removed."""

    path: str  # Relative to the project root, with `/`
    status: ChangeStatus  # What happened to it
    kind: Literal["file", "link"] = "file"  # A regular file or a symbolic link
    size: int = 0  # Bytes afterwards; 0 when deleted
    mode: int = 0o644  # Permission bits afterwards
    old_sha256: str = ""  # Content in the project when the change was collected; empty when there was none
    new_sha256: str = ""  # Content afterwards; empty when deleted
    diff: str = ""  # Unified diff, bounded; empty for binary files
    binary: bool = False  # Whether either side is not text
    # Whether it has reached the project; `handed` is what the run that this one works for takes over
    state: ChangeState = "proposed"
    target: str = ""  # Where a link points afterwards
    # Why it is protected, in half a sentence, where that does not follow from its path; otherwise empty
    reason: str = ""
    # Who would run or obey it unasked, in half a sentence; empty for most files. Such a change always waits.
    runs: str = ""


def in_order(changes: Iterable[FileChange]) -> list[FileChange]:
    """Sorted by path; those that somebody would run unasked stand first."""
    return sorted(changes, key=lambda change: (not change.runs, change.path))


def content_name(sha256: str) -> str:
    """Where the content of a changed file lies below the folder of contents, by its hash."""
    return f"{sha256[:2]}/{sha256}"
