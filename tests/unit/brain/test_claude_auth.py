import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.brain.claude_auth import (
    ClaudeHome,
    command_line,
    find_program,
    program_environ,
    resolve,
    scratch_environ,
    tool_names,
    with_death_signal,
)
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec


@pytest.fixture
def person(tmp_path):
    (tmp_path / "person" / ".claude").mkdir(parents=True)
    return tmp_path / "person"


def test_a_key_is_enough():
    auth = resolve({"ANTHROPIC_API_KEY": "k"})
    assert (auth.ready, auth.method) == (True, "api key")


def test_a_token_is_enough():
    assert resolve({"ANTHROPIC_AUTH_TOKEN": "t"}).method == "token"


def test_an_empty_key_is_no_key():
    assert not resolve({"ANTHROPIC_API_KEY": ""}).ready


def test_the_reason_never_holds_the_key():
    assert "sk-secret" not in repr(resolve({"ANTHROPIC_API_KEY": "sk-secret", "ANTHROPIC_AUTH_TOKEN": "sk-secret"}))


def test_credentials_in_the_home_are_a_sign_in(person):
    (person / ".claude" / ".credentials.json").write_text("{}")
    assert resolve({"HOME": str(person)}).method == "sign-in"


def test_credentials_in_the_config_directory_are_a_sign_in(tmp_path):
    (tmp_path / ".credentials.json").write_text("{}")
    assert resolve({"CLAUDE_CONFIG_DIR": str(tmp_path)}).method == "sign-in"


def test_a_config_directory_hides_the_one_in_the_home(person, tmp_path):
    (person / ".claude" / ".credentials.json").write_text("{}")
    assert not resolve({"HOME": str(person), "CLAUDE_CONFIG_DIR": str(tmp_path)}).ready


@pytest.mark.parametrize(("platform", "ready"), [("darwin", True), ("linux", False)])
def test_on_macos_the_account_in_the_notes_is_a_sign_in(person, monkeypatch, platform, ready):
    monkeypatch.setattr(sys, "platform", platform)
    (person / ".claude.json").write_text(json.dumps({"oauthAccount": {}}))
    assert resolve({"HOME": str(person)}).ready is ready


def test_nothing_at_all_says_what_is_missing(person):
    auth = resolve({"HOME": str(person)})
    assert not auth.ready
    assert "ANTHROPIC_API_KEY" in auth.reason
    assert "`claude`" in auth.reason
    assert not resolve({}).ready


def test_with_a_key_the_program_sees_only_our_directories(tmp_path):
    environ = {"ANTHROPIC_API_KEY": "k", "HOME": "/home/person", "CLAUDE_CONFIG_DIR": "/home/person/c", "OTHER": "x"}
    given = program_environ(environ, ClaudeHome(tmp_path), max_retries=3)
    assert given["ANTHROPIC_API_KEY"] == "k"
    assert given["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert not [value for value in given.values() if "person" in value]
    assert "OTHER" not in given


def test_with_a_sign_in_the_program_sees_where_it_is_kept(tmp_path):
    environ = {"HOME": "/home/person", "CLAUDE_CONFIG_DIR": "/c", "ANTHROPIC_BASE_URL": "http://x", "LD_PRELOAD": "y"}
    given = program_environ(environ, ClaudeHome(tmp_path), max_retries=3)
    assert (given["HOME"], given["CLAUDE_CONFIG_DIR"], given["ANTHROPIC_BASE_URL"]) == (
        "/home/person",
        "/c",
        "http://x",
    )
    assert "LD_PRELOAD" not in given


def test_the_fixed_part_is_not_the_callers_to_change(tmp_path):
    environ = {"ANTHROPIC_API_KEY": "k", "PATH": "/evil", "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "0"}
    given = program_environ(environ, ClaudeHome(tmp_path), max_retries=3)
    assert given["PATH"] == "/usr/bin:/bin"
    assert given["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] == "1"


def test_our_directories_are_private(tmp_path):
    home = ClaudeHome(tmp_path / "data" / "claude")
    home.make()
    home.make()
    made = (tmp_path / "data", home.root, home.work, home.home, home.cache)
    assert [directory.stat().st_mode & 0o777 for directory in made] == [0o700] * 5


def test_what_a_killed_run_left_is_swept_and_what_is_new_is_kept(tmp_path):
    home = ClaudeHome(tmp_path)
    home.make()
    old, new = home.cache / "run-old", home.cache / "run-new"
    for directory in (old, new):
        (directory / "deep").mkdir(parents=True)
    os.utime(old, (0, 0))
    home.make()
    assert list(home.cache.iterdir()) == [new]


def test_everything_temporary_goes_into_one_directory(tmp_path):
    assert set(scratch_environ(tmp_path).values()) == {str(tmp_path)}
    assert {"TMPDIR", "XDG_CACHE_HOME"} <= set(scratch_environ(tmp_path))


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
