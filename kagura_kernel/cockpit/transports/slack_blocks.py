"""How posts look in Slack: blocks of plain text, in which nobody is called and no link is hidden. Pure."""

from __future__ import annotations

from typing import Any

from kagura_kernel.cockpit.transports.transport import Post
from kagura_kernel.domain.visible import printed

_STYLES = {"good": "primary", "bad": "danger"}


def escaped(text: str) -> str:
    """For Slack's own markup: then nothing in it is a mention or a link."""
    return printed(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks(post: Post) -> list[dict[str, Any]]:
    """Blocks of plain text: in none of them a mention, a link or a format is looked for."""
    shown: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "plain_text", "text": printed(post.ours)[:2900] or " ", "emoji": False}}
    ]
    if post.mark:
        shown[0]["block_id"] = post.mark
    if post.theirs:
        quoted = {"type": "rich_text_quote", "elements": [{"type": "text", "text": printed(post.theirs)}]}
        shown.append({"type": "rich_text", "elements": [quoted]})
    if post.buttons:
        shown.append({"type": "actions", "elements": [_button(number, post) for number in range(len(post.buttons))]})
    return shown


def _button(number: int, post: Post) -> dict[str, Any]:
    button = post.buttons[number]
    shown: dict[str, Any] = {
        "type": "button",
        "action_id": f"kagura-{number}",
        "text": {"type": "plain_text", "text": printed(button.label)[:75] or "…", "emoji": False},
        "value": button.action,
    }
    return shown | ({"style": _STYLES[button.look]} if button.look in _STYLES else {})
