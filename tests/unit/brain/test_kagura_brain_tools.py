"""Our tools as a coding agent reaches them: over a socket, which it may open twice."""

import asyncio
import json
from pathlib import Path

from kagura_kernel.brain.kagura_brain import ToolSocket
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.tools import ToolCall, ToolResult


async def connected(path: Path, *messages: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.writelines(json.dumps(message).encode() + b"\n" for message in messages)
    return reader, writer


def call(name: str, number: int = 1) -> dict[str, object]:
    return {"id": number, "method": "tools/call", "params": {"name": name}}


def cancelled(number: object) -> dict[str, object]:
    return {"method": "notifications/cancelled", "params": {"requestId": number}}


async def test_calls_of_two_connections_are_told_apart_and_none_is_left(tmp_path):
    ended: list[str] = []
    began = {name: asyncio.Event() for name in ("first", "second")}

    async def call_tool(asked: ToolCall) -> ToolResult:
        began[asked.name].set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(asked.name)
        return ToolResult("")

    tools = ToolSocket(Turn(task="", system="", tools=(), call_tool=call_tool), lambda _: None)
    await tools.listen(tmp_path / "tools")
    _, one = await connected(tmp_path / "tools", call("first"))
    await began["first"].wait()
    reader, two = await connected(tmp_path / "tools", call("second"))
    await began["second"].wait()
    two.writelines(json.dumps(message).encode() + b"\n" for message in (cancelled(["odd"]), cancelled(1)))
    two.write(b'{"id": 2, "method": "ping"}\n')
    assert json.loads(await reader.readline())["id"] == 2
    await asyncio.sleep(0)
    assert ended == ["second"]
    await tools.stop()
    assert ended == ["second", "first"]
    one.close()
    two.close()
