"""A run's agent before its box starts: its kit is staged, its toolsets' hosts are found out, its grant is widened.

Nothing is staged for an agent that needs nothing of the host, and its box is then the same as without a kit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kagura_kernel.brain.provider import REPLAY
from kagura_kernel.domain.events import KitStaged
from kagura_kernel.domain.kit import KIT_DIR, KIT_VARIABLE, StagedSkill
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.kit.definitions.references import DEFAULT_AGENT
from kagura_kernel.kit.packages.hosts import ToolHosts
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.staging.plan import KitPlan, plan_kit
from kagura_kernel.kit.staging.stage import Kit, build_kit
from kagura_kernel.membrane.grant import PROMPT_FILE, Mount, RecordFact, RunGrant
from kagura_kernel.runs.order import AgentOrder, KitParts, RunOrder, RunParts
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.tools.briefing import ReadPrompt, agent_briefing

T = TypeVar("T")

_OF_KIT = ("digest", "unchanged", "skills", "prompt_files", "agents", "left_out", "omitted")
"""What is recorded of a kit as it is."""


@dataclass
class OpenKit:
    """What a run's agent brings with it."""

    order: AgentOrder | None = None  # Who the agent is; None where there is none
    kit: Kit | None = None  # What was staged, and is held as long as the run lasts; None where nothing was looked for
    hosts: ToolHosts = field(default_factory=ToolHosts)  # Where its toolsets are installed from
    # What is read to its brain on a person's word alone, each as half a sentence: a prompt file's place, the names of
    # skills
    asks: tuple[str, ...] = ()
    system_prompt: str = ""  # Of its definition, without secrets
    # Where its brain finds the kit and the workspace, by where they are in a box; empty where there is one
    moved: dict[str, str] = field(default_factory=dict)

    @property
    def skills(self) -> tuple[StagedSkill, ...]:
        """What its brain can read when a task calls for it."""
        skills = self.kit.skills if self.kit is not None else ()
        return tuple(replace(one, root=self._placed(one.root)) for one in skills) if self.moved else skills

    def _placed(self, root: str) -> str:
        for usual, place in self.moved.items():
            if root.startswith(f"{usual}/"):
                return place + root.removeprefix(usual)
        return root

    def spec(self, spec: BoxSpec) -> BoxSpec:
        """The box that sees the kit; the same where there is none."""
        if self.hosts.hosts:
            spec = replace(spec, policy=replace(spec.policy, network_access=True))
        if self.kit is None or self.kit.empty:
            return spec
        if not spec.policy.walled:
            self.moved[KIT_DIR] = str(self.kit.directory)
            return replace(spec, env={**spec.env, KIT_VARIABLE: self.moved[KIT_DIR]})
        return replace(
            spec,
            extra_read_only=(*spec.extra_read_only, (self.kit.directory, KIT_DIR)),
            env={**spec.env, KIT_VARIABLE: KIT_DIR},
        )

    def grant(self, grant: RunGrant) -> RunGrant:
        """The grant with the kit's mount and the hosts of the toolsets in it, and what has to be asked about."""
        mounts = () if self.kit is None or self.kit.empty else (Mount(self.kit.directory, KIT_DIR, "read"),)
        asks = self.order is not None and self.order.asks
        wider = grant.widened(self.hosts.hosts, mounts, asked=asks) if mounts or self.hosts.hosts else grant
        return wider.asking(f"{PROMPT_FILE}{what}" for what in self.asks)

    def briefing(self) -> str:
        """What the brain is told of who it is; empty where there is nothing to tell."""
        if self.order is None:
            return ""
        paths = {one.name: one.path for one in self.kit.prompt_files} if self.kit is not None else {}
        texts = self.kit.prompt_texts if self.kit is not None else ()
        prompts = [ReadPrompt(name, paths.get(name, name), text) for name, text in texts]
        return agent_briefing(self.order.agent.name, self.system_prompt, prompts, self.skills)

    def close(self) -> None:
        """Let go of the kit; may be called twice."""
        if self.kit is not None:
            self.kit.close()


async def open_kit(order: RunOrder, parts: RunParts, record: RecordFact) -> OpenKit:
    """Stage the kit of a run's agent, and find out where its toolsets come from, before anybody is asked.

    Raises:
        KitRefused: the kit would not be right.
        KitUnwritable: there is no room for it.
        RedactionUnavailable: secrets cannot be looked for.
        ToolHostsUnresolved: the settings want all hosts known, and they are not.
    """
    agent, kits = order.agent, parts.kits
    if agent is None:
        return OpenKit()
    if kits is None:
        return OpenKit(agent, system_prompt=agent.agent.definition.system_prompt)
    began = parts.clock.monotonic()
    finding = asyncio.create_task(_find_hosts(order, agent, kits), name=f"tool hosts of {order.run_id}")
    try:
        opened = await _held(asyncio.to_thread(_build, order, agent, kits, parts.redactor), OpenKit.close)
    except BaseException:
        finding.cancel()
        await asyncio.wait({finding})
        raise
    try:
        opened.hosts = await finding
        record(KitStaged, seconds=parts.clock.monotonic() - began, **_told(opened, agent))
    except BaseException:
        finding.cancel()
        opened.close()
        raise
    return opened


def _told(opened: OpenKit, agent: AgentOrder) -> dict[str, Any]:
    """What is recorded of a kit."""
    fields: dict[str, Any] = {
        "agent": agent.agent.name,
        "reference": agent.reference,
        "definition": agent.agent.digest,
        "tool_hosts": opened.hosts.hosts,
        "unresolved": opened.hosts.unresolved,
    }
    if (kit := opened.kit) is not None:
        fields |= {name: getattr(kit, name) for name in _OF_KIT}
    return fields


def _build(order: RunOrder, agent: AgentOrder, kits: KitParts, redactor: Redactor) -> OpenKit:
    prompt = redactor.redact(agent.agent.definition.system_prompt).text
    where = kits.kit_places(order.project)
    if order.brain is not None and order.brain.name == REPLAY and agent.agent.reference == DEFAULT_AGENT:
        # Its words are those of another day and perhaps another person: what lies at home here had no part in them, and
        # a notebook that replays gives the same outputs to everybody. A definition that was named says what it needs.
        where = replace(where, outside=False)
    plan = plan_kit(agent.agent, where, redactor)
    return OpenKit(agent, build_kit(plan, kits.root, redactor), asks=_asked(plan), system_prompt=prompt)


def _asked(plan: KitPlan) -> tuple[str, ...]:
    """What a person is asked about; another skill among them is another question."""
    skills = plan.asked_skills
    said = [f"your {'skill' if len(skills) == 1 else 'skills'} {', '.join(skills)}"] if skills else []
    return (*plan.asked_files, *said)


async def _find_hosts(order: RunOrder, agent: AgentOrder, kits: KitParts) -> ToolHosts:
    # Where the person has closed the network, nothing can be installed, and nobody is asked about it.
    if not agent.toolsets or order.grant.closed:
        return ToolHosts()
    return await asyncio.to_thread(kits.find_hosts, agent.toolsets)


async def _held(making: Awaitable[T], free: Callable[[T], None]) -> T:
    """What a thread makes; freed there when nobody waits for it any more."""
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: None if done.cancelled() or done.exception() else free(done.result()))
        raise
