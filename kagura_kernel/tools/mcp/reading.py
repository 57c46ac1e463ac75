"""What an MCP server says, read: its tools and its results. It is believed nothing, and everything is bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kagura_kernel.tools.toolsets.cutting import Breach
from kagura_kernel.tools.toolsets.limits import ToolsetLimits
from kagura_kernel.tools.toolsets.schema import SchemaRefused, clean_schema
from kagura_kernel.tools.toolsets.words import readable, word

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, the newest first."""

_LONGEST_NAME = 128
_LONGEST_CURSOR = 10_000
_MAX_BLOCKS = 1000


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a server offers it, fit to be shown.

    Attributes:
        name: As the server calls it.
        description: Its words, bounded.
        schema: Of its arguments, cleaned.
        read_only: Whether it says that it changes nothing.
        size: Characters that all of it takes when a model reads it.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool = False
    size: int = 0


def read_beginning(result: Any) -> tuple[str, bool]:
    """What a server calls itself, with its version, and whether it has tools.

    Raises:
        Breach: it is no beginning.
        ValueError: it speaks another version of the protocol; the text is half a sentence.
    """
    match result:
        case {"protocolVersion": str() as version, "capabilities": dict() as capabilities}:
            if version not in VERSIONS:
                raise ValueError(f"speaks MCP {word(version)}, and this is spoken here: {', '.join(VERSIONS)}")
            info = result.get("serverInfo")
            told = [word(info[key]) for key in ("name", "version") if info.get(key)] if isinstance(info, dict) else []
            return " ".join(told), isinstance(capabilities.get("tools"), dict)
    raise Breach("its first answer is no beginning")


def read_page(result: Any) -> tuple[list[Any], str]:
    """The tools on one page of its list, unread, and what leads to the next; empty at the end.

    Raises:
        Breach: it is no such page.
    """
    match result:
        case {"tools": list() as tools}:
            cursor = result.get("nextCursor")
            if cursor is None or (isinstance(cursor, str) and len(cursor) <= _LONGEST_CURSOR):
                return tools, cursor or ""
    raise Breach("its list of tools is none")


def read_tool(said: Any, limits: ToolsetLimits) -> OfferedTool:
    """One tool.

    Raises:
        SchemaRefused: it cannot be offered; the text says why.
        Breach: it has no name.
    """
    if not isinstance(said, dict) or not isinstance(said.get("name"), str) or not said["name"]:
        raise Breach("a tool of its has no name")
    name = said["name"]
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise SchemaRefused(f"its name is longer than {_LONGEST_NAME} characters, or not readable")
    annotations = said.get("annotations")
    read_only = isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
    schema = clean_schema(said.get("inputSchema", {}), most=limits.schema_bytes)
    description = readable(said.get("description"), limits.description)
    size = len(name) + len(description) + len(json.dumps(schema, ensure_ascii=False))
    return OfferedTool(name, description, schema, read_only, size)


def read_result(result: Any) -> tuple[str, bool]:
    """What a call answered, as a text, and whether the server calls it a failure.

    Raises:
        Breach: it is no result.
    """
    if not isinstance(result, dict) or not isinstance(result.get("content", []), list):
        raise Breach("it answered a call with what is no result")
    blocks = result.get("content", [])
    shown = [_block(block) for block in blocks[:_MAX_BLOCKS]]
    if len(blocks) > _MAX_BLOCKS:
        shown.append(f"[{len(blocks) - _MAX_BLOCKS} more parts left out]")
    if (structured := result.get("structuredContent")) is not None and not _said(structured, blocks):
        shown.append(json.dumps(structured, ensure_ascii=False))
    return "\n".join(shown) or "(no output)", result.get("isError") is True


def _said(structured: Any, blocks: list[Any]) -> bool:
    """Whether a text says the same already, as servers do for those who know no structure."""
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and text[:1] in ("{", "["):
            try:
                if json.loads(text) == structured:
                    return True
            except (ValueError, RecursionError):
                continue
    return False


def _block(block: Any) -> str:
    match block:
        case {"type": "text", "text": str() as text}:
            return text
        case {"type": "image" | "audio" as kind, "data": str() as data}:
            return f"[{kind}{_kind(block)}, about {_size(data)} bytes, not shown]"
        case {"type": "resource_link", "uri": str() as uri}:
            name, about = word(block.get("name")), word(block.get("description"))
            return f"[resource {name or 'without a name'}{_kind(block)}: {word(uri)}{f', {about}' if about else ''}]"
        case {"type": "resource", "resource": {"uri": str() as uri, "text": str() as text} as resource}:
            return f"[resource {word(uri)}{_kind(resource)}]\n{text}"
        case {"type": "resource", "resource": {"uri": str() as uri, "blob": str() as blob} as resource}:
            return f"[resource {word(uri)}{_kind(resource)}, about {_size(blob)} bytes, not shown]"
        case {"type": str() as kind}:
            return f"[{word(kind)}, not shown]"
    raise Breach("it answered a call with what is no result")


def _kind(block: Mapping[str, Any]) -> str:
    kind = word(block.get("mimeType"))
    return f" {kind}" if kind else ""


def _size(data: str) -> int:
    return len(data) * 3 // 4
