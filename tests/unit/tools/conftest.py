"""A toolbox over a box without walls, for tests of the tools themselves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.tools.standard import standard_toolbox
from kagura_kernel.tools.toolbox import Toolbox


@dataclass
class Hand:
    """Calls tools by keyword, and looks at the workspace behind them."""

    toolbox: Toolbox
    runtime: Runtime
    heard: list[bytes]
    spill: Path

    async def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        call = ToolCall("call-1", tool, arguments)
        return await self.toolbox.call(call, lambda chunk: self.heard.append(chunk.data))

    async def put(self, path: str, data: bytes) -> None:
        await self.runtime.files.write(path, data)

    async def get(self, path: str) -> bytes:
        return await self.runtime.files.read(path)


@pytest.fixture
async def hand(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    backend = FakeBackend()
    box = await backend.start(BoxSpec(workspace=project))
    runtime = Runtime(box, HostRunner(project), run_id="run-1", session_id="ses-1")
    spill = tmp_path / "spill"
    yield Hand(standard_toolbox(runtime, spill_dir=spill), runtime, [], spill)
    await runtime.close()
    await backend.close()
