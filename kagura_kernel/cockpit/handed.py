"""What a run that works for another one, or for a program, is given: never more than it was handed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import AgentInvalid, UsageError
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.patterns.dispatch import tighter
from kagura_kernel.runs.order import ChildOrder
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runtime.routing import Routing

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.references import ResolvedAgent

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


def child_intent(order: ChildOrder) -> RunRequest:
    """What launches a part of the work in the process that does it."""
    handoff = order.handoff
    return RunRequest(
        task=order.task,
        session=order.session_id,
        project=order.project,
        agent=order.agent or None,
        brain=order.brain or None,
        model=order.model or None,
        budget_usd=handoff.budget_usd,
        write_mode=WriteMode(handoff.write_mode),
        net=handoff.net,
        grants=handoff.credentials,
        verify=order.verify or None,
        box=order.box or None,
        image=order.image or None,
        headless=order.headless,
        origin=order.origin,
        place=order.place,
        handoff=handoff,
        changes=order.changes,
    )


def handed_agent(agent: ResolvedAgent, handoff: Handoff | None) -> ResolvedAgent:
    """The sub-agent that was named; the agent itself where none was.

    Raises:
        AgentInvalid: there is none of this name, or it says something else than where the work was handed on.
    """
    if handoff is None:
        return agent
    for name in handoff.agents:
        if name not in agent.agents:
            raise AgentInvalid(agent.name, [f"agents.{name}: the work was handed to it, and it is not there"])
        agent = agent.agents[name]
    if handoff.agent_digest and handoff.agent_digest != agent.digest:
        raise AgentInvalid(agent.name, ["it says something else here than where the work was handed on"])
    return agent


def handed_budget(budget: float | None, handoff: Handoff | None) -> float | None:
    """What may be spent: never more than the share."""
    share = handoff.budget_usd if handoff is not None else None
    return min((one for one in (budget, share) if one is not None), default=None)


def handed_routing(settings: Settings, handoff: Handoff | None) -> Routing:
    """Where commands run: never with less asking than in the run that handed the work on."""
    mode, strict, free = settings.permission_mode, settings.strict_routing, settings.preapproved_host_commands
    if handoff is not None and handoff.lineage:
        mode = mode if handoff.full_control else PermissionMode.DEFAULT
        strict = strict or handoff.strict
        free = tuple(one for one in free if one in handoff.preapproved)
    return Routing(mode, strict, free, settings.approval_deadline)


def delegation_terms(settings: Settings, workers: str | None, handoff: Handoff | None) -> DelegationTerms:
    """How much of its work a run may hand on, and where that runs.

    Args:
        settings: The user's.
        workers: What the cell says; None leaves it to the settings.
        handoff: What the run was handed itself.

    Raises:
        UsageError: the address of the workers cannot be understood.
    """
    terms = DelegationTerms(
        settings.delegate_depth,
        settings.delegate_children,
        settings.delegate_at_once,
        workers_address(settings.workers if workers is None else workers),
    )
    return tighter(terms, handoff.delegation if handoff is not None else None)


def workers_address(text: str) -> str:
    """The address of a Dask scheduler, checked; empty is this process.

    Raises:
        UsageError: it is no such address.
    """
    if text and not _ADDRESS.fullmatch(text):
        raise UsageError(f"{text[:200]!r} is no address of workers: write it as tcp://HOST:PORT or tls://HOST:PORT.")
    return text
