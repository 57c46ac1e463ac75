"""A setting leads to the memory that it means, or to a sentence that says what to write."""

import os
import stat
import subprocess
import sys

import pytest

from kagura_kernel.domain.errors import MemoryUnavailable
from kagura_kernel.domain.memory import Author, Draft, Query, Source
from kagura_kernel.memory import embeddings
from kagura_kernel.memory.cloud.store import CloudMemory
from kagura_kernel.memory.location import FILE, is_cloud, open_memory, problem_with
from kagura_kernel.memory.postgres.store import PostgresMemory
from kagura_kernel.memory.sqlite.store import SqliteMemory

CLOUD = {"KAGURA_API_KEY": "kagura_" + "a" * 32, "KAGURA_CONTEXT_ID": "5f0c1d3a-7a54-4a7e-9a51-0f6d3b1a2c4d"}


def test_by_itself_it_is_a_file_in_the_data_directory_for_its_owner_alone(tmp_path):
    store = open_memory("", tmp_path / "home", {})
    store.check()
    assert store.where == str(tmp_path / "home" / FILE)
    assert stat.S_IMODE((tmp_path / "home" / FILE).stat().st_mode) == 0o600
    store.close()


def test_no_folder_is_made_for_a_memory_but_our_own(tmp_path):
    mistyped = tmp_path / "memoreis" / "memory.sqlite3"
    with pytest.raises(MemoryUnavailable, match=r"the folder .*memoreis does not exist. Make the folder"):
        open_memory(str(mistyped), tmp_path / "home", {})
    assert not mistyped.parent.exists()
    open_memory("", tmp_path / "home", {}).close()
    assert (tmp_path / "home" / FILE).is_file()


def test_a_path_begins_at_the_persons_home(tmp_path):
    (tmp_path / "person" / "notes").mkdir(parents=True)
    store = open_memory("~/notes/memory.db", tmp_path / "home", {"HOME": str(tmp_path / "person")})
    assert store.where == str(tmp_path / "person" / "notes" / "memory.db")
    store.close()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "PostgreSQL"])
def test_a_database_is_not_asked_yet(tmp_path, scheme):
    store = open_memory(f"{scheme}://user@db.example/memories", tmp_path, {})
    assert isinstance(store, PostgresMemory)
    store.close()
    assert not list(tmp_path.iterdir())


def test_a_password_that_ends_too_early_is_not_shown_as_the_place(tmp_path):
    with pytest.raises(MemoryUnavailable, match="%40") as caught:
        open_memory("postgresql://ada:hun@ter2@db/books", tmp_path, {})
    assert "ter2" not in caught.value.message


@pytest.mark.parametrize("where", ["cloud", "https://memory.example/mcp"])
def test_the_cloud_takes_its_key_from_the_environment(tmp_path, where):
    store = open_memory(where, tmp_path, CLOUD | {"HOME": str(tmp_path)})
    assert isinstance(store, CloudMemory)
    assert is_cloud(where)
    assert CLOUD["KAGURA_API_KEY"] not in repr(vars(store))
    store.close()


def test_the_cloud_without_a_key_says_where_to_get_one(tmp_path):
    with pytest.raises(MemoryUnavailable, match="KAGURA_API_KEY"):
        open_memory("cloud", tmp_path, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "where", ["ftp://x", "redis://host/1", "mysql://u:hunter2@h/d", "http://memory.example/mcp", "a\0b", "a\nb"]
)
def test_what_nobody_knows_is_refused_with_what_to_write_and_without_repeating_it(tmp_path, where):
    with pytest.raises(MemoryUnavailable, match="Name a file") as caught:
        open_memory(where, tmp_path, CLOUD)
    assert "hunter2" not in caught.value.message
    assert caught.value.code == "ERR_MEMORY_UNAVAILABLE"


def test_an_address_with_a_password_is_refused_and_not_repeated():
    problem = problem_with("https://user:hunter2@memory.example/mcp")
    assert "without a user name or password" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize("where", ["", "/a/b.db", "~/b.db", "cloud", "postgresql://h/d", "https://memory.example/mcp"])
def test_what_may_stand_in_the_settings(where):
    assert problem_with(where, setting=True) == ""


@pytest.mark.parametrize("where", ["notes.db", "./notes.db", "clout"])
def test_a_path_in_the_settings_begins_somewhere(where):
    assert "absolute" in problem_with(where, setting=True)
    assert problem_with(where) == ""


def test_a_directory_is_no_memory(tmp_path):
    with pytest.raises(MemoryUnavailable):
        open_memory(str(tmp_path), tmp_path, {})


def test_the_model_of_meaning_is_read_when_a_text_is_to_be_understood_and_not_before(tmp_path, monkeypatch):
    read = []

    def damaged(path):
        read.append(path.name)
        raise OSError

    monkeypatch.setattr(embeddings, "find_model", lambda: tmp_path / "package" / "model")
    monkeypatch.setattr(embeddings, "read_tensors", damaged)
    for name, text in (("config.json", "{}"), ("vocab.txt", "")):
        path = tmp_path / "package" / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    store = open_memory("", tmp_path / "home", {})
    assert isinstance(store, SqliteMemory)
    store.check()
    assert read == []
    store.remember(Draft("A plain English sentence.", Source(Author.HUMAN)))
    with pytest.raises(MemoryUnavailable):
        store.recall(Query("plain sentence"))
    assert set(read) == {"model.safetensors"}
    store.close()
    alone = open_memory("", tmp_path / "home", {}, meaning=False)
    assert alone.recall(Query("plain sentence"))
    alone.close()


def test_naming_a_memory_imports_no_library():
    code = (
        "import sys; from kagura_kernel.memory.location import problem_with; problem_with('/a');"
        "print(sorted({'numpy', 'sqlalchemy', 'httpx', 'sqlite3', 'pandas'} & set(sys.modules)))"
    )
    # What counts lines imports modules of its own.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert told.stdout.strip() == "[]"
