"""What of the Messages API a box may use: to think, and nothing that would be a way out past its proxy. Pure.

The service can fetch pages, search, run code and speak to MCP servers by itself, and reads files of the account. Each
of these would carry the box's words to places that nobody was asked about, so a request that wants one is refused
before a byte of it is sent. Requests are read strictly: what could be read in two ways is refused too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kagura_kernel.membrane.credentials.injection.head import BadRequest
from kagura_kernel.membrane.credentials.injection.rewriting import Headers

MESSAGES = b"/v1/messages"
COUNT = b"/v1/messages/count_tokens"

LONGEST = 32 * 2**20
"""Bytes of one request; the service takes no more either."""

_LOOKS = frozenset({(b"HEAD", b"/"), (b"GET", b"/v1/models")})
_QUERIES = frozenset({b"", b"beta=true"})

# A header that is not here stays in the box: another account's key, say, with which the box's words could be sent to
# somebody who is not the person that runs it.
_HEADERS = frozenset(
    {
        b"accept",
        b"accept-language",
        b"anthropic-beta",
        b"anthropic-dangerous-direct-browser-access",
        b"anthropic-version",
        b"content-length",
        b"content-type",
        b"transfer-encoding",
        b"user-agent",
        b"x-app",
        b"x-claude-code-session-id",
    }
)
_HEADER_BEGINNINGS = (b"x-stainless-",)

# Sorts of tools that the program carries out itself, in the box, or that look for others in this very request; every
# other sort is the service's own, or one that somebody has to look at first.
_CLIENT_TOOLS = frozenset(
    {
        "custom",
        *("bash_20241022", "bash_20250124"),
        *("text_editor_20241022", "text_editor_20250124", "text_editor_20250429", "text_editor_20250728"),
        *("computer_20241022", "computer_20250124", "computer_20251124"),
        "memory_20250818",
        *("tool_search_tool_regex", "tool_search_tool_regex_20251119"),
        *("tool_search_tool_bm25", "tool_search_tool_bm25_20251119"),
    }
)

# Where what a message shows comes from: the request itself.
_SOURCES = frozenset({"base64", "text", "content"})

_REMOTE = ("mcp_servers", "container")

# What thinking takes. Whatever the service learns to do for a field that is not here, somebody has to look at first.
_FIELDS = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "stream", "metadata", "tools", "tool_choice", "thinking"),
        *("temperature", "top_p", "top_k", "stop_sequences", "cache_control", "context_management"),
        *("output_config", "output_format", "speed", *_REMOTE),
    }
)

# What a model wants to be called with, and what a tool's arguments look like, may say anything.
_FREE = frozenset({"input", "input_schema"})

_ADVICE = "use a tool in the box, where its egress is decided"


def check_head(method: bytes, target: bytes) -> None:
    """Refuse what is not the API that a brain thinks with.

    Raises:
        BadRequest: another path, method or query.
    """
    path, _, query = target.partition(b"?")
    known = (method == b"POST" and path in (MESSAGES, COUNT)) or (method, path) in _LOOKS
    if not known or query not in _QUERIES:
        shown = b"%b %b" % (method[:10], target[:80])
        raise BadRequest(404, f"{shown.decode('ascii', 'replace')} is no part of what a sealed brain uses.")


def kept_headers(headers: Headers) -> Headers:
    """Those of a request's headers that may leave the box."""
    return [(name, value) for name, value in headers if name in _HEADERS or name.startswith(_HEADER_BEGINNINGS)]


def check_body(body: bytes) -> str:
    """Refuse what would make the service reach out; the model that is asked for.

    Raises:
        BadRequest: it is no JSON object, says a thing twice, or wants what is the service's own.
    """
    try:
        asked = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise BadRequest(400, "The request is no JSON, or says a thing twice.") from None
    if not isinstance(asked, dict) or not isinstance(model := asked.get("model"), str):
        raise BadRequest(400, "The request names no model.")
    if unknown := sorted(asked.keys() - _FIELDS):
        raise BadRequest(400, f"`{unknown[0][:60]}` is no part of what a sealed brain asks for.")
    for name in _REMOTE:
        if asked.get(name):
            raise BadRequest(400, f"`{name}` makes the service itself reach out: {_ADVICE}.")
    if asked.get("speed") not in (None, "standard"):
        raise BadRequest(400, "`speed` has a price that no budget knows: leave it out.")
    _check_tools(asked.get("tools"))
    _check_sources((asked.get("messages"), asked.get("system")))
    return model


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise BadRequest(400, "`tools` is no list.")
    for tool in tools:
        sort = tool.get("type") if isinstance(tool, dict) else tool
        ours = sort is None or (isinstance(sort, str) and sort in _CLIENT_TOOLS)
        if not ours or not isinstance(tool, dict):
            raise BadRequest(400, f"A tool of the sort {str(sort)[:60]!r} is the service's own: {_ADVICE}.")


def _check_sources(values: Iterable[Any]) -> None:
    """No content that the service would have to fetch, from somewhere or from the account's files."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            if value.get("type") in ("url", "container_upload") or "file_id" in value or not _is_here(value):
                raise BadRequest(400, f"A message points to what the service would fetch by itself: {_ADVICE}.")
            waiting += [part for name, part in value.items() if name not in _FREE]


def _is_here(value: dict[str, Any]) -> bool:
    """Whether the source of a content, if it names one, is the request; a text only says where something was found."""
    source = value.get("source")
    if isinstance(source, dict):
        sort = source.get("type")
        return isinstance(sort, str) and sort in _SOURCES
    return source is None or isinstance(source, str)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found
