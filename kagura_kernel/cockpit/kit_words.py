"""A plan in words: who the agent is, what would be staged, what it asks for, and where its toolsets come from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kagura_kernel.domain.policy import WriteMode

if TYPE_CHECKING:
    from kagura_kernel.cockpit.kits import AgentPlan
    from kagura_kernel.domain.kit import UnresolvedTool
    from kagura_kernel.kit.definitions.references import ResolvedAgent
    from kagura_kernel.kit.definitions.toolsets import Toolset
    from kagura_kernel.kit.packages.hosts import ToolHosts

_KINDS = {
    "file": "a file",
    "own": "one of your agents",
    "built-in": "comes with the package",
    "url": "from an address",
    "oci": "from a registry",
    "inline": "defined by its parent",
}

_ASKED = "which you are asked about before the run starts"


def plan_lines(plan: AgentPlan) -> list[str]:
    """Lines for a person. No content of any file, and no value of a variable or a header, is among them."""
    agent = plan.agent
    head = f"agent {agent.name} ({_KINDS.get(agent.kind, agent.kind)})"
    about = [f"  {agent.definition.description}"] if agent.definition.description else []
    lines = [head, *about, *plan.kit.shown(), *_asks(agent), *_toolsets(agent), *_hosts(plan.tools, agent)]
    return [plan.plain(line) for line in lines]


def plan_record(plan: AgentPlan) -> dict[str, object]:
    """The same for programs."""
    kit, definition = plan.kit, plan.agent.definition
    told: dict[str, object] = {
        "agent": plan.agent.name,
        "kind": plan.agent.kind,
        "trusted": plan.agent.trusted,
        "digest": plan.agent.digest,
        "skills": [
            {"name": one.name, "place": one.place, "from": one.where, "files": len(one.files), "asked": one.asks}
            for one in kit.skills
        ],
        "prompt_files": [
            {"name": one.name, "place": one.place, "from": one.where, "asked": one.asks} for one in kit.prompt_files
        ],
        "files": [{"target": one.target, "size": one.size, "why": one.why} for one in kit.staged],
        "agents": [one.name for one in kit.agents],
        "left_out": [{"target": one.target, "reason": one.reason} for one in kit.left_out],
        "notes": list(kit.notes),
        "problems": list(kit.problems),
        "grants": {"net": list(definition.net_hosts()), "credentials": list(definition.grants.credentials)},
        "write": definition.write.value if definition.write is not None else None,
        "toolsets": [one.name for one in definition.toolsets],
        "tool_hosts": list(plan.tools.hosts),
        "unresolved": [{"toolset": one.toolset, "reason": one.reason} for one in plan.tools.unresolved],
    }
    return {name: value if name == "digest" else _plainly(value, plan.plain) for name, value in told.items()}


def _plainly(value: object, plain: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [_plainly(one, plain) for one in value]
    return {name: _plainly(one, plain) for name, one in value.items()} if isinstance(value, dict) else value


def _asks(agent: ResolvedAgent) -> Iterator[str]:
    definition = agent.definition
    asked = [
        f"to reach {', '.join(definition.net_hosts())}" if definition.net_hosts() else "",
        f"to hold {', '.join(definition.grants.credentials)}" if definition.grants.credentials else "",
        "to change the project as it goes" if definition.write is WriteMode.THROUGH else "",
    ]
    asked = [one for one in asked if one]
    if asked:
        how = "which is as if you had typed it" if agent.trusted else _ASKED
        yield f"it asks {', '.join(asked)}, {how}"
    limits = [
        f"{definition.budget.usd:g} USD" if definition.budget.usd is not None else "",
        f"{definition.budget.turns:,} turns" if definition.budget.turns is not None else "",
    ]
    if any(limits):
        yield f"it stops after {' or '.join(filter(None, limits))}, unless the cell says otherwise"


def _toolsets(agent: ResolvedAgent) -> Iterator[str]:
    for toolset in agent.definition.toolsets:
        yield f"toolset {toolset.name} ({toolset.type}): {_started(toolset)}"


def _started(toolset: Toolset) -> str:
    url = getattr(toolset, "url", "")
    if url:
        return f"reached at {url}"
    version = f", {toolset.version}" if toolset.version else ""
    return f"`{shlex.join([toolset.command, *toolset.args])}` in the box{version}"


def _hosts(tools: ToolHosts, agent: ResolvedAgent) -> Iterator[str]:
    if tools.hosts:
        asked = "" if agent.trusted else f", {_ASKED}"
        yield f"opened so that toolsets can be installed: {', '.join(tools.hosts)}{asked}"
    for one in tools.unresolved:
        yield unresolved_line(one)


def unresolved_line(one: UnresolvedTool) -> str:
    """A toolset whose hosts are not known."""
    return f"! toolset {one.toolset}: where {one.command} is installed from is not known ({one.reason})"
