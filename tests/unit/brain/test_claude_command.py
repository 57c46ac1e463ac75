from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.brain.claude_auth import command_line, find_program, tool_names, with_death_signal
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec

TOOLS = [ToolSpec("bash", "Runs.", {}), ToolSpec("grep", "Finds.", {})]


async def never(call: ToolCall) -> ToolResult:
    raise NotImplementedError(call.name)


def line(**fields: object) -> list[str]:
    turn = Turn(**{"task": "the task", "system": "the system", "tools": TOOLS, "call_tool": never, **fields})
    return command_line(Path("/opt/claude"), turn, "/dev/fd/9")


def value(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def test_every_built_in_tool_and_every_setting_is_off():
    arguments = line()
    assert arguments[0] == "/opt/claude"
    assert value(arguments, "--tools") == ""
    assert {"--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"} <= set(arguments)
    assert "--permission-mode=dontAsk" in arguments


def test_exactly_our_tools_are_allowed():
    assert tool_names(TOOLS) == ["mcp__kagura__bash", "mcp__kagura__grep"]
    assert value(line(), "--allowedTools") == "mcp__kagura__bash,mcp__kagura__grep"
    assert "--allowedTools" not in line(tools=[])
    assert json.loads(value(line(), "--mcp-config")) == {"mcpServers": {"kagura": {"type": "sdk", "name": "kagura"}}}


def test_neither_task_nor_system_prompt_stand_in_the_arguments():
    joined = " ".join(line())
    assert "the task" not in joined
    assert "the system" not in joined
    assert "--system-prompt-file=/dev/fd/9" in joined


@pytest.mark.parametrize("name", ["--model", "--max-turns", "--max-budget-usd", "--resume"])
def test_what_was_not_asked_for_is_left_out(name):
    assert not [part for part in line() if part.startswith(name)]


def test_limits_and_names_are_bound_to_their_options():
    arguments = line(model="--evil", max_turns=3, budget_usd=0.5, resume="--evil")
    assert {"--model=--evil", "--max-turns=3", "--max-budget-usd=0.500000", "--resume=--evil"} <= set(arguments)
    assert "--evil" not in arguments


def test_the_program_of_the_sdk_is_found():
    found = find_program({})
    assert found is not None
    assert found.is_file()


def test_no_program_of_the_project_is_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kagura_kernel.brain.claude_auth.find_spec", lambda _: None)
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project / ".venv" / "bin", elsewhere):
        folder.mkdir(parents=True)
        (folder / "claude").write_text("#!/bin/sh\n")
        (folder / "claude").chmod(0o755)
    (tmp_path / "link").symlink_to(project / ".venv" / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "claude").symlink_to(project / ".venv" / "bin" / "claude")
    planted = f"{project}/.venv/bin:{tmp_path}/link:.venv/bin"
    assert find_program({"PATH": planted}, project) is None
    assert find_program({"PATH": f"{tmp_path}/links"}, project) is None
    assert find_program({"PATH": f"{planted}:{elsewhere}"}, project) == elsewhere / "claude"
    monkeypatch.chdir(project)
    assert find_program({"PATH": planted}) is None


def test_the_death_signal_keeps_the_arguments_as_they_are():
    odd = ["/bin/echo", "-n", "a b", "", "'\"$x"]
    plain = subprocess.run(odd, capture_output=True, check=True)
    wrapped = subprocess.run(with_death_signal(odd), capture_output=True, check=True)
    assert wrapped.stdout == plain.stdout
    assert plain.stdout


def test_elsewhere_than_on_linux_the_line_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert with_death_signal(["/bin/true"]) == ["/bin/true"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the signal")
def test_a_program_whose_parent_is_gone_already_is_not_started():
    ours = with_death_signal(["/bin/echo", "started"])
    orphan = [*ours[:5], "1", *ours[6:]]
    assert ours[5].isdigit()
    ended = subprocess.run(orphan, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
