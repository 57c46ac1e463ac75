"""An agent's definition, its kit or its toolsets cannot be used, or not like this."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kagura_kernel.domain.errors.base import KaguraError


class KitError(KaguraError):
    """An agent's definition, its kit or its toolsets cannot be used, or not like this."""

    code = "ERR_KIT"


class AgentInvalid(KitError):
    """A text is no agent definition; `problems` holds everything that is wrong, each a line without a value."""

    code = "ERR_AGENT_INVALID"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"The agent definition {source!r} cannot be used:\n{listed}")
        self.source = source
        self.problems = tuple(problems)


class McpConfigInvalid(KitError):
    """A file names no MCP servers that can be started; `problems` holds what is wrong, each a line without a value."""

    code = "ERR_MCP_CONFIG"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"The MCP configuration {source!r} cannot be used:\n{listed}")
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
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"No kit was staged for the agent {agent!r}:\n{listed}")
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
        listed = "\n".join(f"  - {one}" for one in unresolved)
        super().__init__(
            f"Where these toolsets are installed from is not known:\n{listed}\nName the package in the toolset's "
            "`version` (pip:NAME@VERSION), say `off` where the box has the command, give a registry file "
            "(`tool_registry`), or unset `tool_hosts_strict`."
        )
