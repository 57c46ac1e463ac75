"""What Slack delivers, as what was said or clicked; None is what nobody has just said to us. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kagura_kernel.cockpit.transports.transport import Clicked, Heard, Said, SentFile

ASIDE = "/"
"""In the place of a thread's stamp: what follows is a person, and nobody else sees what is said there."""

FOREIGN = "it comes from another workspace"

_STAMP = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
_LINK = re.compile(r"<((?:https?|mailto|tel):[^>|]+)(?:\|([^>]*))?>")
# What Slack puts before words of its own accord; `https://` it never does.
_ADDED = re.compile(r"(?:http://|mailto:|tel:)")

AFile = Callable[[Mapping[str, Any]], SentFile]
"""A file as Slack describes it, to one that can be read."""


@dataclass(frozen=True, slots=True)
class Us:
    """Who we are, as Slack says of our token.

    Attributes:
        team: The workspace that the app is installed in.
        user: What mentions of us name.
    """

    team: str = ""
    user: str = ""


def heard_in(body: Mapping[str, Any], us: Us, file: AFile) -> Heard | None:
    """What one delivery says; what comes from another workspace is barred, for there ids may mean other people."""
    match body.get("type"):
        case "event_callback":
            return _said(body, us, file)
        case "block_actions":
            return _clicked(body, us)
        case _:
            return _ordered(body, us) if body.get("command") else None


def place_of(thread: str) -> tuple[str, str]:
    """The channel of a thread, and the stamp of its first message."""
    channel, _, ts = thread.partition(":")
    return channel, ts


def order_of(ts: str) -> int:
    """A stamp as a number, in millionths of a second; 0 for what is none."""
    return int(ts.replace(".", "")) if _STAMP.fullmatch(ts) else 0


def _barred(us: Us, team: object, *persons: object) -> str:
    """Why this is not heard: Slack always says in which workspace it was, and in shared channels whose a person is."""
    foreign = any(one != us.team for one in (team, *persons) if one is not None)
    return "" if us.team and team is not None and not foreign else FOREIGN


def _said(body: Mapping[str, Any], us: Us, file: AFile) -> Said | None:
    event: Mapping[str, Any] = body.get("event") or {}
    is_ours = event.get("type") == "app_mention" or event.get("channel_type") == "im"
    is_plain = event.get("subtype") in (None, "file_share", "thread_broadcast")
    # What was changed later is nothing that is said now: a mention may be put into words of long ago.
    is_said = is_plain and not event.get("edited")
    if not (is_ours and is_said) or event.get("bot_id") or not event.get("user"):
        return None
    channel, ts = str(event["channel"]), str(event["ts"])
    # A mention and the message that it stands in are two events of the same thing.
    return Said(
        f"{channel}:{ts}",
        f"{channel}:{event.get('thread_ts') or ts}",
        str(event["user"]),
        _written(str(event.get("text") or ""), us),
        tuple(file(one) for one in event.get("files") or ()),
        order=order_of(ts),
        barred=_barred(us, body.get("team_id"), *(event.get(fact) for fact in ("team", "user_team", "source_team"))),
    )


def _written(text: str, us: Us) -> str:
    """What was written, as it was: without Slack's links and escapes, and without a mention of us."""
    mention = rf"[ \t]*<@{re.escape(us.user)}(?:\|[^>]*)?>[:,]?[ \t]*"
    return html.unescape(_LINK.sub(_link, re.sub(mention, " ", text) if us.user else text)).strip()


def _link(found: re.Match[str]) -> str:
    address, label = found[1], found[2]
    if not label or label == address:
        return address
    if label == _ADDED.sub("", address, count=1):
        return label
    return address if label == address.removeprefix("https://") else f"{label} ({address})"


def _ordered(body: Mapping[str, Any], us: Us) -> Said | None:
    """A slash command. It stands in no thread, for Slack takes none in threads."""
    channel, user, trigger = body.get("channel_id"), body.get("user_id"), body.get("trigger_id")
    if not channel or not user or not trigger:
        return None
    text = _written(str(body.get("text") or ""), us)
    barred = _barred(us, body.get("team_id"))
    return Said(f"command:{trigger}", f"{channel}:{ASIDE}{user}", str(user), text, in_thread=False, barred=barred)


def _clicked(body: Mapping[str, Any], us: Us) -> Clicked | None:
    actions: Sequence[Mapping[str, Any]] = body.get("actions") or ()
    message: Mapping[str, Any] = body.get("message") or {}
    channel = (body.get("channel") or {}).get("id")
    person: Mapping[str, Any] = body.get("user") or {}
    user = person.get("id")
    if not actions or not channel or not user or not body.get("trigger_id"):
        return None
    ts = str(message.get("ts") or "")
    return Clicked(
        str(body["trigger_id"]),
        f"{channel}:{message.get('thread_ts') or ts}",
        str(user),
        str(actions[0].get("value") or actions[0].get("action_id") or ""),
        ts,
        barred=_barred(us, (body.get("team") or {}).get("id"), person.get("team_id")),
    )
