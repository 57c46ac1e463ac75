"""What has happened in a run so far, folded from its events: the one value that all cards are drawn from.

`RunView.apply` takes the events in order. It tells which parts changed, so that a live display sends only those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kagura_kernel.domain import events as ev
from kagura_kernel.domain.commits import CommittedBranch, branches_after
from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.events.run import changes_after
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.outcome import FileChange, by_path, in_order
from kagura_kernel.domain.plugins import PluginAudit
from kagura_kernel.domain.policy import HOST
from kagura_kernel.views import parts
from kagura_kernel.views.kit import Kitted
from kagura_kernel.views.learned import Learned, course_line, trust_line
from kagura_kernel.views.leases import Holding, hold
from kagura_kernel.views.network import Network

INSIDE_MAGIC = "notebook, inside another magic"
"""`RunStarted.origin` of a cell that another magic runs: the kernel is blocked and hears no answers meanwhile."""


_MOVES = (
    ev.RunStarted,
    ev.BoxStarted,
    ev.TextStreamed,
    ev.TextWritten,
    ev.ToolCalled,
    ev.ToolFinished,
    ev.ApprovalRequested,
    ev.ApprovalDecided,
    ev.ChildStarted,
    ev.ChildEnded,
    ev.RunFinished,
)
"""With one of these a reader sees that it goes on."""


@dataclass(slots=True)
class RunView:
    """A run as its events tell it."""

    started: ev.RunStarted | None = None  # the run's first event, once it is there
    box: ev.BoxStarted | None = None  # its box, once it is there
    items: list[parts.Item] = field(default_factory=list)  # passages, calls, approvals and notes in their order
    changes: dict[str, FileChange] = field(default_factory=dict)  # files it would change, with what became of each
    branches: dict[str, CommittedBranch] = field(default_factory=dict)  # branches that it committed to, by name
    granted: ev.RunGranted | None = None  # what it was given, once that is known
    notebook: ev.NotebookShown | None = None  # what its brain was shown of the notebook that asked
    kit: Kitted = field(default_factory=Kitted)  # what its agent brought: skills, prompt files, toolsets
    network: Network = field(default_factory=Network)  # its connections, made and refused
    # Its leases by id, in the order of their first credentials.
    leases: dict[str, Holding] = field(default_factory=dict)
    # What was copied in and out, by direction and name.
    variables: dict[tuple[str, str], ev.VariableCrossed] = field(default_factory=dict)
    images: list[ev.ImageSent] = field(default_factory=list)  # those that its brain was shown with the task
    audit: PluginAudit | None = None  # of a plugin's examination: the report, once it is there
    learned: Learned = field(default_factory=Learned)  # its plan, what it was shown of the memory, and what it left
    finished: ev.RunFinished | None = None  # its last event
    input_tokens: int = 0  # counted so far
    output_tokens: int = 0  # counted so far
    usd: float | None = None  # counted so far; None while nothing is known
    now: datetime | None = None  # time of the latest event
    sign: ev.BrainSigned | None = None  # the brain's last sign of life, while it says nothing
    thoughts: str = ""  # what it thinks meanwhile, where it tells
    quiet_since: datetime | None = None  # when something moved on the card, or the sign began
    awaited: bool = False  # whether a cell waits for it, whose error tells by whom it was stopped
    _unpriced: bool = False
    _dirty: set[str] = field(default_factory=set)
    _by_call: dict[str, parts.Call] = field(default_factory=dict)
    _by_approval: dict[str, parts.Ask] = field(default_factory=dict)
    _asked_by: dict[str, list[parts.Ask]] = field(default_factory=dict)  # by their call
    _settled: int = 0  # how many of the items, the first ones, grow no more

    def take_dirty(self) -> set[str]:
        """Keys of the parts that changed since the last time this was asked (`head` is the header)."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    @property
    def agent(self) -> bool:
        """Whether a brain is at work, and not a cell's own program."""
        return self.started is None or self.started.flavour != "sandbox"

    @property
    def auditing(self) -> bool:
        """Whether a plugin is examined; what the auditor writes is for our parser, and no card shows it."""
        return self.started is not None and self.started.flavour == "audit"

    @property
    def repeatable(self) -> bool:
        """Whether running the cell again has to give the same: nothing in it thinks. Its saved card shows no times."""
        scanned = self.auditing and self.started is not None and not self.started.brain
        return not self.agent or scanned or (self.started is not None and self.started.brain == "replay")

    @property
    def pending(self) -> list[parts.Ask]:
        """Approvals that wait."""
        return [item for item in self.items if isinstance(item, parts.Ask) and item.decision is None]

    @property
    def children(self) -> int:
        """How many runs that it handed work on to are over."""
        return sum(part.ended is not None for part in self._parts)

    @property
    def hands_on(self) -> bool:
        """Whether a run that it handed work on to goes on."""
        return any(part.ended is None for part in self._parts)

    @property
    def children_usd(self) -> float | None:
        """What these cost with what they handed on themselves; None when that of one is unknown."""
        known = [part.ended.usd for part in self._parts if part.ended is not None]
        return None if None in known else sum(usd for usd in known if usd is not None)

    @property
    def _said(self) -> list[parts.Said]:
        return [item for item in self.items if isinstance(item, parts.Said)]

    @property
    def _parts(self) -> list[parts.Part]:
        return [item for item in self.items if isinstance(item, parts.Part)]

    @property
    def calls(self) -> list[parts.Call]:
        """Tool calls in their order."""
        return [item for item in self.items if isinstance(item, parts.Call)]

    def asks_of(self, call: parts.Call) -> Sequence[parts.Ask]:
        """What a person was asked for a call."""
        return self._asked_by.get(call.asked.call_id, ())

    def apply_all(self, events: Iterable[ev.Event]) -> RunView:
        """Take several events; returns itself."""
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: ev.Event) -> None:
        """Take one event; kinds that no card shows are passed over."""
        self.now = event.at
        self._signs(event)
        match event:
            case ev.TextStreamed() | ev.TextWritten():
                self._text(event)
            case ev.ToolCalled() | ev.OutputStreamed() | ev.ToolFinished():
                self._tool(event)
            case ev.ApprovalRequested() | ev.ApprovalDecided():
                self._approval(event)
            case ev.ChangesCollected() | ev.ChangesSettled() | ev.CommitsTold():
                self._changes(event)
            case ev.EgressDecided() | ev.EgressClosed():
                self.network.apply(event)
                self._dirty.add("net")
            case ev.LeaseChanged() | ev.LeaseUsed():
                hold(self.leases, event)
                self._dirty.add("leases")
            case ev.KitStaged() | ev.ToolsetStarted() | ev.ToolsetEnded():
                self.kit.apply(event)
                self._dirty.add("kit")
            case ev.ResultShown():
                self._result(event)
            case ev.VariableCrossed() | ev.ImageSent():
                self._crossed(event)
            case _:
                self._course(event)

    def _signs(self, event: ev.Event) -> None:
        if isinstance(event, ev.BrainSigned):
            if self.sign is None or self.sign.what != event.what:
                self.quiet_since = event.at
            self.sign = event
            if event.what == "thinking":
                self.thoughts = (self.thoughts + event.text)[-parts.KEPT_OUTPUT :]
        elif not isinstance(event, _MOVES) or (isinstance(event, ev.TextStreamed) and self.sign is None):
            return
        else:
            self.sign, self.thoughts, self.quiet_since = None, "", event.at
        self._dirty.add("sign")

    def give_up(self, error: BaseException) -> None:
        """The run can say no more: its record could not be kept. Nothing happens when it has ended."""
        if self.finished is not None or self.started is None:
            return
        code, text = (error.code, error.message) if isinstance(error, KaguraError) else ("", str(error))
        at = self.now or self.started.at
        run_id, session_id = self.started.run_id, self.started.session_id
        self.apply(
            ev.RunFinished(run_id=run_id, session_id=session_id, at=at, status="lost", error_code=code, error=text)
        )

    def _course(self, event: ev.Event) -> None:
        match event:
            case ev.RunStarted():
                self.started = event
                self._dirty.update(("head", "say"))
            case ev.RunGranted():
                self.granted = event
                self._dirty.add("head")
            case ev.BoxStarted():
                self.box = event
                self._dirty.add("head")
            case ev.BoxClosed(why=why) if why:
                # One that stayed is missed by nobody who has not asked for it again.
                self._add(parts.Note(self._key(), f"The box is gone: {why}", grave=self.finished is None))
            case ev.TurnCounted():
                self._count(event)
            case ev.Noted():
                self._add(parts.Note(self._key(), event.text))
            case ev.PluginAudited():
                self.audit = event.audit
                for text, grave in parts.audit_notes(event.audit):
                    self._add(parts.Note(self._key(), text, grave=grave))
            case ev.RunFinished():
                self._finish(event)
            case _:
                self._told(event)

    def _told(self, event: ev.Event) -> None:
        match event:
            case ev.MemoriesSeen() | ev.MemoriesShown() | ev.MemoryWritten() | ev.RunPlanned() | ev.RunCheckpointed():
                self.learned.apply(event)
                self._dirty.add("learned")
            case ev.NotebookShown():
                self.notebook = event
                self._dirty.add("notebook")
            case ev.RunVerified():
                self._add(parts.Check(self._key(), event))
            case ev.RunResumed() | ev.PlanLeft():
                self._add(parts.Note(self._key(), course_line(event)))
            case ev.TrustChanged() if line := trust_line(event):
                self._add(parts.Note(self._key(), line, grave=event.change == "demoted"))
            case ev.ChildStarted():
                self._add(parts.Part(self._key(), event))
            case ev.ChildEnded():
                for item in self._parts:
                    if item.started.child == event.child:
                        item.ended = event
                        self._dirty.update((item.key, "head"))
            case _:
                self._sentence(event)

    def _text(self, event: ev.TextStreamed | ev.TextWritten) -> None:
        if self.auditing:
            return
        last = self.items[-1] if self.items else None
        growing = last if isinstance(last, parts.Passage) and last.growing else None
        if isinstance(event, ev.TextStreamed):
            if growing is None:
                growing = parts.Passage(self._key(), "", growing=True)
                self._add(growing)
            growing.text += event.text
        elif growing is None:
            growing = parts.Passage(self._key(), event.text)
            self._add(growing)
        else:
            growing.text = event.text
            growing.growing = False
        self._dirty.add(growing.key)

    def _tool(self, event: ev.ToolCalled | ev.OutputStreamed | ev.ToolFinished) -> None:
        if not self.agent:
            self._print(event)
            return
        if isinstance(event, ev.ToolCalled):
            call = parts.Call(self._key(), event)
            self._by_call[event.call_id] = call
            self._settle_text()
            self._add(call)
            return
        found = self._by_call.get(event.call_id)
        if found is None:
            return
        if isinstance(event, ev.ToolFinished):
            found.finished = event
            found.place = self._place(event.route)
            self._dirty.add("head")
        else:
            found.printed = (found.printed + event.text)[-parts.KEPT_OUTPUT :]
        self._dirty.add(found.key)

    def _place(self, route: str) -> str:
        """Where a call ran: without walls what a box would have done was done on this machine."""
        without_walls = route == "sandbox" and self.box is not None and self.box.backend == HOST
        return "this machine" if without_walls else route

    def _print(self, event: ev.ToolCalled | ev.OutputStreamed | ev.ToolFinished) -> None:
        printout = next((item for item in self.items if isinstance(item, parts.Printout)), None)
        if printout is None:
            printout = parts.Printout(self._key())
            self._add(printout)
        match event:
            case ev.OutputStreamed():
                printout.text = (printout.text + event.text)[-parts.KEPT_OUTPUT :]
            case ev.ToolFinished():
                printout.text, printout.spill = event.text, event.spill
        self._dirty.add(printout.key)

    def _crossed(self, event: ev.VariableCrossed | ev.ImageSent) -> None:
        if isinstance(event, ev.VariableCrossed):
            self.variables[event.direction, event.name] = event
            self._dirty.add("head")
            return
        call = self._by_call.get(event.call_id)
        (self.images if call is None else call.images).append(event)
        self._dirty.add("head" if call is None else call.key)

    def _result(self, event: ev.ResultShown) -> None:
        shown = [item for item in self.items if isinstance(item, parts.Result)]
        if len(shown) < parts.KEPT_RESULTS:
            self._settle_text()
            self._add(parts.Result(self._key(), parts.kept(event, sum(len(item.said.data) for item in shown))))
            return
        rest = next((item for item in self.items if isinstance(item, parts.Withheld)), None)
        if rest is None:
            rest = parts.Withheld(self._key())
            self._add(rest)
        rest.count += 1
        rest.bytes += event.bytes
        self._dirty.add(rest.key)

    def _sentence(self, event: ev.Event) -> None:
        if isinstance(event, ev.PersonSaid):
            self._settle_text()
            self._add(parts.Said(self._key(), event))
        elif isinstance(event, ev.PersonHeard):
            for said in self._said:
                if said.event.sentence_id == event.sentence_id:
                    said.heard = True
                    self._dirty.add(said.key)

    def _approval(self, event: ev.ApprovalRequested | ev.ApprovalDecided) -> None:
        self._dirty.add("head")
        if len(self.pending) + isinstance(event, ev.ApprovalRequested) > 1:
            self._dirty.add("many")
        if isinstance(event, ev.ApprovalRequested):
            inside = self.started is not None and self.started.origin == INSIDE_MAGIC
            # The first of several says at length what it means, and keeps its place when more of them come.
            brief = event.subject == "network" and any(ask.request.subject == "network" for ask in self.pending)
            ask = parts.Ask(self._key(), event, inside=inside, brief=brief)
            if event.call_id in self._by_call:
                self._dirty.add(self._by_call[event.call_id].key)
            self._by_approval[event.approval_id] = ask
            self._asked_by.setdefault(event.call_id, []).append(ask)
            self._add(ask)
            return
        found = self._by_approval.get(event.approval_id)
        if found is not None:
            found.decision = event
            call = self._by_call.get(found.request.call_id)
            if call is not None:
                call.refused = event.verdict != "allow"
                self._dirty.add(call.key)
            self._dirty.add(found.key)
            # A question that is left alone says at length what it means, and offers everything.
            left = [ask for ask in self.pending if ask.request.subject == "network"]
            if len(left) == 1 and left[0].brief:
                left[0].brief = False
                self._dirty.add(left[0].key)

    def _changes(self, event: ev.Event) -> None:
        if isinstance(event, ev.CommitsTold):
            self.branches = branches_after(self.branches, event.branches)
        changes = changes_after(self.changes, event)
        if changes is not self.changes:
            self.changes = by_path(in_order(changes.values()))
            self._dirty.update(("changes", "cells"))

    def _count(self, event: ev.TurnCounted) -> None:
        self.input_tokens += event.input_tokens
        self.output_tokens += event.output_tokens
        self._unpriced = self._unpriced or event.computed_usd is None
        self.usd = None if self._unpriced else (self.usd or 0.0) + (event.computed_usd or 0.0)
        self._dirty.add("head")

    def _finish(self, event: ev.RunFinished) -> None:
        self.finished = event
        self._settle_text()
        # The final answer is as a rule the last passage; it is shown once.
        said = any(event.text.strip() in item.text for item in self.items if isinstance(item, parts.Passage))
        if event.text.strip() and self.agent and not said:
            self._add(parts.Passage(self._key(), event.text))
        self.input_tokens = event.input_tokens or self.input_tokens
        self.output_tokens = event.output_tokens or self.output_tokens
        self._changes(event)
        known = Cost(event.reported_usd, event.computed_usd).usd
        self.usd = known if known is not None else self.usd
        self._dirty.add("head")
        self._dirty.update(call.key for call in self.calls if call.finished is None)
        self._dirty.update(ask.key for ask in self.pending)
        for sentence in self._said:
            sentence.over = not sentence.heard
            self._dirty.add(sentence.key)
        self._dirty.update(["end", "many"] if len(self.pending) > 1 else ["end"])
        self._dirty.add("say")
        self._dirty.update(name for name, part in (("leases", self.leases), ("net", self.network)) if part)

    def _settle_text(self) -> None:
        # Of a run with thousands of calls only what is new: nothing that was settled grows again.
        for item in self.items[self._settled :]:
            if isinstance(item, parts.Passage) and item.growing:
                item.growing = False
                self._dirty.add(item.key)
        self._settled = len(self.items)

    def _key(self) -> str:
        return f"i{len(self.items)}"

    def _add(self, item: parts.Item) -> None:
        self.items.append(item)
        self._dirty.update((item.key, "sign"))
