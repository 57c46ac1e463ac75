"""How a run goes on from where another stood: what it asks first, what is laid into its box, what is not repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Verdict
from kagura_kernel.domain.errors import ApprovalDenied, ResumeRefused
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Noted
from kagura_kernel.domain.events.memory import MemoriesSeen, RunResumed
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Checkpoint, Step
from kagura_kernel.domain.tools import ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import gone_on_with, run_of
from kagura_kernel.membrane.credentials.lease import Budget, Grant, parse_grant
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.membrane.membrane import Membrane
from kagura_kernel.patterns.plans import dollars, read_answer
from kagura_kernel.patterns.steps import BEGUN_IN, EARLIER, KINDS, Fold, Guard, Restoring, bounded, restoring, same
from kagura_kernel.runs.change_restore import restore_changes
from kagura_kernel.runs.changes import RunChanges
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.run_memory import RunMemory
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.tools.briefing import Resumed, resume_briefing


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """What of a run is stored, and how."""

    order: RunOrder  # What was asked for
    parts: RunParts  # What carries it out
    recorder: Recorder  # Stores its facts
    changes: RunChanges  # What it has changed so far
    account: Account  # Its money
    memory: RunMemory  # What it knows of earlier runs
    membrane: Membrane  # What crosses the wall of its box
    approver: Approver  # Who is asked for more
    redacting: Redacting  # Takes secrets out of what is kept

    @property
    def record(self) -> RecordFact:
        """Stores one fact."""
        return self.recorder.record


LONGEST_LINE = 100
"""Runs that go on from each other."""

WORD_LASTS = timedelta(days=1)
"""How long a person's word for a run's credentials is good for the runs that go on from it."""

_NOBODY = frozenset({"policy", "graduation", "deadline", "settings"})
_HOLDS = (ApprovalKind.CREDENTIAL, ApprovalKind.LAUNCH)


@dataclass(frozen=True, slots=True)
class Past:
    """A line of runs, each of which went on from the one before."""

    runs: tuple[str, ...] = ()  # Their ids, the first one first
    done: tuple[Step, ...] = ()  # Finished steps, whole, the oldest first; without those that were lost with their box
    lost: tuple[Step, ...] = ()  # Finished steps of the last run whose changes to files were not stored any more
    doubtful: tuple[Step, ...] = ()  # Steps that had begun, of which nobody knows whether they ended
    untrusted: bool = False  # Whether one of them was shown memories that are not trusted
    # Credentials that a person has lately let one of them hold, each as `provider:scope`
    allowed: frozenset[str] = frozenset()


def read_past(journal: Journal, checkpoint: Checkpoint, now: datetime) -> Past:
    """What lies behind a checkpoint.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    line = _line(journal, checkpoint.run_id)
    kept = {step.call_id for step in checkpoint.done}
    done: list[Step] = []
    lost: tuple[Step, ...] = ()
    doubtful: list[Step] = []
    for run_id in line:
        fold = _folded(journal, run_id, checkpoint)
        in_order, last = fold.in_order(), run_id == checkpoint.run_id
        stays = [
            step.outside or (step.number <= checkpoint.collected if last else step.call_id in kept) for step in in_order
        ]
        done += [step for step, stay in zip(in_order, stays, strict=True) if stay]
        lost = tuple(step for step, stay in zip(in_order, stays, strict=True) if not stay and step.effects)
        doubtful += fold.doubtful()
    open_ones = tuple(step for step in doubtful if not any(same(step, one) for one in done))
    seen = any(_has_seen_untrusted(journal, run_id) for run_id in line)
    return Past(
        line, tuple(done), lost, open_ones, checkpoint.untrusted or seen, frozenset(_allowed(journal, line, now))
    )


def _folded(journal: Journal, run_id: str, checkpoint: Checkpoint) -> Fold:
    options = checkpoint.options
    fold = Fold(run_id, plugins=bool(options.get("plugins")), full_control=bool(options.get("full_control")))
    looks = options.get("looks")
    if isinstance(looks, list | tuple):
        fold.looks = frozenset(map(str, looks))
    return fold.add(stored.event for stored in journal.events(run_id=run_id, kinds=KINDS))


def _line(journal: Journal, run_id: str) -> tuple[str, ...]:
    line: list[str] = []
    while run_id and run_id not in line and len(line) < LONGEST_LINE:
        line.append(run_id)
        found = run_of(journal, run_id)
        run_id = "" if found is None else found.resumes
    return tuple(reversed(line))


def _has_seen_untrusted(journal: Journal, run_id: str) -> bool:
    rows = journal.events(run_id=run_id, kinds=("memory.seen",))
    return any(isinstance(row.event, MemoriesSeen) and row.event.untrusted for row in rows)


def _allowed(journal: Journal, line: Sequence[str], now: datetime) -> set[str]:
    """What the rows prove that a person has allowed; of a word without its question nothing follows."""
    found: set[str] = set()
    for run_id in line:
        asked: dict[str, ApprovalRequested] = {}
        for row in journal.events(run_id=run_id, kinds=("approval.requested", "approval.decided")):
            match row.event:
                case ApprovalRequested(subject=subject) if subject in _HOLDS:
                    asked[row.event.approval_id] = row.event
                case ApprovalDecided(verdict=Verdict.ALLOW) if row.event.approval_id in asked:
                    question, word = asked[row.event.approval_id], row.event
                    by_person = not _NOBODY & {word.by, word.via}
                    # A word of a day to come was said under another clock: nobody knows how old it is.
                    lately = timedelta() <= now - word.at < WORD_LASTS
                    if by_person and word.content_hash == question.content_hash and lately:
                        found |= {str(name) for name in question.arguments.get("credentials", ())}
    return found


MOST_NAMED = 5
"""Paths that a note names."""


class Resumption:
    """One run's; on its loop."""

    def __init__(self, around: CheckpointParts, checkpoint: Checkpoint) -> None:
        self.past = Past()  # What lies behind it; known when it is prepared
        self.changes: tuple[FileChange, ...] = ()  # What was laid into its box
        self._around = around
        self._from = checkpoint
        self._guard = Guard(())
        self._restoring = Restoring()
        self._asks: list[str] = []

    async def prepare(self) -> None:
        """Read what lies behind, and ask for what the budget no longer covers; before anything is started.

        Raises:
            ResumeRefused: another run goes on from it already.
            ApprovalDenied: a person does not want it to go on.
            JournalError: what lies behind cannot be read.
        """
        around = self._around
        # Two kernels may have looked at the same time: the first one that started goes on.
        why = await asyncio.to_thread(gone_on_with, around.parts.journal, self._from.run_id, around.order.run_id)
        if why:
            raise ResumeRefused(self._from.run_id, why)
        past = await asyncio.to_thread(read_past, around.parts.journal, self._from, around.parts.clock.now())
        self.past = past
        self._guard = Guard(past.done, past.doubtful, next=_last(past.done) if around.order.resume else 0)
        around.memory.untrusted |= past.untrusted
        limit = around.account.budget_usd
        if limit is not None and limit <= 0:
            around.account.budget_usd = await self._money()
        around.membrane.carried = self._left_budgets()

    def starts_over(self) -> None:
        """Its brain has forgotten the conversation, and begins anew."""
        self._guard.in_order, self._guard.next = True, 0

    async def restore(self, box: Box) -> None:
        """Bring a fresh box to where the other run left its own.

        Raises:
            BoxFileError: the box did not take a file.
            WorkspaceError: what a file held is not kept any more.
            JournalError: it could not be written down.
        """
        around = self._around
        changes = [FileChange(**one) for one in self._from.changes]  # type: ignore[arg-type]
        found = self._restoring = await asyncio.to_thread(restoring, changes, around.changes.now_at)
        laid = await restore_changes(box, found.lay, around.parts.blobs) if found.lay else 0
        self.changes = found.lay
        around.changes.resume(self.past.runs, found.lay)
        around.record(
            RunResumed,
            resumes=self._from.run_id,
            step=len(self.past.done) + len(self.past.lost),
            doubtful=tuple(step.tool for step in self.past.doubtful),
            restored_files=laid,
            asks=tuple(self._asks),
        )
        if found.conflicts:
            text = f"Changed in the project since {self._from.run_id}, and left as they are there: "
            around.record(Noted, text=text + _named(found.conflicts))
        if found.lost:
            around.record(Noted, text=f"Of what {self._from.run_id} wrote, this was not kept: {_named(found.lost)}")

    def briefing(self) -> str:
        """What its brain is told."""
        past, found, stood = self.past, self._restoring, self._from
        return resume_briefing(
            Resumed(
                stood.run_id,
                bounded([*past.done, *past.lost], most=12_000, each=600),
                past.lost,
                bounded(past.doubtful),
                stood.plan,
                stood.pending,
                len(found.lay),
                found.conflicts,
                found.lost,
            )
        )

    async def before(self, call: Step) -> ToolResult | None:
        """The answer to a call that is not carried out; None for one that is.

        Raises:
            ApprovalAborted: a person called the run off.
        """
        judged = self._guard.judge(call)
        if judged.step is None:
            return None
        return _earlier(judged.step) if judged.what == "done" else await self._ask(call, judged.step)

    async def _ask(self, call: Step, step: Step) -> ToolResult | None:
        what = str(step.arguments.get("command") or step.arguments.get("code") or step.tool)
        request = self._request(
            ApprovalKind.TOOL,
            "Do this again? Nobody knows whether it was done",
            f"{step.run_id} was stopped while this was under way, and it may have changed something outside of its "
            f"box. Allow it only if doing it twice does no harm:\n\n{what}",
            {"tool": call.tool, "arguments": dict(call.arguments), BEGUN_IN: step.run_id},
            call.call_id,
        )
        decision = await self._around.approver.approve(request)
        if decision.allowed:
            return None
        text = (
            f"Not done again: {step.run_id} had begun it, nobody knows whether it ended, and it was not allowed to be "
            f"done twice: {decision.refusal}. Look whether it is done; if so, go on."
        )
        return ToolResult(text, is_error=True, route="")

    async def _money(self) -> float | None:
        stood = self._from
        proposed = stood.budget_usd or 0.0
        subject = f"Going on with {stood.run_id} without a budget that is left"
        spent = "nobody knows how much" if stood.spent_usd is None else dollars(stood.spent_usd)
        more = dollars(proposed)
        self._asks.append(f"its budget of {more} is used up, or nobody knows how much of it")
        request = self._request(
            ApprovalKind.PLAN,
            f"Go on with {stood.run_id} for another {more}?",
            f"Its budget was {more}, and it has used {spent}. This run would get {more} of its own; an answer "
            "such as `0.50`, or `no budget`, changes that.",
            {"resumes": stood.run_id, "spent_usd": stood.spent_usd, "budget_usd": proposed},
        )
        decision = await self._around.approver.approve(request)
        if not decision.allowed:
            raise ApprovalDenied(subject, f"{decision.refusal}; `--budget` names one")
        try:
            return read_answer(decision.answer, proposed).budget_usd
        except ValueError as error:
            raise ApprovalDenied(subject, f"{error} Nothing was spent") from error

    def _left_budgets(self) -> dict[Grant, Budget]:
        """What is left of what a person allowed, as far as the journal proves it."""
        found = {}
        held = {str(one) for one in self._around.order.grant.credentials}
        for left in self._from.budgets:
            if left.scope not in held:
                continue
            budget = Budget(max(0.0, left.seconds), 0.0, max(0, left.renewals))
            if budget.exhausted:
                self._asks.append(f"the time for {left.scope} is used up")
            elif left.scope not in self.past.allowed:
                self._asks.append(f"a person's word for {left.scope} is needed anew")
            else:
                found[parse_grant(left.scope)] = budget
        return found

    def _request(
        self, kind: ApprovalKind, title: str, detail: str, arguments: dict[str, object], call_id: str = ""
    ) -> ApprovalRequest:
        around = self._around
        return ApprovalRequest(
            id=new_approval_id(),
            run_id=around.order.run_id,
            session_id=around.order.session_id,
            kind=kind,
            title=title,
            detail=detail,
            arguments=arguments,
            call_id=call_id,
            requested_at=around.parts.clock.now(),
            deadline=around.order.routing.approval_deadline,
        )


def _last(steps: Sequence[Step]) -> int:
    """The last step that was more than looking."""
    return max((index for index, step in enumerate(steps) if step.effects), default=len(steps))


def _earlier(step: Step) -> ToolResult:
    mark = (
        f"already done in {step.run_id}, step {step.number}: this is its result, and nothing was carried out. Make the "
        "call a second time if it has to be done again."
    )
    return ToolResult(f"[{mark}]\n{step.result}", is_error=step.is_error, route=EARLIER)


def _named(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(ascii(path)[1:-1] for path in paths[:MOST_NAMED]) + more
