"""What a run would change in the project, and what became of it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from kagura_kernel.domain.changes import ChangeState, ChangeStatus
from kagura_kernel.domain.events.base import Event


class ChangeRow(BaseModel):
    """One changed file; the fields are those of `domain.changes.FileChange`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

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


class ChangesCollected(Event):
    """What the run would change in the project. Stored before anything is applied."""

    kind: Literal["changes.collected"] = "changes.collected"
    changes: tuple[ChangeRow, ...] = ()


class ChangesSettled(Event):
    """Some of the changes were applied, discarded, or found in conflict.

    Attributes:
        applied: Paths now in the project.
        discarded: Paths given up.
        conflicts: Paths that changed in the project meanwhile; left alone.
        by: Who decided.
    """

    kind: Literal["changes.settled"] = "changes.settled"
    applied: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    by: str = ""
