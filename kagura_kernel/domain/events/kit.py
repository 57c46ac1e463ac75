"""What a run was given of the host's skills and prompts, and the toolsets that were started for it.

What is known about plugins, what was decided about them, and what they were asked to do.

What is done to a plugin outside a run has an empty `run_id`; an audit by a brain is a run of its own.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.kit import LeftOut, StagedPrompt, StagedSkill, UnresolvedTool
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginPermissions, PluginPlace, PluginState


class PluginSeen(Event):
    """A plugin was found, or is not what it was when it was last found.

    Attributes:
        plugin: Its name; for one that cannot be used, its directory's.
        version: SemVer.
        description: As its manifest has it.
        place: Where it lies.
        modules: What guest code imports.
        permissions: As declared.
        content_hash: SHA-256 over all of its files.
        signed_by: The trusted author whose signature holds; empty for none.
        problem: Why it cannot be used; empty when it can.
        gone: Whether it is there no more.
        project: The project's root for one that lies in a project; empty for the others.
    """

    kind: Literal["plugin.seen"] = "plugin.seen"
    plugin: str
    version: str = ""
    description: str = ""
    place: PluginPlace = "user"
    modules: tuple[str, ...] = ()
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)
    content_hash: str = ""
    signed_by: str = ""
    problem: str = ""
    gone: bool = False
    project: str = ""


class PluginAudited(Event):
    """A plugin was examined.

    Attributes:
        audit: The report.
        by: Who asked for it.
    """

    kind: Literal["plugin.audited"] = "plugin.audited"
    audit: PluginAudit
    by: str = ""


class PluginChanged(Event):
    """Something was decided about a plugin, or happened to it.

    Attributes:
        plugin: Its name.
        change: What.
        state: Where it is in the session now; empty where no session is concerned.
        version: SemVer.
        content_hash: Of the bytes that this is about.
        reason: Why, one sentence; empty where the change says it.
        by: Who: a user name, `policy`, or `kagura` for what was not a person's decision.
        via: Where: `cell`, `command`, `sidebar`, `terminal`, …
        config: What it was configured with, as it may be shown: passwords are masked.
        permissions: What its jail opens now, after configuration.
        owner: The process that holds the session; empty where no session is concerned.
    """

    kind: Literal["plugin.changed"] = "plugin.changed"
    plugin: str
    change: PluginChange
    state: PluginState | Literal[""] = ""
    version: str = ""
    content_hash: str = ""
    reason: str = ""
    by: str = ""
    via: str = ""
    config: dict[str, str] = Field(default_factory=dict)
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)
    owner: str = ""


class PluginCalled(Event):
    """A program in a box called a plugin's function, and had its answer.

    Attributes:
        plugin: Its name.
        module: The module that the program imported.
        function: The function.
        ok: Whether it returned a value.
        error_code: Of the refusal or failure; empty when it is ok.
        error: The message that the program got, cut.
        duration: Seconds, waiting for a place included.
        bytes_in: Of the arguments, as JSON.
        bytes_out: Of the answer, as JSON.
    """

    kind: Literal["plugin.called"] = "plugin.called"
    plugin: str
    module: str
    function: str
    ok: bool = True
    error_code: str = ""
    error: str = ""
    duration: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0


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
