"""The audit of one plugin as a run of its own: one question to a brain that has no tools, and a report in every case.

There is no box and nothing of the plugin is carried out. A brain that falls silent, or is lost, is asked once more, or
done without, or the audit is called off, as a person says; where nobody can be asked the scan alone counts, and the
report says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.domain.approvals import ApprovalKind, Approver, Verdict
from kagura_kernel.domain.errors import ApprovalAborted, BrainError, BrainLost, KaguraError
from kagura_kernel.domain.events import Noted, PluginAudited
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.domain.plugins import PluginAudit
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.plugins.audit import MAX_ANSWER, AuditPrompt, audit_prompt, deep_audit, replayed_ids, static_audit
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.scan.scanner import ScanResult
from kagura_kernel.runs.approvals import RecordedApprover
from kagura_kernel.runs.question_run import BrainSilent, Question, QuestionOrder, QuestionParts, QuestionRun, ask
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runtime.router import Asker, use_approver

SILENCE_SECONDS = 120.0
"""How long an auditor may say nothing."""


RETRY, STATIC, ABORT = "Retry", "Static only", "Abort"


@dataclass(frozen=True, slots=True)
class AuditOrder(QuestionOrder):
    """One audit as it was asked for."""

    found: Found  # The plugin: these very bytes are shown
    scan: ScanResult  # Of the same bytes
    _: KW_ONLY
    headless: bool = False  # Whether nobody can be asked
    recorded: str = ""  # For a brain that plays a cassette: the task that was recorded with it
    # Seconds until no answer to a question means going on without the brain
    deadline: float = DEFAULTS.approval_deadline
    project: str = ""  # The project root on the host; empty without one
    place: CellPlace = field(default_factory=CellPlace)  # The cell that asked
    known: PluginAudit | None = None  # A report of these very bytes that was made before; nobody is asked for another
    # What follows within the same run, such as asking a person what to do about it: gets the report and whom to ask,
    # and gives the run's text. What it raises is how the run ends.
    then: Callable[[PluginAudit, Approver], Awaitable[str]] | None = None

    @property
    def plugin(self) -> str:
        """Name and version."""
        return f"{self.found.name} {self.found.manifest.version}"


class AuditRun(QuestionRun):
    """An audit that can be listened to once, and stopped at any time."""

    order: AuditOrder
    unheard = "it is an audit, whose one question is fixed"

    def __init__(self, order: AuditOrder, parts: QuestionParts, approver: Approver) -> None:
        super().__init__(order, parts)
        # The report; None until there is one. An audit that was called off, or failed, has none.
        self.audit: PluginAudit | None = None
        # Who is asked when the brain is silent
        self._approver = RecordedApprover(approver, self._recorder, parts.clock)

    def _started(self) -> dict[str, Any]:
        order = self.order
        return {
            "task": f"Audit the plugin {order.plugin}",
            "flavour": "audit",
            "project": order.project,
            "headless": order.headless,
            "notebook": order.place.notebook,
            "kernel_id": order.place.kernel_id,
            "cell_id": order.place.cell_id,
        }

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
                # Beside the loop: looking for places in a long source takes a while. It is shown the bytes that would
                # run, unredacted: what looks like a secret could be what is to be hidden from it.
                prompt = await asyncio.to_thread(self._prompt)
                if prompt is None:
                    return self._static("It is too large to be shown to a brain as a whole.")
                asked = Question(prompt.task, prompt.system, self.order.model, MAX_ANSWER, SILENCE_SECONDS)
                answer = await ask(brain, asked, self._books)
            except (BrainError, BrainSilent) as error:
                if await self._asks_for_another(brain, _why(error)):
                    continue
                return self._static(f"No brain has looked: {_why(error).rstrip('.')}.")
            return deep_audit(
                self.order.found,
                self.order.scan,
                answer,
                canaries=prompt.canaries,
                auditor=f"{brain.name} {self._account.model or self.order.model}".strip(),
                at=self._clock.now(),
            )

    def _prompt(self) -> AuditPrompt | None:
        order = self.order
        ids = replayed_ids(order.found, order.recorded) if order.recorded else None
        return audit_prompt(order.found, order.scan.findings, ids)

    def _static(self, why: str) -> PluginAudit:
        return static_audit(self.order.found, self.order.scan, why, at=self._clock.now())

    async def _asks_for_another(self, brain: BrainProvider, why: str) -> bool:
        """Whether the brain is to be asked once more; else the scan alone counts.

        Raises:
            ApprovalAborted: the audit is called off.
        """
        what = f"The audit of {self.order.plugin} by {brain.name} did not come to its end"
        if self.order.headless:
            self._recorder.record(Noted, text=f"{what}: {why} Nobody can be asked here, so the scan alone counts.")
            return False
        asker = Asker(self.order.run_id, self.order.session_id, self._clock, self.order.deadline)
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


def _why(error: Exception) -> str:
    """A sentence."""
    match error:
        case BrainSilent():
            return f"it has said nothing for {SILENCE_SECONDS:g} s."
        case BrainLost(why=why):
            return f"{why}."
        case KaguraError(message=message):
            return message
        case _:
            raise AssertionError(error)
