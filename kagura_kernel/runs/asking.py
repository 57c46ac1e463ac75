"""How a run asks for more power: the question and its end are events of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kagura_kernel.domain.approvals import ApprovalRequest, Approver, Decision, Verdict, asked_fields
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalAborted
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested
from kagura_kernel.runs.recorder import Recorder


class RecordedApprover:
    """Puts another approver's questions and answers into a run's record.

    The order is claim, record, act: the approver claims the decision, it is stored here, and only then does the
    caller get it and may act on it.

    Args:
        inner: Who answers.
        recorder: The run's record.
        clock: For how long an answer took.
        lineage: The runs that this one works for, the first one first.
        offered: Makes of each question what is asked in the end, before it is stored.
        decided: Told of every answer.
    """

    def __init__(
        self,
        inner: Approver,
        recorder: Recorder,
        clock: Clock,
        *,
        lineage: tuple[str, ...] = (),
        offered: Callable[[ApprovalRequest], Awaitable[ApprovalRequest]] | None = None,
        decided: Callable[[ApprovalRequest, Decision], None] | None = None,
    ) -> None:
        self._inner = inner
        self._recorder = recorder
        self._clock = clock
        self._lineage = lineage
        self._offered = offered
        self._decided = decided
        self.denied = 0

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask, record and answer; see `Approver.approve`."""
        request = replace(request, lineage=self._lineage)
        if self._offered is not None:
            request = await self._offered(request)
        self._recorder.record(ApprovalRequested, **asked_fields(request))
        began = self._clock.monotonic()
        verdict, by, via, answer = Verdict.ABORTED, "run", "run", "the run ended before an answer came"
        try:
            decision = await self._inner.approve(request)
        except ApprovalAborted:
            by, via, answer = "person", "desk", "the run was called off"
            raise
        except asyncio.CancelledError:
            raise
        else:
            verdict, by, via, answer = decision.verdict, decision.by, decision.via, decision.answer
            self.denied += not decision.allowed
            if self._decided is not None:
                self._decided(request, decision)
            return decision
        finally:
            self._recorder.record(
                ApprovalDecided,
                approval_id=request.id,
                verdict=verdict,
                by=by,
                via=via,
                answer=answer,
                content_hash=request.content_hash,
                waited=self._clock.monotonic() - began,
            )
