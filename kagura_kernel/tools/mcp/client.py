"""One MCP server of a run: begun, asked for its tools once, called, and given up when it misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.tools.mcp.reading import (
    VERSIONS,
    OfferedTool,
    read_beginning,
    read_page,
    read_result,
    read_tool,
)
from kagura_kernel.tools.toolsets.client import Client
from kagura_kernel.tools.toolsets.cutting import Lines
from kagura_kernel.tools.toolsets.peer import Failed, Unanswered
from kagura_kernel.tools.toolsets.schema import SchemaRefused
from kagura_kernel.tools.toolsets.server import Server, Speech

if TYPE_CHECKING:
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.sandbox.backend import Box
    from kagura_kernel.tools.toolsets.limits import ToolsetLimits

_REFUSED = {
    "sampling/createMessage": "Sampling is not offered: this server does not get to use the model.",
    "elicitation/create": "Elicitation is not offered: this server does not get to ask the person.",
    "roots/list": "Roots are not offered: this server sees what its box shows.",
}

_CHANGED = "The server has changed its list of tools since this run began; the next run is offered the new one."


class McpClient(Client):
    """A server and what it offers.

    Args:
        name: The toolset's.
        box: The run's.
        start: What the bridge is told: a program, or a URL.
        over: Told once when it is over, why, half a sentence; also when it was closed.
        clock: The time.
        limits: On all of it.

    Attributes:
        tools: What it offers that can be shown.
        withheld: What it offers beside that, `NAME: why`.
        changed: Whether it has said that it offers something else now.
    """

    def __init__(
        self,
        name: str,
        box: Box,
        start: Mapping[str, Any],
        *,
        over: Callable[[str], None],
        clock: Clock,
        limits: ToolsetLimits,
    ) -> None:
        speech = Speech(Lines(limits.message_bytes), self._told, _asked, _give_up, _proof)
        super().__init__(Server(name, box, start, speech, over=over, clock=clock, limits=limits))
        self.tools: tuple[OfferedTool, ...] = ()
        self.withheld: tuple[str, ...] = ()
        self.changed = False

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """What a tool answers, as a text of any length, and whether that is a failure.

        Raises:
            ToolsetError: the server is gone, too busy, or did not answer in time.
        """
        try:
            answer = await self._server.call("tools/call", {"name": tool, "arguments": arguments})
        except Failed as error:
            remark = f"\n[{_CHANGED}]" if self.changed else ""
            return f"{self.name} answered with an error ({error.code}): {error}{remark}", True
        return self.require(lambda: read_result(answer))

    # ------------------------------------------------------------------ within

    async def _get_ready(self) -> None:
        if await self._greet():
            await self._list()

    async def _greet(self) -> bool:
        hello = {
            "protocolVersion": VERSIONS[0],
            "capabilities": {},
            "clientInfo": {"name": "kagura-kernel", "version": _own_version()},
        }
        answer = await self._server.ask("initialize", hello, self._limits.start_seconds)
        try:
            self.server, has_tools = read_beginning(answer)
        except ValueError as error:
            self._server.end("it speaks another version of MCP")
            raise ToolsetError(self.name, str(error)) from error
        await self._server.notify("notifications/initialized", {})
        return has_tools

    async def _list(self) -> None:
        tools: dict[str, OfferedTool] = {}
        withheld: list[str] = []
        cursor = ""
        for _ in range(self._limits.pages):
            params = {"cursor": cursor} if cursor else {}
            page, cursor = read_page(await self._server.ask("tools/list", params, self._limits.start_seconds))
            for said in page:
                self._sort(said, tools, withheld)
            if not cursor:
                break
        else:
            withheld.append(f"the rest: its list has more than {self._limits.pages} pages")
        self.tools, self.withheld = tuple(tools.values()), tuple(withheld)

    def _sort(self, said: Any, tools: dict[str, OfferedTool], withheld: list[str]) -> None:
        most = self._limits.tools
        try:
            tool = read_tool(said, self._limits)
        except SchemaRefused as error:
            why = str(error)
        else:
            why = self._one_too_many(tool, tools)
            if not why:
                tools[tool.name] = tool
                return
        if len(withheld) < most:
            name = said["name"][:100]
            withheld.append(f"{name if name.isprintable() else '?'}: {why}")

    def _one_too_many(self, tool: OfferedTool, tools: Mapping[str, OfferedTool]) -> str:
        if tool.name in tools:
            return "it is offered twice"
        if len(tools) >= self._limits.tools:
            return f"there are more than {self._limits.tools}"
        size = sum(one.size for one in tools.values()) + tool.size
        return "all descriptions together are too long" if size > self._limits.offered_bytes else ""

    def _told(self, method: str, _params: Any) -> None:
        if method == "notifications/tools/list_changed":
            self.changed = True


def _asked(method: str, _params: Any) -> Any:
    if method == "ping":
        return {}
    raise Unanswered(_REFUSED.get(method, "This is not offered."))


async def _give_up(server: Server, number: int) -> None:
    await server.notify("notifications/cancelled", {"requestId": number, "reason": "it is not waited for any more"})


async def _proof(server: Server) -> bool:
    await server.ask("ping", {}, server.limits.ping_seconds)
    return True


def _own_version() -> str:
    try:
        return version("kagura-kernel")
    except PackageNotFoundError:
        return "0"
