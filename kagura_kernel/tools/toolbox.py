"""The tools of a run as one thing a brain can call.

A call never fails in the brain's face: wrong arguments, refusals, missing files and time-outs are results that say
what went wrong. Only what must end the run is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from kagura_kernel.domain.commands import OutputListener
from kagura_kernel.domain.errors import (
    ApprovalAborted,
    ApprovalDenied,
    ApprovalRequired,
    BoxFileError,
    CredentialError,
    HostError,
    KaguraError,
    SandboxCommandTimeout,
    SandboxIdleTimeout,
    SandboxUnsupported,
    ToolsetError,
    UsageError,
)
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.tools.arguments import argument_problems

# Everything else ends the run: a dead box, a broken protocol, a run called off, a journal that cannot be kept.
_FOR_THE_BRAIN = (
    ApprovalDenied,
    ApprovalRequired,
    BoxFileError,
    CredentialError,
    HostError,
    SandboxCommandTimeout,
    SandboxIdleTimeout,
    SandboxUnsupported,
    ToolsetError,
    UsageError,
)


_HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool is told beside its arguments.

    Attributes:
        call_id: The brain's call.
        on_output: Hears what a command prints, as it prints.
        spill_dir: Where output goes that is too long for memory; None drops its middle.
    """

    call_id: str = ""
    on_output: OutputListener | None = None
    spill_dir: Path | None = None


class Tool(Protocol):
    """One thing a brain can do."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema; the same at every call."""
        ...

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Do it. The arguments fit the schema, if it is one of ours.

        Raises:
            KaguraError: it could not be done; the toolbox decides whether the brain may hear of it.
        """
        ...


class Toolbox:
    """Tools by name. Several calls may be under way at once.

    Args:
        tools: What the brain may call; names are unique.
        spill_dir: Where output goes that is too long for memory.

    Raises:
        ValueError: two tools share a name.
    """

    def __init__(self, tools: Sequence[Tool], *, spill_dir: Path | None = None) -> None:
        self._tools: dict[str, Tool] = {}
        self._spill_dir = spill_dir
        self.add(*tools)

    def add(self, *tools: Tool) -> None:
        """Take further tools, before the brain is told of any.

        Raises:
            ValueError: two tools share a name.
        """
        for tool in tools:
            if self._tools.setdefault(tool.spec.name, tool) is not tool:
                raise ValueError("two tools share a name")

    def specs(self) -> list[ToolSpec]:
        """What is offered to the brain, in the order given."""
        return [tool.spec for tool in self._tools.values()]

    def offers(self, name: str) -> bool:
        """Whether there is a tool of this name."""
        return name in self._tools

    def private(self, name: str, given: Iterable[str]) -> tuple[str, ...]:
        """Which of the arguments that a tool was given stand in no journal; none for a tool that there is not.

        Where some are private, so is one that the tool does not know: it may be one of these, misspelt.
        """
        tool = self._tools.get(name)
        if tool is None or not tool.spec.private:
            return ()
        known = tool.spec.input_schema.get("properties", {})
        return tuple(one for one in given if one in tool.spec.private or one not in known)

    async def call(self, call: ToolCall, on_output: OutputListener | None = None) -> ToolResult:
        """Answer one call.

        Raises:
            KaguraError: only what must end the run: `SandboxUnavailable`, `SandboxProtocolError`, `ApprovalAborted`,
                `JournalError`, …
        """
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed(self._unknown(call.name))
        spec = tool.spec
        if not spec.foreign and (problems := argument_problems(spec.input_schema, call.arguments)):
            return _failed(f"{call.name} was not called: {'; '.join(problems)}.")
        try:
            result = await tool.call(call.arguments, CallContext(call.id, on_output, self._spill_dir))
        except _FOR_THE_BRAIN as error:
            return _failed(f"{error.message} [{error.code}]")
        return replace(result, text=_writable(result.text))

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name!r}.{hint} There are: {', '.join(self._tools) or 'none'}."


def ends_the_run(error: KaguraError) -> bool:
    """Whether an error is none that a brain is told of."""
    return isinstance(error, ApprovalAborted) or not isinstance(error, _FOR_THE_BRAIN)


def _failed(text: str) -> ToolResult:
    return ToolResult(_writable(text), is_error=True, route="")


def _writable(text: str) -> str:
    """The text without halves of characters, as file names can hold them and neither journal nor brain can."""
    return _HALVES.sub("\ufffd", text)
