"""What a run comes back with: what it did to the project, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from typing import Literal, get_args

from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.variables import PackedVariable

EndStatus = Literal["done", "failed", "stopped", "killed", "denied", "lost"]
"""How a run can end: `stopped` is by a limit (its budget, turns or time), `killed` by a person."""

RunStatus = Literal["running", "awaiting_approval", EndStatus]
"""The state of a run; `awaiting_approval` is a running one that waits for a person."""

ChangeStatus = Literal["added", "modified", "deleted"]
ChangeState = Literal["proposed", "applied", "discarded", "conflict", "protected", "handed"]


@dataclass(frozen=True, slots=True)
class Written:
    """What the project got at one path, and what it had there before; the content of that is kept for an undo."""

    path: Exact
    before_sha256: Exact = ""  # What was there; empty for nothing
    after_sha256: Exact = ""  # What is there now; empty for nothing
    kind: Literal["", "file", "link"] = ""  # What was there
    mode: int = 0  # Its permission bits
    target: Exact = ""  # Where it pointed, of a link
    hunks: tuple[int, ...] = ()  # Which parts of the difference this brought, from 1; empty for all that was left of it
    was: ChangeState = "proposed"  # What the change was by then, and is again when this is taken back


@dataclass(frozen=True, slots=True)
class Hunks:
    """Some parts of the difference of one file."""

    path: Exact
    numbers: tuple[int, ...]  # From 1


_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@$", re.MULTILINE)
_CUT = re.compile(r"^…", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that a run added, changed or removed, or one cell of a notebook that it would."""

    path: Exact  # Relative to the project root, with `/`; of a cell its notebook, `#`, and the cell's id
    status: ChangeStatus  # What happened to it
    # A regular file, a symbolic link, or the type of a cell, whose content is its source
    kind: Literal["file", "link", "code", "markdown", "raw"] = "file"
    size: int = 0  # Bytes afterwards; 0 when deleted
    mode: int = 0o644  # Permission bits afterwards
    old_sha256: Exact = ""  # Content in the project when the change was collected; empty when there was none
    new_sha256: Exact = ""  # Content afterwards; empty when deleted
    diff: str = ""  # Unified diff, bounded; empty for binary files
    binary: bool = False  # Whether either side is not text
    # Whether it has reached the project; `handed` is what the run that this one works for takes over
    state: ChangeState = "proposed"
    # Where a link points afterwards; of a cell that is new or has moved the id of the one above, and `^` at the top
    target: Exact = ""
    # Why it is protected, where that does not follow from its path, or what else is to be said of it; half a sentence
    reason: str = ""
    # Who would run or obey it unasked, in half a sentence; empty for most files. Such a change always waits.
    runs: str = ""
    # What the run had before it, where the project had something else by the time it was collected; `?` where nobody
    # knows, and empty where it is `old_sha256`
    base_sha256: Exact = ""
    written: tuple[Written, ...] = ()  # What of it was written and can be taken back, the last one last
    applied_hunks: tuple[int, ...] = ()  # Parts of its difference that are in the project, the rest of it not
    discarded_hunks: tuple[int, ...] = ()  # Parts of its difference that were given up

    @property
    def is_cell(self) -> bool:
        """Whether it is a cell of a notebook."""
        return self.kind not in ("file", "link")

    @property
    def hunks(self) -> list[str]:
        """The parts of its difference, each with its head; none where it is decided as a whole.

        A difference that is not shown to its end, and one of a single part, is.
        """
        if self.kind != "file" or self.status != "modified" or _CUT.search(self.diff):
            return []
        starts = [found.start() for found in _HUNK.finditer(self.diff)]
        parts = [self.diff[start:end] for start, end in pairwise([*starts, len(self.diff)])]
        return parts if len(parts) > 1 else []

    @property
    def open_hunks(self) -> list[int]:
        """Numbers of those that are neither in the project nor given up."""
        decided = {*self.applied_hunks, *self.discarded_hunks}
        return [number for number in range(1, len(self.hunks) + 1) if number not in decided]


Resolution = Literal["theirs", "merge", "markers"]
"""What becomes of a conflict: what the run made, both changes, or both with markers where they overlap."""

RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)


@dataclass(frozen=True, slots=True)
class BothSides:
    """A conflict as it is shown: what was changed on either side."""

    yours: str = ""  # Difference from what the run began with to what the project has now; empty where nobody knows it
    theirs: str = ""  # Difference from the same to what the run made; where nobody knows it, from what the project has
    can_merge: bool = False  # Whether both can be brought into one text
    overlaps: bool = False  # Whether that takes markers
    seen: str = ""  # Stands for what the project has now
    why: str = ""  # Why it is not shown, or cannot be merged, in half a sentence


def in_order(changes: Iterable[FileChange]) -> list[FileChange]:
    """Sorted by path, and cells of a notebook as they were proposed; what somebody would run unasked stands first."""

    def place(change: FileChange) -> tuple[bool, str]:
        return not change.runs, change.path.rpartition("#")[0] if change.is_cell else change.path

    return sorted(changes, key=place)


def by_path(changes: Iterable[FileChange]) -> dict[str, FileChange]:
    """The same by their paths."""
    return {change.path: change for change in changes}


def seal_of(changes: Iterable[FileChange]) -> str:
    """What stands for all that waits of these: another one as soon as any of it is another."""
    waiting = sorted((one.path, one.new_sha256, one.target) for one in changes if one.state == "proposed")
    return sha256(repr(waiting).encode()).hexdigest()[:16]


def content_name(sha256: str) -> str:
    """Where the content of a changed file lies below the folder of contents, by its hash."""
    return f"{sha256[:2]}/{sha256}"


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run, as the cell's value."""

    run_id: str
    session_id: str  # The session it belonged to
    status: EndStatus
    text: str = ""  # The final answer, Markdown; for `%%sandbox` what the program printed
    cost: Cost = field(default_factory=Cost)  # Money, unknown is None
    usage: Usage = field(default_factory=Usage)  # Tokens
    changes: tuple[FileChange, ...] = ()  # Files it changed, with what became of each
    duration: float = 0.0  # Seconds
    error_code: str = ""  # Stable code when it did not end well
    error: str = ""  # That error, for reading
    exit_code: int | None = None  # Of a `%%sandbox` program
    outputs: tuple[PackedVariable, ...] = field(default=(), repr=False)  # Variables that it brought back, still packed
    # Names of those that did not come, each with the reason
    missing: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verified: bool | None = None  # Whether its work passed its verification; None where there was none
    memories: tuple[str, ...] = field(default=(), repr=False)  # Ids of memories that it left, its summary first
    children: int = 0  # How many runs it handed work on to
    # What these cost with what they handed on themselves; None when that of one is unknown. `cost` is without it.
    children_usd: float | None = 0.0

    @property
    def ok(self) -> bool:
        """Whether the run ended as it was meant to and, where its work was tried out, that was good."""
        return self.status == "done" and self.verified is not False

    @property
    def total_usd(self) -> float | None:
        """What it cost with all that it handed on; None when a part is unknown."""
        usd = self.cost.usd
        return None if usd is None or self.children_usd is None else usd + self.children_usd

    @property
    def changed_files(self) -> list[str]:
        """Paths of the changes, relative to the project."""
        return [change.path for change in self.changes]
