"""What a run was given of the host's skills and prompts, and the toolsets that were started for it."""

from __future__ import annotations

from typing import Literal

from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.kit import LeftOut, StagedPrompt, StagedSkill, UnresolvedTool


class KitStaged(Event):
    """A run's agent was read and its kit staged; also where nothing had to be staged.

    Attributes:
        agent: The agent's name.
        reference: As it was asked for; empty for the usual one.
        definition: SHA-256 of the agent's definition.
        digest: SHA-256 over everything staged; empty where nothing was.
        unchanged: Whether an earlier build could be used as it was.
        seconds: How long it took.
        skills: By name.
        prompt_files: In the order in which the brain reads them.
        agents: Names of sub-agents.
        left_out: What was not staged, at most 200.
        omitted: How many more were not staged.
        tool_hosts: Hosts that were opened so that toolsets can be installed.
        unresolved: Toolsets whose hosts could not be found out.
    """

    kind: Literal["kit.staged"] = "kit.staged"
    agent: str
    reference: str = ""
    definition: str = ""
    digest: str = ""
    unchanged: bool = False
    seconds: float = 0.0
    skills: tuple[StagedSkill, ...] = ()
    prompt_files: tuple[StagedPrompt, ...] = ()
    agents: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    omitted: int = 0
    tool_hosts: tuple[str, ...] = ()
    unresolved: tuple[UnresolvedTool, ...] = ()


class ToolsetStarted(Event):
    """A toolset answers: an MCP server or a language server, in the box or beyond its egress.

    Attributes:
        toolset: Its name.
        protocol: What it speaks.
        server: What it calls itself, with its version; its own word, bounded.
        command: What was started in the box, as a shell line; for a remote server its URL, without what is secret.
        remote: Whether it is reached through egress.
        tools: What the brain may call, by the names that the brain sees.
        withheld: Tools that it has and the brain is not offered, each with why.
        seconds: How long it took, with installing.
        installed: What was installed for it; empty for nothing.
    """

    kind: Literal["toolset.started"] = "toolset.started"
    toolset: str
    protocol: Literal["mcp", "lsp"] = "mcp"
    server: str = ""
    command: str = ""
    remote: bool = False
    tools: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    seconds: float = 0.0
    installed: str = ""


class ToolsetEnded(Event):
    """A toolset is gone before the end of its run, or never came.

    Attributes:
        toolset: Its name.
        reason: One sentence.
        stderr: The end of what it wrote there, bounded, redacted.
    """

    kind: Literal["toolset.ended"] = "toolset.ended"
    toolset: str
    reason: str
    stderr: str = ""
