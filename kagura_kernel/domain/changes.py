"""What a run did to the project: a list of files, each with its old and its new state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

ChangeStatus = Literal["added", "modified", "deleted"]
ChangeState = Literal["proposed", "applied", "discarded", "conflict", "protected", "handed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a run added, changed or removed.

    Attributes:
        path: Relative to the project root, with `/`.
        status: What happened to it.
        kind: A regular file or a symbolic link.
        size: Bytes afterwards; 0 when deleted.
        mode: Permission bits afterwards.
        old_sha256: Content in the project when the change was collected; empty when there was none.
        new_sha256: Content afterwards; empty when deleted.
        diff: Unified diff, bounded; empty for binary files.
        binary: Whether either side is not text.
        state: Whether it has reached the project; `handed` is what the run that this one works for takes over.
        target: Where a link points afterwards.
        reason: Why it is protected, in half a sentence, where that does not follow from its path; otherwise empty.
        runs: Who would run or obey it unasked, in half a sentence; empty for most files. Such a change always waits.
    """

    path: str
    status: ChangeStatus
    kind: Literal["file", "link"] = "file"
    size: int = 0
    mode: int = 0o644
    old_sha256: str = ""
    new_sha256: str = ""
    diff: str = ""
    binary: bool = False
    state: ChangeState = "proposed"
    target: str = ""
    reason: str = ""
    runs: str = ""


def in_order(changes: Iterable[FileChange]) -> list[FileChange]:
    """Sorted by path; those that somebody would run unasked stand first."""
    return sorted(changes, key=lambda change: (not change.runs, change.path))


def content_name(sha256: str) -> str:
    """Where the content of a changed file lies below the folder of contents, by its hash."""
    return f"{sha256[:2]}/{sha256}"
