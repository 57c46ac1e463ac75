"""One run: what was asked for, what carries it out, where it stands, and what a person says to it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from kagura_kernel.brain.in_box import ThinksInside
from kagura_kernel.brain.provider import REPLAY, BrainHeard
from kagura_kernel.domain.approvals import ApprovalRequest, Decision
from kagura_kernel.domain.clock import PausableClock
from kagura_kernel.domain.events import PersonHeard, PersonSaid
from kagura_kernel.domain.policy import SandboxPolicyType
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.membrane.credentials.lease import Holder
from kagura_kernel.membrane.credentials.scrub import scrub_fields
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.runs.approvals import ONLY_PLANS, RecordedApprover, WhilePlanning
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.checkpoints import Checkpointing
from kagura_kernel.runs.commits import RunCommits
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.runs.graduation import Trusting, agent_powers
from kagura_kernel.runs.kept_boxes import KeptBox
from kagura_kernel.runs.kit import OpenKit
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.lessons import Learning
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.plan import Planned
from kagura_kernel.runs.plugins import OpenPlugins
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.resumption import CheckpointParts
from kagura_kernel.runs.run_memory import RunMemory
from kagura_kernel.sandbox.backend import Box


class HandedOn(Protocol):
    """What a run has handed on."""

    async def close(self) -> None:
        """End what goes on of it; may be called twice."""
        ...


class RunContext:
    """What each step of a run works with. Nothing is started by making one.

    Args:
        order: What was asked for.
        parts: What carries it out.
        stop: Ends the run for a reason; the first reason stands.
    """

    def __init__(self, order: RunOrder, parts: RunParts, stop: Callable[[BaseException], None]) -> None:
        self.order, self.parts, self.stop = order, parts, stop
        self.recorder = Recorder(parts.journal, parts.clock, order.run_id, order.session_id)  # Its record
        record = self.recorder.record
        self.redacting = Redacting(parts.redactor)  # Takes secrets out of what is shown
        self.hearing = Hearing(order, record, self._heard)  # What a person says to it
        self.account = Account(order.budget_usd, parts.day, unasked=order.brain is not None)  # Its money
        # What it knows of earlier runs
        self.memory = RunMemory(order, parts, record, self.redacting, parts.clock)
        self.memory.held = self.held
        # What it shows and uses of earned trust
        self.trusting = Trusting(order, parts.approver, parts.journal, parts.clock, self._is_marked, record)
        self.learning = Learning(order, self.memory, record, self.shown)  # What goes wrong in it
        # What a command may take does not count the time for which a person is asked
        self.working_time = PausableClock(parts.clock)
        self.limits = replace(order.limits, clock=self.working_time.monotonic)
        # Who is asked for more
        self.approver = RecordedApprover(
            WhilePlanning(self.trusting, parts.clock, self.held),
            self.recorder,
            parts.clock,
            lineage=order.handoff.lineage,
            offered=self.trusting.offered,
            decided=self._decided,
            answered=self.trusting.answers,
            pause=self.working_time.paused,
        )
        self.membrane = self._made_membrane()  # What crosses the wall of its box
        scrubber = self.membrane.scrubber
        self.recorder.scrub = self.memory.scrub = partial(scrub_fields, scrubber)
        self.recorder.redact, self.recorder.ready_for = self.redacting.event, self.redacting.ready_for
        # Its changes on their way to the project
        self.changes = RunChanges(order, parts.blobs, self.recorder, scrubber)
        self.commits = RunCommits(order, parts.blobs, self.recorder, scrubber)  # Likewise what it commits in its box
        # Stores where it stands
        self.checkpoints = Checkpointing(
            CheckpointParts(
                order,
                parts,
                self.recorder,
                self.changes,
                self.account,
                self.memory,
                self.membrane,
                self.approver,
                self.redacting,
            )
        )
        self.kit = OpenKit()  # What its agent brings with it
        self.planned = Planned(order.budget_usd)  # What was agreed on before it began
        # What it works in, where runs before have left their box in place
        self.kept: KeptBox | None = None
        self.changed_outside: list[str] = []  # Files of the project that others have changed since that box began
        self.had_python = False  # Whether those have had a Python session there
        self.open_box: Box | None = None  # Where everything happens, behind its membrane; None until it stands
        self.fallback = ""  # Why there is no box for what its brain does; empty where there is one
        self.converses = False  # Whether it has come to think, or to run its cell's code
        self.plugins = OpenPlugins()  # What its box can call
        # Where its variables and results lie in the box; None until it is laid out
        self.exchange: ExchangeDirectory | None = None
        self.tool_calls = 0  # How many calls were made so far
        self.delegation: HandedOn | None = None  # What it hands on; None where nothing can be

    def _made_membrane(self) -> Membrane:
        order, parts = self.order, self.parts
        return Membrane(
            order.grant,
            parts.membrane,
            Holder(order.run_id, order.session_id, order.owner),
            self.approver,
            asks=not order.request.headless,
            powers=parts.powers if order.brain is None else agent_powers(parts.powers),
            record=self.recorder.record,
            fatal=self.stop,
            clock=parts.clock,
            held=self.held,
        )

    def held(self) -> str:
        """Why it gets no more than it has, as a clause: it only plans. Empty otherwise, and before it has begun."""
        return ONLY_PLANS if self.converses and self.changes.plans_only else ""

    @property
    def box(self) -> Box:
        """The box that is open; nothing asks for it earlier."""
        if self.open_box is None:
            raise RuntimeError("this run has no box open")
        return self.open_box

    @property
    def boxed(self) -> bool:
        """Whether what its brain does happens in `box`, rather than on the host."""
        return not self.fallback and self.order.spec.policy.type is not SandboxPolicyType.DANGER_FULL

    def go_on(self, kept: KeptBox) -> None:
        """Go on in a box that stayed, with what runs before have left there."""
        self.kept = kept
        # This run shows the same of the host by itself.
        kept.free()
        self.memory.untrusted |= kept.untrusted
        self.changes.go_on(kept)

    @property
    def spill_dir(self) -> Path:
        """Where the full text of long outputs goes; made when it is first needed."""
        return self.parts.spill_root / self.order.run_id

    def shown(self, text: str) -> str:
        """A text without the secrets that the run has had, and without what looks like one."""
        return self.redacting.text(self.membrane.scrubber.scrub(text))

    async def _heard(self, text: str) -> str:
        await self.redacting.ready()
        return await self.redacting.words(self.membrane.scrubber.scrub(text))

    def _is_marked(self) -> bool:
        # Anything in the box of a sealed brain could be what asks, and anybody may have written a cassette.
        brain = self.order.brain
        is_replay = brain is not None and brain.name == REPLAY
        return self.memory.untrusted or is_replay or isinstance(brain, ThinksInside)

    def _decided(self, request: ApprovalRequest, decision: Decision) -> None:
        self.learning.decided(request, decision)
        self.trusting.decided(request, decision)


NOT_BEGUN = "it has not begun yet. Say it again in a moment"
NO_BRAIN = "it is a cell's own code, in which nobody listens"
OVER = "it has ended"


class Hearing:
    """One run's ear: what is said is stored first, then handed to its brain, which takes it at its next turn.

    Used on the run's loop.

    Args:
        order: What was asked for.
        record: Stores an event.
        shown: Takes the secrets out of a text.
    """

    def __init__(self, order: RunOrder, record: Callable[..., Any], shown: Callable[[str], Awaitable[str]]) -> None:
        self.sentences: asyncio.Queue[Sentence] = asyncio.Queue()  # For the brain's turn
        self._brain = order.brain
        self._record = record
        self._shown = shown
        self._why_not = NOT_BEGUN
        self._goes_on = False

    def begin(self) -> None:
        """The run is in the journal."""
        self._goes_on, self._why_not = True, ""
        if self._brain is None:
            self._why_not = NO_BRAIN
        elif not self._brain.capabilities().listens:
            self._why_not = f"the {self._brain.name} brain takes nothing while it works"

    def thought(self) -> None:
        """The brain has finished."""
        self._why_not = self._why_not or "its brain has finished thinking"

    def end(self) -> None:
        """Nothing of the run is stored any more."""
        self._goes_on, self._why_not = False, OVER

    async def take(self, sentence: Sentence) -> str:
        """Store what was said and hand it on: why that cannot be, as a clause; empty where it can.

        Raises:
            JournalError: it could not be stored; the brain is not told.
        """
        text = await self._shown(sentence.text)
        if not self._goes_on:
            return self._why_not
        self._tell(replace(sentence, text=text), refused=self._why_not)
        if not self._why_not:
            self.sentences.put_nowait(replace(sentence, text=text))
        return self._why_not

    def heard(self, event: BrainHeard) -> None:
        """The brain has taken something up: one of these, or in a cassette what was said when it was recorded."""
        name = event.id
        if not name:
            sentence = Sentence(event.text, via="cassette")
            self._tell(sentence)
            name = sentence.id
        self._record(PersonHeard, sentence_id=name)

    def _tell(self, said: Sentence, refused: str = "") -> None:
        self._record(PersonSaid, sentence_id=said.id, text=said.text, by=said.by, via=said.via, refused=refused)
