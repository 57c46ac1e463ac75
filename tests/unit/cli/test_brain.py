import json
import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.extensions import BRAINS
from kagura_kernel.testing.installed import installed_package

NAMED = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "HOME", "KAGURA_MODEL", "KAGURA_BRAIN")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, books: Path) -> None:
    """A machine on which nobody has signed in to anything, and nothing has run."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(books))


def test_every_brain_is_listed_with_why_it_cannot_think(prints):
    out = prints("brain")
    assert "sign in once with `claude`" in out
    assert "set `endpoint` to openai, ollama" in out
    assert "set `brain_program` to claude, codex or ollama" in out
    assert "which is not 0" in out


OTHERS = """
from kagura_kernel.testing.brain import FakeBrain

def make():
    return FakeBrain(name="oracle")

def fail():
    raise RuntimeError("no licence")
"""


def test_those_of_other_packages_are_listed_too_and_one_that_is_broken_says_why(tmp_path, prints):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "oracles.py").write_text(OTHERS)
    parts = {BRAINS: {"oracle": "oracles:make", "mute": "oracles:fail"}}
    with installed_package(tmp_path / "site", parts, tmp_path / "modules"):
        *ours, mute, oracle = json.loads(prints("brain", "--model", "large", "--json"))
    assert [one["name"] for one in ours] == ["claude", "pydantic_ai", "kagura_brain", "sealed"]
    assert (oracle["name"], oracle["ready"], oracle["model"]) == ("oracle", True, "large")
    assert oracle["reason"].endswith("; of house 1.0")
    assert (mute["name"], mute["ready"]) == ("mute", False)
    assert "no licence" in mute["reason"]


def test_what_is_configured_is_ready_and_a_known_price_is_told(monkeypatch, prints):
    monkeypatch.setenv("KAGURA_ENDPOINT", "openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    out = prints("brain", "--model", "gpt-4o-mini", "--json")
    found = {row["name"]: row for row in json.loads(out)}["pydantic_ai"]
    assert (found["ready"], found["model"], found["window"]) == (True, "openai:gpt-4o-mini", 128_000)
    assert found["turn_usd"] == pytest.approx(0.0018)
    assert "OPENAI_API_KEY" in found["reason"]
    assert "sk-canary" not in out


def test_a_price_that_nobody_knows_is_unknown_and_another_brain_s_model_is_not_claude_s(monkeypatch, prints):
    monkeypatch.setenv("KAGURA_MODEL", "ollama:qwen3:32b")
    found = {row["name"]: row for row in json.loads(prints("brain", "--json"))}
    assert (found["pydantic_ai"]["model"], found["pydantic_ai"]["turn_usd"]) == ("ollama:qwen3:32b", None)
    assert found["claude"]["model"] == ""


def test_on_a_narrow_terminal_nothing_is_cut_and_what_is_typed_stays_on_one_line(monkeypatch, prints):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = prints("brain")
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 40
    assert "in once with `claude`, or set\n" in out
