"""A run's kit and toolsets for programs, in the notebook file beside its card."""

from __future__ import annotations

from typing import Any

from kagura_kernel.jupyter.cards.kitted import Kitted, redactions


def kit_record(kit: Kitted) -> dict[str, Any]:
    """What would be the same again; empty where there is nothing to say."""
    if not kit:
        return {}
    staged = kit.staged
    facts: dict[str, Any] = (
        {}
        if staged is None
        else {
            "agent": staged.agent,
            "skills": [
                {
                    "name": one.name,
                    "files": [{"place": file.target, "redactions": file.redactions} for file in one.files],
                }
                for one in staged.skills
            ],
            "prompt_files": [
                {"name": one.name, "place": one.place, "redactions": one.redactions} for one in staged.prompt_files
            ],
            "agents": list(staged.agents),
            "redactions": redactions(staged),
            "left_out": [{"place": one.target, "reason": one.reason} for one in staged.left_out],
            "omitted": staged.omitted,
            "tool_hosts": list(staged.tool_hosts),
            "unresolved": [one.toolset for one in staged.unresolved],
        }
    )
    facts["toolsets"] = [{"name": one.toolset, "tools": list(one.tools)} for one in kit.started.values()]
    facts["gone"] = [{"name": one.toolset, "reason": one.reason} for one in kit.ended.values()]
    return {name: value for name, value in facts.items() if value}


def kit_metadata(kit: Kitted) -> dict[str, Any]:
    """What is of this machine and this time; empty where there is nothing to say."""
    staged = kit.staged
    if not kit or staged is None:
        return {}
    facts: dict[str, Any] = {"reference": staged.reference, "definition": staged.definition, "digest": staged.digest}
    facts |= {"unchanged": staged.unchanged, "seconds": round(staged.seconds, 3)}
    installed = {one.toolset: one.installed for one in kit.started.values() if one.installed}
    return facts | ({"installed": installed} if installed else {})
