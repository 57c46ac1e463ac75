"""A language server's tools as a brain sees them: diagnostics, definition, references, hover, symbols.

Whatever reads an answer raises `Breach` when it is none.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.tools import schema
from kagura_kernel.tools.fences import shorten_middle
from kagura_kernel.tools.lsp_client import NoSuchPlace, Place, place_of, position, shown_place
from kagura_kernel.tools.text_file import workspace_path
from kagura_kernel.tools.toolsets.foreign_tools import Breach, readable, tool_name, word

if TYPE_CHECKING:
    from kagura_kernel.tools.lsp_client import LspClient
    from kagura_kernel.tools.toolbox import CallContext, Tool

MAX_SHOWN = 200
"""Diagnostics, places or symbols in one answer."""

_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_LONGEST = 20_000
_DEEPEST = 16
# The protocol's own list, from 1.
_KIND_NAMES = """
    file module namespace package class method property field constructor enum interface function variable constant
    string number boolean array object key null enum-member struct event operator type-parameter
"""
_KINDS = _KIND_NAMES.split()


def read_places(result: Any) -> list[Place]:
    """The places in an answer; empty for none."""
    if result is None:
        return []
    said = result if isinstance(result, list) else [result]
    return list(dict.fromkeys(place_of(one) for one in said))


def read_diagnostics(items: Any) -> list[str]:
    """A line for each, in the order of the file."""
    if not isinstance(items, list):
        raise Breach("its diagnostics are none")
    found: list[tuple[int, int, str]] = []
    for item in items:
        match item:
            case {"range": {"start": {"line": int() as line, "character": int() as column}}, "message": message}:
                severity = item.get("severity")
                kind = _SEVERITIES.get(severity, "error") if isinstance(severity, int) else "error"
                by = " ".join(filter(None, (word(item.get("source")), word(_code(item.get("code"))))))
                told = f"{line + 1}:{column + 1}: {kind}: {_message(message)}{f' [{by}]' if by else ''}"
                found.append((line, column, told))
            case _:
                raise Breach("its diagnostics are none")
    return [told for _, _, told in sorted(found)]


def read_hover(result: Any) -> str:
    """The text of a hover; empty for none."""
    if result is None:
        return ""
    if not isinstance(result, dict):
        raise Breach("its hover is none")
    contents = result.get("contents")
    parts = contents if isinstance(contents, list) else [contents]
    return "\n\n".join(filter(None, (_marked(part) for part in parts))).strip()


def read_symbols(result: Any) -> list[str]:
    """A line for each symbol of a file, indented by how deep it lies."""
    if result is None:
        return []
    if not isinstance(result, list):
        raise Breach("its symbols are none")
    lines: list[str] = []
    _add_symbols(result, 0, lines)
    return lines


def bounded_lines(lines: Sequence[str], none: str) -> str:
    """The lines as a text, the first of them where there are too many, or what to say when there are none."""
    if not lines:
        return none
    rest = len(lines) - MAX_SHOWN
    return "\n".join([*lines[:MAX_SHOWN], *([f"… and {rest} more"] if rest > 0 else [])])


def _add_symbols(symbols: Sequence[Any], depth: int, lines: list[str]) -> None:
    for symbol in symbols:
        match symbol:
            case {"name": str() as name, "selectionRange": {"start": {"line": int() as line}}}:
                pass
            case {"name": str() as name, "location": {"range": {"start": {"line": int() as line}}}}:
                pass
            case _:
                raise Breach("its symbols are none")
        lines.append(f"{'  ' * depth}{line + 1}: {_kind(symbol.get('kind'))} {word(name)}")
        children = symbol.get("children")
        if isinstance(children, list) and depth < _DEEPEST:
            _add_symbols(children, depth + 1, lines)


def _kind(number: Any) -> str:
    return _KINDS[number - 1] if type(number) is int and 0 < number <= len(_KINDS) else "symbol"


def _code(code: Any) -> str:
    return str(code) if isinstance(code, int | str) else ""


def _message(message: Any) -> str:
    text = message.get("value") if isinstance(message, dict) else message
    return " ".join(readable(text, 2000).split())


def _marked(part: Any) -> str:
    match part:
        case {"value": str() as text} | (str() as text):
            return readable(text, _LONGEST)
    return ""


Redact = Callable[[Any], Any]
Answer = Callable[["LspClient", str, Mapping[str, Any]], Awaitable[str]]

_PATH = schema.text("A file in the workspace.")
_AT = {
    "path": _PATH,
    "line": schema.whole("The line, counted from 1."),
    "symbol": schema.text("A name on that line; its first occurrence is meant."),
    "column": schema.whole("The column, counted from 1, in place of a symbol."),
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the tools that language servers can have."""

    word: str  # The end of its name
    needs: str  # What the server has to say that it does; empty for what all do
    description: str  # For the model
    schema: Mapping[str, Any]  # Of its arguments
    answer: Answer  # Does it


@dataclass(eq=False, repr=False)
class LspTool:
    """One question to a language server."""

    name: str  # Under which the brain sees it
    kind: _Kind  # What is asked
    client: LspClient  # The server
    redact: Redact  # What answers go through before a brain reads them

    def __post_init__(self) -> None:
        self.spec = ToolSpec(
            self.name,
            f"{self.kind.description} Answered by the language server {self.client.name}, which sees the files as they "
            "are now.",
            self.kind.schema,
            read_only=True,
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Ask, and hand back the answer, bounded.

        Raises:
            ToolsetError: the server is gone, too busy, not for this file, or did not answer in time.
            BoxFileError: the file cannot be read.
        """
        root = self.client.root
        path = posixpath.normpath(posixpath.join(root, workspace_path(root, arguments["path"])))
        try:
            text = await self.kind.answer(self.client, path, arguments)
        except NoSuchPlace as error:
            return ToolResult(f"{arguments['path']}: {error}.", is_error=True)
        return ToolResult(shorten_middle(await asyncio.to_thread(self.redact, text)))


def lsp_tools(toolset: str, client: LspClient, taken: Sequence[str], redact: Redact) -> list[Tool]:
    """The tools of a server that has begun, as far as it says that it can."""
    names = list(taken)
    tools: list[Tool] = []
    for kind in KINDS:
        if kind.needs and not client.can(kind.needs):
            continue
        name = tool_name(toolset, kind.word, names)
        names.append(name)
        tools.append(LspTool(name, kind, client, redact))
    return tools


async def _diagnostics(client: LspClient, path: str, _arguments: Mapping[str, Any]) -> str:
    items = await client.diagnostics(path)
    if items is None:
        return "The server has said nothing about this file; it may not check such files."
    return bounded_lines(client.require(lambda: read_diagnostics(items)), "Nothing is wrong, says the server.")


async def _definition(client: LspClient, path: str, arguments: Mapping[str, Any]) -> str:
    answer = await client.ask("textDocument/definition", path, position=await _position(client, path, arguments))
    return await _shown(client, client.require(lambda: read_places(answer)), "No definition was found.")


async def _references(client: LspClient, path: str, arguments: Mapping[str, Any]) -> str:
    answer = await client.ask(
        "textDocument/references",
        path,
        position=await _position(client, path, arguments),
        context={"includeDeclaration": True},
    )
    return await _shown(client, client.require(lambda: read_places(answer)), "No reference was found.")


async def _hover(client: LspClient, path: str, arguments: Mapping[str, Any]) -> str:
    answer = await client.ask("textDocument/hover", path, position=await _position(client, path, arguments))
    text = client.require(lambda: read_hover(answer))
    return text or "The server knows nothing about this."


async def _symbols(client: LspClient, path: str, _arguments: Mapping[str, Any]) -> str:
    answer = await client.ask("textDocument/documentSymbol", path)
    return bounded_lines(client.require(lambda: read_symbols(answer)), "The file has no symbols.")


async def _position(client: LspClient, path: str, arguments: Mapping[str, Any]) -> dict[str, int]:
    column = arguments.get("column")
    return position(
        await client.show(path),
        int(arguments["line"]),
        arguments.get("symbol", ""),
        None if column is None else int(column),
    )


async def _shown(client: LspClient, places: Sequence[Place], none: str) -> str:
    files: dict[str, list[str] | None] = {}
    lines: list[str] = []
    for place in places[:MAX_SHOWN]:
        if place.path not in files:
            files[place.path] = await client.lines(place.path)
        lines.append(shown_place(place, client.root, files[place.path]))
    rest = len(places) - len(lines)
    return bounded_lines(lines, none) + (f"\n… and {rest} more" if rest > 0 else "")


_FILE_ALONE = schema.arguments("path", path=_PATH)
_PLACE = schema.arguments("path", "line", **_AT)
KINDS = (
    _Kind(
        "diagnostics", "", "What is wrong in a file: errors and warnings with their lines.", _FILE_ALONE, _diagnostics
    ),
    _Kind("definition", "definitionProvider", "Where a name is defined.", _PLACE, _definition),
    _Kind("references", "referencesProvider", "Everywhere a name is used.", _PLACE, _references),
    _Kind("hover", "hoverProvider", "What a name is: its type, its signature, its documentation.", _PLACE, _hover),
    _Kind(
        "symbols",
        "documentSymbolProvider",
        "The classes, functions and variables of a file, with their lines.",
        _FILE_ALONE,
        _symbols,
    ),
)
