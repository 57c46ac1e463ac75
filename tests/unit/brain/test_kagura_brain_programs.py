"""What the agents are started with, seen without them."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from kagura_kernel.brain import kagura_brain_programs
from kagura_kernel.brain.kagura_brain_programs import Place, Program, access, arguments, find
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn

KEY = "dummy-key-0123456789-never-real"
FEATURES = """\
apps                 stable             true
brand_new_hands      under development  true
elevated             removed            true
multi_agent          stable             false
shell_tool           stable             true
sqlite               stable             true
"""


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    """A program that lists features as Codex does."""
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{FEATURES}END\n")
    program.chmod(0o700)
    return program


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "run"
    root.mkdir()
    return Place(root)


def laid(place: Place, program: Program) -> list[str]:
    place.lay(program, a_turn(ToolLog()), {"PATH": "/usr/bin:/bin"}, max_retries=2)
    last = (place.programs / program.backend).read_text().splitlines()[-1]
    return shlex.split(last.partition('"$@"')[2])


def test_whatever_codex_has_switched_on_is_off_unless_it_is_known_to_be_harmless(place, codex):
    flags = laid(place, Program("codex", codex))
    off = {flags[number + 1] for number, flag in enumerate(flags) if flag == "--disable"}
    assert off == {"apps", "brand_new_hands", "shell_tool"}
    assert {"--ignore-user-config", "--ignore-rules", "--ephemeral"} <= set(flags)
    assert flags[flags.index("--sandbox") + 1] == "read-only"
    assert 'web_search="disabled"' in flags


@pytest.mark.parametrize("does", ["exit 2", "exec sleep 5"])
def test_a_codex_that_does_not_tell_its_features_is_not_started(place, tmp_path, monkeypatch, does):
    monkeypatch.setattr(kagura_brain_programs, "FEATURES_SECONDS", 0.3)
    mute = tmp_path / "codex"
    mute.write_text(f"#!/bin/sh\n{does}\n")
    mute.chmod(0o700)
    with pytest.raises(OSError, match="cannot be switched off"):
        laid(place, Program("codex", mute))


def test_claude_is_started_without_tools_settings_or_servers_of_its_own(place):
    flags = laid(place, Program("claude", Path("/usr/bin/true")))
    assert flags[flags.index("--tools") + 1] == ""
    assert {"--setting-sources=", "--strict-mcp-config", "--permission-mode=dontAsk"} <= set(flags)
    shim = (place.programs / "claude").read_text()
    assert "CLAUDE_CODE_DISABLE_FILE_MENTIONS=1" in shim
    assert "CLAUDE_CODE_MAX_RETRIES=2" in shim


def test_what_is_laid_is_for_this_person_alone_and_the_bridge_is_the_only_server(place):
    laid(place, Program("claude", Path("/usr/bin/true")))
    servers = json.loads(place.servers.read_text())["mcpServers"]
    assert list(servers) == ["kagura"]
    assert servers["kagura"]["command"] == sys.executable
    assert list(place.work.iterdir()) == []
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in (place.work, place.home, place.programs))


def test_a_gateway_s_program_gets_a_home_of_ours_and_a_signed_in_one_the_person_s(place, tmp_path):
    claude = Program("claude", Path("/usr/bin/true"))
    gateway = {"ANTHROPIC_BASE_URL": "https://x.example.org", "ANTHROPIC_AUTH_TOKEN": KEY, "HOME": str(tmp_path)}
    found = access(claude, gateway)
    assert found.auth.ready
    assert KEY not in repr(found)
    assert place.environ(claude, found, gateway)["HOME"] == str(place.home)
    assert KEY not in place.environ(claude, found, gateway).values()
    assert arguments(claude, found, place, a_turn(ToolLog()))["api_key"] == KEY
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    signed = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": KEY}
    assert access(claude, signed).auth.method == "sign-in"
    assert access(claude, signed).key == ""
    assert place.environ(claude, access(claude, signed), signed)["HOME"] == str(tmp_path)


def test_ollama_is_codex_with_a_local_model(place, tmp_path):
    program = Program("ollama", tmp_path / "codex")
    wanted = arguments(program, access(program, {}), place, a_turn(ToolLog(), model="gpt-oss:20b"))
    assert (wanted["backend"], wanted["local_provider"], wanted["model"]) == ("codex", "ollama", "gpt-oss:20b")
    assert wanted["endpoint"] is wanted["api_key"] is None


def test_codex_is_never_taken_from_the_project(tmp_path, monkeypatch, codex):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert find("codex", {"PATH": str(codex.parent)}).file == codex
    monkeypatch.chdir(codex.parent)
    assert find("codex", {"PATH": str(codex.parent)}).file is None
