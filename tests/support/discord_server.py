"""A Discord of our own on this machine: as much of its gateway and of its REST API as discord.py talks to.

It is as strict as the real one about tokens and sizes, and reads markup as the real one does: a mention that is neither
escaped nor ruled out calls somebody, and a link may bear another text.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import BodyPartReader, WSMsgType, web

from kagura_kernel.testing.chat import Shown

BOT = "900"
ROOM, GUILD, HALL = "100", "200", "201"
"""A direct message's channel; a guild, and a channel of it."""

_CALLS = re.compile(r"(?<!\\)@(?:everyone|here)|(?<!\\)<(?:\\?)@[!&]?\d+>")
_LINKS = re.compile(r"(?<!\\)\[[^\]]*(?<!\\)\]\(([^)]*)\)")


@dataclass
class DiscordMessage:
    """One of ours."""

    channel: str  # Where
    body: dict[str, Any]  # As it stands now
    edits: int = 0  # How often it was edited


def user(name: str, *, bot: bool = False) -> dict[str, Any]:
    """A person, or a bot."""
    return {"id": name, "username": f"user-{name}", "discriminator": "0", "avatar": None, "bot": bot}


def application() -> dict[str, Any]:
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
        len(body.get("content") or "") > 2000
        or any(len(one.get("description") or "") > 4096 for one in embeds)
        or any(len(one["label"]) > 80 or len(one["custom_id"]) > 100 for one in buttons)
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


TOKEN = "MTIz.of.the-test"

_UNKNOWN_CHANNEL = 10003
_HAS_THREAD = 160004
_POST = re.compile(r"POST /channels/(\d+)/messages")
_EDIT = re.compile(r"PATCH /channels/(\d+)/messages/(\d+)")
_THREAD = re.compile(r"POST /channels/(\d+)/messages/(\d+)/threads")


@dataclass
class DiscordServer:
    """The far side. Use it as an asynchronous context manager."""

    # Every call: its method and path, and what was sent
    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _url: str = ""
    _runner: web.AppRunner | None = None
    _socket: web.WebSocketResponse | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))
    _messages: dict[str, DiscordMessage] = field(default_factory=dict)
    _threads: dict[str, str] = field(default_factory=dict)
    _files: list[tuple[str, str, bytes]] = field(default_factory=list)
    _sent: dict[str, bytes] = field(default_factory=dict)
    _last: tuple[str, Mapping[str, Any]] | None = None
    _refusals: int = 0
    _forbidden: int = 0
    _lost: int = 0
    _sequence: int = 0

    @property
    def api(self) -> str:
        """Where the REST API is."""
        return f"{self._url}/api"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/files/{id}", self._file)
        app.router.add_route("*", "/api/{path:.*}", self._call)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket is not None:
            await self._socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # ------------------------------------------------------------- what people do

    async def say(self, operator: str, text: str, *, thread: str = "", files: Sequence[tuple[str, bytes]] = ()) -> str:
        """Somebody writes a direct message; without a thread one with another channel begins."""
        channel = thread.partition(":")[0] or str(next(self._numbers))
        await self._dispatch("MESSAGE_CREATE", self._message(channel, operator, text, files))
        return f"{channel}:"

    async def mention(self, operator: str, text: str) -> str:
        """Somebody mentions us in a channel of a guild, first or where the text does it."""
        words = text if f"<@{BOT}>" in text else f"<@{BOT}> {text}"
        message = self._message(HALL, operator, words, ())
        message |= {"guild_id": GUILD, "mentions": [user(BOT, bot=True)], "member": {"roles": []}}
        await self._dispatch("MESSAGE_CREATE", message)
        return f"{HALL}:{message['id']}"

    async def click(self, operator: str, thread: str, post_id: str, action: str) -> None:
        """Somebody presses a button, or makes that up."""
        channel = thread.partition(":")[2] or thread.partition(":")[0]
        post = self._messages.get(post_id)
        body = post.body if post is not None else self._message(channel, BOT, "", ())
        payload = {
            "id": str(next(self._numbers)),
            "application_id": BOT,
            "type": 3,
            "token": "of-the-interaction",
            "version": 1,
            "user": user(operator),
            "channel_id": channel,
            "channel": {"id": channel, "type": 1, "recipients": [user(operator)]},
            "message": {**body, "channel_id": channel},
            "data": {"custom_id": action, "component_type": 2},
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 1,
        }
        await self._dispatch("INTERACTION_CREATE", payload)

    async def replay(self) -> None:
        """What was delivered last is delivered again."""
        if self._last is not None:
            await self._dispatch(*self._last)

    def shown(self, thread: str) -> list[Shown]:
        """Our posts in a thread."""
        channel, _, started = thread.partition(":")
        return [
            shown_as(post_id, thread, one)
            for post_id, one in self._messages.items()
            if one.channel == (started or channel) and not one.body.get("attachments")
        ]

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        """Our files in a thread."""
        channel, _, started = thread.partition(":")
        return [(name, content) for place, name, content in self._files if place == (started or channel)]

    def refuse(self, times: int) -> None:
        """Answer the next calls with an error."""
        self._refusals = times

    def forbid(self, times: int) -> None:
        """Say of the next calls that we may not."""
        self._forbidden = times

    def lose(self, times: int) -> None:
        """Take the next posts, and let nobody hear that they were taken."""
        self._lost = times

    async def end(self, code: int) -> None:
        """End the connection, and say why."""
        if self._socket is not None:
            await self._socket.close(code=code)

    # --------------------------------------------------------------- the REST API

    async def _call(self, request: web.Request) -> web.Response:
        path = f"{request.method} /{request.match_info['path']}"
        body, file = await _body(request)
        self.requests.append((path, body))
        if path.startswith("POST /interactions/"):
            return web.Response(status=204)
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _error(401, 0)
        answer = self._told(path) or self._trouble() or self._taken(path, body, file)
        if _POST.fullmatch(path) and self._lost and request.transport is not None:
            self._lost -= 1
            request.transport.close()
        return answer

    def _told(self, path: str) -> web.Response | None:
        if path == "GET /gateway":
            return _json({"url": self._url.replace("http", "ws", 1) + "/gateway/"})
        if path == "GET /users/@me":
            return _json(user(BOT, bot=True))
        return _json(application()) if "applications/@me" in path else None

    def _trouble(self) -> web.Response | None:
        if self._refusals:
            self._refusals -= 1
            return _error(503, 0)
        if self._forbidden:
            self._forbidden -= 1
            return _error(403, 50001)
        return None

    def _taken(self, path: str, body: Mapping[str, Any], file: tuple[str, bytes] | None) -> web.Response:
        if found := _THREAD.fullmatch(path):
            if found[2] in self._threads:
                return _error(400, _HAS_THREAD)
            self._threads[found[2]] = found[1]
            return _json(channel_of(found[2], found[1]))
        if found := _POST.fullmatch(path):
            return self._post(found[1], body, file)
        if found := _EDIT.fullmatch(path):
            return self._edit(found[2], body)
        return _error(404, 0)

    def _post(self, channel: str, body: Mapping[str, Any], file: tuple[str, bytes] | None) -> web.Response:
        begun = any(one.body["id"] == channel for one in self._messages.values())
        if (begun or self._is_message(channel)) and channel not in self._threads:
            return _error(404, _UNKNOWN_CHANNEL)
        if is_too_long(body):
            return _error(400, 50035)
        nonce = body.get("nonce") if body.get("enforce_nonce") else None
        same = (one for one in self._messages.values() if one.channel == channel and one.body.get("nonce") == nonce)
        if nonce is not None and (earlier := next(same, None)) is not None:
            return _json(earlier.body)
        message = self._message(channel, BOT, str(body.get("content") or ""), ())
        message |= {key: body[key] for key in ("embeds", "components", "allowed_mentions", "nonce") if body.get(key)}
        if file is not None:
            self._files.append((channel, *file))
            message["attachments"] = [attachment("1", file[0], len(file[1]), self._url)]
        self._messages[message["id"]] = DiscordMessage(channel, message)
        return _json(message)

    def _edit(self, post_id: str, body: Mapping[str, Any]) -> web.Response:
        post = self._messages.get(post_id)
        if post is None:
            return _error(404, 10008)
        if is_too_long(body):
            return _error(400, 50035)
        post.body |= body
        post.edits += 1
        return _json(post.body)

    def _is_message(self, channel: str) -> bool:
        return self._last is not None and self._last[1].get("id") == channel and "guild_id" in self._last[1]

    async def _file(self, request: web.Request) -> web.Response:
        if "Authorization" in request.headers:
            return web.Response(status=400, text="a token was sent to where files are")
        return web.Response(body=self._sent[request.match_info["id"]])

    # ----------------------------------------------------------------- the gateway

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 45_000}, "s": None, "t": None})
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            said = json.loads(message.data)
            if said["op"] == 1:
                await socket.send_json({"op": 11, "d": None, "s": None, "t": None})
            elif said["op"] == 2 and said["d"]["token"] != TOKEN:
                await socket.close(code=4004)
            elif said["op"] == 2:
                self._socket = socket
                await self._greet()
            elif said["op"] == 6:
                self._socket = socket
                await self._send("RESUMED", {})
        return socket

    async def _greet(self) -> None:
        ready = {
            "v": 10,
            "user": user(BOT, bot=True),
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": "s",
            "resume_gateway_url": self._url.replace("http", "ws", 1) + "/gateway/",
            "application": {"id": BOT, "flags": 0},
        }
        await self._send("READY", ready)
        await self._send("GUILD_CREATE", guild())

    async def _dispatch(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._last = (kind, payload)
        await self._send(kind, payload)

    async def _send(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._sequence += 1
        if self._socket is not None:
            await self._socket.send_json({"op": 0, "t": kind, "s": self._sequence, "d": payload})
        await asyncio.sleep(0)

    def _message(self, channel: str, who: str, text: str, files: Sequence[tuple[str, bytes]]) -> dict[str, Any]:
        attachments = []
        for name, content in files:
            file_id = str(next(self._numbers))
            self._sent[file_id] = content
            attachments.append(attachment(file_id, name, len(content), self._url))
        return {
            "id": str(next(self._numbers)),
            "channel_id": channel,
            "author": user(who, bot=who == BOT),
            "content": text,
            "timestamp": "2026-01-01T00:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": attachments,
            "embeds": [],
            "components": [],
            "pinned": False,
            "type": 0,
        }


def _json(data: Mapping[str, Any], status: int = 200) -> web.Response:
    # The library looks for exactly this, without a character set.
    return web.Response(body=json.dumps(data).encode(), status=status, headers={"Content-Type": "application/json"})


def _error(status: int, code: int) -> web.Response:
    return _json({"code": code, "message": "the test says so"}, status=status)


async def _body(request: web.Request) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    if not request.content_type.startswith("multipart/"):
        text = await request.text()
        return (dict(json.loads(text)) if text else {}), None
    body: dict[str, Any] = {}
    file = None
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and part.name == "payload_json":
            body = dict(json.loads(await part.text()))
        elif isinstance(part, BodyPartReader):
            file = (part.filename or "", bytes(await part.read()))
    return body, file
