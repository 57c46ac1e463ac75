"""Decides where a command runs. Pure: looks at nothing but its arguments.

The order of the rules is the contract; `strict` chooses between two of them. Ours lets anything run in a box without
asking, for that is what the box is for, and looks at the safe list only where the host is asked for. The strict order
takes a command out of the box as soon as it holds a meta-character or is not on the safe list.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kagura_kernel.domain.policy import (
    CommandDecision,
    EscalationReason,
    ExecutionRoute,
    PermissionMode,
    SandboxPermission,
)
from kagura_kernel.runtime.safelist import SAFE_COMMANDS, is_preapproved, judge

REQUESTED = "command requests host execution, which requires approval"
"""The reason that says nothing new to a person who is being asked."""


def decide_route(
    command: str,
    permission: SandboxPermission,
    *,
    mode: PermissionMode = PermissionMode.DEFAULT,
    sandbox_ok: bool = True,
    sandbox_why: str = "",
    safe_commands: Collection[str] = SAFE_COMMANDS,
    strict: bool = False,
    preapproved: Collection[str] = (),
) -> CommandDecision:
    """Where one command may run, and why.

    Args:
        command: The shell line.
        permission: Whether it asks for the host.
        mode: `full_control` sends everything to the host without asking; a person chose that.
        sandbox_ok: Whether there is a box. Without one the host is used only after an approval, pre-approved or not.
        sandbox_why: Why there is none.
        safe_commands: Programs that only look.
        strict: Whether rule 4 holds in the box as well.
        preapproved: Programs, or whole lines, that may run on the host unasked as long as they are safe.
    """
    if mode is PermissionMode.FULL_CONTROL:
        why = "full control: commands run on the host without approval"
        return CommandDecision(ExecutionRoute.HOST, escalation=EscalationReason(why), reasons=(why,))
    if not sandbox_ok:
        why = "sandbox unavailable, host execution requires approval" + (f": {sandbox_why}" if sandbox_why else "")
        return ask_first(why)
    judgement = judge(command, safe_commands)
    if permission is SandboxPermission.REQUIRE_ESCALATED:
        if not strict and is_preapproved(judgement, command, preapproved):
            why = "host execution requested: the command is safe and pre-approved by settings"
            return CommandDecision(ExecutionRoute.HOST, escalation=EscalationReason(why), reasons=(why,))
        return ask_first(REQUESTED, *judgement.reasons)
    if strict and not judgement.safe:
        return ask_first(*judgement.reasons)
    why = "command is safe and runs in the sandbox" if strict else "commands run in the sandbox without approval"
    return CommandDecision(ExecutionRoute.SANDBOX, reasons=(why,))


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, for reading."""

    command: str  # The shell line
    route: str  # `sandbox` or `host`
    approval_needed: bool  # Whether a person has to agree first
    reasons: tuple[str, ...]  # Every rule that spoke
    safe: bool  # Whether the safe list has no objection
    meta: tuple[str, ...]  # Characters that need a shell, each once


def explain(
    command: str,
    permission: SandboxPermission = SandboxPermission.AUTO,
    *,
    mode: PermissionMode = PermissionMode.DEFAULT,
    sandbox_ok: bool = True,
    sandbox_why: str = "",
    strict: bool = False,
    preapproved: Collection[str] = (),
) -> Explanation:
    """What `decide_route` would say, together with what the safe list thinks of the command."""
    decision = decide_route(
        command,
        permission,
        mode=mode,
        sandbox_ok=sandbox_ok,
        sandbox_why=sandbox_why,
        strict=strict,
        preapproved=preapproved,
    )
    judgement = judge(command)
    return Explanation(
        command=command,
        route=decision.route.value,
        approval_needed=decision.needs_approval,
        reasons=decision.reasons,
        safe=judgement.safe,
        meta=judgement.meta,
    )


def ask_first(*reasons: str) -> CommandDecision:
    """Host execution after an approval, and why."""
    return CommandDecision(
        ExecutionRoute.HOST, needs_approval=True, escalation=EscalationReason("; ".join(reasons)), reasons=reasons
    )
