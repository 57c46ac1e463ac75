"""Where a run stands: what of it is looked at when that is stored."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.membrane.parts import RecordFact
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.remembering import RunMemory


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of a run is stored, and how.

    Attributes:
        order: What was asked for.
        parts: What carries it out.
        recorder: Stores its facts.
        changes: What it has changed so far.
        account: Its money.
        memory: What it knows of earlier runs.
        membrane: What crosses the wall of its box.
        approver: Who is asked for more.
        redacting: Takes secrets out of what is kept.
    """

    order: RunOrder
    parts: RunParts
    recorder: Recorder
    changes: RunChanges
    account: Account
    memory: RunMemory
    membrane: Membrane
    approver: Approver
    redacting: Redacting

    @property
    def record(self) -> RecordFact:
        """Stores one fact."""
        return self.recorder.record
