"""A language server's tools as a brain sees them: diagnostics, definition, references, hover, symbols."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.tools import schema
from kagura_kernel.tools.bounded import shorten_middle
from kagura_kernel.tools.lsp.places import NoSuchPlace, Place, position, shown_place
from kagura_kernel.tools.lsp.reading import (
    MAX_SHOWN,
    bounded_lines,
    read_diagnostics,
    read_hover,
    read_places,
    read_symbols,
)
from kagura_kernel.tools.paths import workspace_path
from kagura_kernel.tools.toolsets.naming import tool_name

if TYPE_CHECKING:
    from kagura_kernel.tools.lsp.client import LspClient
    from kagura_kernel.tools.toolbox import CallContext, Tool

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
    """One of the tools that language servers can have.

    Attributes:
        word: The end of its name.
        needs: What the server has to say that it does; empty for what all do.
        description: For the model.
        schema: Of its arguments.
        answer: Does it.
    """

    word: str
    needs: str
    description: str
    schema: Mapping[str, Any]
    answer: Answer


class LspTool:
    """One question to a language server.

    Args:
        name: Under which the brain sees it.
        kind: What is asked.
        client: The server.
        redact: What answers go through before a brain reads them.
    """

    def __init__(self, name: str, kind: _Kind, client: LspClient, redact: Redact) -> None:
        self._kind = kind
        self._client = client
        self._redact = redact
        self.spec = ToolSpec(
            name,
            f"{kind.description} Answered by the language server {client.name}, which sees the files as they are now.",
            kind.schema,
            read_only=True,
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Ask, and hand back the answer, bounded.

        Raises:
            ToolsetError: the server is gone, too busy, not for this file, or did not answer in time.
            BoxFileError: the file cannot be read.
        """
        root = self._client.root
        path = posixpath.normpath(posixpath.join(root, workspace_path(root, arguments["path"])))
        try:
            text = await self._kind.answer(self._client, path, arguments)
        except NoSuchPlace as error:
            return ToolResult(f"{arguments['path']}: {error}.", is_error=True)
        return ToolResult(shorten_middle(await asyncio.to_thread(self._redact, text)))


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


KINDS = (
    _Kind(
        "diagnostics",
        "",
        "What is wrong in a file: errors and warnings with their lines.",
        schema.arguments("path", path=_PATH),
        _diagnostics,
    ),
    _Kind(
        "definition",
        "definitionProvider",
        "Where a name is defined.",
        schema.arguments("path", "line", **_AT),
        _definition,
    ),
    _Kind(
        "references",
        "referencesProvider",
        "Everywhere a name is used.",
        schema.arguments("path", "line", **_AT),
        _references,
    ),
    _Kind(
        "hover",
        "hoverProvider",
        "What a name is: its type, its signature, its documentation.",
        schema.arguments("path", "line", **_AT),
        _hover,
    ),
    _Kind(
        "symbols",
        "documentSymbolProvider",
        "The classes, functions and variables of a file, with their lines.",
        schema.arguments("path", path=_PATH),
        _symbols,
    ),
)
