"""Our toolbox as an MCP server on a socket of one run, for coding agents that start their servers themselves.

The agent starts the bridge, which carries its bytes here. A tool does nothing but ask `Turn.call_tool`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall, ToolSpec

_LONGEST_LINE = 16 * 2**20  # bytes of one message
_LONGEST_RESULT = 500_000  # characters; a toolbox bounds its results far below
_VERSION = "2025-06-18"
_NO_METHOD, _BAD_PARAMETERS = -32601, -32602


class ToolSocket:
    """The tools of one turn and the calls that are under way."""

    def __init__(self, turn: Turn, fail: Callable[[BaseException], None]) -> None:
        """A server that does not listen yet.

        Args:
            turn: Whose tools are offered and whose `call_tool` is called.
            fail: Told when a call raises, which ends the run.
        """
        self._turn = turn
        self._fail = fail
        self._calls: dict[object, asyncio.Task[None]] = {}
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        """Take connections at this path; its directory is what keeps others out."""
        self._server = await asyncio.start_unix_server(self._meet, path, limit=_LONGEST_LINE)

    async def stop(self) -> None:
        """Cancel what is under way, end every connection, and wait until all of it has ended."""
        if self._server is not None:
            self._server.close()
        while tasks := [*self._calls.values(), *self._talks]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.ensure_future(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A line that is too long, or no JSON, ends the connection: an agent does not write such things.
        try:
            with contextlib.suppress(OSError, ValueError):
                while line := await reader.readline():
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._take(message, writer)
        finally:
            writer.close()

    def _take(self, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        method, number = message.get("method"), message.get("id")
        given = message.get("params")
        parameters: Mapping[str, Any] = given if isinstance(given, dict) else {}
        if method == "notifications/cancelled":
            if (call := self._calls.get(parameters.get("requestId"))) is not None:
                call.cancel()
        elif number is None or not isinstance(number, (int, str)):
            return  # a notification, or an answer to what was never asked
        elif method == "tools/call":
            task = asyncio.ensure_future(self._call(number, parameters, writer))
            self._calls[number] = task
            task.add_done_callback(lambda _: self._calls.pop(number, None))
        else:
            _send(writer, number, **self._answer(method, parameters))

    def _answer(self, method: object, parameters: Mapping[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                version = parameters.get("protocolVersion", _VERSION)
                named = {"name": "kagura", "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": named}}
            case "tools/list":
                return {"result": {"tools": [_offered(spec) for spec in self._turn.tools]}}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": _NO_METHOD, "message": f"there is no method {method!r}"}}

    async def _call(self, number: object, parameters: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        name, arguments = parameters.get("name"), parameters.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            _send(writer, number, error={"code": _BAD_PARAMETERS, "message": "a name and arguments are needed"})
            return
        try:
            result = await self._turn.call_tool(ToolCall(new_call_id(), name, arguments))
        # Whatever a call raises ends the run, and it is the run that has to hear of it.
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return
        content = [{"type": "text", "text": result.text}]
        _send(writer, number, result={"content": content, "isError": result.is_error})


def _offered(spec: ToolSpec) -> dict[str, Any]:
    # Agents make calls at once only where they are told that nothing changes, and ask nobody then.
    calm = spec.read_only or spec.side_by_side
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": dict(spec.input_schema),
        "annotations": {"readOnlyHint": calm, "destructiveHint": False, "openWorldHint": False},
        "_meta": {"anthropic/maxResultSizeChars": _LONGEST_RESULT},
    }


def _send(writer: asyncio.StreamWriter, number: object, **answer: Any) -> None:
    if not writer.is_closing():
        writer.write(json.dumps({"jsonrpc": "2.0", "id": number, **answer}).encode() + b"\n")
