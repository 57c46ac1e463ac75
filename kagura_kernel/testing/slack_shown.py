"""A message of Slack's as a person in the thread sees it, and what the real service would not take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kagura_kernel.testing.chat import Shown

_CALLS = re.compile(r"<[!@#]")
_LINKS = re.compile(r"<(https?:[^>]+)>")
_ADDRESSES = re.compile(
    r"(?P<url>https?://[^\s<>|]+)|(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)|(?P<bare>\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|md|io|sh|py)\b)"
)
_MOST = {"section": 3000, "button": 75, "value": 2000, "quote": 4000}


@dataclass
class SlackMessage:
    """One of ours.

    Attributes:
        channel: Where.
        ts: Its stamp, which is its name too.
        thread_ts: The stamp of the first message of its thread.
        body: As it was sent last.
        edits: How often it was edited.
    """

    channel: str
    ts: str
    thread_ts: str
    body: Mapping[str, Any]
    edits: int = 0


def blocks_in(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message, in whichever form the client has sent them."""
    blocks = body.get("blocks") or []
    return list(json.loads(blocks)) if isinstance(blocks, str) else list(blocks)


def problem_with(body: Mapping[str, Any]) -> str:
    """What the service says is wrong with a message; empty for nothing."""
    for block in blocks_in(body):
        if block["type"] == "section" and not 0 < len(block["text"]["text"]) <= _MOST["section"]:
            return "invalid_blocks"
        if block["type"] == "rich_text" and len(_quoted(block)) > _MOST["quote"]:
            return "msg_blocks_too_long"
        for one in block["elements"] if block["type"] == "actions" else ():
            too_long = len(one["text"]["text"]) > _MOST["button"] or len(one["value"]) > _MOST["value"]
            if too_long or one["text"]["type"] != "plain_text":
                return "invalid_blocks"
    return ""


def _quoted(block: Mapping[str, Any]) -> str:
    return "".join(piece["text"] for part in block["elements"] for piece in part["elements"])


def shown_as(message: SlackMessage) -> Shown:
    """The message as it is read."""
    blocks = blocks_in(message.body)
    marked = [str(message.body.get("text") or "")]
    read: list[str] = []
    for block in blocks:
        if block["type"] == "section":
            read.append(block["text"]["text"])
            if block["text"]["type"] == "mrkdwn":
                marked.append(block["text"]["text"])
        elif block["type"] == "rich_text":
            read.append(_quoted(block))
    elements = [one for block in blocks if block["type"] == "actions" for one in block["elements"]]
    kinds = [
        piece["type"]
        for b in blocks
        if b["type"] == "rich_text"
        for part in b["elements"]
        for piece in part["elements"]
    ]
    return Shown(
        message.ts,
        f"{message.channel}:{message.thread_ts}",
        "\n".join(read),
        tuple((one["text"]["text"], one["value"]) for one in elements),
        message.edits,
        notifies=any(_CALLS.search(text) for text in marked) or bool({"user", "broadcast", "usergroup"} & set(kinds)),
        links=tuple(link for text in marked for link in _LINKS.findall(text)),
    )


def written(text: str) -> str:
    """What a person has written, as Slack hands it over: escaped, and all that looks like an address made a link."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ADDRESSES.sub(_linked, escaped)


def _linked(found: re.Match[str]) -> str:
    address = found[0]
    if found["url"]:
        return f"<{address}>"
    return f"<{'mailto:' if found['mail'] else 'http://'}{address}|{address}>"
