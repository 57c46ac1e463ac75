"""What a person asks for about a plugin, and what passes between them and an audit or an enabling that goes on.

Steps go one way, an answer the other. A surface listens to the steps, shows what it likes of them, and answers the one
question. It may also only wait.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import KaguraError, PluginNotConfigured
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.variables import CellPlace

if TYPE_CHECKING:
    from kagura_kernel.cockpit.desk import Desk
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.plugins import PluginAudit, PluginFinding
    from kagura_kernel.plugins.configuration import Question, Value
    from kagura_kernel.plugins.manager import Examined, PluginRow
    from kagura_kernel.plugins.manifest import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlugin:
    """Examine a plugin."""

    name: str
    session: str | None = None  # Name of the session that this is about; None is the front door's own
    project: Path | None = None  # The project root; None is the working directory
    brain: str | None = None  # Who reads the source: a brain's name, or `auto`
    model: str | None = None
    budget_usd: float | None = None  # Limit in USD
    replay: Path | None = None  # Play this cassette instead of asking a brain
    record: Path | None = None  # Write a cassette here
    static: bool = False  # Whether no brain is asked
    headless: bool = False  # Whether nobody can be asked
    origin: str = "notebook"  # Which front door
    place: CellPlace = field(default_factory=CellPlace)  # The cell that asks
    by: str = "user"  # Who asks
    via: str = "command"  # Where: `cell`, `command`, `terminal`, `sidebar`


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePlugin(AuditPlugin):
    """Let a session's boxes call a plugin."""

    words: tuple[str, ...] = ()  # Configuration, each `field=value`
    accept: Risk | None = None  # The highest risk at which nobody needs to be asked; None asks always
    seen: str = ""  # Hash of the files whose audit a person has seen elsewhere, where they said yes; empty for nobody
    before: Found | None = None  # As it was enabled until its files changed; None where somebody asks for it


def as_asked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a command's values, those that `AuditPlugin` has under the same name."""
    return {name: values[name] for name in ("name", "brain", "model", "budget_usd", "replay", "record", "static")}


def as_typed(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Configuration as it was typed, from the pairs that a command's words were read as."""
    return tuple(f"{name}={value}" for name, value in pairs)


ENABLE, APPROVE, REJECT, CANCEL = "Enable", "Approve", "Reject", "Cancel"


@dataclass(frozen=True, slots=True)
class PluginExamined:
    """Its files were read and scanned."""

    row: PluginRow
    findings: tuple[PluginFinding, ...]  # Of the scan, the gravest first


@dataclass(frozen=True, slots=True)
class AuditBegun:
    """The run of its audit goes on; its events tell what the auditor says."""

    handle: RunHandle


@dataclass(frozen=True, slots=True)
class AuditDone:
    """The report."""

    audit: PluginAudit
    examined: Examined  # The bytes that it is about
    cached: bool  # Whether it was made earlier, of these very bytes
    # What the plugin would be told, as far as it is known yet, passwords masked
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginAsked:
    """A person has to decide, or to fill in a form."""

    question: PluginQuestion


@dataclass(frozen=True, slots=True)
class PluginEnabled:
    """The last step of an enabling that went well."""

    row: PluginRow
    silent: str  # How many settings have their defaults, as a sentence; empty for none
    approved: bool  # Whether it was approved for later sessions just now
    fast: bool  # Whether it needed no audit, because it is approved
    words: tuple[str, ...] = ()  # What it was told, each `field=value`, for whoever enables it once more
    session: str = ""  # Name of the session that was asked for; empty for the front door's own


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """The last step of what did not go well."""

    error: KaguraError


@dataclass(frozen=True, slots=True)
class AuditorSilent:
    """The auditor does not answer, and a person says how to go on."""

    text: str  # What happened, and what the options mean
    options: tuple[str, ...]  # What can be answered
    # Answers with an option, by somebody, from somewhere. Raises `ApprovalAlreadyDecided` when somebody, or the
    # deadline, was faster.
    answer: Callable[[str, str, str], object]


PluginStep = PluginExamined | AuditBegun | AuditorSilent | AuditDone | PluginAsked | PluginEnabled | PluginFailure


@dataclass(eq=False)
class PluginQuestion:
    """The one question of an enabling: whether, for how long, and with which configuration. For any thread."""

    row: PluginRow
    audit: PluginAudit | None  # What was found; None for an approved plugin that only has to be configured
    fields: tuple[Question, ...]  # What has to be filled in
    _: KW_ONLY
    approval_id: str  # Under which it can be answered from elsewhere; empty for a form alone
    deadline: float  # Seconds until no answer is a refusal
    desk: Desk
    check: Callable[[Mapping[str, Value]], None]

    def __post_init__(self) -> None:
        # What can be answered, the refusal last
        self.choices: tuple[str, ...] = (ENABLE, APPROVE, REJECT) if self.approval_id else (ENABLE, CANCEL)
        self._lock = threading.Lock()
        self._values: dict[str, Value] = {}
        self._form: concurrent.futures.Future[bool] = concurrent.futures.Future()

    def problems(self, answers: Mapping[str, str]) -> dict[str, str]:
        """What is wrong with a form, by field; empty when nothing is. An empty answer takes the default."""
        _, wrong = self._read(answers)
        return wrong

    def problem(self, question: Question, text: str) -> str:
        """What is wrong with one answer; empty when nothing is."""
        return self._read_one(question, text)[1]

    def answer(self, choice: str, answers: Mapping[str, str], *, by: str, via: str) -> None:
        """Answer it.

        Args:
            choice: One of `choices`.
            answers: The form, each as a person typed it; not looked at for a refusal.
            by: Who.
            via: Where.

        Raises:
            PluginNotConfigured: something in the form is wrong; the question stays open.
            ApprovalAlreadyDecided: somebody, or the deadline, was faster.
        """
        refused = choice in (REJECT, CANCEL)
        if not refused:
            values, wrong = self._read(answers)
            if wrong:
                listed = [f"{name}: {why}" for name, why in wrong.items()]
                raise PluginNotConfigured(self.row.name, listed, tuple(wrong))
            with self._lock:
                self._values = values
        if self.approval_id:
            verdict = Verdict.DENY if refused else Verdict.ALLOW
            self.desk.decide(self.approval_id, verdict, by=by, via=via, answer=choice)
        elif not self._form.done():
            self._form.set_result(not refused)

    @property
    def values(self) -> Mapping[str, Value]:
        """What the form says; empty where the answer came from elsewhere."""
        with self._lock:
            return dict(self._values)

    async def filled(self) -> bool:
        """Whether the form was filled in, for a question that is a form alone; the deadline is a no."""
        try:
            async with asyncio.timeout(self.deadline):
                return await asyncio.wrap_future(self._form)
        except TimeoutError:
            return False

    def _read(self, answers: Mapping[str, str]) -> tuple[dict[str, Value], dict[str, str]]:
        values: dict[str, Value] = {}
        wrong: dict[str, str] = {}
        for question in self.fields:
            value, why = self._read_one(question, answers.get(question.name, ""))
            if value is None:
                wrong[question.name] = why
            else:
                values[question.name] = value
        return values, wrong or self._refused(values)

    def _refused(self, values: Mapping[str, Value]) -> dict[str, str]:
        """What can be read and cannot be opened, by field: a directory that is not there, a host for no plugin."""
        try:
            self.check(values)
        except PluginNotConfigured as error:
            told = (problem.partition(": ") for problem in error.problems)
            names = {question.name for question in self.fields}
            return {field: why for field, _, why in told if field in names}
        return {}

    @staticmethod
    def _read_one(question: Question, text: str) -> tuple[Value | None, str]:
        from kagura_kernel.plugins.configuration import parse_answer

        try:
            return parse_answer(question.field, text), ""
        except ValueError as error:
            return None, str(error)


Listener = Callable[[PluginStep], None]


class PluginTalk:
    """One audit or enabling, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[PluginStep] = []
        self._listeners: list[Listener] = []
        self._result: concurrent.futures.Future[PluginRow] = concurrent.futures.Future()
        self._handle: RunHandle | None = None
        self._stop: Callable[[], object] | None = None

    @property
    def handle(self) -> RunHandle | None:
        """The audit's run, once there is one."""
        return self._handle

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._result.done()

    @property
    def steps(self) -> Sequence[PluginStep]:
        """Those so far."""
        with self._lock:
            return tuple(self._steps)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every step: those so far on this thread, the others on the engine's, where one must not block.

        Returns how to stop listening.
        """
        with self._lock:
            for step in self._steps:
                listener(step)
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def kill(self, by: str) -> None:
        """Call it off; nothing happens when it is over."""
        if self._handle is not None:
            self._handle.kill(by)
        elif self._stop is not None:
            self._stop()

    async def wait(self) -> PluginRow:
        """The plugin as it is then. Cancelling the wait does not call anything off.

        Raises:
            KaguraError: it did not go well.
        """
        return await asyncio.shield(asyncio.wrap_future(self._result))

    def __await__(self) -> Generator[Any, None, PluginRow]:
        """The same as `wait`."""
        return self.wait().__await__()

    def result(self, timeout: float | None = None) -> PluginRow:
        """The same for callers without a loop; blocks. Never from the engine's thread."""
        return self._result.result(timeout)

    def began(self, stop: Callable[[], object]) -> None:
        """It goes on, and this calls it off."""
        self._stop = stop

    def audit_began(self, handle: RunHandle) -> None:
        """Its audit has become a run."""
        self._handle = handle
        self.say(AuditBegun(handle))

    def say(self, step: PluginStep) -> None:
        """Tell a step."""
        with self._lock:
            self._steps.append(step)
            listeners = list(self._listeners)
        for listener in listeners:
            listener(step)

    def over(self, row: PluginRow) -> None:
        """It has gone well."""
        if not self._result.done():
            self._result.set_result(row)

    def failed(self, error: BaseException) -> None:
        """It has not."""
        if isinstance(error, KaguraError):
            self.say(PluginFailure(error))
        if not self._result.done():
            self._result.set_exception(error)
