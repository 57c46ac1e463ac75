"""One run: what was asked for, what carries it out, and where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from kagura_kernel.brain.inside import ThinksInside
from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.membrane.credentials.lease import Holder
from kagura_kernel.membrane.credentials.scrub import scrub_fields
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
from kagura_kernel.runs.resumption import Surroundings
from kagura_kernel.runs.tray import Tray
from kagura_kernel.runs.trusting import Trusting, agent_powers
from kagura_kernel.sandbox.backend import Box


class HandedOn(Protocol):
    """What a run has handed on."""

    async def close(self) -> None:
        """End what goes on of it; may be called twice."""
        ...


@dataclass(eq=False)
class RunContext:
    """What each step of a run works with; the first part is made once, the second changes as the run goes on."""

    order: RunOrder  # What was asked for
    parts: RunParts  # What carries it out
    stop: Callable[[BaseException], None]  # Ends the run for a reason; the first reason stands
    recorder: Recorder  # Its record
    redacting: Redacting  # Takes secrets out of what is shown
    account: Account  # Its money
    memory: RunMemory  # What it knows of earlier runs
    trusting: Trusting  # What it shows and uses of earned trust
    learning: Learning  # What goes wrong in it
    approver: RecordedApprover  # Who is asked for more
    membrane: Membrane  # What crosses the wall of its box
    changes: RunChanges  # Its changes on their way to the project
    checkpoints: Checkpointing  # Stores where it stands

    kit: OpenKit = field(default_factory=OpenKit)  # What its agent brings with it
    planned: Planned = field(default_factory=Planned)  # What was agreed on before it began
    open_box: Box | None = None  # Where everything happens, behind its membrane; None until it stands
    plugins: OpenPlugins = field(default_factory=OpenPlugins)  # What its box can call
    tray: Tray | None = None  # Where its variables and results lie in the box; None until it is laid out
    converses: bool = False  # Whether it has come to think, or to run its cell's code
    tool_calls: int = 0  # How many calls were made so far
    delegation: HandedOn | None = None  # What it hands on; None where nothing can be

    @property
    def box(self) -> Box:
        """The box that is open; nothing asks for it earlier."""
        if self.open_box is None:
            raise RuntimeError("this run has no box open")
        return self.open_box

    @property
    def spill_dir(self) -> Path:
        """Where the full text of long outputs goes; made when it is first needed."""
        return self.parts.spill_root / self.order.run_id

    def shown(self, text: str) -> str:
        """A text without the secrets that the run has had, and without what looks like one."""
        return self.redacting.text(self.membrane.scrubber.scrub(text))


def context_of(order: RunOrder, parts: RunParts, stop: Callable[[BaseException], None]) -> RunContext:
    """Join what one run works with; nothing is started by it.

    Args:
        order: What was asked for.
        parts: What carries it out.
        stop: Ends the run for a reason.
    """
    recorder = Recorder(parts.journal, parts.clock, order.run_id, order.session_id)
    record, redacting, account = recorder.record, Redacting(parts.redactor), Account(order.budget_usd)
    memory = RunMemory(order, parts, record, redacting, parts.clock)

    sealed = isinstance(order.brain, ThinksInside)  # anything in its box could be what asks

    # These ask for what is made below them, once the run goes on.
    def marked() -> bool:
        return memory.untrusted or sealed

    def decided(request: ApprovalRequest, decision: Decision) -> None:
        learning.decided(request, decision)
        trusting.decided(request, decision)

    def shown(text: str) -> str:
        return redacting.text(membrane.scrubber.scrub(text))

    trusting = Trusting(order, parts.approver, parts.journal, parts.clock, marked, record)
    learning = Learning(order, memory, record, shown)
    lineage = order.handoff.lineage
    approver = RecordedApprover(
        trusting,
        recorder,
        parts.clock,
        lineage=lineage,
        offered=trusting.offered,
        decided=decided,
        answered=trusting.answers,
    )
    membrane = Membrane(
        order.grant,
        parts.membrane,
        Holder(order.run_id, order.session_id, order.owner),
        approver,
        asks=not order.request.headless,
        powers=parts.powers if order.brain is None else agent_powers(parts.powers),
        record=record,
        fatal=stop,
        clock=parts.clock,
    )
    recorder.scrub = memory.scrub = partial(scrub_fields, membrane.scrubber)
    recorder.redact = redacting.event
    changes = RunChanges(order, parts.blobs, recorder, membrane.scrubber)
    stored = Surroundings(order, parts, recorder, changes, account, memory, membrane, approver, redacting)
    return RunContext(
        order=order,
        parts=parts,
        stop=stop,
        recorder=recorder,
        redacting=redacting,
        account=account,
        memory=memory,
        trusting=trusting,
        learning=learning,
        approver=approver,
        membrane=membrane,
        changes=changes,
        checkpoints=Checkpointing(stored),
        planned=Planned(order.budget_usd),
    )
