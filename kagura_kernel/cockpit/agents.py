"""What an agent's definition means for one order: its choices where the person made none, and what has to be asked.

The person's own words come first, then the definition's, then the settings'. A definition that somebody else wrote
gives nothing: what it wants beyond the box becomes a question before anything starts, and it cannot raise a budget. A
run that works for another one, or for a program, is never given more than it was handed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import AgentInvalid, UsageError
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.policy import PermissionMode, SandboxPolicy, SandboxPolicyType, WriteMode
from kagura_kernel.domain.settings import WRITES, Settings
from kagura_kernel.membrane.credentials.lease import parse_grant
from kagura_kernel.membrane.egress.hosts import NONE
from kagura_kernel.membrane.grant import WRITE_THROUGH, RunGrant
from kagura_kernel.patterns.dispatch import tighter
from kagura_kernel.runs.order import AgentOrder, ChildOrder
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runtime.routing import Routing

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.definition import AgentDefinition
    from kagura_kernel.kit.definitions.references import ResolvedAgent
    from kagura_kernel.kit.definitions.toolsets import McpToolset, Toolset


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
        policy=handoff.policy or None,
        command_timeout=handoff.command_timeout,
        idle_timeout=handoff.idle_timeout,
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
    safe = settings.safe_commands
    if handoff is not None and handoff.lineage:
        mode = mode if handoff.full_control else PermissionMode.DEFAULT
        strict = strict or handoff.strict
        free = tuple(one for one in free if one in handoff.preapproved)
        safe = tuple(one for one in safe if one in handoff.safe)
    return Routing(mode, strict, free, settings.approval_deadline, safe)


def delegation_terms(settings: Settings, workers: str | None, handoff: Handoff | None) -> DelegationTerms:
    """How much of its work a run may hand on, and where that runs. Where the cell names no workers, the settings do.

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


ResolveAgent = Callable[[str, Path], "ResolvedAgent"]
"""A reference (empty for the usual agent) and the project to a definition; blocks, and raises `KitError`."""

ReadMcpConfig = Callable[[Path], "Sequence[McpToolset]"]
"""A configuration file to its servers; raises `KitError`."""


def agent_order(
    intent: RunRequest, settings: Settings, project: Path, resolve: ResolveAgent, read_config: ReadMcpConfig
) -> AgentOrder:
    """Who carries out what was asked for.

    Raises:
        KitError: the definition, or the configuration of servers, cannot be used.
    """
    reference = settings.agent if intent.agent is None else intent.agent
    agent = handed_agent(resolve(reference, project), intent.handoff)
    toolsets: Sequence[Toolset] = agent.definition.toolsets
    if intent.mcp_config is not None or intent.strict_mcp:
        from kagura_kernel.kit.definitions.toolsets import with_mcp_config

        added = read_config(intent.mcp_config) if intent.mcp_config is not None else ()
        toolsets = with_mcp_config(toolsets, added, strict=intent.strict_mcp)
    # A file that was named may be the project's as well as the person's: what it wants is asked.
    asks = not agent.trusted or intent.mcp_config is not None
    return AgentOrder(agent, reference, tuple(toolsets), asks)


def with_agent(grant: RunGrant, order: AgentOrder, intent: RunRequest) -> RunGrant:
    """The grant with what the agent wants beyond the box.

    Raises:
        UsageError: words that are not understood.
    """
    definition, trusted = order.agent.definition, order.agent.trusted
    # `--net none` closes everything that somebody else opened.
    words = () if NONE in intent.net else _words(order)
    credentials = tuple(one for one in map(parse_grant, definition.grants.credentials) if one not in grant.credentials)
    asked = () if trusted else tuple(f"credential {one}" for one in credentials)
    if definition.write is WriteMode.THROUGH and intent.write_mode is None and not trusted:
        asked = (*asked, WRITE_THROUGH)
    return replace(
        grant.widened(words, asked=order.asks),
        credentials=tuple(sorted({*grant.credentials, *credentials})),
        asker=_asker(order, intent),
        asker_id=order.agent.digest,
    ).asking(asked)


def _asker(order: AgentOrder, intent: RunRequest) -> str:
    """Who wants what has to be asked about: an agent that is trusted wants nothing, a file of servers may."""
    if order.agent.trusted and intent.mcp_config is not None:
        return f"the servers of {intent.mcp_config.name} ask"
    return f"the definition of the agent {order.agent.name!r} asks"


def _words(order: AgentOrder) -> tuple[str, ...]:
    """What opens hosts: the definition's own words, and the hosts of remote servers, in that order."""
    remote = (str(one.target) for one in order.toolsets if one.type == "mcp" and one.target is not None)
    return tuple(word for word in dict.fromkeys((*order.agent.definition.grants.net, *remote)) if word != NONE)


def usual_net(order: AgentOrder | None, settings: Settings) -> tuple[str, ...]:
    """What every run may reach; nothing where the definition says `none`, which takes away and needs no asking."""
    return () if order is not None and NONE in order.agent.definition.grants.net else settings.net


def budget(intent: RunRequest, definition: AgentDefinition, settings: Settings) -> float | None:
    """What may be spent, USD: the person's word, else the lower one of the definition's and the settings'.

    The share of work that was handed on is no word for this one run: a definition with less keeps to its own.
    """
    if intent.budget_usd is not None:
        own = definition.budget.usd if intent.handoff is not None else None
        return intent.budget_usd if own is None else min(own, intent.budget_usd)
    limits = [one for one in (definition.budget.usd, settings.budget_usd) if one is not None]
    return min(limits, default=None)


def policy(intent: RunRequest, order: AgentOrder | None, settings: Settings) -> SandboxPolicyType:
    """What the run may do: the person's word, else the tighter one of the definition's and the settings'.

    Raises:
        UsageError: it would be less than a box, and the settings do not say so.
    """
    usual = settings.policy
    if intent.started_by and not SandboxPolicy(usual).walled:
        # The machine's owner does without walls for themselves.
        usual = SandboxPolicyType.WORKSPACE_WRITE
    if intent.policy is not None:
        said = SandboxPolicyType(intent.policy)
        if not SandboxPolicy(said).walled and said is not usual:
            raise UsageError(
                f"`--policy {said}` takes the box away, and only the settings of this machine's owner can: write "
                f'`policy = "{said}"` into the settings file, or leave the option out.'
            )
        return said
    if intent.box and not SandboxPolicy(usual).walled:
        # Who names a box gets one.
        usual = SandboxPolicyType.WORKSPACE_WRITE
    wanted = order.agent.definition.policy if order is not None else None
    return SandboxPolicyType.READ_ONLY if wanted is SandboxPolicyType.READ_ONLY else usual


def write_mode(intent: RunRequest, order: AgentOrder | None, settings: Settings) -> WriteMode:
    """How changes reach the project."""
    wanted = order.agent.definition.write if order is not None else None
    named = {"acceptEdits": WriteMode.THROUGH, "default": WriteMode.ASK}.get(intent.mode or "")
    said = intent.write_mode or named
    if intent.handoff is not None and said is not None and wanted is not None:
        # Whoever hands work on says how much may be done at most, and a definition that wants less keeps to that.
        return min(said, wanted, key=WRITES.index)
    return said or wanted or settings.write
