"""Ids of memories while somebody types."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kagura_kernel.domain.grammar import Kind
from kagura_kernel.domain.memory import Author, Draft, Source, Tier
from kagura_kernel.jupyter.completion.names import ShellNames
from kagura_kernel.memory.opening import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory


@pytest.fixture
def told(tmp_path, monkeypatch):
    """The names that a line is offered, with what is said of them."""
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    names = ShellNames(SimpleNamespace(user_ns={}))
    names._blink = 60.0
    return lambda *given: {name.text: name.summary for name in names.names(Kind.MEMORY, "", given)}


def test_a_command_is_offered_the_memories_that_fit_it(told, tmp_path):
    store = SqliteMemory(tmp_path / "home" / FILE)
    store.remember(Draft("Deploys \x1b[2J on Fridays.", Source(Author.AGENT), id="mem-a"))
    store.remember(Draft("Sales are in EUR.", Source(Author.HUMAN), Tier.TRUSTED, id="mem-b"))
    store.close()
    assert set(told("memory", "show")) == {"mem-a", "mem-b"}
    assert told("memory", "promote") == {"mem-a": "note, in quarantine: Deploys ⟨U+001B⟩[2J on Fridays."}
    assert list(told("memory", "demote")) == ["mem-b"]


@pytest.mark.parametrize("memory", ["", "postgresql://nobody@192.0.2.1/memory"], ids=["no file", "a server"])
def test_nothing_is_offered_and_nothing_made_where_there_is_no_file(told, tmp_path, monkeypatch, memory):
    monkeypatch.setenv("KAGURA_MEMORY", memory)
    assert told("memory", "show") == {}
    assert not (tmp_path / "home").exists()
