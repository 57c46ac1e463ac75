"""What the middle of a run works with: its order, its parts, its box and its books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.runs.asking import RecordedApprover
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.checkpointing import Checkpointing
from kagura_kernel.runs.kit import OpenKit
from kagura_kernel.runs.learning import Learning
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.planning import Planned
from kagura_kernel.runs.plugins import OpenPlugins
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.remembering import RunMemory
from kagura_kernel.runs.tray import Tray
from kagura_kernel.runs.trusting import Trusting
from kagura_kernel.sandbox.backend import Box


class HandedOn(Protocol):
    """What a run has handed on."""

    async def close(self) -> None:
        """End what goes on of it; may be called twice."""
        ...


@dataclass
class Stage:
    """One run while it converses."""

    order: RunOrder  # What was asked for
    parts: RunParts  # What carries it out
    box: Box  # Where everything happens, behind its membrane
    recorder: Recorder  # Its record
    account: Account  # Its money
    approver: RecordedApprover  # Who is asked for more
    changes: RunChanges  # Its changes on their way to the project
    membrane: Membrane  # What crosses the wall of its box
    stop: Callable[[BaseException], None]  # Ends the run for a reason; the first reason stands
    kit: OpenKit = field(default_factory=OpenKit)  # What its agent brings with it
    redacting: Redacting = field(default_factory=lambda: Redacting(None))  # Takes secrets out of what is shown
    plugins: OpenPlugins = field(default_factory=OpenPlugins)  # What its box can call
    tray: Tray | None = None  # Where its variables and results lie in the box; None until it is laid out
    tool_calls: int = 0  # How many calls were made so far
    memory: RunMemory | None = None  # What it knows of earlier runs
    planned: Planned = field(default_factory=Planned)  # What was agreed on before it began
    checkpoints: Checkpointing | None = None  # Stores where it stands
    learning: Learning | None = None  # What goes wrong in it
    trusting: Trusting | None = None  # What it shows and uses of earned trust; None where nothing is kept of it
    delegation: HandedOn | None = None  # What it hands on; None where nothing can be

    @property
    def spill_dir(self) -> Path:
        """Where the full text of long outputs goes; made when it is first needed."""
        return self.parts.spill_root / self.order.run_id
