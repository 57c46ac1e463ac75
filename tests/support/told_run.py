"""A run that a test tells event by event, and the cockpit it belongs to: for displays, which see nothing else."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from kagura_kernel.cockpit.handles import Listener
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAlreadyDecided, ApprovalUnknown, LeaseUnknown, RunUnknown
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    Event,
    LeaseChanged,
    RunFinished,
    RunStarted,
)
from kagura_kernel.domain.notebook import ContextMode
from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.journal.leases import LeaseView, lease_views
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.runs.request import RunRequest
from tests.support.sample_run import SampleRun

Told = TypeVar("Told", bound=Event)


class ToldRun:
    """A run handle and a cockpit in one: it has the names of both that displays use, and what is done is told.

    What a person does at a display becomes an event, as in a real run, and is remembered.

    Attributes:
        done: Whether its last event was told.
    """

    def __init__(self, run_id: str = "run-1", session_id: str = "ses-1", *, here: bool = True) -> None:
        self.run_id = run_id
        self.session_id = session_id
        self.here = here  # Whether leases count as this process's
        self.error = None  # As a handle has it: what it ended with, if that is an error
        self.told: list[AnyEvent] = []  # Every event so far
        self.intents: list[RunRequest] = []  # What it was launched with
        self._lock = threading.RLock()
        self._listeners: list[Listener] = []
        self._result: concurrent.futures.Future[RunOutcome] = concurrent.futures.Future()

    @property
    def done(self) -> bool:
        """Whether its last event was told."""
        return self._result.done()

    @property
    def sample(self) -> SampleRun:
        """Makes events of this run, as of now."""
        return SampleRun(self.run_id, self.session_id, datetime.now(UTC))

    def tell(self, *events: AnyEvent) -> ToldRun:
        """Tell events; returns itself."""
        with self._lock:
            for event in events:
                self.told.append(event)
                for listener in list(self._listeners):
                    listener(event)
                if isinstance(event, RunFinished) and not self.done:
                    self._result.set_result(
                        RunOutcome(self.run_id, self.session_id, status=event.status, text=event.text)
                    )
        return self

    # ---------------------------------------------------------- as a run handle

    def wait_begun(self) -> None:
        """It has begun as soon as it is there: it is as far as it was told."""

    async def begun(self) -> None:
        """Likewise."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear everything; returns how to stop listening."""
        with self._lock:
            for event in self.told:
                listener(event)
            self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait(self) -> RunOutcome:
        """How it ended."""
        return await asyncio.shield(asyncio.wrap_future(self._result))

    def kill(self, *_who: str, by: str = "") -> None:
        """Stop it."""
        self.tell(self.sample.finished(status="killed", error=f"stopped by {by}"))

    # -------------------------------------------------------------- as a cockpit

    context: ContextMode = "none"
    """Of the notebook it wants to know nothing."""
    room = 2**20
    """Bytes that the variables of a cell may have."""

    def launch(self, intent: RunRequest) -> ToldRun:
        """The run itself, whatever is asked for; `intents` remembers that."""
        self.intents.append(intent)
        return self

    def attach(self, run_id: str) -> ToldRun:
        """The run itself, to look at.

        Raises:
            RunUnknown: it is another one.
        """
        if run_id != self.run_id:
            raise RunUnknown(run_id)
        return self

    def close(self) -> None:
        """Nothing is open."""

    def pending(self) -> list[ApprovalRequest]:
        """Open questions."""
        decided = {event.approval_id for event in self._of(ApprovalDecided)}
        return [_request(event) for event in self._of(ApprovalRequested) if event.approval_id not in decided]

    def decide(self, approval_id: str, *, allow: bool, by: str, via: str, answer: str = "") -> Decision:
        """Answer a question.

        Raises:
            ApprovalUnknown: there is no such question.
            ApprovalAlreadyDecided: it was answered.
        """
        with self._lock:
            if approval_id not in {event.approval_id for event in self._of(ApprovalRequested)}:
                raise ApprovalUnknown(approval_id)
            for event in self._of(ApprovalDecided):
                if event.approval_id == approval_id:
                    raise ApprovalAlreadyDecided(approval_id, event.verdict, event.by)
            verdict = Verdict.ALLOW if allow else Verdict.DENY
            self.tell(self.sample.decided(approval_id, verdict=verdict.value, by=by, via=via, answer=answer))
            if allow:
                self._extended(approval_id)
        return Decision(approval_id, verdict, by, via, datetime.now(UTC), answer)

    def leases(self) -> list[LeaseView]:
        """What is held."""
        return lease_views(self.told, here=[self.run_id] if self.here else [])

    def revoke_lease(self, lease_id: str, *, by: str) -> None:
        """Give a lease back.

        Raises:
            LeaseUnknown: it is not held here.
        """
        held = self._held(lease_id)
        self.tell(held.model_copy(update=self._ended | {"change": "released", "why": f"revoked by {by}"}))

    def extend_lease(self, lease_id: str, *, by: str) -> None:
        """Ask for more.

        Raises:
            LeaseUnknown: it is not held here.
        """
        held = self._held(lease_id)
        name = f"{held.provider}:{held.scope}"
        self.tell(
            self.sample.asked(
                f"app-{lease_id}-{len(self.told)}",
                kind=ApprovalKind.CREDENTIAL,
                title=f"Hold {name} again for up to 1 h",
                detail=f"Provider {held.provider}, scope {held.scope}.\nHeld for at most 1 h in all.",
                reason=f"{by} asked for more time",
                arguments={"provider": held.provider, "scope": held.scope},
                call_id="",
            )
        )

    def runs(self, limit: int = 100) -> list[RunRow]:
        started = self._of(RunStarted)
        return [
            RunRow(
                run_id=self.run_id,
                session_id=self.session_id,
                flavour=event.flavour,
                status="done" if self.done else "running",
                task=event.task,
                brain=event.brain,
                model=event.model,
                box="",
                started_at=event.at,
                duration=None,
                tool_calls=0,
                cost_usd=None,
                changed_files=0,
                error_code="",
                user=event.user,
                owner="elsewhere:4711:1",
                project=event.project,
            )
            for event in started[:limit]
        ]

    def changes(self, _run_id: str) -> list[FileChange]:
        return []

    # ------------------------------------------------------------------ privates

    def _extended(self, approval_id: str) -> None:
        """A fresh budget, where one was asked for."""
        [asked] = [event for event in self._of(ApprovalRequested) if event.approval_id == approval_id]
        wanted = (asked.arguments.get("provider"), asked.arguments.get("scope"))
        held = [event for event in self._of(LeaseChanged) if (event.provider, event.scope) == wanted]
        if asked.subject == ApprovalKind.CREDENTIAL and held:
            more = {"change": "extended", "seconds_left": 3600.0, "renewals_left": 6, "at": datetime.now(UTC)}
            self.tell(held[-1].model_copy(update=more))

    @property
    def _ended(self) -> dict[str, object]:
        return {"expires_at": None, "seconds_left": 0.0, "renewals_left": 0, "at": datetime.now(UTC)}

    def _held(self, lease_id: str) -> LeaseChanged:
        held = [event for event in self._of(LeaseChanged) if event.lease_id == lease_id]
        if not held or held[-1].change == "released" or not self.here:
            raise LeaseUnknown(lease_id)
        return held[-1]

    def _of(self, kind: type[Told]) -> list[Told]:
        return [event for event in self.told if isinstance(event, kind)]


def _request(event: ApprovalRequested) -> ApprovalRequest:
    return ApprovalRequest(
        id=event.approval_id,
        run_id=event.run_id,
        session_id=event.session_id,
        kind=ApprovalKind(event.subject),
        title=event.title,
        detail=event.detail,
        requested_at=event.at,
        arguments=event.arguments,
        options=event.options,
    )
