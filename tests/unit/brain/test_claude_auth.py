from __future__ import annotations

import json
import os
import sys

import pytest

from kagura_kernel.brain.claude_auth import ClaudeHome, program_environ, resolve, scratch_environ


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
    home = ClaudeHome(tmp_path / "claude")
    home.make()
    home.make()
    assert [d.stat().st_mode & 0o777 for d in (home.root, home.work, home.home, home.cache)] == [0o700] * 4


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
