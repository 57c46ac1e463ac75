import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.memory import Author, Draft, Query, Source
from kagura_kernel.memory.sqlite import connections
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.patience import wait_until

SOURCE = Source(Author.HUMAN)

WRITER = """
import sys
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.memory.sqlite.store import SqliteMemory

path, name, many = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SqliteMemory(path)
print("open", flush=True)
sys.stdin.readline()

def drafts():
    for number in range(many):
        yield Draft(f"{name} number{number}", Source(Author.HUMAN), id=f"mem-{name}-{number}")

if name == "bulk":
    from kagura_kernel.memory.sqlite import store as module
    plain = module.row_of
    def told(number, memory):
        if number == many // 2:
            print("half", flush=True)
        return plain(number, memory)
    module.row_of = told
    store.remember_many(drafts())
else:
    for draft in drafts():
        store.remember(draft)
print("done", flush=True)
"""


def _writer(path: Path, name: str, many: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(many)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "open\n"
    process.stdin.write("\n")
    process.stdin.flush()


def test_the_file_and_its_directory_are_for_their_owner_alone(store, path):
    store.remember(Draft("x", SOURCE))

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_of_many_memories_all_or_none_survive_a_killed_process(opened, path):
    opened().remember(Draft("before", SOURCE))
    with _writer(path, "bulk", 3000) as process:
        _go(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)

    again = opened()

    assert again.counts().memories == 1
    assert [found.memory.text for found in again.recall(Query("before"))] == ["before"]
    assert again.recall(Query("bulk")) == ()


def test_what_was_remembered_one_by_one_survives_a_killed_process(opened, path):
    with _writer(path, "single", 100_000) as process:
        _go(process)
        store = opened()
        wait_until(lambda: store.counts().memories >= 5)
        process.send_signal(signal.SIGKILL)
        process.wait()

    kept = store.counts().memories

    assert len(store.recall(Query("single", k=1000))) == min(kept, 1000)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO term (term, rank) VALUES ('integrity-check', 0)")
    connection.close()


def test_two_processes_write_at_once_and_nothing_is_lost(opened, path):
    with _writer(path, "one", 100) as one, _writer(path, "two", 100) as two:
        _go(one)
        _go(two)
        assert (one.wait(), two.wait()) == (0, 0)

    store = opened()

    assert store.counts().memories == 200
    assert len(store.recall(Query("one", k=1000))) == 100
    assert len(store.recall(Query("two", k=1000))) == 100


def test_a_file_that_another_process_keeps_locked_is_told(store, path, monkeypatch, opened):
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.05)
    impatient = opened()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(MemoryUnavailable, match="another process has been writing"):
        impatient.remember(Draft("x", SOURCE))

    assert impatient.recall(Query("x")) == ()
    other.close()
    impatient.check()
    del store


def _damaged(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


def _scrap(path: Path) -> None:
    path.write_bytes(b"x")


def _text(path: Path) -> None:
    path.write_text("no database\n" * 100)


def _directory(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to("/dev/null")


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE x (y)")
    connection.close()


def _newer(path: Path) -> None:
    SqliteMemory(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_damaged, "no SQLite database|damaged"),
        (_scrap, "no SQLite database"),
        (_text, "no SQLite database"),
        (_directory, "it is no file"),
        (_link, "a link"),
        (_foreign, "a database of something else"),
        (_newer, "a newer version"),
    ],
)
def test_what_is_no_memory_is_refused_and_left_as_it_is(path, make, why):
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None

    with pytest.raises(MemoryUnavailable, match=why) as raised:
        SqliteMemory(path)

    assert raised.value.where == str(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_directory_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(MemoryUnavailable, match="a file stands where"):
        SqliteMemory(tmp_path / "file" / "memory.db")


def test_a_file_that_was_moved_away_is_not_written_any_further(store, path):
    path.rename(path.with_name("elsewhere"))

    with pytest.raises(MemoryUnavailable, match="moved or deleted"):
        store.remember(Draft("x", SOURCE))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_READONLY, "read-only"),
        (sqlite3.SQLITE_CORRUPT, "damaged"),
        (sqlite3.SQLITE_IOERR, "disk reports an error"),
    ],
)
def test_what_sqlite_reports_is_said_in_words_with_advice(tmp_path, code, why):
    error = sqlite3.OperationalError("words of its own")
    error.sqlite_errorcode = code

    told = str(connections.trouble(tmp_path / "memory.db", error))

    assert why in told
    assert "words of its own" not in told


def test_a_full_disk_keeps_a_memory_out_whole(store, path):
    store.remember(Draft("before", SOURCE))
    with closing(sqlite3.connect(path)) as other:
        pages = other.execute("PRAGMA page_count").fetchone()[0]
    with store._connections.reading() as connection:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(MemoryUnavailable, match="the disk is full"):
        store.remember_many([Draft("word " * 10_000, SOURCE) for _ in range(20)])

    assert store.counts().memories == 1
    assert [found.memory.text for found in store.recall(Query("before"))] == ["before"]


def test_a_file_of_the_first_schema_is_brought_up_to_date(opened, path, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(connections, "MIGRATIONS", connections.MIGRATIONS[:1])
        opened().close()
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()

    opened().remember(Draft("the old file", SOURCE))

    assert len(opened().recall(Query("old"))) == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(connections.MIGRATIONS),)
    connection.close()


def test_an_index_of_other_terms_is_made_anew(opened, monkeypatch):
    store = opened()
    store.remember_many([Draft("pottery?", SOURCE, thread="t"), Draft("two bowls", SOURCE, thread="t")])
    gone = store.remember(Draft("pottery forgotten", SOURCE))
    store.forget(gone.id)
    before = store.recall(Query("pottery"))
    store.close()
    monkeypatch.setattr(connections, "INDEX_VERSION", connections.INDEX_VERSION + 1)

    again = opened()

    assert again.recall(Query("pottery")) == before
    assert len(before) == 2
    again.restore(gone.id)
    assert len(again.recall(Query("pottery"))) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_written_is_told(opened, path):
    opened().close()
    path.chmod(0o400)

    with pytest.raises(MemoryUnavailable, match="permission denied"):
        opened()
