"""Where the cloud's key comes from, and that nobody sees it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import MemoryUnavailable
from kagura_kernel.memory.cloud.wire import CLOUD, CloudAccess, find_access

CONTEXT = "5f0c1d3a-7a54-4a7e-9a51-0f6d3b1a2c4d"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def write(path: Path, told: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told), "utf-8")


def profile(key: str, **more: Any) -> dict[str, Any]:
    return {"access_token": key, "mcp_url": "https://team.example/mcp", "expires_at": "2026-06-01T00:00:00Z", **more}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def everything(home: Path) -> Path:
    """Every place has a key of its own."""
    profiles = {"default": profile("key-profile"), "work": profile("key-work")}
    write(home / ".kagura" / "credentials.json", {"default_profile": "default", "profiles": profiles})
    write(home / ".kagura.json", {"api_key": "key-file", "mcp_url": "https://file.example/mcp", "context_id": CONTEXT})
    return home


def test_the_address_that_is_named_wins(everything):
    found = find_access("https://mine.example/mcp", {"KAGURA_API_KEY": "key-environment"}, everything, now=NOW)
    assert (found.key, found.url) == ("key-environment", "https://mine.example/mcp")


def test_the_environment_comes_first(everything):
    environ = {"KAGURA_API_KEY": " key-environment ", "KAGURA_CONTEXT_ID": "context-2"}
    found = find_access("", environ, everything, now=NOW)
    assert (found.key, found.url, found.context_id) == ("key-environment", CLOUD, "context-2")
    environ["KAGURA_MCP_URL"] = "https://other.example/mcp"
    assert find_access("", environ, everything, now=NOW).url == "https://other.example/mcp"


def test_then_the_profile_that_is_asked_for_or_the_usual_one(everything):
    found = find_access("", {"KAGURA_API_KEY": ""}, everything, now=NOW)
    assert (found.key, found.url, found.context_id) == ("key-profile", "https://team.example/mcp", CONTEXT)
    assert find_access("", {"KAGURA_PROFILE": "work"}, everything, now=NOW).key == "key-work"


def test_then_the_file_in_the_home_directory(everything):
    (everything / ".kagura" / "credentials.json").unlink()
    found = find_access("", {}, everything, now=NOW)
    assert (found.key, found.url) == ("key-file", "https://file.example/mcp")


def test_a_project_chooses_no_server(everything, tmp_path, monkeypatch):
    (everything / ".kagura" / "credentials.json").unlink()
    project = tmp_path / "project"
    write(project / ".kagura.json", {"api_key": "key-evil", "mcp_url": "https://evil.example/mcp"})
    monkeypatch.chdir(project)
    assert find_access("", {}, everything, now=NOW).key == "key-file"


def test_a_profile_that_is_not_there_is_not_replaced_by_another(everything):
    with pytest.raises(MemoryUnavailable, match="no profile 'play'"):
        find_access("", {"KAGURA_PROFILE": "play"}, everything, now=NOW)


def test_a_sign_in_that_has_expired_says_how_to_renew_it(home):
    write(
        home / ".kagura" / "credentials.json",
        {"profiles": {"default": profile("key-old", expires_at="2025-12-31T00:00:00Z")}},
    )
    with pytest.raises(MemoryUnavailable, match=r"has expired.*renew") as refusal:
        find_access("", {}, home, now=NOW)
    assert "key-old" not in str(refusal.value)


def test_without_a_key_or_a_context_it_says_how_to_get_one(home):
    with pytest.raises(MemoryUnavailable, match=r"no key for it.*KAGURA_API_KEY"):
        find_access("", {}, home, now=NOW)
    with pytest.raises(MemoryUnavailable, match=r"no context is named.*KAGURA_CONTEXT_ID"):
        find_access("", {"KAGURA_API_KEY": "key-named"}, home, now=NOW)


@pytest.mark.parametrize("broken", ["{not json", "[1, 2]", '"key-text"'])
def test_a_file_that_cannot_be_read_does_not_show_what_is_in_it(home, broken):
    write(home / ".kagura.json", broken)
    with pytest.raises(MemoryUnavailable, match="cannot be read as JSON") as refusal:
        find_access("", {}, home, now=NOW)
    assert broken not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://memory.example/mcp", "plain HTTP"),
        ("http://127.0.0.1.evil.example/mcp", "plain HTTP"),
        ("ftp://memory.example/mcp", "no web address"),
        ("memory.example", "no web address"),
        ("https://", "no web address"),
        ("https://memory.example:no/mcp", "no web address"),
        ("https://ada:hunter2@memory.example/mcp", "holds a user or a password"),
    ],
)
def test_an_address_that_would_show_the_key_is_refused(url, why):
    with pytest.raises(MemoryUnavailable, match=why) as refusal:
        CloudAccess(url, CONTEXT, "key-secret")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/mcp", "http://localhost/mcp", "http://[::1]:9/mcp", CLOUD])
def test_this_machine_may_be_asked_without_encryption(url):
    assert CloudAccess(url, CONTEXT, "key-secret").url == url


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key):
    with pytest.raises(MemoryUnavailable) as refusal:
        CloudAccess(CLOUD, CONTEXT, key)
    assert not key or key not in str(refusal.value)


def test_a_key_is_not_shown():
    assert "key-secret" not in repr(CloudAccess(CLOUD, CONTEXT, "key-secret"))
