"""`kagura_kernel.open_memory`: a memory for programs."""

import pytest

import kagura_kernel
from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.memory import Author, Draft, Query, Source
from kagura_kernel.memory.location import FILE


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A data directory of its own, and no settings."""
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("KAGURA_MEMORY", raising=False)
    return tmp_path / "home"


def note(text):
    return Draft(text, Source(Author.HUMAN, "ada"))


def test_it_is_the_one_of_the_settings_and_closed_at_the_end_of_the_block(home):
    with kagura_kernel.open_memory() as memory:
        one = memory.remember(note("Sales are in EUR."))
        assert memory.where == str(home / FILE)
    with pytest.raises(MemoryUnavailable):
        memory.recall(Query("sales"))
    with kagura_kernel.open_memory() as again:
        assert [found.memory.id for found in again.recall(Query("sales"))] == [one.id]


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "path"])
def test_a_file_may_be_named(home, tmp_path, kind):
    with kagura_kernel.open_memory(kind(tmp_path / "other.sqlite3")) as memory:
        memory.remember(note("Another."))
    assert (tmp_path / "other.sqlite3").exists()
    assert not home.exists()


def test_a_path_of_a_program_may_begin_where_it_works_and_one_of_the_settings_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kagura_kernel.open_memory("other.sqlite3").close()
    assert (tmp_path / "other.sqlite3").exists()
    monkeypatch.setenv("KAGURA_MEMORY", "notes.sqlite3")
    with pytest.raises(MemoryUnavailable, match="absolute"):
        kagura_kernel.open_memory()
    assert not (tmp_path / "notes.sqlite3").exists()


def test_the_settings_name_another_one(tmp_path, monkeypatch):
    monkeypatch.setenv("KAGURA_MEMORY", str(tmp_path / "shared.sqlite3"))
    with kagura_kernel.open_memory() as memory:
        assert memory.where == str(tmp_path / "shared.sqlite3")
