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

BOT_TOKEN, APP_TOKEN = "xoxb-of-the-test", "xapp-of-the-test"
BOT_USER = "U0BOT"

_CALLS = re.compile(r"<[!@#]")
_LINKS = re.compile(r"<(https?:[^>]+)>")
_MOST = {"section": 3000, "button": 75, "value": 2000, "quote": 4000}


@dataclass
class _Message:
    channel: str
    ts: str
    thread_ts: str
    body: Mapping[str, Any]
    edits: int = 0


@dataclass
class SlackServer:
    """The far side. Use it as an asynchronous context manager.

    Attributes:
        requests: Every call: its method, and what was sent.
    """

    requests: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _url: str = ""
    _runner: web.AppRunner | None = None
    _sockets: list[web.WebSocketResponse] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _messages: dict[tuple[str, str], _Message] = field(default_factory=dict)
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    _pieces: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _files: list[tuple[str, str, bytes]] = field(default_factory=list)
    _sent: dict[str, bytes] = field(default_factory=dict)
    _last: tuple[str, Mapping[str, Any]] | None = None
    _refusals: int = 0

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
            "text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
            "ts": ts,
            **({"thread_ts": started} if thread else {}),
            **({"subtype": "file_share", "files": sent} if sent else {}),
        }
        await self.event(event)
        return f"{channel}:{started}"

    async def event(self, event: Mapping[str, Any]) -> None:
        """Deliver one event of the Events API; returns once it is acknowledged."""
        number = next(self._numbers)
        payload = {
            "type": "event_callback",
            "team_id": "T0",
            "api_app_id": "A0",
            "event_id": f"Ev{number}",
            "event_time": number,
            "authorizations": [{"team_id": "T0", "user_id": BOT_USER, "is_bot": True}],
            "event": dict(event),
        }
        await self._deliver("events_api", payload)

    async def click(self, operator: str, thread: str, post_id: str, action: str) -> None:
        """Somebody presses a button, or makes that up."""
        channel, _, thread_ts = thread.partition(":")
        number = next(self._numbers)
        payload = {
            "type": "block_actions",
            "api_app_id": "A0",
            "team": {"id": "T0"},
            "user": {"id": operator, "team_id": "T0"},
            "channel": {"id": channel},
            "container": {"type": "message", "message_ts": post_id, "channel_id": channel, "thread_ts": thread_ts},
            "message": {"ts": post_id, "thread_ts": thread_ts, "user": BOT_USER},
            "trigger_id": f"{number}.{number}.trigger",
            "actions": [
                {"type": "button", "action_id": "kagura-0", "block_id": "b", "value": action, "action_ts": f"{number}"}
            ],
        }
        await self._deliver("interactive", payload)

    async def replay(self) -> None:
        """What was delivered last is delivered again, under another envelope."""
        if self._last is not None:
            await self._deliver(*self._last)

    def shown(self, thread: str) -> list[Shown]:
        """Our posts in a thread."""
        channel, _, thread_ts = thread.partition(":")
        return [_shown(one) for one in self._messages.values() if (one.channel, one.thread_ts) == (channel, thread_ts)]

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        """Our files in a thread."""
        return [(name, content) for place, name, content in self._files if place == thread]

    def refuse(self, times: int) -> None:
        """Answer the next calls with an error."""
        self._refusals = times

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
        if request.headers.get("Authorization") != f"Bearer {wanted}":
            return _answer(ok=False, error="invalid_auth")
        if method == "auth.test":
            return _answer(team_id="T0", user_id=BOT_USER, bot_id="B0", url=self._url, team="t", user="kagura")
        if method == "apps.connections.open":
            return _answer(url=f"{self._url.replace('http', 'ws', 1)}/link")
        if self._refusals:
            self._refusals -= 1
            return _answer(ok=False, error="service_unavailable")
        handlers = {
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "files.getUploadURLExternal": self._begin_upload,
            "files.completeUploadExternal": self._end_upload,
        }
        if method not in handlers:
            return _answer(ok=False, error="unknown_method")
        return handlers[method](body)

    def _post(self, body: Mapping[str, Any]) -> web.Response:
        if problem := _problem(body):
            return _answer(ok=False, error=problem)
        ts = self._stamp()
        channel = str(body["channel"])
        self._messages[channel, ts] = _Message(channel, ts, str(body.get("thread_ts") or ts), body)
        return _answer(ts=ts, channel=channel)

    def _update(self, body: Mapping[str, Any]) -> web.Response:
        if problem := _problem(body):
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
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                waiting = self._waiting.get(str(json.loads(message.data).get("envelope_id")))
                if waiting is not None:
                    waiting.set()
        self._sockets.remove(socket)
        return socket

    async def _deliver(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._last = (kind, payload)
        envelope = f"envelope-{next(self._numbers)}"
        acknowledged = self._waiting[envelope] = asyncio.Event()
        body = {"type": kind, "envelope_id": envelope, "payload": payload, "accepts_response_payload": False}
        await self._sockets[-1].send_json(body)
        async with asyncio.timeout(30):
            await acknowledged.wait()

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


def _blocks(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    blocks = body.get("blocks") or []
    return list(json.loads(blocks)) if isinstance(blocks, str) else list(blocks)


def _problem(body: Mapping[str, Any]) -> str:
    for block in _blocks(body):
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


def _shown(message: _Message) -> Shown:
    blocks = _blocks(message.body)
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
