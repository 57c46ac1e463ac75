"""What Discord's objects look like on the wire, and a message as a person in the channel sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kagura_kernel.testing.chat import Shown

BOT = "900"
ROOM, GUILD, HALL = "100", "200", "201"
"""A direct message's channel; a guild, and a channel of it."""

_CALLS = re.compile(r"(?<!\\)@(?:everyone|here)|(?<!\\)<(?:\\?)@[!&]?\d+>")
_LINKS = re.compile(r"(?<!\\)\[[^\]]*(?<!\\)\]\(([^)]*)\)")


@dataclass
class DiscordMessage:
    """One of ours.

    Attributes:
        channel: Where.
        body: As it stands now.
        edits: How often it was edited.
    """

    channel: str
    body: dict[str, Any]
    edits: int = 0


def user(name: str, *, bot: bool = False) -> dict[str, Any]:
    """A person, or a bot."""
    return {"id": name, "username": f"user-{name}", "discriminator": "0", "avatar": None, "bot": bot}


def application() -> dict[str, Any]:
    """Our application."""
    return {
        "id": BOT,
        "name": "kagura",
        "icon": None,
        "description": "",
        "bot_public": False,
        "bot_require_code_grant": False,
        "owner": user("1"),
        "verify_key": "",
        "team": None,
        "flags": 0,
    }


def guild() -> dict[str, Any]:
    """A guild with one channel."""
    return {
        "id": GUILD,
        "name": "guild",
        "member_count": 1,
        "channels": [channel_of(HALL, None)],
        "threads": [],
        "members": [],
        "roles": [],
        "emojis": [],
        "stickers": [],
        "owner_id": "1",
    }


def channel_of(channel: str, parent: str | None) -> dict[str, Any]:
    """A channel, or with a parent a thread of it."""
    shown: dict[str, Any] = {"id": channel, "guild_id": GUILD, "name": "hall", "type": 0, "position": 0}
    if parent is None:
        return shown | {"permission_overwrites": [], "parent_id": None}
    state = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": "2026-01-01T00:00:00+00:00"}
    return shown | {
        "type": 11,
        "parent_id": parent,
        "owner_id": BOT,
        "message_count": 0,
        "member_count": 1,
        "thread_metadata": state,
    }


def attachment(file_id: str, name: str, size: int, url: str) -> dict[str, Any]:
    """A file that stands below a message."""
    address = f"{url}/files/{file_id}"
    return {"id": file_id, "filename": name, "size": size, "url": address, "proxy_url": address}


def is_too_long(body: Mapping[str, Any]) -> bool:
    """Whether the real service would not take it."""
    embeds = body.get("embeds") or []
    buttons = [one for row in body.get("components") or [] for one in row["components"]]
    return (
        len(body.get("content") or "") > 2000  # noqa: PLR2004 - Discord's own numbers
        or any(len(one.get("description") or "") > 4096 for one in embeds)  # noqa: PLR2004
        or any(len(one["label"]) > 80 or len(one["custom_id"]) > 100 for one in buttons)  # noqa: PLR2004
    )


def shown_as(post_id: str, thread: str, message: DiscordMessage) -> Shown:
    """The message as it is read."""
    body = message.body
    described = [str(one.get("description") or "") for one in body.get("embeds") or []]
    content = str(body.get("content") or "")
    buttons = [one for row in body.get("components") or [] for one in row["components"]]
    calling = body.get("allowed_mentions", {}).get("parse", ["everyone", "users", "roles"])
    # In a box below the message nobody is ever called.
    return Shown(
        post_id,
        thread,
        re.sub(r"\\(.)", r"\1", "\n".join([content, *described])),
        tuple((one["label"], one["custom_id"]) for one in buttons),
        message.edits,
        notifies=bool(calling) and bool(_CALLS.search(content)),
        links=tuple(link for text in (content, *described) for link in _LINKS.findall(text)),
    )
