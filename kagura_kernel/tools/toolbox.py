"""The tools of a run as one thing a brain can call.

A call never fails in the brain's face: wrong arguments, refusals, missing files and time-outs are results that say
what went wrong. Only what must end the run is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from kagura_kernel.domain.commands import OutputListener
from kagura_kernel.domain.errors import (
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
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec, failed
from kagura_kernel.domain.visible import is_whole, whole

_HALF = "holds half a character (a lone surrogate)"
_WORDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def argument_problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the arguments, one line each; empty when they fit.

    Knows what the schemas of this package use: an object without further keys, whose values are string, integer,
    number, boolean, or an array of strings, with `minimum`, `maximum`, `minLength` and `enum` (of the items too). Of
    what another package's schema says beside that, nothing is checked.
    """
    fields: Mapping[str, Any] = schema.get("properties", {})
    problems = [f"{name!r} is missing" for name in schema.get("required", ()) if name not in arguments]
    for name, value in arguments.items():
        if name in fields:
            problem = _value_problem(fields[name], value)
            if problem:
                problems.append(f"{name!r} {problem}")
        else:
            near = get_close_matches(str(name), fields, n=1, cutoff=0.5)
            hint = f", did you mean {near[0]!r}?" if near else f" (known: {', '.join(fields) or 'none'})"
            problems.append(f"{name!r} is not an argument{hint}")
    return problems


def _value_problem(field: Any, value: Any) -> str:
    match field:
        case {"type": "array"}:
            return _list_problem(field.get("items"), value)
        case {"type": "string" | "integer" | "number" | "boolean" as kind}:
            return _plain_problem(kind, field, value)
    return ""


def _plain_problem(kind: str, field: Mapping[str, Any], value: Any) -> str:
    if not _is_a(kind, value):
        return f"must be {_WORDS[kind]}, not {type(value).__name__}"
    if "enum" in field and value not in field["enum"]:
        return f"must be one of {', '.join(map(str, field['enum']))}"
    if kind == "string":
        return _text_problem(field, value)
    if value < field.get("minimum", value) or value > field.get("maximum", value):
        return f"must lie between {field.get('minimum', '-∞')} and {field.get('maximum', '∞')}"
    return ""


def _list_problem(items: Any, value: Any) -> str:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not isinstance(items, Mapping) or items.get("type") != "string":
        return "" if is_list else "must be a list"
    if not is_list or not all(isinstance(item, str) for item in value):
        return "must be a list of texts"
    known = items.get("enum", value)
    if not all(item in known for item in value):
        return f"must hold nothing but {', '.join(known)}"
    return "" if all(map(is_whole, value)) else _HALF


def _text_problem(field: Mapping[str, Any], value: str) -> str:
    if len(value) < field.get("minLength", 0):
        return "must not be empty"
    return "" if is_whole(value) else _HALF


def _is_a(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            # JSON has one kind of number: 5.0 is a whole one.
            return _finite(value) and value == int(value)
        case _:
            return _finite(value)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


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


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool is told beside its arguments."""

    call_id: str = ""  # The brain's call
    on_output: OutputListener | None = None  # Hears what a command prints, as it prints
    spill_dir: Path | None = None  # Where output goes that is too long for memory; None drops its middle


class Tool(Protocol):
    """One thing a brain can do."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema; the same at every call."""

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Do it. The arguments fit the schema, if it is one of ours.

        Raises:
            KaguraError: it could not be done; the toolbox decides whether the brain may hear of it.
        """


class Toolbox:
    """Tools by name. Several calls may be under way at once.

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
        result = await self._answer(call, on_output)
        # Names of files can hold halves of characters, and neither journal nor brain can.
        return result if is_whole(result.text) else replace(result, text=whole(result.text))

    async def _answer(self, call: ToolCall, on_output: OutputListener | None) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(self._unknown(call.name))
        spec = tool.spec
        if not spec.foreign and (problems := argument_problems(spec.input_schema, call.arguments)):
            return failed(f"{call.name} was not called: {'; '.join(problems)}.")
        try:
            return await tool.call(call.arguments, CallContext(call.id, on_output, self._spill_dir))
        except _FOR_THE_BRAIN as error:
            return failed(f"{error.message} [{error.code}]")

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._tools, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"There is no tool {name!r}.{hint} There are: {', '.join(self._tools) or 'none'}."


def ends_the_run(error: KaguraError) -> bool:
    """Whether an error is none that a brain is told of."""
    return not isinstance(error, _FOR_THE_BRAIN)
