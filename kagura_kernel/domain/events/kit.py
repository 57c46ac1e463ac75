"""What a run was given of the host's skills and prompts, and the toolsets that were started for it.

What is known about plugins, what was decided about them, and what they were asked to do.

What is done to a plugin outside a run has an empty `run_id`; an audit by a brain is a run of its own.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.kit import LeftOut, StagedPrompt, StagedSkill, UnresolvedTool
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginPermissions, PluginPlace, PluginState


class PluginSeen(Event):
    """A plugin was found, or is not what it was when it was last found."""

    kind: Literal["plugin.seen"] = "plugin.seen"
    plugin: Exact  # Its name; for one that cannot be used, its directory's
    version: Exact = ""  # SemVer
    description: str = ""  # As its manifest has it
    place: PluginPlace = "user"  # Where it lies
    modules: tuple[Exact, ...] = ()  # What guest code imports
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)  # As declared
    content_hash: Exact = ""  # SHA-256 over all of its files
    signed_by: Exact = ""  # The trusted author whose signature holds; empty for none
    problem: str = ""  # Why it cannot be used; empty when it can
    gone: bool = False  # Whether it is there no more
    project: Exact = ""  # The project's root for one that lies in a project; empty for the others


class PluginAudited(Event):
    """A plugin was examined."""

    kind: Literal["plugin.audited"] = "plugin.audited"
    audit: PluginAudit  # The report
    by: str = ""  # Who asked for it


class PluginChanged(Event):
    """Something was decided about a plugin, or happened to it."""

    kind: Literal["plugin.changed"] = "plugin.changed"
    plugin: Exact  # Its name
    change: PluginChange
    state: PluginState | Literal[""] = ""  # Where it is in the session now; empty where no session is concerned
    version: Exact = ""  # SemVer
    content_hash: Exact = ""  # Of the bytes that this is about
    reason: str = ""  # Why, one sentence; empty where the change says it
    by: str = ""  # Who: a user name, `policy`, or `kagura` for what was not a person's decision
    via: Exact = ""  # Where: `cell`, `command`, `sidebar`, `terminal`, …
    # What it was configured with, as it may be shown: passwords are masked
    config: dict[str, str] = Field(default_factory=dict)
    # What its jail opens now, after configuration
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)
    owner: Exact = ""  # The process that holds the session; empty where no session is concerned


class PluginCalled(Event):
    """A program in a box called a plugin's function, and had its answer."""

    kind: Literal["plugin.called"] = "plugin.called"
    plugin: Exact  # Its name
    module: Exact  # The module that the program imported
    function: Exact
    ok: bool = True  # Whether it returned a value
    error_code: Exact = ""  # Of the refusal or failure; empty when it is ok
    error: str = ""  # The message that the program got, cut
    duration: float = 0.0  # Seconds, waiting for a place included
    bytes_in: int = 0  # Of the arguments, as JSON
    bytes_out: int = 0  # Of the answer, as JSON


class KitStaged(Event):
    """A run's agent was read and its kit staged; also where nothing had to be staged."""

    kind: Literal["kit.staged"] = "kit.staged"
    agent: Exact  # The agent's name
    reference: str = ""  # As it was asked for; empty for the usual one
    definition: Exact = ""  # SHA-256 of the agent's definition
    digest: Exact = ""  # SHA-256 over everything staged; empty where nothing was
    unchanged: bool = False  # Whether an earlier build could be used as it was
    seconds: float = 0.0  # How long it took
    skills: tuple[StagedSkill, ...] = ()  # By name
    prompt_files: tuple[StagedPrompt, ...] = ()  # In the order in which the brain reads them
    agents: tuple[Exact, ...] = ()  # Names of sub-agents
    left_out: tuple[LeftOut, ...] = ()  # What was not staged, at most 200
    omitted: int = 0  # How many more were not staged
    tool_hosts: tuple[Exact, ...] = ()  # Hosts that were opened so that toolsets can be installed
    unresolved: tuple[UnresolvedTool, ...] = ()  # Toolsets whose hosts could not be found out


class ToolsetStarted(Event):
    """A toolset answers: an MCP server or a language server, in the box or beyond its egress."""

    kind: Literal["toolset.started"] = "toolset.started"
    toolset: Exact  # Its name
    protocol: Literal["mcp", "lsp"] = "mcp"  # What it speaks
    server: str = ""  # What it calls itself, with its version; its own word, bounded
    # What was started in the box, as a shell line; for a remote server its URL, without what is secret
    command: str = ""
    remote: bool = False  # Whether it is reached through egress
    tools: tuple[Exact, ...] = ()  # What the brain may call, by the names that the brain sees
    withheld: tuple[str, ...] = ()  # Tools that it has and the brain is not offered, each with why
    seconds: float = 0.0  # How long it took, with installing
    installed: str = ""  # What was installed for it; empty for nothing


class ToolsetEnded(Event):
    """A toolset is gone before the end of its run, or never came."""

    kind: Literal["toolset.ended"] = "toolset.ended"
    toolset: Exact  # Its name
    reason: str  # One sentence
    stderr: str = ""  # The end of what it wrote there, bounded, redacted
