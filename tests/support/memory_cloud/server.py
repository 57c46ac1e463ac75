"""The server: sessions, keys, tools over JSON-RPC, and the few REST routes beside them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply
from tests.support.memory_cloud.books import Books, Refused

KEY = "kagura_" + "a" * 32
READ_ONLY_KEY = "kagura_" + "r" * 32
CONTEXT = "5f0c1d3a-7a54-4a7e-9a51-0f6d3b1a2c4d"
RESOURCE = "kagura-costs"
PROTOCOL = "2025-03-26"

_WRITES = frozenset({"remember", "forget", "update_memory", "create_edge", "update_edge", "delete_edge", "set_state"})
_INVALID = -32600
_NO_METHOD = -32601
_BAD_ARGUMENTS = -32602
_NO_SESSION = -32603


class FakeMemoryCloudServer(LoopbackService):
    """Answers whoever shows `KEY`; `READ_ONLY_KEY` may only read. It has one context, `CONTEXT`."""

    def __init__(self, *, now: Callable[[], datetime] | None = None, version: str = "0.77.0") -> None:
        super().__init__()
        self._now = now
        self.version = version  # What it says it is
        self.events: list[dict[str, Any]] = []  # What was pushed to the resource `RESOURCE`, in order
        self.calls: list[str] = []  # Tools that were called, in order; `initialize` among them
        self.books = Books(CONTEXT, self.now)  # What it keeps; a test may look, and write what a connector would write
        self._sessions: set[str] = set()

    @property
    def mcp_url(self) -> str:
        """What a client is given."""
        return self.url + "/mcp"

    def now(self) -> datetime:
        """Its own time."""
        return self._now().astimezone(UTC) if self._now else super().now()

    def drop_sessions(self) -> None:
        """Forget every session, as a restart does; clients have to begin again."""
        with self.lock:
            self._sessions.clear()

    def empty(self) -> None:
        """Begin with nothing."""
        with self.lock:
            self.books = Books(CONTEXT, self.now)

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if call.path == "/api/v1/system/info":
            return Reply(200, {"name": "Kagura Memory Cloud", "version": self.version, "features": {}})
        if call.path == f"/api/v1/resources/{RESOURCE}/events/batch":
            return self._push(call)
        if call.bearer not in {KEY, READ_ONLY_KEY}:
            return Reply(401, {"error": "invalid_token", "error_description": "The access token is invalid."})
        if (call.method, call.path) == ("GET", "/api/v1/memory/list"):
            return self._list(call)
        if call.method == "POST" and call.path.rstrip("/") == "/mcp":
            return self._mcp(call)
        return Reply(404, {"detail": "Not Found"})

    def _list(self, call: Call) -> Reply:
        if call.query.get("context_id") != CONTEXT:
            return Reply(404, {"detail": "Context not found"})
        return Reply(200, self.books.listed(int(call.query.get("offset", "0")), int(call.query.get("limit", "50"))))

    def _mcp(self, call: Call) -> Reply:
        body = call.json()
        number, method, parameters = body.get("id"), body.get("method"), body.get("params") or {}
        if body.get("jsonrpc") != "2.0" or not isinstance(method, str):
            return _error(400, number, _INVALID, "Invalid Request")
        if method == "initialize":
            return self._initialize(number, parameters)
        if call.headers.get("mcp-session-id") not in self._sessions:
            return _error(404, number, _NO_SESSION, "Session expired or not found. Please re-initialize.")
        if method == "tools/list":
            return _result(number, {"tools": []})
        if method != "tools/call":
            return _error(200, number, _NO_METHOD, f"Method not found: {method}")
        tool = str(parameters.get("name"))
        self.calls.append(tool)
        return self._tool(number, tool, parameters.get("arguments") or {}, may_write=call.bearer == KEY)

    def _initialize(self, number: object, parameters: dict[str, Any]) -> Reply:
        if parameters.get("protocolVersion") != PROTOCOL:
            return _error(400, number, _BAD_ARGUMENTS, "Unsupported protocol version")
        self.calls.append("initialize")
        session = secrets.token_hex(16)
        self._sessions.add(session)
        told = {
            "protocolVersion": PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "kagura-memory-cloud", "version": self.version},
        }
        return _result(number, told, {"mcp-session-id": session})

    def _tool(self, number: object, tool: str, arguments: dict[str, Any], *, may_write: bool) -> Reply:
        try:
            if tool in _WRITES and not may_write:
                raise Refused("permission_denied", "Viewers cannot change memories.")  # noqa: TRY301 - one way to say no
            answer = self.books.call(tool, arguments)
        except KeyError:
            return _error(200, number, _NO_METHOD, f"Tool not found: {tool}")
        except Refused as refusal:
            answer = {"status": "error", "error": refusal.code, "message": str(refusal), **refusal.more}
        return _result(number, {"content": [{"type": "text", "text": json.dumps(answer)}]})

    def _push(self, call: Call) -> Reply:
        if call.headers.get("x-resource-api-key") != KEY:
            return Reply(401, {"detail": "Invalid resource API key"})
        events = call.json().get("events") or []
        self.events += events
        ids = list(range(len(self.events) - len(events), len(self.events)))
        return Reply(201, {"status": "success", "created_count": len(events), "failed_count": 0, "event_ids": ids})


def _result(number: object, result: dict[str, Any], headers: dict[str, str] | None = None) -> Reply:
    return Reply(200, {"jsonrpc": "2.0", "id": number, "result": result}, headers or {})


def _error(status: int, number: object, code: int, message: str) -> Reply:
    return Reply(status, {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})
