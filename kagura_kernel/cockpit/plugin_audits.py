"""The audit of a plugin as a run of this process, and who is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.selection import AUTO, REPLAY, usual_model
from kagura_kernel.cockpit.ordering import login_name
from kagura_kernel.cockpit.plugin_talk import AuditorSilent, PluginTalk
from kagura_kernel.domain.approvals import ApprovalKind, Approver, Verdict
from kagura_kernel.domain.errors import BrainNotConfigured, KaguraError, PluginRefused
from kagura_kernel.domain.events import AnyEvent, ApprovalRequested
from kagura_kernel.domain.identity import new_run_id, new_session_id

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.cockpit.desk import Desk
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.intents import AuditPlugin
    from kagura_kernel.cockpit.ordering import Choices
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.plugins import PluginAudit
    from kagura_kernel.plugins.manager import Examined, PluginManager
    from kagura_kernel.runs.auditing import AuditOrder, AuditRun


@dataclass(frozen=True, slots=True)
class PluginSurroundings:
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
    return Auditor(choices.record(brain, intent.record) if intent.record is not None else brain, reason)


def was_played(audit: PluginAudit) -> bool:
    """Whether the auditor was a cassette."""
    return audit.auditor.partition(" ")[0] == REPLAY


def _model(auditor: Auditor, choices: Choices) -> str:
    if auditor.brain is None:
        return ""
    return usual_model(choices.settings, auditor.brain.name, lambda: choices.choose_brain(AUTO)[0].name)


async def run_audit(
    around: PluginSurroundings,
    intent: AuditPlugin,
    talk: PluginTalk,
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
    from kagura_kernel.runs.auditing import AuditOrder

    settings = choices.settings
    return AuditOrder(
        run_id=new_run_id(),
        session_id=new_session_id(),
        found=examined.found,
        scan=examined.scan,
        brain=None if known is not None else auditor.brain,
        brain_reason="" if known is not None else auditor.reason,
        model=intent.model or _model(auditor, choices),
        by=intent.by,
        headless=intent.headless,
        recorded=auditor.recorded,
        budget_usd=intent.budget_usd if intent.budget_usd is not None else settings.budget_usd,
        deadline=settings.approval_deadline,
        project=str(project),
        origin=intent.origin,
        user=login_name(),
        owner=choices.owner,
        place=intent.place,
        known=known,
    )


def _tell_silence(desk: Desk, talk: PluginTalk, event: AnyEvent) -> None:
    if not isinstance(event, ApprovalRequested) or event.subject != ApprovalKind.QUESTION:
        return

    def answer(option: str, by: str, via: str) -> object:
        return desk.decide(event.approval_id, Verdict.ALLOW, by=by, via=via, answer=option)

    talk.say(AuditorSilent(event.detail, event.options, answer))


def _ended_as(run: AuditRun) -> str:
    return run.outcome.error if run.outcome is not None else ""
