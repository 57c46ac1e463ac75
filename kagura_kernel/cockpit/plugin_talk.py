"""What a person asks for about a plugin, and what passes between them and an audit or an enabling that goes on.

Steps go one way, an answer the other. A surface listens to the steps, shows what it likes of them, and answers the one
question. It may also only wait. For terminals of every kind it is carried on in text here: a report, a few prompts, an
answer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import ApprovalError, KaguraError, PluginNotConfigured
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.variables import CellPlace

if TYPE_CHECKING:
    from kagura_kernel.cockpit.approval_desk import Desk
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.plugins import PluginAudit, PluginFinding
    from kagura_kernel.plugins.configuration import Question, Value
    from kagura_kernel.plugins.library import Examined
    from kagura_kernel.plugins.manager import PluginRow
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


_POLL_SECONDS = 0.2
_WORDS = {
    **dict.fromkeys(("e", "enable", "y", "yes"), ENABLE),
    **dict.fromkeys(("a", "approve"), APPROVE),
    **dict.fromkeys(("r", "reject", "n", "no", ""), REJECT),
}


@dataclass(frozen=True, slots=True)
class TextSurface:
    """Where a person reads and types."""

    say: Callable[[str], None]  # Prints a line
    # Prompts for a line; raises `EOFError` when there will be none, which is a no, and `KeyboardInterrupt` when all of
    # it is called off
    ask: Callable[[str], str]
    report: Callable[[AuditDone], None]  # Prints an audit
    by: str  # Who sits there
    via: str  # What that place is called in records
    # Prints what became of an enabling; None says in which session it is enabled
    enabled: Callable[[PluginEnabled], None] | None = None
    hears_silence: bool = True  # Whether it asks what to do about an auditor that does not answer


def talk_in_text(talk: PluginTalk, surface: TextSurface) -> PluginRow:
    """Carry it on to its end; Ctrl-C calls it off.

    Raises:
        KaguraError: it did not go well.
    """
    steps: queue.SimpleQueue[PluginStep] = queue.SimpleQueue()
    stop = talk.subscribe(steps.put)
    try:
        for step in _steps(talk, steps, surface):
            if isinstance(step, PluginFailure) or not _show(step, surface):
                break
        return talk.result()
    except BaseException:
        talk.kill(surface.by)
        raise
    finally:
        stop()


def _steps(talk: PluginTalk, steps: queue.SimpleQueue[PluginStep], surface: TextSurface) -> Iterator[PluginStep]:
    """The steps as they come; an audit that takes longer than a moment is told of."""
    auditing = False
    while True:
        try:
            step = steps.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            if talk.done and steps.empty():
                return
            if auditing:
                surface.say("Auditing …")
                auditing = False
            continue
        auditing = isinstance(step, AuditBegun)
        yield step


def _show(step: PluginStep, surface: TextSurface) -> bool:
    """Show a step; whether more can come."""
    match step:
        case AuditDone(cached=cached):
            surface.report(step)
            if cached:
                surface.say("These very files were audited before; the report is that one.")
        case AuditorSilent() if surface.hears_silence:
            _go_on(step, surface)
        case PluginAsked(question):
            _answer(question, surface)
        case PluginEnabled():
            if surface.enabled is not None:
                surface.enabled(step)
            else:
                surface.say(enabled_text(step))
            return False
        case _:
            pass
    return True


NO_ANSWER = "That is none of the answers."


def option_of(typed: str, options: Sequence[str]) -> str:
    """The only one of these options that begins so; empty where none does, or several do."""
    said = typed.strip().casefold()
    chosen = [option for option in options if said and option.casefold().startswith(said)]
    return chosen[0] if len(chosen) == 1 else ""


def _go_on(silent: AuditorSilent, surface: TextSurface) -> None:
    """Ask what to do about an auditor that does not answer; without an answer the deadline decides."""
    surface.say(silent.text)
    shown = ", ".join(f"({option[:1].lower()}){option[1:]}" for option in silent.options)
    while True:
        try:
            chosen = option_of(surface.ask(f"{shown}: "), silent.options)
        except EOFError:
            return
        if chosen:
            break
        surface.say(NO_ANSWER)
    try:
        silent.answer(chosen, surface.by, surface.via)
    except ApprovalError as error:
        surface.say(error.message)


def enabled_text(step: PluginEnabled, where: str = "") -> str:
    """What became of an enabling, and what to do with it.

    `where` goes on from the plugin's name; empty is the session that it was asked for.
    """
    row = step.row
    where = where or f"is enabled in {f'the session {step.session}' if step.session else 'this session'}"
    modules = " or ".join(f"`from kagura_host import {module}`" for module in row.modules)
    lines = [f"{row.name} {row.version} {where}. Code in its boxes calls it by {modules}."]
    if step.fast:
        lines.insert(0, f"{row.name} is approved: no audit was needed.")
    if step.approved:
        lines.append("It is approved for later sessions, until one of its files changes.")
    if step.silent:
        lines.append(step.silent)
    return "\n".join(lines)


def approved_text(row: PluginRow) -> str:
    """What an approval means, and on what it rests."""
    said = f"{row.name} {row.version} is approved for later sessions, until one of its files changes."
    if row.static_only:
        return f"{said} No brain has looked at it: this rests on the scan alone."
    if row.played:
        return f"{said} Its auditor was a recording: this rests on the scan, and on whoever made that."
    return said


def _answer(question: PluginQuestion, surface: TextSurface) -> None:
    """Ask until there is an answer that can be taken, from here or from elsewhere."""
    refusal = question.choices[-1]
    choice = ""
    while True:
        try:
            choice = choice or _choice(question, surface)
            answers = {} if choice == refusal else _form(question, surface)
        except EOFError:
            choice, answers = refusal, {}
        try:
            question.answer(choice, answers, by=surface.by, via=surface.via)
        except PluginNotConfigured as error:
            surface.say(error.message)
        except ApprovalError as error:
            surface.say(error.message)
            return
        else:
            return


def _choice(question: PluginQuestion, surface: TextSurface) -> str:
    if not question.approval_id:
        return ENABLE
    prompt = f"Enable {question.row.name}? (e)nable for this session, (a)pprove for later sessions too, (r)eject [r]: "
    while (choice := _WORDS.get(surface.ask(prompt).strip().casefold())) is None:
        surface.say(NO_ANSWER)
    return choice


def _form(question: PluginQuestion, surface: TextSurface) -> dict[str, str]:
    if not question.fields:
        return {}
    surface.say(f"Configure {question.row.name}:")
    return {field.name: _filled(question, field, surface) for field in question.fields}


def _filled(question: PluginQuestion, field: Question, surface: TextSurface) -> str:
    surface.say(f"  {field.field.description}")
    shown = f" [{field.shown_default}]" if field.shown_default else ""
    while True:
        text = surface.ask(f"  {field.name}{shown}: ").strip()
        wrong = question.problem(field, text)
        if not wrong:
            return text
        surface.say(f"  {wrong}")
