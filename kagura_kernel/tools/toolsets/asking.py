"""A person's word before a toolset's tool is called."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.runtime.router import Asker, require_allowed


@dataclass(frozen=True, slots=True)
class ToolsetLimits:
    """The limits on one toolset; one that its server breaks costs the server, never the run."""

    start_seconds: float = 60.0  # From the start of its program until it has said what it offers
    call_seconds: float = 60.0  # For one call
    ping_seconds: float = 5.0  # How long a server that let a call run out may take to show that it still answers
    message_bytes: int = 4 * 2**20  # Of one message, in either direction
    rate: float = 1000.0  # Messages a second in the long run
    burst: int = 2000  # Messages that may come as fast as they like before `rate` holds
    untold_bytes: int = 16 * 2**20  # Of what it says without being asked, as fast as it likes
    untold_rate: float = 2.0**20  # Of that, bytes a second in the long run
    calls: int = 8  # Under way at once
    waiting: int = 64  # Calls that may wait for their turn; one more is answered at once, with words
    questions: int = 256  # Answers to what it asks of us that may wait until it reads them
    banner_lines: int = 20  # Lines before its first message that need be none: some programs greet
    tools: int = 128  # It may offer; the rest is withheld
    pages: int = 32  # Its list of tools may have
    description: int = 2048  # Characters of one tool's description
    schema_bytes: int = 32 * 1024  # Of one tool's schema
    offered_bytes: int = 256 * 1024  # Of all its descriptions and schemas together: a model reads them at each turn
    log_bytes: int = 16 * 1024  # Kept of what it writes to its standard error


THIS_CALL = "this call"
THIS_RUN = "this run"
OPTIONS = (THIS_CALL, THIS_RUN)
"""What a display offers. `allow` with the answer `this run` holds for that tool to the end of the run, any other
`allow` for the one call."""


def matches(tool: str, patterns: Collection[str]) -> bool:
    """Whether a tool, as its server calls it, is meant by one of these patterns."""
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


class ToolQuestions:
    """The questions about one toolset in one run.

    Args:
        toolset: Its name.
        patterns: Of the tools that are asked about.
        asker: Puts them.
        remote: Whether its server lies outside of the box.
    """

    def __init__(self, toolset: str, patterns: Sequence[str], asker: Asker, *, remote: bool) -> None:
        self._toolset = toolset
        self._patterns = tuple(patterns)
        self._asker = asker
        self._reason = (
            "Its server lies outside of the box: what a call holds is sent there."
            if remote
            else "The agent's toolset is set to ask before this tool is called."
        )
        self._allowed: set[str] = set()

    def asks(self, tool: str) -> bool:
        """Whether a person is asked about this tool at all."""
        return matches(tool, self._patterns)

    async def require(self, tool: str, arguments: Mapping[str, Any], call_id: str) -> None:
        """Go on only if the call may be made.

        Args:
            tool: As its server calls it.
            arguments: Exactly what it would be called with.
            call_id: The brain's call.

        Raises:
            ApprovalDenied: a person or the deadline said no.
            ApprovalRequired: nobody can be asked.
            ApprovalAborted: the person called the run off.
        """
        if tool in self._allowed or not self.asks(tool):
            return
        title = f"Call {tool} of the toolset {self._toolset}"
        written = json.dumps(dict(arguments), ensure_ascii=False, indent=2)
        decision = await self._asker.ask(
            ApprovalKind.TOOL,
            title,
            f"{self._toolset}: {tool}\n{written}",
            subject=f"{tool} of the toolset {self._toolset}",
            reason=self._reason,
            arguments={"toolset": self._toolset, "tool": tool, "arguments": dict(arguments)},
            call_id=call_id,
            options=OPTIONS,
        )
        require_allowed(decision, f"{tool} of the toolset {self._toolset}")
        if decision.answer == THIS_RUN:
            self._allowed.add(tool)
