"""The audit of one plugin as a run of its own: one question to a brain that has no tools, and a report in every case.

There is no box and nothing of the plugin is carried out. A brain that falls silent, or is lost, is asked once more, or
done without, or the audit is called off, as a person says; where nobody can be asked the scan alone counts, and the
report says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainProvider, BrainText, BrainUsage, Turn
from kagura_kernel.domain.approvals import ApprovalKind, Approver, Verdict
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalAborted, BrainError, BrainLost, KaguraError, RunKilled
from kagura_kernel.domain.events import (
    AnyEvent,
    Noted,
    PluginAudited,
    RunFinished,
    RunStarted,
    TextStreamed,
    TextWritten,
)
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.plugins import PluginAudit
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.membrane.leasing import Leasing
from kagura_kernel.plugins.audit import MAX_ANSWER, deep_audit, static_audit
from kagura_kernel.plugins.audit_prompt import AuditPrompt, audit_prompt, replayed_ids
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.scan.scanning import ScanResult
from kagura_kernel.runs.asking import RecordedApprover
from kagura_kernel.runs.ending import Ending, Work
from kagura_kernel.runs.ledger import Account, Books
from kagura_kernel.runs.order import Price
from kagura_kernel.runs.recorder import Recorder, told
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runtime.router import Asker, use_approver

SILENCE_SECONDS = 120.0
"""How long an auditor may say nothing."""


class AuditorSilent(Exception):
    """The brain has said nothing for too long. Not for people: they are asked what now."""


async def ask_auditor(brain: BrainProvider, prompt: AuditPrompt, books: Books, *, model: str) -> str:
    """The answer, as it was; one that grows beyond every report is cut off there.

    Args:
        brain: Who is asked, in a session of its own.
        prompt: What.
        books: Where it is recorded and paid.
        model: The model asked for; empty is the brain's own choice.

    Raises:
        AuditorSilent: it said nothing for too long.
        BrainError: it could not answer.
        BudgetExhausted: it has cost what it may.
    """
    turn = Turn(
        task=prompt.task,
        system=prompt.system,
        tools=(),
        call_tool=_no_tools,
        model=model,
        budget_usd=books.account.left_usd,
        max_turns=1,
    )
    stream: AsyncGenerator[BrainEvent, None] = brain.run(turn)  # type: ignore[assignment]
    whole, growing = "", ""
    async with aclosing(stream):
        while True:
            match await _next(stream, books.clock):
                case BrainText(text, partial=True):
                    growing += text[: MAX_ANSWER + 1]
                    books.recorder.record(TextStreamed, text=text[:MAX_ANSWER])
                case BrainText(text):
                    whole, growing = whole + text[: MAX_ANSWER + 1], ""
                    books.recorder.record(TextWritten, text=text[:MAX_ANSWER])
                case BrainUsage(usage, answering):
                    books.count(usage, answering)
                    books.account.check()
                case BrainDone() as done:
                    books.close(done)
                    return whole or done.text
                case None:
                    raise BrainLost(brain.name, "it fell silent without finishing")
            if len(whole) + len(growing) > MAX_ANSWER:
                return whole + growing


async def _next(stream: AsyncGenerator[BrainEvent, None], clock: Clock) -> BrainEvent | None:
    coming = asyncio.ensure_future(_one(stream))
    silence = asyncio.ensure_future(clock.sleep(SILENCE_SECONDS))
    try:
        await asyncio.wait({coming, silence}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise AuditorSilent
        return coming.result()
    finally:
        silence.cancel()
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})


async def _one(stream: AsyncGenerator[BrainEvent, None]) -> BrainEvent | None:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None


async def _no_tools(call: ToolCall) -> ToolResult:
    return ToolResult(
        f"There is no tool {call.name!r}: an audit is one answer, without tools.", is_error=True, route=""
    )


RETRY, STATIC, ABORT = "Retry", "Static only", "Abort"


@dataclass(frozen=True, slots=True)
class AuditOrder:
    """One audit as it was asked for."""

    run_id: str
    session_id: str  # The session that asks. The brain gets a fresh one of its own, which nothing goes on from.
    found: Found  # The plugin: these very bytes are shown
    scan: ScanResult  # Of the same bytes
    brain: BrainProvider | None = None  # Who looks; None for the scan alone
    brain_reason: str = ""  # Why this one, or why none: half a sentence
    model: str = ""  # Model asked for; empty is the brain's own choice
    by: str = ""  # Who asked for it
    headless: bool = False  # Whether nobody can be asked
    recorded: str = ""  # For a brain that plays a cassette: the task that was recorded with it
    budget_usd: float | None = None  # Limit in USD; None is none
    # Seconds until no answer to a question means going on without the brain
    deadline: float = DEFAULTS.approval_deadline
    project: str = ""  # The project root on the host; empty without one
    origin: str = "api"  # Where it was asked for
    user: str = ""  # Login name
    owner: str = ""  # The process that runs it
    place: CellPlace = field(default_factory=CellPlace)  # The cell that asked
    known: PluginAudit | None = None  # A report of these very bytes that was made before; nobody is asked for another
    # What follows within the same run, such as asking a person what to do about it: gets the report and whom to ask,
    # and gives the run's text. What it raises is how the run ends.
    then: Callable[[PluginAudit, Approver], Awaitable[str]] | None = None

    @property
    def plugin(self) -> str:
        """Name and version."""
        return f"{self.found.name} {self.found.manifest.version}"


@dataclass(frozen=True, slots=True)
class AuditParts:
    """What carries an audit out."""

    journal: Journal  # Where every fact goes
    clock: Clock  # The time
    approver: Approver  # Who is asked when the brain is silent
    price: Price  # What tokens cost
    # Finds secrets in what is told of it; None takes none out. The auditor itself is shown the very bytes that would
    # run: what looks like a secret could be what is to be hidden from it.
    redactor: Redactor | None = None


class AuditRun:
    """An audit that can be listened to once, and stopped at any time."""

    leasing: Leasing | None = None
    """It is given nothing."""

    def __init__(self, order: AuditOrder, parts: AuditParts) -> None:
        self.order = order  # What was asked for
        self.outcome: RunOutcome | None = None  # How it ended; None until the iterator of events has ended
        # The report; None until there is one. An audit that was called off, or failed, has none.
        self.audit: PluginAudit | None = None
        self._parts = parts
        self._recorder = Recorder(parts.journal, parts.clock, order.run_id, order.session_id)
        self._redacting = Redacting(parts.redactor)
        self._recorder.redact = self._redacting.event
        self._account = Account(order.budget_usd)
        self._books = Books(self._account, self._recorder, parts.price, parts.clock)
        self._approver = RecordedApprover(parts.approver, self._recorder, parts.clock)
        self._work = Work(order.run_id)

    def kill(self, by: str) -> None:
        """Stop it, on the run's own loop; no report is made. May be called twice."""
        self._work.stop(RunKilled(self.order.run_id, by))

    async def say(self, _sentence: Sentence) -> str:
        """Why nobody can be told anything: an audit is one question, and its report is for our parser."""
        return "it is an audit, whose one question is fixed"

    def events(self) -> AsyncIterator[AnyEvent]:
        """Everything that happens, to the end. Closing the iterator early stops the run.

        Raises:
            JournalError: a fact could not be stored; the run was stopped.
        """
        return told(self._recorder, self._drive, f"drive {self.order.run_id}")

    async def _drive(self) -> None:
        began = self._parts.clock.monotonic()
        self._record_start()
        ending = Ending("killed", error=RunKilled(self.order.run_id, "the end of its process"))
        try:
            ending = await self._work.to_the_end(self._examine())
        finally:
            self._finish(ending, self._parts.clock.monotonic() - began)

    def _record_start(self) -> None:
        order = self.order
        self._recorder.record(
            RunStarted,
            task=f"Audit the plugin {order.plugin}",
            flavour="audit",
            brain=order.brain.name if order.brain else "",
            brain_reason=order.brain_reason,
            model=order.model if order.brain else "",
            project=order.project,
            write_mode="none",
            budget_usd=order.budget_usd,
            origin=order.origin,
            user=order.user,
            owner=order.owner,
            headless=order.headless,
            protected=(),
            notebook=order.place.notebook,
            kernel_id=order.place.kernel_id,
            cell_id=order.place.cell_id,
        )

    # ----------------------------------------------------------------- examine

    async def _examine(self) -> Ending:
        audit = self.order.known
        if audit is None:
            await self._redacting.ready()
            audit = self._redacting.value(await self._audit())
            self._recorder.record(PluginAudited, audit=audit, by=self.order.by)
        self.audit = audit
        return Ending(
            "done", audit.summary if self.order.then is None else await self.order.then(audit, self._approver)
        )

    async def _audit(self) -> PluginAudit:
        brain = self.order.brain
        if brain is None:
            why = f": {self.order.brain_reason}" if self.order.brain_reason else ""
            return self._static(f"No brain has looked{why}.")
        while True:
            try:
                # Beside the loop: looking for places in a long source takes a while.
                prompt = await asyncio.to_thread(self._prompt)
                if prompt is None:
                    return self._static("It is too large to be shown to a brain as a whole.")
                answer = await ask_auditor(brain, prompt, self._books, model=self.order.model)
            except (BrainError, AuditorSilent) as error:
                if await self._asks_for_another(brain, _why(error)):
                    continue
                return self._static(f"No brain has looked: {_why(error).rstrip('.')}.")
            return deep_audit(
                self.order.found,
                self.order.scan,
                answer,
                canaries=prompt.canaries,
                auditor=f"{brain.name} {self._account.model or self.order.model}".strip(),
                at=self._parts.clock.now(),
            )

    def _prompt(self) -> AuditPrompt | None:
        order = self.order
        ids = replayed_ids(order.found, order.recorded) if order.recorded else None
        return audit_prompt(order.found, order.scan.findings, ids)

    def _static(self, why: str) -> PluginAudit:
        return static_audit(self.order.found, self.order.scan, why, at=self._parts.clock.now())

    async def _asks_for_another(self, brain: BrainProvider, why: str) -> bool:
        """Whether the brain is to be asked once more; else the scan alone counts.

        Raises:
            ApprovalAborted: the audit is called off.
        """
        what = f"The audit of {self.order.plugin} by {brain.name} did not come to its end"
        if self.order.headless:
            self._recorder.record(Noted, text=f"{what}: {why} Nobody can be asked here, so the scan alone counts.")
            return False
        asker = Asker(self.order.run_id, self.order.session_id, self._parts.clock, self.order.deadline)
        detail = (
            f"{what}: {why}\n{RETRY}: ask it once more. {STATIC}: go on with what the scan has found, which leaves the "
            f"risk unknown. {ABORT}: call the audit off."
        )
        with use_approver(self._approver):
            decision = await asker.ask(
                ApprovalKind.QUESTION, f"{what}. What now?", detail, options=(RETRY, STATIC, ABORT)
            )
        answer = decision.answer.strip().casefold()
        if decision.allowed and answer == RETRY.casefold():
            return True
        if decision.verdict is Verdict.TIMEOUT or decision.by == "policy":
            self._recorder.record(Noted, text="Nobody has answered, so the scan alone counts.")
        elif not (decision.allowed and answer == STATIC.casefold()):
            raise ApprovalAborted(f"the audit of {self.order.plugin}")
        return False

    # ------------------------------------------------------------------ finish

    def _finish(self, ending: Ending, duration: float) -> None:
        order, account = self.order, self._account
        self.outcome = RunOutcome(
            run_id=order.run_id,
            session_id=order.session_id,
            status=ending.status,
            text=self._redacting.text(ending.text),
            cost=account.cost,
            usage=account.usage,
            duration=duration,
            error_code=ending.error_code,
            error=self._redacting.text(ending.error_text),
        )
        # Without `brain_session`: a later run of the session goes on from its own last one, never from an audit.
        self._recorder.record(
            RunFinished,
            status=ending.status,
            text=ending.text,
            error_code=ending.error_code,
            error=ending.error_text,
            brain=order.brain.name if order.brain else "",
            **account.figures(order.model if order.brain else ""),
            duration=duration,
            changed_files=0,
        )


def _why(error: Exception) -> str:
    """A sentence."""
    match error:
        case AuditorSilent():
            return f"it has said nothing for {SILENCE_SECONDS:g} s."
        case BrainLost(why=why):
            return f"{why}."
        case KaguraError(message=message):
            return message
        case _:
            raise AssertionError(error)
