"""What has happened in an audit or an enabling so far: the one value that its card is drawn from.

Whoever follows one tells the view each step, and the events of its run. It tells which parts changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kagura_kernel.domain import events as ev
from kagura_kernel.domain.errors import KaguraError, RunKilled
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.plugins import PluginAudit, PluginPlace
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView

FORM = "form"
"""Stands for the question of an approved plugin, which is a form alone and has no approval."""

ENABLE, APPROVE, REJECT, CANCEL = "Enable", "Approve", "Reject", "Cancel"
"""Choices of the question; the cockpit asks with the same words."""

_KEPT_SAID = 24_000

STATES = {
    "reading": ("Reading its files", "busy"),
    "auditing": ("Auditing", "busy"),
    "waiting": ("Waiting for you", "ask"),
    "enabling": ("Starting its jail", "busy"),
    "audited": ("Audited", "good"),
    "enabled": ("Enabled", "good"),
    "rejected": ("Rejected", "warn"),
    "stopped": ("Stopped", "warn"),
    "refused": ("Not enabled", "bad"),
}
"""Each state with its words and its tone."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The plugin, as a card names it."""

    name: str
    version: str = ""  # SemVer
    description: str = ""  # What its author says of it
    place: PluginPlace = "user"  # Where it lies
    signed_by: str = ""  # The trusted author whose signature holds; empty for none
    modules: tuple[str, ...] = ()  # What guest code imports
    # What it is configured with in the session, passwords masked
    config: Mapping[str, str] = field(default_factory=dict)
    approved: bool = False  # Whether later sessions need no audit


@dataclass(frozen=True, slots=True)
class FormField:
    """One thing to fill in."""

    name: str
    type: str  # `string`, `number`, `boolean` or `array`
    description: str
    default: str | None = None  # As a person would write it; None for a field that has none
    minimum: float | None = None  # The least that a number may be
    maximum: float | None = None  # The most that a number may be


@dataclass(frozen=True, slots=True)
class PluginForm:
    """What a person is asked."""

    approval_id: str  # Under which it can be answered from elsewhere; empty for an approved plugin's form
    choices: tuple[str, ...]  # The buttons, the refusal last
    fields: tuple[FormField, ...]  # What has to be filled in
    deadline: float  # Seconds until no answer is a refusal

    @property
    def ident(self) -> str:
        """Under which it is answered on a card."""
        return self.approval_id or FORM


@dataclass(slots=True)
class AuditView:
    """An audit or an enabling."""

    subject: Subject | None = None  # The plugin, as it was last told
    run: RunView = field(default_factory=RunView)  # The audit's run: who looks, what it costs, what it asks
    said: str = ""  # What the auditor has written, its latest part
    notes: list[str] = field(default_factory=list)  # Remarks of the run
    audit: PluginAudit | None = None  # The report, once it is there
    cached: bool = False  # Whether it was made earlier, of these very bytes
    form: PluginForm | None = None  # What a person is asked
    problems: Mapping[str, str] = field(default_factory=dict)  # What is wrong with the form, by field
    decision: ev.ApprovalDecided | None = None  # The answer, wherever it came from
    cancelled: bool = False  # Whether a form that is no approval was given up here
    filled: bool = False  # Likewise, whether it was filled in
    enabled: str = ""  # What became of an enabling that went well, in words; empty until then
    error: KaguraError | None = None  # Why it did not
    over: bool = False  # Whether nothing more will come
    _dirty: set[str] = field(default_factory=lambda: {"head"})
    _passage: int = 0
    _approval: str = ""

    @property
    def state(self) -> str:
        """A key of `STATES`."""
        if self.enabled:
            return "enabled"
        if self.error is not None:
            return self._failed
        if self.over:
            return "audited"
        return self._going_on

    @property
    def waiting(self) -> bool:
        """Whether the question of the enabling is open."""
        answered = self.decision is not None or self.cancelled or self.filled
        return self.form is not None and not answered and not self.ended

    @property
    def ended(self) -> bool:
        """Whether it is known how it ended."""
        return self.over or bool(self.enabled) or self.error is not None

    @property
    def asks(self) -> list[Ask]:
        """Open questions about the audit itself: an auditor that is silent."""
        return [] if self.ended else self.run.pending

    @property
    def questions(self) -> list[Ask]:
        """All questions about the audit itself, answered ones among them."""
        return [item for item in self.run.items if isinstance(item, Ask)]

    @property
    def why(self) -> str:
        """Why it did not go well; empty when it did."""
        return "" if self.error is None else self.error.message

    @property
    def configured(self) -> Mapping[str, str]:
        """What it was configured with, passwords masked; empty before it is enabled."""
        return dict(self.subject.config) if self.enabled and self.subject is not None else {}

    @property
    def writes(self) -> bool:
        """Whether an auditor writes, and has not come to its end."""
        return self.audit is None and not self.ended and self.run.started is not None and bool(self.run.started.brain)

    def take_dirty(self) -> set[str]:
        """Keys of the parts that changed since the last time this was asked."""
        dirty, self._dirty = self._dirty, set()
        return dirty

    # ---------------------------------------------------------------- steps

    def examined(self, subject: Subject) -> None:
        """Its files were read."""
        self.subject = subject
        self._changed("head", "report")

    def reported(self, audit: PluginAudit, *, cached: bool = False, config: Mapping[str, str] | None = None) -> None:
        """The report is there, and with it what the plugin would be told."""
        self.audit, self.cached = audit, cached
        if config and self.subject is not None:
            self.subject = replace(self.subject, config=config)
        self._changed("head", "said", "report")

    def asked(self, form: PluginForm) -> None:
        """A person has to decide, or to fill in a form."""
        self.form = form
        self._changed("head", "form")

    def went_well(self, subject: Subject, words: str) -> None:
        """It is enabled."""
        self.subject, self.enabled = subject, words
        self._changed("head", "report", "form", "end")

    def failed(self, error: KaguraError) -> None:
        """It is not."""
        self.error = error
        self._changed("head", "said", "asks", "form", "end")

    def apply(self, event: ev.AnyEvent) -> None:
        """Take one event of the run."""
        match event:
            case ev.TextStreamed() | ev.TextWritten():
                self._text(event)
            case ev.Noted(text=text):
                self.notes.append(text)
                self._changed("asks")
            case ev.PluginAudited(audit=audit):
                self.reported(audit, cached=self.cached)
            case ev.ApprovalRequested(subject="plugin", approval_id=about):
                # The report says all of it, and the form asks; where nobody can be asked there is neither.
                self._approval = about
            case ev.ApprovalDecided(approval_id=about) if about == self._approval:
                self.decision = event
                self.problems = {}
                self._changed("head", "form")
            case ev.RunStarted() | ev.TurnCounted() | ev.RunFinished() | ev.ApprovalRequested() | ev.ApprovalDecided():
                self.run.apply(event)
                self._changed("head", "said", "asks")

    def wrong(self, problems: Mapping[str, str]) -> None:
        """The form cannot be taken like this."""
        self.problems = dict(problems)
        self._changed("form")

    def answered_here(self, *, refused: bool) -> None:
        """A form that is no approval was filled in, or given up."""
        self.problems = {}
        self.cancelled, self.filled = refused, not refused
        self._changed("head", "form")

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._changed("head", "said", "asks", "form", "end")

    @property
    def _going_on(self) -> str:
        if self.waiting or self.asks:
            return "waiting"
        if self.form is not None:
            return "enabling"
        return "auditing" if self.run.started is not None else "reading"

    @property
    def _failed(self) -> str:
        run = self.run.finished
        if isinstance(self.error, RunKilled) or (run is not None and run.status == "killed"):
            return "stopped"
        said_no = self.decision is not None and self.decision.verdict == "deny" and self.decision.via != "policy"
        return "rejected" if said_no or self.cancelled else "refused"

    def _text(self, event: ev.TextStreamed | ev.TextWritten) -> None:
        if isinstance(event, ev.TextStreamed):
            self.said += event.text
        else:
            # A passage that was written through tells again what was streamed of it.
            self.said = self.said[: self._passage] + event.text
            self._passage = len(self.said)
        if len(self.said) > 2 * _KEPT_SAID:
            cut = len(self.said) - _KEPT_SAID
            self.said, self._passage = self.said[cut:], max(0, self._passage - cut)
        self._changed("said")

    def _changed(self, *parts: str) -> None:
        self._dirty.update(parts)
