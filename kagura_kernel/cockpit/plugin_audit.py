"""The audit of a plugin as a run of this process, and the enabling that follows: who is asked, the form, the jail.

An enabled plugin whose files change is off at once, and audited anew by itself. Somebody who saves twice a second is
asked once, when it is quiet. Whoever enables the plugin meanwhile, or changes it again, takes the question away. No
answer is a no, as with every question; then nothing is asked until somebody enables it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.provider import AUTO, usual_model
from kagura_kernel.cockpit import plugin_talk
from kagura_kernel.cockpit.locked_settings import audit_budget, check_locked_audit
from kagura_kernel.cockpit.orders import login_name
from kagura_kernel.cockpit.plugin_talk import EnablePlugin, PluginAsked, PluginFailure, PluginStep, PluginTalk
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.errors import BrainNotConfigured, JournalError, KaguraError, PluginRefused
from kagura_kernel.domain.events import AnyEvent, ApprovalRequested
from kagura_kernel.domain.identity import new_approval_id, new_run_id, new_session_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.plugins.sessions import ITSELF

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.cockpit.approval_desk import Desk
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.orders import Choices
    from kagura_kernel.cockpit.plugin_talk import AuditPlugin
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.plugins import PluginAudit
    from kagura_kernel.plugins.configuration import Value
    from kagura_kernel.plugins.library import Examined
    from kagura_kernel.plugins.manager import PluginManager
    from kagura_kernel.plugins.manifest import Found, Trace
    from kagura_kernel.runs.audit_run import AuditOrder, AuditRun


@dataclass(frozen=True, slots=True)
class PluginServices:
    """What handling plugins needs of the cockpit."""

    manager: Callable[[], PluginManager]  # The process's plugins, made when they are first needed
    engine: Engine  # Where whatever takes a while goes on
    desk: Desk  # Where a person's answers come in
    clock: Clock  # The time
    choices: Choices  # Brains, projects and settings
    session_of: Callable[[str | None], str]  # The session that a name means; None is the front door's own
    start_audit: Callable[[AuditOrder, Approver], tuple[RunHandle, AuditRun]]  # Makes an audit a run of this process
    headless_approver: Approver  # Who answers where nobody can be asked
    home: Path  # Our data directory


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who reads the source."""

    brain: BrainProvider | None  # A brain; None for the scan alone
    reason: str  # Why this one, or why none: half a sentence
    recorded: str = ""  # For one that plays a cassette: the task that was recorded with it


def auditor_for(intent: AuditPlugin, choices: Choices) -> Auditor:
    """Who is asked.

    Raises:
        BrainError: the brain, or the cassette, that is named cannot be used.
        UsageError: an administrator has locked another brain, or model.
    """
    if intent.static:
        return Auditor(None, "only the scan was asked for")
    if intent.replay is not None:
        brain, task = choices.replay(intent.replay)
        return Auditor(brain, f"plays {intent.replay.name}", task)
    name = intent.brain or choices.settings.brain
    try:
        brain, reason = choices.choose_brain(name)
    except BrainNotConfigured:
        if intent.brain is not None or intent.record is not None:
            raise
        return Auditor(None, "none is configured")
    model = intent.model or _usual_model(brain, choices)
    check_locked_audit(brain.name, model, choices.settings, lambda name: choices.choose_brain(name)[0].name)
    return Auditor(choices.record(brain, intent.record) if intent.record is not None else brain, reason)


def _usual_model(brain: BrainProvider | None, choices: Choices) -> str:
    if brain is None:
        return ""
    return usual_model(choices.settings, brain.name, lambda: choices.choose_brain(AUTO)[0].name)


async def run_audit(
    around: PluginServices,
    intent: AuditPlugin,
    talk: plugin_talk.PluginTalk,
    auditor: Auditor,
    examined: Examined,
    project: Path,
    *,
    known: PluginAudit | None = None,
    then: Callable[[PluginAudit, Approver], Coroutine[Any, Any, str]],
) -> None:
    """Carry an audit out as a run, to its end.

    Args:
        around: What it needs of the cockpit.
        intent: What was asked for.
        talk: Where its run is told.
        auditor: Who reads the source.
        examined: The bytes.
        project: The project's root.
        known: An earlier report of these bytes; then nobody is asked for another.
        then: What follows within the run.

    Raises:
        KaguraError: what ended it early, of `then` too.
    """
    failed: list[KaguraError] = []

    async def following(audit: PluginAudit, approver: Approver) -> str:
        try:
            return await then(audit, approver)
        except KaguraError as error:
            failed.append(error)
            raise

    order = _order(around.choices, intent, auditor, examined, project, known)
    approver = around.headless_approver if intent.headless else around.desk
    handle, run = around.start_audit(replace(order, then=following), approver)
    talk.audit_began(handle)
    leave = handle.subscribe(partial(_tell_silence, around.desk, talk))
    try:
        await handle.ended()
    except asyncio.CancelledError:
        # Called off before anybody knew of the run, which would go on and enable the plugin.
        handle.kill(intent.by)
        raise
    finally:
        leave()
    if failed:
        raise failed[0]
    if run.outcome is None:
        # Its facts could not be stored: that error says why.
        await handle.wait()
    if run.audit is None:
        raise PluginRefused(intent.name, "was not audited", _ended_as(run))
    outcome = run.outcome
    if outcome is not None and outcome.status != "done":
        raise PluginRefused(intent.name, "was not enabled", _ended_as(run))


def _order(
    choices: Choices,
    intent: AuditPlugin,
    auditor: Auditor,
    examined: Examined,
    project: Path,
    known: PluginAudit | None,
) -> AuditOrder:
    from kagura_kernel.runs.audit_run import AuditOrder

    settings = choices.settings
    return AuditOrder(
        run_id=new_run_id(),
        session_id=new_session_id(),
        found=examined.found,
        scan=examined.scan,
        brain=None if known is not None else auditor.brain,
        brain_reason="" if known is not None else auditor.reason,
        model=intent.model or _usual_model(auditor.brain, choices),
        by=intent.by,
        headless=intent.headless,
        recorded=auditor.recorded,
        budget_usd=audit_budget(intent.budget_usd, settings),
        deadline=settings.approval_deadline,
        project=str(project),
        origin=intent.origin,
        user=login_name(),
        owner=choices.owner,
        place=intent.place,
        known=known,
    )


def _tell_silence(desk: Desk, talk: plugin_talk.PluginTalk, event: AnyEvent) -> None:
    if not isinstance(event, ApprovalRequested) or event.subject != ApprovalKind.QUESTION:
        return

    def answer(option: str, by: str, via: str) -> object:
        return desk.decide(event.approval_id, Verdict.ALLOW, by=by, via=via, answer=option)

    talk.say(plugin_talk.AuditorSilent(event.detail, event.options, answer))


def _ended_as(run: AuditRun) -> str:
    return run.outcome.error if run.outcome is not None else ""


@dataclass(eq=False)
class Enabling:
    """One enabling; belongs to the engine's loop."""

    around: PluginServices  # What it needs of the cockpit
    intent: EnablePlugin  # What was asked for
    talk: plugin_talk.PluginTalk  # Where its steps are told
    examined: Examined  # The bytes that it is about
    given: Mapping[str, Value]  # Configuration that came with the command
    session_id: str  # The session
    project: Path  # What `./…` is relative to

    def __post_init__(self) -> None:
        from kagura_kernel.plugins.configuration import questions

        self._manager = self.around.manager()
        schema = self.examined.schema
        # What was configured in this session stands, unless it is said anew, or other files have no such field.
        standing = self._manager.values(self.session_id, self.intent.name)
        self._given = {**{name: value for name, value in standing.items() if name in schema}, **self.given}
        self._questions = tuple(questions(schema, self._given))

    @property
    def told(self) -> Mapping[str, str]:
        """What the plugin would be told, as far as it is known yet, passwords masked."""
        from kagura_kernel.plugins.configuration import shown

        return shown(self._given)

    def check_complete(self) -> None:
        """Refuse what could not be enabled when nobody is asked for more values; before a brain is paid to read it.

        Raises:
            PluginNotConfigured: with everything that is missing, or that no jail could open.
        """
        if self.intent.headless or self.intent.before is not None or not self._questions:
            self._manager.check_values(self.examined, self._given, self.project)

    async def fast(self) -> None:
        """Enable an approved plugin; only what has to be filled in is asked for."""
        intent = self.intent
        if self._questions and not intent.headless:
            question = self._question(None, "")
            self.talk.say(plugin_talk.PluginAsked(question))
            if not await question.filled():
                raise PluginRefused(intent.name, "was not enabled: its form was not filled in")
            self._given |= question.values
        await self._load(None, approved=False)

    async def decided(self, audit: PluginAudit, approver: Approver) -> str:
        """Have somebody decide about an audited plugin, and do so.

        Returns:
            What became of it, a sentence.

        Raises:
            PluginRefused: the audit forbids it, or somebody said no.
        """
        manager, intent = self._manager, self.intent
        if why := manager.barred(self.examined, audit):
            raise PluginRefused(intent.name, why)
        if intent.seen:
            decision = self._said_before("seen there")
        elif intent.accept is not None and audit.risk.rank <= intent.accept.rank:
            decision = self._said_before(f"risk {audit.risk}, accepted up to {intent.accept}")
        else:
            decision = await self._ask(audit, approver)
        if not decision.allowed:
            manager.reject(self.session_id, self.examined, by=decision.by, via=decision.via, why=decision.answer)
            advice = _how_to_accept(audit.risk, intent.accept) if intent.headless else ""
            raise PluginRefused(intent.name, f"was not enabled: {decision.refusal}", advice)
        await self._load(decision, approved=decision.answer.strip().casefold() == plugin_talk.APPROVE.casefold())
        return f"{intent.name} is enabled."

    def _said_before(self, why: str) -> Decision:
        intent, now = self.intent, self.around.clock.now()
        return Decision(new_approval_id(), Verdict.ALLOW, intent.by, intent.via, now, why)

    async def _ask(self, audit: PluginAudit, approver: Approver) -> Decision:
        request = self._request(audit)
        question = self._question(audit, request.id)
        if self.intent.headless:
            return await approver.approve(request)
        asking = asyncio.ensure_future(approver.approve(request))
        try:
            # It is put before it is shown: an answer that comes at once must find it.
            await asyncio.sleep(0)
            if not asking.done():
                self.talk.say(plugin_talk.PluginAsked(question))
            decision = await asking
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking})
        self._given |= question.values
        return decision

    async def _load(self, decision: Decision | None, *, approved: bool) -> None:
        from kagura_kernel.plugins.configuration import as_words, complete, silent_summary

        manager, intent = self._manager, self.intent
        by, via = (decision.by, decision.via) if decision is not None else (intent.by, intent.via)
        configured = complete(self.examined.schema, self._given, intent.name)
        await manager.enable(
            self.session_id, self.examined, configured.values, project=self.project, by=by, via=via, decision=decision
        )
        if approved:
            manager.approve(self.session_id, self.examined, by=by, via=via)
        row = manager.row_of(self.session_id, self.examined)
        words = as_words(self._given)
        silent, session = silent_summary(configured), intent.session or ""
        self.talk.say(
            plugin_talk.PluginEnabled(row, silent, approved, fast=decision is None, words=words, session=session)
        )

    def _question(self, audit: PluginAudit | None, approval_id: str) -> plugin_talk.PluginQuestion:
        return plugin_talk.PluginQuestion(
            self._manager.row_of(self.session_id, self.examined),
            audit,
            self._questions,
            approval_id=approval_id,
            deadline=self.around.choices.settings.approval_deadline,
            desk=self.around.desk,
            check=lambda values: self._manager.check_values(self.examined, {**self._given, **values}, self.project),
        )

    def _request(self, audit: PluginAudit) -> ApprovalRequest:
        from kagura_kernel.plugins.manifest import difference

        examined = self.examined
        manifest = examined.found.manifest
        opened = audit.permissions
        filled = {f"{{{name}}}": f"{text} ({name})" for name, text in self.told.items()}
        wants = [
            f"{word}: {', '.join(filled.get(entry, entry) for entry in entries)}"
            for word, entries in (("reads", opened.read), ("writes", opened.write), ("reaches", opened.net))
            if entries
        ]
        findings = [f"{one.severity}: {one.message}" for one in audit.findings]
        anew, changes = "", []
        if (before := self.intent.before) is not None:
            anew = " anew"
            changes = [
                "It was enabled, its files have changed, and it is off.",
                *difference(before, examined.found).lines(),
            ]
        return ApprovalRequest(
            id=new_approval_id(),
            # The run and its session put themselves in.
            run_id=self.talk.handle.run_id if self.talk.handle else "",
            session_id=self.session_id,
            kind=ApprovalKind.PLUGIN,
            title=f"Enable the plugin {manifest.name} {manifest.version}{anew}, risk {audit.risk}",
            detail="\n".join([*changes, audit.summary, *wants, *findings]),
            arguments={"plugin": manifest.name, "content_hash": audit.content_hash, "risk": str(audit.risk)},
            requested_at=self.around.clock.now(),
            deadline=self.around.choices.settings.approval_deadline,
            options=(plugin_talk.ENABLE, plugin_talk.APPROVE),
        )


def _how_to_accept(risk: Risk, accepted: Risk | None) -> str:
    """What to do where a risk was not accepted beforehand, and nobody could be asked."""
    counts = Risk.MEDIUM if risk is Risk.UNKNOWN else risk
    told = f"{risk}, which counts as {counts}," if counts is not risk else f"{risk},"
    above = f"Its risk, {told} is above the {accepted} accepted: " if accepted is not None else ""
    # No word accepts the highest: it takes somebody who has read the report.
    say = f"say `--accept-risk {counts.lower()}`, or " if counts is not Risk.CRITICAL else ""
    advice = f"{say}enable it where you can be asked."
    return above + advice if above else advice[0].upper() + advice[1:]


log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
QUIET_LOOKS = 2
"""So often in a row nothing has to change before changed files are audited."""

VIA = "reload"


@dataclass
class _Off:
    """A plugin that is off because its files have changed."""

    before: Found  # As it was enabled
    trace: Trace = frozenset()
    quiet: int = 0  # Looks since the last change
    talk: PluginTalk | None = None  # The question about its files as they are now, once there is one


class Reloading:
    """Lives on the engine's loop, but for `begin` and `asked_for`.

    Args:
        around: What handling plugins needs.
        enable: Begins an enabling.
    """

    def __init__(self, around: PluginServices, enable: Callable[[EnablePlugin], PluginTalk]) -> None:
        self._around = around
        self._enable = enable
        self._intents: dict[tuple[str, str], EnablePlugin] = {}
        self._off: dict[tuple[str, str], _Off] = {}

    def begin(self) -> None:
        """Watch what is enabled from now on, unless the settings say no."""
        if self._around.choices.settings.plugin_reload != "off":
            self._around.engine.submit(self._watch())

    def asked_for(self, session_id: str, intent: EnablePlugin, project: Path) -> None:
        """Remember how somebody wants a plugin of a session enabled: it is audited anew in the same way."""
        self._intents[session_id, intent.name] = replace(intent, project=project, session=session_id)

    def drop(self, session_id: str, name: str) -> None:
        """Ask no more about a plugin that somebody has disabled."""
        off = self._off.pop((session_id, name), None)
        if off is not None:
            _withdraw(off)

    @property
    def asking(self) -> bool:
        """Whether anything that is off may still be asked about."""
        return bool(self._off)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # A journal that cannot be used now may be the next time; what is off is off.
            with contextlib.suppress(JournalError):
                await self.look()

    async def look(self) -> None:
        """Take off what has changed, and ask about what has been left alone since."""
        changed: Mapping[tuple[str, str], Found] = await self._around.manager().watch()
        for key, before in changed.items():
            self._off[key] = _Off(before)
        for key, off in list(self._off.items()):
            await self._follow(key, off)

    async def _follow(self, key: tuple[str, str], off: _Off) -> None:
        from kagura_kernel.plugins.manifest import trace

        session_id, name = key
        if any(plugin.name == name for plugin in self._around.manager().enabled(session_id)):
            if off.talk is not None and self._was_answered(off.talk):
                # It is this question's yes, which is just being carried out.
                off.talk = None
            self.drop(*key)
            return
        now = await asyncio.to_thread(trace, off.before.content.root)
        if now != off.trace:
            off.trace, off.quiet = now, 0
            _withdraw(off)
            return
        if off.quiet == QUIET_LOOKS - 1 and self._is_audited_elsewhere(off):
            # Whoever has paid for an audit of these files needs no second one.
            return
        off.quiet += 1
        if off.quiet == QUIET_LOOKS:
            off.talk = self._ask(session_id, off)
            if off.talk is None:
                self._off.pop(key, None)
        elif off.talk is not None and off.talk.done and _was_asked(off.talk):
            # Somebody, or the deadline, said no. What nobody can allow is looked at again when it has changed again.
            self._off.pop(key, None)

    def _is_audited_elsewhere(self, off: _Off) -> bool:
        root = off.before.content.root
        others = [one.talk for one in self._off.values() if one is not off and one.before.content.root == root]
        return any(talk is not None and not talk.done and not _was_asked(talk) for talk in others)

    def _was_answered(self, talk: PluginTalk) -> bool:
        handle = talk.handle
        waiting = {request.run_id for request in self._around.desk.pending()}
        return _was_asked(talk) and handle is not None and handle.run_id not in waiting

    def _ask(self, session_id: str, off: _Off) -> PluginTalk | None:
        """The audit and the question; None where nobody can be asked, or it cannot begin."""
        before = off.before
        intent = self._intents.get((session_id, before.name))
        # What came from a terminal was decided there, and says nothing of who sits before this session.
        if intent is None or (intent.headless and not intent.seen):
            return None
        scan_only = intent.static or intent.replay is not None or self._around.choices.settings.plugin_reload == "scan"
        # As it was enabled, but for what was said of those files alone: nobody has accepted a risk of these.
        anew = EnablePlugin(
            name=intent.name,
            session=intent.session,
            project=intent.project,
            brain=intent.brain,
            model=intent.model,
            budget_usd=intent.budget_usd,
            static=scan_only,
            origin=intent.origin,
            place=intent.place,
            by=ITSELF,
            via=VIA,
            before=before,
        )
        try:
            talk = self._enable(anew)
        except KaguraError as error:
            self._failed(session_id, before, error)
            return None

        def heard(step: PluginStep) -> None:
            # An audit that failed is a run that says why, and a question that was taken away has not failed.
            if isinstance(step, PluginFailure) and talk.handle is None and off.talk is talk:
                self._failed(session_id, before, step.error)

        talk.subscribe(heard)
        return talk

    def _failed(self, session_id: str, before: Found, error: KaguraError) -> None:
        why = f"its files have changed, and it was not enabled anew: {error.message}"
        try:
            self._around.manager().note("failed", before.name, by=ITSELF, via=VIA, why=why, session_id=session_id)
        except JournalError as trouble:
            log.warning("%s: %s (%s)", before.name, why, trouble.message)


def _withdraw(off: _Off) -> None:
    talk, off.talk = off.talk, None
    if talk is not None and not talk.done:
        talk.kill(ITSELF)


def _was_asked(talk: PluginTalk) -> bool:
    return any(isinstance(step, PluginAsked) for step in talk.steps)
