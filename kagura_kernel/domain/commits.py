"""Commits that a run made on the `.git` of its box, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.outcome import FileChange, Written

AGENT_NAME, AGENT_ADDRESS = "kagura agent", "agent@kagura.invalid"
"""Who commits in a box, unless somebody there says otherwise."""

CommitState = Literal["proposed", "applied", "discarded"]


@dataclass(frozen=True, slots=True)
class Commit:
    """One of them, compared with each of its parents."""

    id: Exact  # Its whole hash
    author: str = ""  # Name and address, as it says
    message: str = ""  # Bounded
    files: tuple[FileChange, ...] = ()  # What it changes; the first of very many
    files_left: int = 0  # How many more there are
    merges: bool = False  # Whether it has several parents

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Moved:
    """What applying wrote into the repository and the project."""

    ref: Exact  # Whole name of what was moved; `HEAD` where no branch was checked out
    before: Exact  # Where it was; empty where it was nowhere
    after: Exact  # Where it is
    checked_out: bool = False  # Whether files and index went along
    written: tuple[Written, ...] = ()  # What of the project's files was written


@dataclass(frozen=True, slots=True)
class CommittedBranch:
    """A branch of the box that has commits which the project does not have."""

    name: Exact  # Without `refs/heads/`; empty for commits on no branch
    head: Exact  # Its last commit
    bundle: Exact = ""  # Hash of the kept content that holds them; empty where nothing was kept
    commits: tuple[Commit, ...] = ()  # The first one first; none in an event that only tells what became of them
    left: int = 0  # How many more there are
    # Paths that it changes and no told commit names, of files that somebody would run unasked; the first of many
    runs: tuple[str, ...] = ()
    state: CommitState = "proposed"
    reason: str = ""  # Why they can only be looked at, or not even that, half a sentence
    moved: Moved | None = None  # What can be taken back

    @property
    def waits(self) -> bool:
        """Whether a person can still decide about it."""
        return self.state == "proposed" and bool(self.bundle)


def branches_after(
    branches: Mapping[str, CommittedBranch], told: Iterable[CommittedBranch]
) -> dict[str, CommittedBranch]:
    """A run's branches by name after one more event that tells of some."""
    found = dict(branches)
    for one in told:
        before = found.get(one.name)
        is_same = before is not None and before.head == one.head and not one.commits
        found[one.name] = replace(before, state=one.state, moved=one.moved) if before and is_same else one
    return found
