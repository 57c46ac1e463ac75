"""An agent's definition, its kit or its toolsets cannot be used, or not like this."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kagura_kernel.domain.errors.base import KaguraError, listed


class PluginError(KaguraError):
    """A plugin cannot be used, or not like this."""

    code = "ERR_PLUGIN"


class PluginInvalid(PluginError):
    """Its files are no plugin; `problems` holds everything that is wrong, each a line."""

    code = "ERR_PLUGIN_INVALID"

    def __init__(self, plugin: str, problems: Sequence[str]) -> None:
        super().__init__(f"The plugin {plugin!r} cannot be used:\n{listed(problems)}")
        self.plugin = plugin
        self.problems = tuple(problems)


class PluginRefused(PluginError):
    """It may not be enabled or approved: a danger in its source, its risk, or somebody's no."""

    code = "ERR_PLUGIN_REFUSED"

    def __init__(self, plugin: str, why: str, advice: str = "") -> None:
        super().__init__(f"The plugin {plugin!r} {why}.{f' {advice}' if advice else ''}")
        self.plugin = plugin
        self.why = why


class PluginChangedSince(PluginError):
    """Its files are not those that were audited, approved or enabled."""

    code = "ERR_PLUGIN_CHANGED"

    def __init__(self, plugin: str, since: str) -> None:
        super().__init__(
            f"The files of the plugin {plugin!r} have changed since it was {since}. Look at what changed, then audit "
            f"it again with `plugin audit {plugin}`."
        )
        self.plugin = plugin


class PluginNotConfigured(PluginError):
    """It needs values that nobody has given; `missing` names them."""

    code = "ERR_PLUGIN_CONFIG"

    def __init__(self, plugin: str, problems: Sequence[str], missing: Sequence[str] = ()) -> None:
        super().__init__(f"The plugin {plugin!r} is not configured:\n{listed(problems)}")
        self.plugin = plugin
        self.problems = tuple(problems)
        self.missing = tuple(missing)


class PluginQuarantined(PluginError):
    """It has failed too often, or its jail broke, and is off until somebody has looked."""

    code = "ERR_PLUGIN_QUARANTINED"

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(
            f"The plugin {plugin!r} is in quarantine: {why}. See `plugin logs {plugin}`; `plugin audit {plugin}` "
            "examines it anew and lets it out."
        )
        self.plugin = plugin
        self.why = why


class PluginFailed(PluginError):
    """Its own code failed; the text is the plugin's, for the program that called it."""

    code = "ERR_PLUGIN_FAILED"

    def __init__(self, plugin: str, kind: str, text: str, *, loading: bool = False) -> None:
        said = f"{kind}: {text}" if kind else text
        # A program knows what it has called; whoever enables a plugin is told which one it was, and what to do.
        why = f"The plugin {plugin!r} cannot be loaded: {said}. Its own code failed: mend it, and enable it again."
        super().__init__(why if loading else said)
        self.plugin = plugin
        self.kind = kind
        self.text = text


class PluginCallRefused(PluginError):
    """A call that cannot be made: no such module or function, too large, no JSON, a plugin that is off."""

    code = "ERR_PLUGIN_CALL"


class PluginBusy(PluginError):
    """Too many calls wait for this plugin already."""

    code = "ERR_PLUGIN_BUSY"

    def __init__(self, plugin: str, most: int) -> None:
        super().__init__(f"{most} calls wait for the plugin {plugin!r} already. Wait for some of them first.")
        self.plugin = plugin


class PluginTimeout(PluginError):
    """A call took too long; the plugin's process was ended, and starts anew with the next call."""

    code = "ERR_PLUGIN_TIMEOUT"

    def __init__(self, plugin: str, function: str, seconds: float) -> None:
        super().__init__(
            f"{function} of the plugin {plugin!r} did not answer within {seconds:g} s and was ended. Ask for less at "
            "once, or configure it otherwise."
        )
        self.plugin = plugin
        self.seconds = seconds


class PluginJailBroken(PluginError):
    """Its process ended, or spoke out of turn."""

    code = "ERR_PLUGIN_JAIL"

    def __init__(self, plugin: str, why: str) -> None:
        super().__init__(f"The jail of the plugin {plugin!r} is gone: {why}.")
        self.plugin = plugin
        self.why = why


class SignatureInvalid(PluginError):
    """A signature does not hold, or a key is none."""

    code = "ERR_PLUGIN_SIGNATURE"


class PluginRepositoryError(PluginError):
    """A repository cannot be read, or what it says is not to be believed; nothing was taken from it."""

    code = "ERR_PLUGIN_REPOSITORY"

    def __init__(self, repository: str, why: str, advice: str = "") -> None:
        super().__init__(f"The plugin repository {repository!r} {why}.{f' {advice}' if advice else ''}")
        self.repository = repository
        self.why = why


class KitError(KaguraError):
    """An agent's definition, its kit or its toolsets cannot be used, or not like this."""

    code = "ERR_KIT"


class AgentInvalid(KitError):
    """A text is no agent definition; `problems` holds everything that is wrong, each a line without a value."""

    code = "ERR_AGENT_INVALID"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(f"The agent definition {source!r} cannot be used:\n{listed(problems)}")
        self.source = source
        self.problems = tuple(problems)


class McpConfigInvalid(KitError):
    """A file names no MCP servers that can be started; `problems` holds what is wrong, each a line without a value."""

    code = "ERR_MCP_CONFIG"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(f"The MCP configuration {source!r} cannot be used:\n{listed(problems)}")
        self.source = source
        self.problems = tuple(problems)


class AgentNotFound(KitError):
    """A reference leads to nothing that is there."""

    code = "ERR_AGENT_NOT_FOUND"

    def __init__(self, reference: str, known: Sequence[str] = ()) -> None:
        near = get_close_matches(reference, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        there = f" Agents that have a name: {', '.join(known)}." if known else ""
        super().__init__(
            f"There is no agent {reference!r}.{hint} A reference is a file, a name, an https:// URL, or "
            f"oci://HOST/NAME@sha256:DIGEST.{there}"
        )
        self.reference = reference


class AgentUnavailable(KitError):
    """A reference leads to something that could not be fetched, or is not what was pinned."""

    code = "ERR_AGENT_UNAVAILABLE"

    def __init__(self, reference: str, why: str, advice: str = "") -> None:
        super().__init__(f"The agent {reference!r} could not be fetched: {why}.{f' {advice}' if advice else ''}")
        self.reference = reference


class KitRefused(KitError):
    """A kit would not be right, so there is none; `problems` holds everything that stands against it."""

    code = "ERR_KIT_REFUSED"

    def __init__(self, agent: str, problems: Sequence[str]) -> None:
        super().__init__(f"No kit was staged for the agent {agent!r}:\n{listed(problems)}")
        self.agent = agent
        self.problems = tuple(problems)


class KitUnwritable(KitError):
    """The place of kits cannot be used: the disk is full, or somebody else may write there."""

    code = "ERR_KIT_UNWRITABLE"

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"Kits cannot be staged in {place}: {why}. Make room or mend its permissions, then run again.")


class KitGone(KitError):
    """A staged kit is asked for that is not kept any more, or a file that it has not got."""

    code = "ERR_KIT_GONE"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}. Kits that nothing uses are taken away; `kit build` stages the agent's kit again.")


class RedactionUnavailable(KitError):
    """What finds secrets could not be started, so nothing is shown and nothing is staged."""

    code = "ERR_REDACTION"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Secrets could not be looked for ({why}), so the text is held back. Reinstall kagura-kernel with its "
            "requirements (kingfisher-secret-scanner), then run again."
        )


class ToolsetError(KitError):
    """A toolset could not be started, or is gone; a brain may hear of it. `output` ends what was printed meanwhile."""

    code = "ERR_TOOLSET"

    def __init__(self, toolset: str, why: str, advice: str = "", *, output: str = "") -> None:
        super().__init__(f"The toolset {toolset!r} {why}.{f' {advice}' if advice else ''}")
        self.toolset = toolset
        self.why = why
        self.output = output


class ToolHostsUnresolved(KitError):
    """The hosts that toolsets are installed from could not all be found out, and the settings say to stop then."""

    code = "ERR_TOOL_HOSTS"

    def __init__(self, unresolved: Sequence[str]) -> None:
        super().__init__(
            f"Where these toolsets are installed from is not known:\n{listed(unresolved)}\nName the package in the "
            "toolset's `version` (pip:NAME@VERSION), say `off` where the box has the command, give a registry file "
            "(`tool_registry`), or unset `tool_hosts_strict`."
        )
