"""A definition holds no secret: what it starts and asks is seen by brains, journals and boxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import AgentInvalid
from kagura_kernel.kit.definitions.toolsets import McpToolset, Toolset

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.references import ResolvedAgent
    from kagura_kernel.kit.redaction.redactor import Redactor


def refuse_secrets(agent: ResolvedAgent, redactor: Redactor) -> None:
    """Look through what a definition and its sub-agents hand to toolsets; waits until secrets can be looked for.

    Raises:
        AgentInvalid: it holds secrets; each is told by its place alone.
        RedactionUnavailable: secrets cannot be looked for.
    """
    problems = [f"{place}: it holds a secret ({kinds}); {_ADVICE}" for place, kinds in _found(agent, redactor, "")]
    if problems:
        raise AgentInvalid(agent.name, problems)


_ADVICE = "a definition holds none: let the run lease it with `grants`"


def _found(agent: ResolvedAgent, redactor: Redactor, where: str) -> Iterator[tuple[str, str]]:
    for at, toolset in enumerate(agent.definition.toolsets):
        for place, name, value in _handed(toolset):
            # The name says what the value is, as in a file of variables.
            said = f"{name}={value}" if name else value
            if kinds := redactor.redact(said).kinds:
                yield f"{where}toolsets[{at}].{place}", ", ".join(kinds)
    for key, sub in agent.agents.items():
        yield from _found(sub, redactor, f"{where}agents.{key}.")


def _handed(toolset: Toolset) -> Iterator[tuple[str, str, str]]:
    """Each text that a toolset is started or asked with: its place, the name that explains it, and itself."""
    for name, value in toolset.env.items():
        yield f"env.{name}", name, value
    if toolset.args:
        yield "args", "", " ".join((toolset.command, *toolset.args))
    if isinstance(toolset, McpToolset):
        yield "url", "", toolset.url
        for name, value in toolset.headers.items():
            yield f"headers.{name}", "", f"{name}: {value}"
