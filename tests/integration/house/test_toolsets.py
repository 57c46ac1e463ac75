"""The whole house: an agent's MCP server, a public one, is started in the box and called by the real Claude program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import ModelTurn, calls, offered_tools, says, tool_results
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]

AGENT = """\
name: analyst
system_prompt: You know what time it is.
toolsets:
  - {type: mcp, name: time, command: mcp-server-time, version: off, deny: [convert_time]}
"""
CLOCK = {"command": "mcp-server-time", "args": ["--local-timezone", "Asia/Tokyo"], "version": "off"}


def test_an_agent_has_its_own_server_and_a_file_takes_its_place_for_one_run(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "analyst.yaml").write_text(AGENT)
    (project / "servers.json").write_text(json.dumps({"mcpServers": {"Clock": CLOCK}}))
    read: list[tuple[str, bool]] = []

    def see(request: Any) -> ModelTurn:
        read.append(tool_results(request)[-1])
        return says("It is late.")

    asked = {"timezone": "Asia/Tokyo"}
    script = [calls("time_get_current_time", asked), see, calls("clock_get_current_time", asked), see]
    instead = "--mcp-config servers.json --strict-mcp-config"
    with ModelServer(script) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        ran = run_cells(
            [
                "%load_ext kagura_kernel",
                "%%kagura --brain claude --box bubblewrap --agent ./analyst.yaml\nWhat time is it in Tokyo?",
                f"%%kagura --brain claude --box bubblewrap --new --agent ./analyst.yaml {instead}\nAnd now?",
            ],
            environ=environ,
            cwd=project,
        )
        offered = [{name.removeprefix("mcp__kagura__") for name in offered_tools(turn.body)} for turn in server.turns]
        system = server.turns[0].system
    assert [one.failed for one in ran] == [False, False, False], ran[-1].text
    assert [(json.loads(text)["timezone"], is_error) for text, is_error in read] == [("Asia/Tokyo", False)] * 2
    first, second = offered[0], offered[2]
    assert "time_get_current_time" in first
    assert "time_convert_time" not in first, "the definition denies it"
    assert {"clock_get_current_time", "clock_convert_time"} <= second
    assert not any(name.startswith("time_") for name in second)
    assert "You know what time it is." in system
    assert "toolset time" in ran[1].text
    assert "It is late." in ran[2].text
