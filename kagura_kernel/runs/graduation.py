"""Graduation in a run: what was earned answers for itself, what happens is evidence, and nothing is granted here.

A run that asks nothing costs nothing: the journal is read when there is a question that belongs to a category. Failures
are stored at once, successes at the end, since a run that fails once has not succeeded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import ApprovalAborted, HostError, JournalError
from kagura_kernel.domain.events import Noted, RunVerified, TrustChanged
from kagura_kernel.domain.events.memory import TrustSignal
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.domain.search_path import entries_outside
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.trust import TrustHistory, TrustRecord
from kagura_kernel.membrane.egress.policy import THIS_RUN, THIS_SESSION
from kagura_kernel.membrane.grant import RecordFact, SessionPowers
from kagura_kernel.patterns.trust import (
    BY_NAME,
    VIA,
    asks_anew,
    categorise,
    goes_to,
    is_graduated,
    is_locked,
    is_persons,
    may_propose,
    names_credentials,
    proposal,
    pushes,
    task_digest,
    touched,
)
from kagura_kernel.runs.git_places import more_than_git, pushes_to
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runtime.host import HostRunner

_LIMITS = CommandLimits(10.0, None)
_UNKNOWN_PATH = "your login shell does not say where it looks for programs"

MOST_NAMED = 5
"""Names that a note tells."""

BY = "policy"
"""Who has decided what an earned grant answers."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What a question is about."""

    category: str | None = None  # What all of it belongs to; None for none
    graduated: bool = False  # Whether that has been earned
    locked: bool = False  # Whether no answer holds for longer than this run
    answered: bool = False  # Whether what has been earned answers it, in this run
    names: frozenset[str] = frozenset()  # To whom it would go, as far as it names anybody


@dataclass(slots=True)
class _Use:
    """What a run did of a category."""

    by_person: bool = False  # Whether a person had allowed any of it
    ended_well: bool = False  # Whether a command ended with 0 on the host that a person had allowed
    names: frozenset[str] = frozenset()  # To whom such commands went


@dataclass(slots=True)
class _Uses:
    """What a run has done so far."""

    of: dict[str, _Use] = field(default_factory=dict)  # By category
    # The questions about approved commands by the tool call, with whether a person has approved it
    calls: dict[str, tuple[_Question, bool]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)  # Categories in which something went wrong


def agent_powers(session: SessionPowers) -> SessionPowers:
    """What a session's powers are to an agent's run: shared, but for what is locked, which no session unlocks."""
    return replace(session, writable_root=False, asks_anew=lambda grant: asks_anew(str(grant)))


class Trusting:
    """One run's; an approver in front of another one, and the evidence that the run gives.

    Args:
        order: The run's.
        inner: Who is asked about what was not earned.
        journal: Where evidence is kept.
        clock: The time.
        untrusted: Whether the run has been shown memories that are not trusted.
        record: Where evidence is written down.
    """

    def __init__(
        self,
        order: RunOrder,
        inner: Approver,
        journal: Journal,
        clock: Clock,
        untrusted: Callable[[], bool],
        record: RecordFact,
    ) -> None:
        self._order = order
        self._inner = inner
        self._clock = clock
        self._untrusted = untrusted
        self._record = record
        self._history = TrustHistory(journal)
        self._standings: Mapping[str, TrustRecord] = {}
        self._questions: dict[str, _Question] = {}
        self._uses = _Uses()
        self._waiting: asyncio.Timeout | None = None
        self._stopped = False
        self._told = ""

    def stop(self) -> None:
        """Wait for no answer to a proposal any more, on the run's own loop; what was proposed stands."""
        self._stopped = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    # ------------------------------------------------------------------ asking

    async def offered(self, request: ApprovalRequest) -> ApprovalRequest:
        """The question as it is shown: what is locked is not to be had for a whole session.

        Whether an earned grant answers is found out here, before anybody can see the question and answer it too.
        """
        question = self._questions[request.id] = await self._judged(request)
        if not question.locked:
            return request
        return replace(request, options=tuple(option for option in request.options if option != THIS_SESSION))

    def answers(self, request: ApprovalRequest) -> bool:
        """Whether an earned grant answers a question that was offered, so that nobody is asked."""
        question = self._questions.get(request.id)
        return question is not None and question.category is not None and question.answered

    async def approve(self, request: ApprovalRequest) -> Decision:
        """The answer that was earned, or a person's; see `Approver.approve`."""
        question = self._questions.get(request.id) or await self._judged(request)
        category = question.category
        if category is not None and question.answered:
            self._change(category, "applied", by=BY, via=VIA)
            return Decision(request.id, Verdict.ALLOW, BY, VIA, self._clock.now())
        decision = await self._inner.approve(request)
        if question.locked and decision.answer == THIS_SESSION:
            return replace(decision, answer=THIS_RUN if decision.allowed else "")
        return decision

    async def _judged(self, request: ApprovalRequest) -> _Question:
        question = await self._look_at(request)
        if question.category is None or not question.graduated:
            return question
        by_program = request.kind is ApprovalKind.HOST_COMMAND
        return replace(question, answered=await self._holds_here(question.category, question.names, by_program))

    async def _holds_here(self, category: str, names: frozenset[str], by_program: bool) -> bool:
        """Whether what has graduated answers in this run, where it goes to these; `by_program` for a host command."""
        if self._marked or category in self._uses.failed:
            return False
        # A name that an agent chooses can carry out what it knows, and bring in what somebody has put there.
        strange = sorted(names - self._standings[category].names)
        why = f"it has not gone well with {', '.join(strange[:MOST_NAMED])} yet" if strange else ""
        if not why and by_program:
            why = await _strays(self._order.project)
        if not why and category == "git":
            why = await more_than_git(self._order.project)
        if why and why != self._told:
            self._told = why
            self._record(Noted, text=f"{category.capitalize()} is trusted, but you are asked about it here: {why}.")
        return not why

    @property
    def _marked(self) -> bool:
        return self._untrusted() or self._order.handoff.untrusted

    async def _look_at(self, request: ApprovalRequest) -> _Question:
        # A `%%sandbox` cell is a person's own program: they are asked as ever, and it shows nothing of an agent.
        # Without knowing what was held every credential is new, so that nothing is missed here.
        if self._order.brain is None or not (touches := touched(request)):
            return _Question()
        held: frozenset[str] = frozenset()
        try:
            if names_credentials(request):
                held = await asyncio.to_thread(self._history.held)
                touches = touched(request, held)
            self._standings = await asyncio.to_thread(self._history.look)
        except JournalError:
            # What cannot be read has not been earned.
            return _Question(categorise(request, held), locked=bool(touches))
        category = categorise(request, held)
        names = goes_to(request)
        if category == "git" and pushes(request):
            # `origin` is somebody else in each repository, and what is pushed holds an agent's words.
            names |= await pushes_to(self._order.project)
        return _Question(
            category,
            graduated=category is not None and is_graduated(category, self._standings),
            locked=any(is_locked(name, self._standings) for name in touches),
            names=names,
        )

    # ---------------------------------------------------------------- evidence

    def decided(self, request: ApprovalRequest, decision: Decision) -> None:
        """An approval ended.

        Raises:
            JournalError: what it shows could not be stored.
        """
        question = self._questions.pop(request.id, _Question())
        category = question.category
        if category is None or not BY_NAME[category].graduates:
            return
        by_person = is_persons(decision)
        if decision.allowed and (by_person or decision.via == VIA):
            use = self._uses.of.setdefault(category, _Use())
            use.by_person |= by_person
            if request.kind is ApprovalKind.HOST_COMMAND:
                self._uses.calls[request.call_id] = (question, by_person)
        elif decision.verdict is Verdict.DENY and by_person:
            self._fail(category, "human", "a person said no", by=decision.by, via=decision.via)

    def used(self, call: ToolCall, result: ToolResult) -> None:
        """A tool answered.

        Raises:
            JournalError: what it shows could not be stored.
        """
        question, by_person = self._uses.calls.pop(call.id, (_Question(), False))
        category = question.category
        # What an earlier run had done is answered from its record, by another route, and proves nothing here.
        if not category or result.route != "host":
            return
        if result.exit_code == 0 and not result.is_error:
            if by_person:
                use = self._uses.of[category]
                use.ended_well, use.names = True, use.names | question.names
            return
        ended = "did not end in time" if result.exit_code is None else f"ended with {result.exit_code}"
        self._fail(category, "exit-code", f"a command on the host {ended}")

    async def settle(self, ending: Ending, verified: RunVerified | None, approver: Approver) -> None:
        """Store the evidence of the run, demote what failed, and propose what has been earned.

        Raises:
            JournalError: it could not be stored, or not be read.
        """
        doubtful = verified is not None and not verified.passed
        # One that hung or was killed in its box is the work's fault; one that never had a box says nothing.
        if verified is not None and doubtful and verified.box_id:
            for category in self._uses.of:
                self._fail(category, "verification", "the verification of its run failed")
        # A run that others may have talked into it shows nothing, and the words of a child's task are an agent's.
        if ending.status != "done" or doubtful or self._marked or self._order.handoff.lineage:
            return
        passed = verified is not None
        for category, use in self._uses.of.items():
            signal: TrustSignal = "exit-code" if use.ended_well else "verification" if passed else ""
            if signal and use.by_person and category not in self._uses.failed:
                names = tuple(sorted(use.names))
                self._change(category, "succeeded", signal=signal, task=task_digest(self._order.task), names=names)
                await self._propose(category, approver)

    def _fail(self, category: str, signal: TrustSignal, why: str, *, by: str = "", via: str = "") -> None:
        if category in self._uses.failed:
            return
        self._uses.failed.add(category)
        self._change(category, "failed", signal=signal, by=by, via=via, why=why)
        standing = self._standings.get(category)
        if standing is not None and (standing.graduated or standing.proposed_at is not None):
            self._change(category, "demoted", signal=signal, by=by, via=via, why=why)

    def _change(self, category: str, change: str, **fields: str | tuple[str, ...]) -> None:
        self._record(TrustChanged, category=category, change=change, **fields)

    # --------------------------------------------------------------- proposing

    async def _propose(self, category: str, approver: Approver) -> None:
        order, now = self._order, self._clock.now()
        standing = (await asyncio.to_thread(self._history.look))[category]
        if not may_propose(BY_NAME[category], standing, order.trust, now):
            return
        self._change(category, "proposed")
        if order.request.headless or self._stopped:
            return
        request = proposal(BY_NAME[category], standing, now, run_id=order.run_id, session_id=order.session_id)
        try:
            async with asyncio.timeout(None) as self._waiting:
                decision = await approver.approve(request)
        except (ApprovalAborted, TimeoutError):
            # Whoever calls the run off while it asks this has not said anything about trust.
            return
        finally:
            self._waiting = None
        await self._answered(category, request, decision)

    async def _answered(self, category: str, request: ApprovalRequest, decision: Decision) -> None:
        if not is_persons(decision) or decision.approval_id != request.id:
            return
        said = {"signal": "human", "by": decision.by, "via": decision.via}
        if not decision.allowed:
            self._change(category, "refused", **said)
            return
        self._change(category, "granted", **said)
        # Another run may have failed while this one asked: the journal's order says whether the grant counts.
        standing = (await asyncio.to_thread(self._history.look))[category]
        if not standing.graduated:
            self._record(Noted, text=f"{category} is not trusted: it has failed while you were asked.")


async def _strays(project: Path) -> str:
    """Why a program's name may mean a file of the project, half a sentence; empty where it does not.

    A host command is run by the person's login shell, whose profile may say `./bin` or `node_modules/.bin` first.
    """
    host = HostRunner(project)
    try:
        result = await host.run(Command(("bash", "-lc", "printf '\\0%s' \"$PATH\""), limits=_LIMITS))
    except HostError:
        return _UNKNOWN_PATH
    finally:
        await host.close()
    _, told, said = result.stdout.data.rpartition(b"\0")
    if not (result.ok and told) or result.stdout.truncated:
        return _UNKNOWN_PATH
    entries = os.fsdecode(said).split(":")
    outside = await asyncio.to_thread(entries_outside, entries, [str(project)], os.path.realpath)
    return "" if outside == entries else "the PATH of your login shell leads into the project"
