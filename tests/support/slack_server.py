"""A Slack of our own on this machine: as much of its web API and of Socket Mode as a Bolt app talks to.

It is as strict as the real one about tokens and about the sizes of blocks, and it reads markup as the real one does: a
mention that is not escaped calls somebody.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import WSMsgType, web

from kagura_kernel.testing.chat import Shown
from kagura_kernel.testing.patience import eventually

_CALLS = re.compile(r"<[!@#]")
_LINKS = re.compile(r"<(https?:[^>]+)>")
_ADDRESSES = re.compile(
    r"(?P<url>https?://[^\s<>|]+)|(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)|(?P<bare>\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|md|io|sh|py)\b)"
)
_MOST = {"section": 3000, "button": 75, "value": 2000, "quote": 4000}


@dataclass
class SlackMessage:
    """One of ours."""

    channel: str  # Where
    ts: str  # Its stamp, which is its name too
    thread_ts: str  # The stamp of the first message of its thread
    body: Mapping[str, Any]  # As it was sent last
    edits: int = 0  # How often it was edited


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


BOT_TOKEN, APP_TOKEN = "xoxb-of-the-test", "xapp-of-the-test"
BOT_USER, TEAM = "U0BOT", "T0"

_PATIENCE = 60.0


@dataclass
class SlackServer:
    """The far side. Use it as an asynchronous context manager."""

    # Every call: its method, and what was sent
    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    readable: bool = True  # Whether the app may read what stands in threads
    whispers: list[tuple[str, str]] = field(default_factory=list)  # Answers to slash commands: to whom, and the text
    _url: str = ""
    _runner: web.AppRunner | None = None
    _sockets: list[web.WebSocketResponse] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _messages: dict[tuple[str, str], SlackMessage] = field(default_factory=dict)
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    _pieces: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _files: list[tuple[str, str, bytes]] = field(default_factory=list)
    _sent: dict[str, bytes] = field(default_factory=dict)
    _last: tuple[str, Mapping[str, Any]] | None = None
    _revoked: set[str] = field(default_factory=set)
    _denied: set[str] = field(default_factory=set)
    _refusals: int = 0
    _too_many: int = 0
    _lost: int = 0

    @property
    def api(self) -> str:
        """Where the web API is."""
        return f"{self._url}/api/"

    @property
    def files(self) -> str:
        """Where files that people sent are."""
        return f"{self._url}/files/"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_get("/link", self._link)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_get("/files/{id}", self._file)
        app.router.add_post("/hook/{operator}", self._hook)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in self._sockets:
            await socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # ------------------------------------------------------------- what people do

    async def say(self, operator: str, text: str, *, thread: str = "", files: Sequence[tuple[str, bytes]] = ()) -> str:
        """Somebody writes a direct message; returns once it is acknowledged."""
        channel, ts = "D0ROOM", self._stamp()
        started = thread.partition(":")[2] or ts
        sent = [self._keep(name, content) for name, content in files]
        event = {
            "type": "message",
            "channel": channel,
            "channel_type": "im",
            "user": operator,
            "team": TEAM,
            "text": written(text),
            "ts": ts,
            **({"thread_ts": started} if thread else {}),
            **({"subtype": "file_share", "files": sent} if sent else {}),
        }
        await self.event(event)
        return f"{channel}:{started}"

    async def event(self, event: Mapping[str, Any], *, team: str = TEAM) -> None:
        """Deliver one event of the Events API, of this workspace; returns once it is acknowledged."""
        number = next(self._numbers)
        payload = {
            "type": "event_callback",
            "team_id": team,
            "api_app_id": "A0",
            "event_id": f"Ev{number}",
            "event_time": number,
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
            "event": dict(event),
        }
        await self.deliver("events_api", payload)

    async def click(self, operator: str, thread: str, post_id: str, action: str, *, team: str = TEAM) -> None:
        """Somebody of this workspace presses a button, or makes that up."""
        channel, _, thread_ts = thread.partition(":")
        number = next(self._numbers)
        payload = {
            "type": "block_actions",
            "api_app_id": "A0",
            "team": {"id": TEAM},
            "user": {"id": operator, "team_id": team},
            "channel": {"id": channel},
            "container": {"type": "message", "message_ts": post_id, "channel_id": channel, "thread_ts": thread_ts},
            "message": {"ts": post_id, "thread_ts": thread_ts, "user": BOT_USER},
            "trigger_id": f"{number}.{number}.trigger",
            "actions": [
                {"type": "button", "action_id": "kagura-0", "block_id": "b", "value": action, "action_ts": f"{number}"}
            ],
        }
        await self.deliver("interactive", payload)

    async def command(
        self, operator: str, text: str, *, channel: str = "C0HALL", expired: bool = False, team: str = TEAM
    ) -> None:
        """Somebody gives our slash command; the way back to them may be closed already."""
        number = next(self._numbers)
        payload = {
            "command": "/kagura",
            "text": text,
            "user_id": operator,
            "channel_id": channel,
            "team_id": team,
            "api_app_id": "A0",
            "trigger_id": f"{number}.{number}.trigger",
            "response_url": f"{self._url}/{'gone' if expired else 'hook'}/{operator}",
        }
        await self.deliver("slash_commands", payload)

    async def replay(self) -> None:
        """What was delivered last is delivered again, under another envelope."""
        if self._last is not None:
            await self.deliver(*self._last)

    def shown(self, thread: str) -> list[Shown]:
        """Our posts in a thread."""
        channel, _, thread_ts = thread.partition(":")
        place = (channel, thread_ts)
        return [shown_as(one) for one in self._messages.values() if (one.channel, one.thread_ts) == place]

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        """Our files in a thread."""
        return [(name, content) for place, name, content in self._files if place == thread]

    def refuse(self, times: int) -> None:
        """Answer the next calls with an error."""
        self._refusals = times

    def limit(self, times: int) -> None:
        """Say of the next calls that they are too many."""
        self._too_many = times

    def lose(self, times: int) -> None:
        """Take the next posts, and let nobody hear that they were taken."""
        self._lost = times

    def take_away(self, thread: str) -> None:
        """Somebody deletes what we have posted in a thread."""
        channel, _, thread_ts = thread.partition(":")
        for key, one in list(self._messages.items()):
            if (one.channel, one.thread_ts) == (channel, thread_ts):
                del self._messages[key]

    def revoke(self, *tokens: str) -> None:
        """Take these tokens no more."""
        self._revoked |= set(tokens)

    def deny(self, method: str) -> None:
        """Say of this method from now on that the app has no right to it."""
        self._denied.add(method)

    async def drop(self) -> None:
        """End every connection, as the real service does every few hours."""
        for socket in self._sockets:
            await socket.close()

    async def connected(self) -> bool:
        """Whether somebody listens."""
        return any(not socket.closed for socket in self._sockets)

    # --------------------------------------------------------------- the web API

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        body = await _body(request)
        self.requests.append((method, body))
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if problem := self._against(request, method, wanted):
            return _answer(ok=False, error=problem)
        if method == "auth.test":
            return _answer(team_id=TEAM, user_id=BOT_USER, bot_id="B0", url=self._url, team="t", user="kagura")
        if method == "apps.connections.open":
            return _answer(url=f"{self._url.replace('http', 'ws', 1)}/link")
        if (trouble := self._trouble()) is not None:
            return trouble
        handlers = {
            "chat.postMessage": self._post,
            "chat.postEphemeral": self._whisper,
            "chat.update": self._update,
            "conversations.replies": self._replies,
            "files.getUploadURLExternal": self._begin_upload,
            "files.completeUploadExternal": self._end_upload,
        }
        if method not in handlers:
            return _answer(ok=False, error="unknown_method")
        answer = handlers[method](body)
        if method == "chat.postMessage" and self._lost and request.transport is not None:
            self._lost -= 1
            request.transport.close()
        return answer

    def _against(self, request: web.Request, method: str, token: str) -> str:
        """Why somebody with this token may not; empty where they may."""
        if request.headers.get("Authorization") != f"Bearer {token}":
            return "invalid_auth"
        if token in self._revoked:
            return "token_revoked"
        return "missing_scope" if method in self._denied else ""

    def _trouble(self) -> web.Response | None:
        if self._refusals:
            self._refusals -= 1
            return _answer(ok=False, error="service_unavailable")
        if self._too_many:
            self._too_many -= 1
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "0"})
        return None

    def _replies(self, body: Mapping[str, Any]) -> web.Response:
        if not self.readable:
            return _answer(ok=False, error="missing_scope")
        place = (str(body["channel"]), str(body["ts"]))
        there = [one for one in self._messages.values() if (one.channel, one.thread_ts) == place]
        # Half to a page, so that whoever reads has to turn it.
        size = min(int(body.get("limit") or 1000), len(there) // 2 + 1)
        start = int(body.get("cursor") or 0)
        more = str(start + size) if len(there) > start + size else ""
        page = [{"ts": one.ts, "blocks": blocks_in(one.body)} for one in there[start : start + size]]
        return _answer(messages=page, response_metadata={"next_cursor": more})

    def _whisper(self, body: Mapping[str, Any]) -> web.Response:
        self.whispers.append((str(body["user"]), str(body.get("text") or "")))
        return _answer(message_ts=self._stamp())

    async def _hook(self, request: web.Request) -> web.Response:
        if "Authorization" in request.headers:
            return web.Response(status=400, text="a token was sent to where anybody may answer")
        body = await _body(request)
        self.whispers.append((request.match_info["operator"], str(body.get("text") or "")))
        return web.Response(text="ok")

    def _post(self, body: Mapping[str, Any]) -> web.Response:
        if problem := problem_with(body):
            return _answer(ok=False, error=problem)
        ts = self._stamp()
        channel = str(body["channel"])
        self._messages[channel, ts] = SlackMessage(channel, ts, str(body.get("thread_ts") or ts), body)
        return _answer(ts=ts, channel=channel)

    def _update(self, body: Mapping[str, Any]) -> web.Response:
        if problem := problem_with(body):
            return _answer(ok=False, error=problem)
        message = self._messages.get((str(body["channel"]), str(body["ts"])))
        if message is None:
            return _answer(ok=False, error="message_not_found")
        message.body = body
        message.edits += 1
        return _answer(ts=message.ts, channel=message.channel)

    def _begin_upload(self, body: Mapping[str, Any]) -> web.Response:
        name = f"F{next(self._numbers)}"
        self._pieces[name] = (str(body["filename"]), b"")
        return _answer(upload_url=f"{self._url}/upload/{name}", file_id=name)

    def _end_upload(self, body: Mapping[str, Any]) -> web.Response:
        files = body["files"] if isinstance(body["files"], list) else json.loads(body["files"])
        for one in files:
            name, content = self._pieces.pop(one["id"])
            self._files.append((f"{body['channel_id']}:{body.get('thread_ts', '')}", name, content))
        return _answer(files=[{"id": one["id"]} for one in files])

    async def _upload(self, request: web.Request) -> web.Response:
        name, _ = self._pieces[request.match_info["id"]]
        self._pieces[request.match_info["id"]] = (name, await request.read())
        return web.Response(text="OK")

    async def _file(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(status=403)
        return web.Response(body=self._sent[request.match_info["id"]])

    # --------------------------------------------------------------- Socket Mode

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.append(socket)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0"}})
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    waiting = self._waiting.get(str(json.loads(message.data).get("envelope_id")))
                    if waiting is not None:
                        waiting.set()
        finally:
            self._sockets.remove(socket)
        return socket

    async def deliver(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Deliver until it is acknowledged; what no event is, a click for one, is not delivered again."""
        self._last = (kind, payload)
        async with asyncio.timeout(_PATIENCE):
            for attempt in itertools.count():
                if await self._acknowledged(kind, payload, attempt):
                    return
                if kind != "events_api":
                    raise ConnectionResetError("whoever listened is gone; the person sees a warning beside the button")

    async def _acknowledged(self, kind: str, payload: Mapping[str, Any], attempt: int) -> bool:
        await eventually(lambda: self._sockets)
        socket = self._sockets[-1]
        envelope = f"envelope-{next(self._numbers)}"
        acknowledged = self._waiting[envelope] = asyncio.Event()
        body = {"type": kind, "envelope_id": envelope, "payload": payload, "accepts_response_payload": False}
        retried = {"retry_attempt": attempt, "retry_reason": "timeout"} if attempt else {}
        try:
            await socket.send_json(body | retried)
            await eventually(lambda: socket not in self._sockets or acknowledged.is_set())
        except ConnectionResetError:
            # Whoever reads from it takes it off the list, once the loop comes to that.
            await eventually(lambda: socket not in self._sockets)
            return False
        finally:
            del self._waiting[envelope]
        return acknowledged.is_set()

    def _stamp(self) -> str:
        return f"1700000000.{next(self._numbers):06}"

    def _keep(self, name: str, content: bytes) -> dict[str, Any]:
        file_id = f"F{next(self._numbers)}"
        self._sent[file_id] = content
        return {"id": file_id, "name": name, "size": len(content), "url_private_download": f"{self.files}{file_id}"}


async def _body(request: web.Request) -> dict[str, Any]:
    text = await request.text()
    if request.content_type == "application/json":
        return dict(json.loads(text or "{}"))
    return dict(request.query) | dict(parse_qsl(text, keep_blank_values=True))


def _answer(*, ok: bool = True, **more: Any) -> web.Response:
    return web.json_response({"ok": ok, **more})
