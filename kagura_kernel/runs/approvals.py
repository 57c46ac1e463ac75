"""How a run asks for more power: the question and its end are events of the run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from weakref import WeakValueDictionary

from kagura_kernel.domain.approval_content import asked
from kagura_kernel.domain.approvals import (
    LIMIT,
    ApprovalKind,
    ApprovalRequest,
    Approver,
    Decision,
    Patience,
    Verdict,
    asked_fields,
)
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalAborted
from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested, Noted
from kagura_kernel.domain.kit import MARKER
from kagura_kernel.membrane.credentials.secret import HIDDEN
from kagura_kernel.runs.recorder import Recorder

_PATIENCE: WeakValueDictionary[str, Patience] = WeakValueDictionary()
"""By the run that a person began: what works for it wears down the same person."""


OUT_OF_SIGHT = (
    "it holds what looks like a secret and has signs that a shell or a program may obey, and who decides would not see "
    "it: keep the secret in a file or a variable of the host, and name that"
)
"""Why a command is not asked about; more of one may be hidden than a value."""

NO_PLACE = "a host in it looks like a secret, and who decides would not see where that leads: use another name of it"
"""The same of a host."""

_OPENS = {
    ApprovalKind.NETWORK: ("host",),
    ApprovalKind.LAUNCH: ("egress", "asked"),
    ApprovalKind.CREDENTIAL: ("egress", "asked"),
}
"""The arguments by which something is reached; nothing of these may be hidden."""

_HIDES = re.compile(rf"{MARKER.pattern}|{re.escape(HIDDEN)}", re.ASCII)
_VALUE = re.compile(r"[\w.+/=@%:,-]*", re.ASCII)
"""What is a value to every shell, whatever stands around it."""


class RecordedApprover:
    """Puts another approver's questions and answers into a run's record.

    After so many refusals in a row of one kind, and beyond so many that wait at once, it answers no itself, and puts
    no question. For hosts the membrane does that, which has words for whoever connects.

    The order is claim, record, act: the approver claims the decision, it is stored here, and only then does the
    caller get it and may act on it.

    Args:
        inner: Who answers.
        recorder: The run's record.
        clock: For how long an answer took.
        lineage: The runs that this one works for, the first one first.
        offered: Makes of each question what is asked in the end, before it is stored.
        decided: Told of every answer.
        answered: Whether a question, as it was offered, has its answer without anybody being asked.
        pause: Holds up the limits of what may wait for the answer.
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
        answered: Callable[[ApprovalRequest], bool] | None = None,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._inner = inner
        self._recorder = recorder
        self._clock = clock
        self._pause = pause
        self._lineage = lineage
        self._offered = offered
        self._decided = decided
        self._answered = answered
        root = lineage[0] if lineage else recorder.run_id
        self._patience = _PATIENCE.setdefault(root, Patience())
        self._told: set[str] = set()

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask, record and answer; see `Approver.approve`."""
        request = replace(request, lineage=self._lineage)
        if self._offered is not None:
            request = await self._offered(request)
        earned = self._answered is not None and self._answered(request)
        if request.kind is not ApprovalKind.NETWORK and not earned and (why := self._patience.why_not(request.kind)):
            return self._refusal(request, why)
        if not earned and (why := self._out_of_sight(request)):
            return self._refusal(request, why)
        self._recorder.record(ApprovalRequested, **asked_fields(request))
        began = self._clock.monotonic()
        verdict, by, via, answer = Verdict.ABORTED, "run", "run", request.withdrawn
        self._patience.asks(request.kind)
        try:
            with self._pause():
                decision = await self._inner.approve(request)
        except ApprovalAborted:
            by, via, answer = "person", "desk", "the run was called off"
            raise
        except asyncio.CancelledError:
            raise
        else:
            verdict, by, via, answer = decision.verdict, decision.by, decision.via, decision.answer
            if not earned:
                self._patience.heard(request.kind, decision)
            if self._decided is not None:
                self._decided(request, decision)
            return decision
        finally:
            self._patience.withdrawn(request.kind)
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

    def _out_of_sight(self, request: ApprovalRequest) -> str:
        """Why a question is not put, of which more would be hidden than a person can do without; empty for most."""
        opens = _OPENS.get(request.kind, ())
        if not opens and request.kind is not ApprovalKind.HOST_COMMAND:
            return ""
        seen = self._recorder.make(ApprovalRequested, **asked_fields(request))
        if opens:
            return "" if all(seen.arguments.get(one) == request.arguments.get(one) for one in opens) else NO_PLACE
        whole = asked(request.kind, request.title, request.detail, request.arguments)
        told = asked(request.kind, seen.title, seen.detail, seen.arguments)
        pairs = ((whole.subject, told.subject), (whole.stdin, told.stdin), (whole.directory, told.directory))
        return "" if all(text == shown or hides_values(text, shown) for text, shown in pairs) else OUT_OF_SIGHT

    def _refusal(self, request: ApprovalRequest, why: str) -> Decision:
        """The no that nobody had to say; the person is told of it once."""
        if why not in self._told:
            self._told.add(why)
            self._recorder.record(Noted, text=f"The agent was not let ask: {why.partition(':')[0]}.")
        return Decision(request.id, Verdict.DENY, LIMIT, "policy", self._clock.now(), why)


def hides_values(text: str, shown: str) -> bool:
    """Whether a text is as it is shown, but for values where that has marks."""
    first, *others = _HIDES.sub("\0", shown).split("\0")
    if not (text.startswith(first) and text.endswith((others or [first])[-1])):
        return False
    at = len(first)
    for number, piece in enumerate(others, 1):
        found = text.find(piece, at) if number < len(others) else len(text) - len(piece)
        hidden = text[at : max(at, found)]
        if found < at or not (_VALUE.fullmatch(hidden) or _HIDES.fullmatch(hidden)):
            return False
        at = found + len(piece)
    return at == len(text)


ONLY_PLANS = "this run only plans: say in the plan what it will need, and go on without"

ASKED_WHILE_PLANNING = frozenset({ApprovalKind.PLAN, ApprovalKind.QUESTION})
"""What opens nothing. Every other kind of question is answered no, one that is still to be thought of too."""


class WhilePlanning:
    """Answers no to whatever would give a run more, while it only plans.

    Args:
        inner: Who answers everything else.
        clock: For the time of an answer.
        held: Why it gets nothing now, as a clause; empty where it may ask.
    """

    def __init__(self, inner: Approver, clock: Clock, held: Callable[[], str]) -> None:
        self._inner = inner
        self._clock = clock
        self._held = held

    async def approve(self, request: ApprovalRequest) -> Decision:
        """See `Approver.approve`."""
        if request.kind not in ASKED_WHILE_PLANNING and (why := self._held()):
            return Decision(request.id, Verdict.DENY, "policy", "policy", self._clock.now(), why)
        return await self._inner.approve(request)
