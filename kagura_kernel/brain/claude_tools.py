"""Our toolbox as an in-process MCP server for the Claude SDK. A tool here does nothing but ask `Turn.call_tool`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool, ToolAnnotations, create_sdk_mcp_server

from kagura_kernel.brain.claude_command import SERVER
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec

_LONGEST_RESULT = 500_000  # characters; a toolbox bounds its results far below


class ToolServer:
    """The tools of one turn and the calls that are under way.

    Attributes:
        config: For `ClaudeAgentOptions.mcp_servers`.
    """

    def __init__(self, turn: Turn, fail: Callable[[BaseException], None], alive: Callable[[], None]) -> None:
        """A server that is ready.

        Args:
            turn: Whose tools are offered and whose `call_tool` is called.
            fail: Told when a call raises, which ends the run.
            alive: Told when a call has ended, well or not.
        """
        self._turn = turn
        self._fail = fail
        self._alive = alive
        self._calls: set[asyncio.Task[ToolResult]] = set()
        self.config: McpSdkServerConfig = create_sdk_mcp_server(
            SERVER, tools=[self._offer(spec) for spec in turn.tools]
        )

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    async def stop(self) -> None:
        """Cancel what is under way and wait until it has ended."""
        calls = set(self._calls)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls)

    def _offer(self, spec: ToolSpec) -> SdkMcpTool[Any]:
        async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
            return await self._call(spec.name, arguments)

        # The program makes calls at once only where it is told that nothing changes, and would put a long answer into
        # a file that no tool of ours can read.
        notes = ToolAnnotations(readOnlyHint=spec.read_only or spec.side_by_side, maxResultSizeChars=_LONGEST_RESULT)
        return SdkMcpTool(spec.name, spec.description, dict(spec.input_schema), handle, notes)

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = ToolCall(new_call_id(), name, arguments)
        task = asyncio.ensure_future(self._turn.call_tool(call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            result = await task
        # Whatever a call raises ends the run, and it is the run that has to hear of it: the SDK would tell the model.
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._alive()
        return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}
