"""The one object behind every front door: intents go in, runs and tables come out."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.provider import AUTO
from kagura_kernel.cockpit.approval_desk import Desk, PolicyApprover
from kagura_kernel.cockpit.change_desk import ChangeDesk
from kagura_kernel.cockpit.commit_desk import CommitDesk
from kagura_kernel.cockpit.controls import Controls, LazyPlugins
from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.cockpit.feeds import Feed, Tails
from kagura_kernel.cockpit.handles import RunHandle, Sessions
from kagura_kernel.cockpit.lease_sweep import Sweep, Sweeping
from kagura_kernel.cockpit.locked_settings import Quotas
from kagura_kernel.cockpit.memory import MemoryDesk, MemoryServices
from kagura_kernel.cockpit.message_brain import Message, classifying_order
from kagura_kernel.cockpit.orders import Choices, check_name, login_name, order_for, session_name
from kagura_kernel.cockpit.records import Board, Records
from kagura_kernel.cockpit.status import PartStatus, StatusReport
from kagura_kernel.cockpit.trust import TrustDesk, trust_terms
from kagura_kernel.domain import errors
from kagura_kernel.domain.approvals import ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors.memory import MemoryStoreError
from kagura_kernel.domain.events import RunFinished
from kagura_kernel.domain.identity import new_session_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.notebook import ContextMode
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.journal import sentences, spending, views
from kagura_kernel.journal.leases import LeaseRow, LeaseView, lease_views, take_back
from kagura_kernel.journal.lost_runs import lose
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.moves import called_now, moves
from kagura_kernel.journal.owner import told_process
from kagura_kernel.journal.rows import ApprovalRow, RunRow
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.grant import MembraneParts, SessionPowers
from kagura_kernel.membrane.run_leases import Leasing
from kagura_kernel.memory.store import ready
from kagura_kernel.plugins.calls import CallLimits
from kagura_kernel.runs.kept_boxes import KeptBox, KeptBoxes
from kagura_kernel.runs.order import Children, KitParts, Price, RunOrder, RunParts
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.run import Run
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.selection import StartBox

if TYPE_CHECKING:
    from kagura_kernel.cockpit.kits import KitDesk
    from kagura_kernel.cockpit.plugins import PluginDesk
    from kagura_kernel.cockpit.session import Session
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.memory.store import MemoryStore
    from kagura_kernel.plugins.manager import PluginManager
    from kagura_kernel.runs.audit_run import AuditOrder, AuditRun
    from kagura_kernel.runs.message_run import ClassifyingRun
    from kagura_kernel.runs.question_run import QuestionOrder, QuestionParts
    from kagura_kernel.tools.extension_tools import ToolMaker


def _nothing() -> None:
    return None


async def _no_boxes() -> None:
    return None


@dataclass(frozen=True, slots=True)
class CockpitParts:
    """What a cockpit is joined from; `assembly` names the concrete ones."""

    journal: Journal  # The record; the cockpit closes it
    clock: Clock  # The time
    choices: Choices  # What orders are put together from
    start_box: StartBox  # Where boxes come from
    # The state of back-ends and brains, for `status`
    probe: Callable[[], Coroutine[Any, Any, tuple[Sequence[PartStatus], Sequence[PartStatus]]]]
    close_boxes: Callable[[], Awaitable[None]]  # Frees every box and pool
    price: Price  # What tokens cost
    home: Path  # Our data directory
    membrane: MembraneParts  # What the membranes of runs are made of
    redactor: Redactor  # Takes secrets out of what runs show, store and tell
    kits: KitDesk  # What a person asks about agents and kits
    make_children: Callable[[Cockpit], Children]  # Makes what runs children, of a cockpit
    make_plugins: Callable[[], PluginManager]  # Makes what knows the plugins, when they are first needed
    sweep: Sweep  # Gives back credentials that no run holds any more
    alive: Callable[[str], bool]  # Whether a process that runs runs may still be there
    reread: Callable[[], Settings]  # Reads the settings about brains anew and has brains follow them
    # Frees boxes that processes which are gone have left
    sweep_boxes: Callable[[], Coroutine[Any, Any, None]] = _no_boxes
    one_run: bool = False  # Whether it is there for one run, after which no box has to stay
    lost: tuple[str, ...] = ()  # Runs that an earlier process left behind
    shared: bool = False  # Whether others share this machine, so that back-ends with weak walls are refused
    kit_parts: KitParts | None = None  # What runs stage kits with; None where agents have none
    # Opens the memory, or gives the one that is open; None where there is none
    memory: Callable[[], MemoryStore] | None = None
    close_memory: Callable[[], None] = _nothing
    # Tells the memory's server what a run has cost; None where there is none to tell
    push_cost: Callable[[str, Mapping[str, Any]], None] | None = None
    # Likewise, how its task stands: the steps of its plan, and how many are done
    push_task: Callable[[str, Mapping[str, Any]], None] | None = None
    # Loads what makes the tools of other packages that the settings name
    tools: Callable[[], Sequence[ToolMaker]] = tuple
    others: Callable[[], Sequence[PartStatus]] = tuple  # The state of what else was configured, for `status`
    own_session: Callable[[], str] = str  # The session that goes on here; empty for a new one
    close_others: Callable[[], None] = _nothing  # Closes it, after the last event and before the journal


class Cockpit:
    """Everything a person can do, from any thread; nothing here waits for a run."""

    def __init__(self, parts: CockpitParts) -> None:
        self._parts = parts
        self._engine = Engine()
        self._mailbox = Mailbox(parts.journal)
        self._desk = Desk(self._mailbox, parts.clock, self._redacted)
        self._sessions = Sessions()
        self.blobs = BlobStore(parts.home / "blobs")  # Where contents of changed files wait
        self.changes_desk = ChangeDesk(parts.journal, self.blobs, parts.clock)  # Applies, gives up, takes back
        self.commits_desk = CommitDesk(parts.journal, self.blobs, parts.clock)  # Where what runs committed is settled
        self._lock = threading.Lock()
        self._handles: dict[str, RunHandle] = {}
        self._unrecorded: set[str] = set()  # Runs that are over, and go on by what the journal says
        self._powers: dict[str, SessionPowers] = {}
        earlier = parts.own_session()
        self._own_session = earlier or new_session_id()
        self._has_talked = bool(earlier)  # Whether anything was said in it
        self._left_session = ""  # The one before it, with a conversation that can be gone back to
        self._kept = KeptBoxes(parts.clock)
        self._quotas = Quotas(parts.choices.settings, parts.journal, parts.clock, parts.choices.owner, parts.alive)
        self._model = ""
        self._sweeping = Sweeping(parts.membrane.ledger, parts.sweep, self._engine, parts.alive)
        self._sweeping.begin()
        self._tails = Tails(parts.journal, parts.clock, self._engine, self._sweeping.begin)
        self.records = Records(parts.journal, parts.clock)  # What boards, panels and charts read
        # What was earned, and what a person says about it
        self.trust = TrustDesk(parts.journal, trust_terms(parts.choices.settings), parts.clock)
        self.kits = parts.kits  # Everything about agents and kits
        self._children = parts.make_children(self)
        self._access = LazyPlugins(parts.make_plugins, lambda: self.plugins, parts.journal, self._listen)
        self._controls = Controls(self._mailbox, self._engine, self._going_on, self._access, self._known_sessions)
        self._plugins: PluginDesk | None = None
        self._making_plugins = threading.Lock()

    @property
    def plugins(self) -> PluginDesk:
        """Everything about plugins; made and imported on first use, from any thread: most runs need nothing of it."""
        with self._making_plugins:
            if self._plugins is None:
                from kagura_kernel.cockpit.plugin_audit import PluginServices
                from kagura_kernel.cockpit.plugins import PluginDesk

                self._plugins = PluginDesk(
                    PluginServices(
                        manager=self._access.manager,
                        engine=self._engine,
                        desk=self._desk,
                        clock=self._parts.clock,
                        choices=self._parts.choices,
                        session_of=self._session_named,
                        start_audit=self._start_audit,
                        headless_approver=PolicyApprover(self._parts.clock),
                        home=self._parts.home,
                    )
                )
            return self._plugins

    @property
    def memory(self) -> MemoryDesk:
        """Everything that a person does with memories.

        Raises:
            NotThisTime: this program was put together without a memory.
        """
        parts = self._parts
        if parts.memory is None:
            raise errors.NotThisTime("There is no memory here: this program was put together without one.")
        return MemoryDesk(
            MemoryServices(
                memory=parts.memory,
                journal=lambda: parts.journal,
                clock=parts.clock,
                home=parts.home,
                session=lambda: self.session_id,
                redactor=parts.redactor,
            )
        )

    @property
    def journal(self) -> Journal:
        """The record, for whoever only looks; the cockpit closes it."""
        return self._parts.journal

    @property
    def room(self) -> int:
        """Bytes that the variables of one cell may have, in each direction."""
        return self._parts.choices.settings.variables_mib * 2**20

    @property
    def context(self) -> ContextMode:
        """What runs are shown of their notebook where their cell does not say so."""
        return self._parts.choices.settings.context

    def remembers(self, memory_id: str) -> bool:
        """Whether this memory is there; blocks.

        Raises:
            MemoryUnavailable: the memory cannot be reached.
        """
        if self._parts.memory is None:
            return False
        try:
            self._parts.memory().reference(memory_id)
        except errors.MemoryUnknown:
            return False
        return True

    def session(self, name: str | None = None) -> Session:
        """A session for programs; without a name it is that of this process.

        Raises:
            UsageError: it cannot be named so.
        """
        from kagura_kernel.cockpit.session import Session, SessionParts

        parts = self._parts
        made = SessionParts(
            self._engine,
            parts.journal,
            parts.choices.settings,
            self._children,
            self.launch,
            parts.clock,
            parts.redactor,
            parts.memory,
        )
        return Session(self._session_named(name), made)

    def reread_brains(self) -> None:
        """Have the next runs think by the settings as they are in the file now; what goes on stays as it is.

        Raises:
            ConfigurationError: they are wrong; those of before count on.
        """
        choices = replace(self._parts.choices, settings=self._parts.reread())
        with self._making_plugins:
            self._parts = replace(self._parts, choices=choices)
            if self._plugins is not None:
                self._plugins.use_choices(choices)

    @property
    def approval_deadline(self) -> float:
        """Seconds until no answer of a person is a no."""
        return self._parts.choices.settings.approval_deadline

    def sweep(self) -> None:
        """Give back what processes that are gone have left; returns at once."""
        with contextlib.suppress(errors.JournalError):
            self._sweeping.begin()

    def sweep_boxes(self) -> None:
        """Free the boxes that processes which are gone have left, instead of at the first run; returns at once."""
        self._engine.submit(self._parts.sweep_boxes())

    @property
    def lost(self) -> tuple[str, ...]:
        """Runs that this process found left behind by an earlier one when it began."""
        return self._parts.lost

    def why_no_box(self, name: str) -> str:
        """Why no box can be had here, found out by starting one; empty where one can. Blocks, and counts for no quota.

        Args:
            name: Of the back-end; empty for the usual one.
        """
        policy = SandboxPolicy(self._parts.choices.settings.policy)
        if not policy.walled:
            return ""
        try:
            self._engine.submit(self._try_box(name or self._parts.choices.settings.box, policy)).result()
        except errors.KaguraError as error:
            return error.message
        return ""

    async def _try_box(self, name: str, policy: SandboxPolicy) -> None:
        launched = await self._parts.start_box(name, BoxSpec(policy=policy))
        await launched.box.close()

    async def answers(self) -> None:
        """Return when the engine has taken a turn: it is not stuck."""
        await asyncio.wrap_future(self._engine.submit(asyncio.sleep(0)))

    def launch(self, intent: RunRequest) -> RunHandle:
        """Set a run going; returns at once.

        Raises:
            UsageError: something in the intent cannot be understood.
            SessionBusy: its session has a run already, in this process or in another. A run that is being stopped is
                waited for.
            WorkspaceError: its project cannot be used.
            BrainError: its brain, or its cassette, cannot be used.
            QuotaReached: the day's money is spent.
        """
        with contextlib.suppress(errors.JournalError):
            self._record_ends()
        session_id = self._session_of(intent)
        if self._model and intent.model is None and intent.handoff is None and not intent.language:
            intent = intent._replace(model=self._model)
        typed = {"The image": intent.image, "The model": intent.model}
        self._check_names([*typed.items(), *(("The grant", grant) for grant in intent.grants)])
        order = order_for(intent, session_id, self._parts.choices)
        self._check_names([("The model", order.model), ("The image", order.spec.image)])
        if order.agent is not None:
            agent = order.agent.agent
            self._check_names(("The agent's name", name) for name in (agent.definition.name, *agent.agents))
        approver: Approver = PolicyApprover(self._parts.clock) if intent.headless else self._desk
        # A child's session is its own and ends with it: nothing that was allowed there is kept.
        powers = SessionPowers() if intent.handoff is not None else self._powers_of(session_id)
        if order.brain is not None and session_id == self.session_id:
            order = replace(order, left=self._left_session)
            self._has_talked = True
        run = Run(order, self._run_parts(order, approver, powers))
        handle = RunHandle(run, self._engine)
        self._check_elsewhere(session_id)
        before = self._sessions.enter(session_id, order.run_id, stopping=self._is_stopping)
        self._begin(handle, before)
        return handle

    def handle(self, run_id: str) -> RunHandle | None:
        """A run of this process that still goes on."""
        with self._lock:
            return self._handles.get(run_id)

    def attach(self, run_id: str) -> Feed:
        """A run to look at, of any process on this journal, going on or over; returns at once.

        Raises:
            RunUnknown: there is no such run.
        """
        return self.handle(run_id) or self._tails.feed(run_id)

    def kill(self, run_id: str, *, by: str) -> None:
        """Stop a run, of this process or of another one; returns at once.

        Raises:
            RunUnknown: there is no such run.
            RunOver: it has ended.
            JournalError: the journal cannot be used.
        """
        handle = self.handle(run_id)
        if handle is not None:
            handle.kill(by)
            return
        self._record_ends()
        if run_id not in {row.run_id for row in views.unfinished(self._parts.journal)}:
            ends = self._parts.journal.events(run_id=run_id, kinds=("run.finished",))
            if ends and isinstance(ends[-1].event, RunFinished):
                raise errors.RunOver(run_id, ends[-1].event.status)
            raise errors.RunUnknown(run_id)
        self._mailbox.send(run_id, "kill", by=by)

    def say(self, run_id: str, sentence: Sentence) -> None:
        """Tell a run something while it goes on, of this process or of another one; blocks until that is stored.

        Raises:
            RunUnknown: there is no such run.
            RunOver: it has ended.
            NotHeard: its brain takes nothing while it works.
            JournalError: it could not be stored, so that nobody is told.
            RedactionUnavailable: secrets cannot be looked for in what another process is to be told.
        """
        handle = self.handle(run_id)
        if handle is None:
            sentences.say(self._parts.journal, run_id, sentence, self._redacted)
        elif why := handle.say(sentence).result(sentences.ANSWERED_WITHIN):
            sentences.check_goes_on(self._parts.journal, run_id)
            raise errors.NotHeard(run_id, why)

    def _redacted(self, text: str) -> str:
        """A person's words as they are stored."""
        return self._parts.redactor.redact(text).text

    def pending(self) -> list[ApprovalRequest]:
        """Approvals that wait, of every process on this journal, oldest first."""
        return self._desk.pending()

    def decide(self, approval_id: str, allow: bool, *, by: str, via: str, answer: str = "") -> Decision:
        """Answer an approval.

        Raises:
            ApprovalUnknown: there is no such approval.
            ApprovalAlreadyDecided: somebody, or the deadline, was faster.
        """
        return self._desk.decide(approval_id, Verdict.ALLOW if allow else Verdict.DENY, by=by, via=via, answer=answer)

    def abort(self, approval_id: str, *, by: str, via: str) -> Decision:
        """Answer an approval by calling its whole run off; raises like `decide`."""
        return self._desk.decide(approval_id, Verdict.ABORTED, by=by, via=via)

    def leases(self) -> list[LeaseView]:
        """Leases of all runs that go on, of every process on this journal, in the order they were acquired."""
        with self._lock:
            here = set(self._handles)
        journal = self._parts.journal
        running = [row.run_id for row in views.unfinished(journal)]
        rows = [row for run_id in running for row in journal.events(run_id=run_id, kinds=("lease.changed",))]
        return lease_views([row.event for row in rows], here=here)

    def revoke_lease(self, lease_id: str, *, by: str) -> None:
        """Give a lease back now, whichever process holds it; returns at once. Who uses it gets nothing from here on.

        Raises:
            LeaseUnknown: no run holds it.
        """
        leasing = self._leasing_of(lease_id)
        if leasing is not None:
            self._engine.post(leasing.revoke, lease_id, by)
            return
        take_back(self._parts.membrane.ledger, self._mailbox, self._held_elsewhere(lease_id), by=by)

    def extend_lease(self, lease_id: str, *, by: str) -> None:
        """Ask for more time for a lease: an approval of its run; returns at once.

        Raises:
            LeaseUnknown: no run holds it.
            LeaseElsewhere: a run of another process does; says which, and where that is.
        """
        leasing = self._leasing_of(lease_id)
        if leasing is None:
            row = self._held_elsewhere(lease_id)
            where = told_process(row.owner)
            raise errors.LeaseElsewhere(lease_id, row.run_id, f" ({where})" if where else "")
        self._engine.post(leasing.extend, lease_id, by)

    def _leasing_of(self, lease_id: str) -> Leasing | None:
        with self._lock:
            handles = list(self._handles.values())
        held = (leasing for handle in handles if (leasing := handle.leasing) is not None)
        return next((leasing for leasing in held if leasing.holds(lease_id)), None)

    def _held_elsewhere(self, lease_id: str) -> LeaseRow:
        """The row of a lease that a run of another process holds. Raises `LeaseUnknown`: nobody does."""
        for row in self._parts.membrane.ledger.open_rows():
            if row.lease_id == lease_id and row.state != "owed":
                return row
        raise errors.LeaseUnknown(lease_id)

    def changes(self, run_id: str) -> list[FileChange]:
        """A run's changes with their states; raises `RunUnknown`."""
        return self.changes_desk.changes(run_id)

    def _memory_trouble(self) -> str:
        """Why no run could start with the memory; empty where it is well, or there is none."""
        if self._parts.memory is None:
            return ""
        try:
            ready(self._parts.memory())
        except MemoryStoreError as error:
            return error.message
        return ""

    def runs(self, limit: int = 100) -> list[RunRow]:
        """The latest runs, newest first."""
        return views.runs(self._parts.journal, limit=limit)

    def approvals(self, limit: int = 100) -> list[ApprovalRow]:
        """The latest approvals, newest first."""
        return views.approvals(self._parts.journal, limit=limit)

    def board(self, *, ended: int = 5) -> Board:
        """All runs that go on, of every process on this journal, and the last ones that ended."""
        with self._lock:
            here = list(self._handles)
        return self.records.board(ended=ended, here=here)

    @property
    def session_id(self) -> str:
        """The session that runs of this process belong to unless another one is named."""
        with self._lock:
            return self._own_session

    def called_now(self, notebook: str, kernel_id: str) -> str:
        """What the notebook of a kernel is called, which was told this name when it started."""
        try:
            return called_now(moves(self._parts.journal), notebook, kernel_id=kernel_id)
        except errors.JournalError:
            # What the cell does with the journal says what is wrong with it.
            return notebook

    def begin_anew(self) -> None:
        """Have runs of this process that name no session begin a new one; a box that the old one left in place ends."""
        self.end_box()
        with self._lock:
            if self._has_talked:
                self._left_session, self._has_talked = self._own_session, False
            self._own_session = new_session_id()

    def go_back(self) -> None:
        """Have them go on with the conversation that was left for the one that goes on now.

        Raises:
            UsageError: none was.
        """
        with self._lock:
            if not self._left_session:
                raise errors.UsageError("No earlier conversation is known here.")
            self._own_session, self._left_session = self._left_session, self._own_session
            self._has_talked = True

    def _waiting(self) -> Iterable[PartStatus]:
        for kept in self._kept.waiting.values():
            yield PartStatus(
                "kept box", ok=True, reason=f"{kept.box.backend}, that of {kept.name}, waits for a next cell"
            )

    def end_box(self) -> KeptBox | None:
        """End the box that this process's session has left in place: which it was, if any; returns at once."""
        session_id = self.session_id
        kept = self._kept.waiting.get(session_id)
        if kept is not None:
            self._engine.submit(self._kept.end(session_id, "it was ended by a person"))
        return kept

    @property
    def model(self) -> str:
        """The model of runs of this process that name none; empty where settings and brains choose."""
        return self._model

    def use_model(self, name: str) -> None:
        """Have runs of this process that name no model think with this one; `auto` leaves it to settings and brains.

        Raises:
            UsageError: it looks like a secret.
            RedactionUnavailable: secrets cannot be looked for.
        """
        self._check_names([("The model", name)])
        self._model = "" if name == AUTO else name

    def status(self) -> StatusReport:
        """The state of everything; probes the back-ends, so it may take a second."""
        boxes, brains = self._engine.call(self._parts.probe(), timeout=30)
        today = spending.spent(self._parts.journal, day=self._parts.clock.now().date())
        return StatusReport(
            running=tuple(views.unfinished(self._parts.journal)),
            pending=tuple(self.pending()),
            boxes=tuple(boxes),
            brains=tuple(brains),
            journal=self._parts.journal.where,
            spent_today_usd=today.usd or 0.0,
            unpriced_today=today.unpriced_runs,
            memory=self._memory_trouble(),
            lost=self._parts.lost,
            shared=self._parts.shared,
            swept=self._sweeping.swept,
            owed=self._sweeping.owed(),
            others=(*self._parts.others(), *self._waiting(), *self._quotas.status(login_name())),
        )

    def close(self) -> None:
        """Stop every run, free every box, end the engine, close the journal; may be called twice."""
        self._sweeping.end()
        with self._lock:
            handles = list(self._handles.values())
        if self._engine.running:
            for handle in handles:
                handle.kill("the end of the kernel")
            closing = (self._access.close, self._kept.close, self._parts.close_boxes, self._quotas.close)
            self._engine.call(_drain(handles, *closing), timeout=20)
            self._engine.stop()
        self._parts.close_others()
        self._parts.close_memory()
        with contextlib.suppress(errors.JournalError):
            self._record_ends()
        self._parts.journal.close()

    def _session_of(self, intent: RunRequest) -> str:
        if intent.session is None and intent.new_session:
            self.begin_anew()
        return self._session_named(intent.session)

    def _session_named(self, name: str | None) -> str:
        return self._own_session if name is None else session_name(name, self._parts.redactor)

    def _check_names(self, named: Iterable[tuple[str, str | None]]) -> None:
        for what, name in named:
            if name:
                check_name(what, name, self._parts.redactor)

    def _begin(self, handle: RunHandle, before: str = "") -> None:
        with self._lock:
            self._handles[handle.run_id] = handle
            after = self._handles.get(before)
        handle.start(self._ended, after=after)
        self._controls.begin()

    def _listen(self) -> None:
        self._controls.begin()
        self.plugins.reloading.begin()

    def _start_audit(self, order: AuditOrder, approver: Approver) -> tuple[RunHandle, AuditRun]:
        from kagura_kernel.runs.audit_run import AuditRun

        run = AuditRun(order, self._question_parts(order), approver)
        handle = RunHandle(run, self._engine)
        self._begin(handle)
        return handle, run

    @property
    def classifies(self) -> bool:
        """Whether a brain may be asked what a chat's text means."""
        return self._parts.choices.settings.classify_chats

    def classify(self, message: Message) -> tuple[RunHandle, ClassifyingRun]:
        """Ask a brain what a message means; returns at once.

        Raises:
            BrainError: none can be asked.
            QuotaReached: the day's money is spent.
        """
        from kagura_kernel.runs.message_run import ClassifyingRun

        order = classifying_order(message, self._parts.choices)
        run = ClassifyingRun(order, self._question_parts(order))
        handle = RunHandle(run, self._engine)
        self._begin(handle)
        return handle, run

    def _question_parts(self, order: QuestionOrder) -> QuestionParts:
        from kagura_kernel.runs.question_run import QuestionParts

        parts, day = self._parts, self._quotas.day(order.user, order.brain)
        return QuestionParts(parts.journal, parts.clock, parts.price, parts.redactor, day)

    def _going_on(self) -> dict[str, RunHandle]:
        with self._lock:
            return dict(self._handles)

    def _known_sessions(self) -> list[str]:
        with self._lock:
            return list({self._own_session, *self._powers})

    def _is_stopping(self, run_id: str) -> bool:
        handle = self.handle(run_id)
        return handle is None or handle.stopping

    def _check_elsewhere(self, session_id: str) -> None:
        parts = self._parts
        if run_id := views.busy_elsewhere(parts.journal, session_id, parts.choices.owner, parts.alive):
            raise errors.SessionBusy(session_id, run_id)

    def _powers_of(self, session_id: str) -> SessionPowers:
        with self._lock:
            return self._powers.setdefault(session_id, SessionPowers())

    def _run_parts(self, order: RunOrder, approver: Approver, powers: SessionPowers) -> RunParts:
        parts = self._parts
        return RunParts(
            journal=parts.journal,
            clock=parts.clock,
            approver=approver,
            blobs=self.blobs,
            start_box=self._quotas.guarded(parts.start_box, order.run_id, order.user),
            kept=None if parts.one_run else self._kept,
            spill_root=parts.home / "outputs",
            price=parts.price,
            membrane=parts.membrane,
            powers=powers,
            plugins=self._access,
            # A jail has its own, shorter limit; this is for whatever comes on top, such as waiting for a place.
            call_limits=CallLimits(call_seconds=10 * parts.choices.settings.plugin_call_seconds),
            kits=parts.kit_parts,
            redactor=parts.redactor,
            memory=parts.memory,
            children=self._children,
            push_cost=parts.push_cost,
            push_task=parts.push_task,
            day=self._quotas.day(order.user, order.brain),
            tools=parts.tools() if order.brain is not None else (),
        )

    def _ended(self, handle: RunHandle) -> None:
        self._sessions.leave(handle.session_id, handle.run_id)
        with self._lock:
            self._handles.pop(handle.run_id, None)
            if handle.unrecorded:
                self._unrecorded.add(handle.run_id)
        # What its provider would not take back is tried on. A journal that cannot be read is the next start's concern.
        with contextlib.suppress(errors.JournalError):
            self._sweeping.begin()

    def _record_ends(self) -> None:
        """Finish, as lost, every run of this process whose end could not be stored when it came.

        Raises:
            JournalError: it still cannot be.
        """
        with self._lock:
            over = sorted(self._unrecorded)
        for run_id in over:
            lose(self._parts.journal, run_id, "its journal could not be written", self._parts.clock)
            with self._lock:
                self._unrecorded.discard(run_id)


async def _drain(handles: Sequence[RunHandle], *close: Callable[[], Awaitable[None]]) -> None:
    waits = [asyncio.ensure_future(handle.wait()) for handle in handles]
    if waits:
        await asyncio.wait(waits, timeout=8)
        await asyncio.gather(*waits, return_exceptions=True)
    for each in close:
        await each()
