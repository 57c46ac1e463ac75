"""A real language server, and one that answers nonsense, asked by the tools of a brain."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.tools.lsp_client import DIAGNOSTIC_SECONDS, LspClient
from kagura_kernel.tools.lsp_tools import lsp_tools
from kagura_kernel.tools.toolbox import Toolbox
from kagura_kernel.tools.toolsets.foreign_tools import ToolsetLimits

JEDI = str(Path(sys.executable).parent / "jedi-language-server")
SHAPES = b"def area(width: int) -> int:\n    '''The area of a square.'''\n    return width * width\n"
MAIN = b"from shapes import area\n\nprint(area(2))\n"

ODD = r"""
import json, sys
ANSWERS = json.loads(sys.argv[1])
while True:
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    method = message.get("method")
    if method not in ANSWERS:
        continue
    body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **ANSWERS[method]}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    (tmp_path / "shapes.py").write_bytes(SHAPES)
    (tmp_path / "main.py").write_bytes(MAIN)
    backend = FakeBackend()
    yield await backend.start(BoxSpec(workspace=tmp_path))
    await backend.close()


def client(box: Box, argv: list[str], clock: FakeClock) -> LspClient:
    start = {"argv": argv, "env": {}, "cwd": box.files.root}
    return LspClient("python", box, start, {"python": ["*.py"]}, over=lambda _: None, clock=clock, limits=LIMITS)


LIMITS = ToolsetLimits()


def odd_server(**answers: Any) -> list[str]:
    """A server that answers these methods, `_` for `/`, like this."""
    capabilities = {"definitionProvider": True, "diagnosticProvider": {}}
    told = {"initialize": {"result": {"capabilities": capabilities}}, **answers}
    return [sys.executable, "-c", ODD, json.dumps({key.replace("_", "/"): said for key, said in told.items()})]


async def test_a_brain_asks_a_real_server_about_files_as_they_are_now(box):
    server = client(box, [JEDI], FakeClock())
    await server.start()
    try:
        toolbox = Toolbox(lsp_tools("python", server, (), lambda value: value))
        assert server.server.startswith("jedi-language-server")

        async def ask(tool: str, **arguments: Any) -> str:
            return (await toolbox.call(ToolCall("c", f"python_{tool}", arguments))).text

        assert await ask("definition", path="main.py", line=3, symbol="area") == (
            "shapes.py:1:5: def area(width: int) -> int:"
        )
        references = await ask("references", path="shapes.py", line=1, symbol="area")
        assert {line.split(": ")[0] for line in references.splitlines()} == {
            "shapes.py:1:5",
            "main.py:1:20",
            "main.py:3:7",
        }
        assert "The area of a square." in await ask("hover", path="main.py", line=3, symbol="area")
        assert (await ask("symbols", path="shapes.py")).startswith("1: function area")
        # Told by the server of itself, after a moment of its own.
        assert await ask("diagnostics", path="main.py") == "Nothing is wrong, says the server."
        await box.files.write("main.py", MAIN.replace(b"))", b")"))
        assert "3:1: error: SyntaxError" in await ask("diagnostics", path="main.py")
        assert "there is no 'none' on line 1" in await ask("hover", path="main.py", line=1, symbol="none")
        assert "is not for notes.txt. It is for *.py." in await ask("symbols", path="notes.txt")
        assert "lies outside of the workspace" in await ask("symbols", path="/etc/passwd")
        assert "ENOENT" in await ask("symbols", path="none.py")
    finally:
        await server.close()


@pytest.mark.parametrize(
    "answer",
    [{"result": 3}, {"result": [{"uri": "https://example.org"}]}, {"result": {"uri": "file:///a", "range": {}}}],
)
async def test_an_answer_that_is_none_costs_the_server(box, answer):
    server = client(box, odd_server(textDocument_definition=answer), FakeClock())
    await server.start()
    toolbox = Toolbox(lsp_tools("python", server, (), lambda value: value))
    call = ToolCall("c", "python_definition", {"path": "main.py", "line": 1})
    first, second = await toolbox.call(call), await toolbox.call(call)
    assert first.is_error
    assert "was cut off: it" in first.text
    assert "is gone: it" in second.text
    await server.close()


async def test_an_error_of_the_server_is_told_and_the_server_stays(box):
    server = client(box, odd_server(textDocument_definition={"error": {"code": 7, "message": "not now"}}), FakeClock())
    await server.start()
    with pytest.raises(ToolsetError, match=r"answered with an error \(7\): not now"):
        await server.ask("textDocument/definition", f"{server.root}/main.py")
    assert not server.ending
    await server.close()


async def test_a_server_that_says_nothing_about_a_file_is_not_waited_for_without_end(box):
    clock = FakeClock()
    server = client(box, odd_server(initialize={"result": {"capabilities": {}}}), clock)
    await server.start()
    asked = asyncio.create_task(server.diagnostics(f"{server.root}/main.py"))
    while not asked.done():
        await clock.until_sleeping()
        await clock.advance(DIAGNOSTIC_SECONDS)
    assert await asked is None
    await server.close()
