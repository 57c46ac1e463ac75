"""Reading an SQLite file: rows as JSON, limits, and every way to do more than read."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.plugins.sdk import (
    ArgumentRefused,
    ConfigRefused,
    DatabaseUnavailable,
    NotFound,
    PluginFault,
    QueryFailed,
    QueryRefused,
    QueryTimeout,
    TooLarge,
)
from kagura_kernel.plugins.sdk.sqlite import BEHIND, SqliteDatabase
from kagura_kernel.testing.patience import wait_until
from tests.support.included_plugins import functions_of

SET_UP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT NOT NULL, total REAL, note BLOB);
INSERT INTO orders VALUES (1, 'north', 1.5, x'00ff'), (2, 'süd', NULL, NULL), (3, 'north', 3, 'text');
CREATE VIEW by_region AS SELECT region, count(*) AS orders FROM orders GROUP BY region;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file."""
    made = tmp_path / "odd #%41 name.db"
    with closing(sqlite3.connect(made)) as connection:
        connection.executescript(SET_UP)
    return made


@pytest.fixture
def sql_read(path: Path) -> Callable[..., SimpleNamespace]:
    """The module `sql_read` of the file, with more configuration as keywords."""
    return lambda **config: SimpleNamespace(**functions_of("sql-read", {"url": f"sqlite:///{path}", **config}))


def test_rows_come_as_lists_with_their_columns(sql_read):
    answer = sql_read().query("SELECT id, region, total, note FROM orders ORDER BY id")
    assert answer == {
        "columns": ["id", "region", "total", "note"],
        "rows": [[1, "north", 1.5, {"base64": "AP8="}], [2, "süd", None, None], [3, "north", 3.0, "text"]],
        "count": 3,
        "complete": True,
    }


def test_values_go_into_parameters(sql_read):
    hostile = "north' OR '1'='1"
    assert sql_read().query("SELECT id FROM orders WHERE region = ?", ["north"])["rows"] == [[1], [3]]
    assert sql_read().query("SELECT id FROM orders WHERE region = ?", [hostile])["rows"] == []
    assert sql_read().query("SELECT ?, ?, ?, ?", [None, True, 2**62, 1.5])["rows"] == [[None, 1, str(2**62), 1.5]]


def test_tables_views_and_columns_are_told(sql_read):
    assert sql_read().tables() == {
        "tables": [
            {"schema": "main", "name": "by_region", "kind": "view"},
            {"schema": "main", "name": "orders", "kind": "table"},
        ],
        "complete": True,
    }
    found = sql_read().columns("orders")["columns"]
    assert [(one["name"], one["type"], one["nullable"], one["primary_key"]) for one in found] == [
        ("id", "INTEGER", False, True),
        ("region", "TEXT", False, False),
        ("total", "REAL", True, False),
        ("note", "BLOB", True, False),
    ]
    assert sql_read().columns("main.orders") == sql_read().columns("orders")
    for name in ("no_such", "orders; DROP TABLE orders", "orders')--"):
        with pytest.raises(NotFound):
            sql_read().columns(name)


def test_an_answer_has_no_more_rows_than_asked_for_and_says_so(sql_read):
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    answer = sql_read().query(f"{many} LIMIT 5000")
    assert (answer["count"], answer["complete"]) == (1000, False)
    assert sql_read().query(f"{many} LIMIT 1000")["complete"]
    assert sql_read().query(many, limit=3)["rows"] == [[1], [2], [3]]
    assert sql_read(max_rows=2).query(many)["count"] == 2
    with pytest.raises(ArgumentRefused):
        sql_read(max_rows=2).query(many, limit=3)


WRITING = [
    "INSERT INTO orders (region) VALUES ('x')",
    "UPDATE orders SET region = 'x'",
    "DELETE FROM orders",
    "INSERT INTO orders (region) VALUES ('x') RETURNING id",
    "WITH x AS (SELECT 1) DELETE FROM orders",
    "DROP TABLE orders",
    "DROP VIEW by_region",
    "ALTER TABLE orders ADD COLUMN more",
    "CREATE TABLE more (x)",
    "CREATE TEMP TABLE more (x)",
    "CREATE TEMP VIEW more AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON orders BEGIN DELETE FROM orders; END",
    "CREATE VIRTUAL TABLE more USING fts5(x)",
    "CREATE INDEX i ON orders (region)",
    "REINDEX",
    "VACUUM",
    "VACUUM INTO '/tmp/copy.db'",
    "ANALYZE",
    "ATTACH DATABASE '/etc/passwd' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH DATABASE main",
    "BEGIN",
    "BEGIN EXCLUSIVE",
    "COMMIT",
    "SAVEPOINT s",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA database_list",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA hard_heap_limit = 0",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('/tmp/evil.so')",
    "SELECT LOAD_EXTENSION('/tmp/evil.so', 'x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1; SELECT 2",
    "EXPLAIN DELETE FROM orders",
    "/* a comment */ DELETE FROM orders",
    "-- a comment\nDELETE FROM orders",
]


@pytest.mark.parametrize("sql", WRITING)
def test_whatever_does_more_than_read_is_refused_and_changes_nothing(sql, sql_read, path):
    before = path.read_bytes()
    with pytest.raises(PluginFault) as refused:
        sql_read().query(sql)
    assert type(refused.value) in {QueryRefused, QueryFailed}
    assert str(path.parent) not in str(refused.value)
    assert path.read_bytes() == before
    assert {one.name for one in path.parent.iterdir()} == {path.name}


def test_each_wall_holds_without_the_other(path, monkeypatch):
    from kagura_kernel.plugins.sdk import sqlite

    before = path.read_bytes()
    monkeypatch.setattr(sqlite, "_authorize", lambda *_: sqlite3.SQLITE_OK)
    for sql in ("DELETE FROM orders RETURNING id", "UPDATE orders SET region = 'x' RETURNING id"):
        with pytest.raises(QueryRefused):
            SqliteDatabase(str(path)).query(sql, [], 10)
    for sql in ("ATTACH ':memory:' AS other", "SELECT load_extension('x')"):
        with pytest.raises(QueryFailed):
            SqliteDatabase(str(path)).query(sql, [], 10)
    assert path.read_bytes() == before


def test_a_view_cannot_smuggle_in_what_a_statement_may_not(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE VIEW evil AS SELECT load_extension('x') AS a")
        connection.execute("CREATE VIEW listed AS SELECT name FROM pragma_database_list")
        connection.commit()
    for view in ("evil", "listed"):
        with pytest.raises((QueryRefused, QueryFailed)):
            SqliteDatabase(str(path)).query(f"SELECT * FROM {view}", [], 10)


ENDLESS = [
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_a_statement_without_end_is_stopped(sql, path):
    # A second for every look at the time: no test waits.
    seconds = iter(range(10_000))
    with pytest.raises(QueryTimeout):
        SqliteDatabase(str(path), seconds=5, now=lambda: float(next(seconds))).query(sql, [], 10)


LONG = "printf('%.*c', 4000000, 'a')"
HALF = "printf('%.*c', 2000000, 'a') || 'b'"


@pytest.mark.parametrize("sql", [f"SELECT length(replace({LONG}, {HALF}, ''))", f"SELECT instr({LONG}, {HALF})"])
def test_one_step_that_takes_hours_is_ended_and_the_next_statement_runs(sql, path):
    database = SqliteDatabase(str(path), seconds=0.5)
    with pytest.raises(QueryTimeout):
        database.query(sql, [], 10)
    # It has half a second as well, which a busy machine may not give it at once.
    wait_until(lambda: answers(database))


def answers(database: SqliteDatabase) -> bool:
    try:
        return database.query("SELECT 1", [], 10)["rows"] == [[1]]
    except QueryTimeout:
        return False


MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 400)"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(1000000000)",
        "SELECT randomblob(100000000)",
        "SELECT replace(hex(zeroblob(1000000)), '0', 'xxxxxxxxxxxxxxxx')",
        f"{MANY} SELECT i, randomblob(1000000) AS b FROM n ORDER BY b",
        f"{MANY} SELECT length(group_concat(hex(randomblob(100000)))) FROM n",
        "SELECT hex(zeroblob(1200000))",
    ],
)
def test_a_statement_does_not_get_all_memory(sql, sql_read):
    with pytest.raises(TooLarge):
        sql_read().query(sql)


def test_an_answer_as_a_whole_is_bounded(sql_read):
    answer = sql_read().query(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 900) SELECT hex(zeroblob(5000)) FROM n"
    )
    assert not answer["complete"]
    assert 1 < answer["count"] < 250
    assert len(json.dumps(answer)) < 2.1 * 2**20


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT * FROM no_such", "SELECT no_such FROM orders", "SELECT ?", "", "  "]
)
def test_what_the_database_does_not_take_is_told_in_its_words(sql, sql_read):
    with pytest.raises((QueryFailed, ArgumentRefused)) as failed:
        sql_read().query(sql)
    assert str(failed.value)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (None, []),
        (b"SELECT 1", []),
        ("SELECT 1\0; DROP TABLE orders", []),
        ("SELECT " + "1," * 40_000 + "1", []),
        ("SELECT ?", "x"),
        ("SELECT ?", {"a": 1}),
        ("SELECT ?", [[1]]),
        ("SELECT ?", [{"a": 1}]),
        ("SELECT ?", [2**63]),
        ("SELECT ?", [10**400]),
        ("SELECT ?", ["x" * 300_000]),
        ("SELECT ?", ["\ud800"]),
        ("SELECT 1", [1] * 257),
    ],
)
def test_odd_arguments_are_refused(sql, parameters, sql_read):
    with pytest.raises(ArgumentRefused):
        sql_read().query(sql, parameters)


def test_values_that_json_does_not_have_come_in_another_form(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE odd (v)")
        connection.executemany("INSERT INTO odd VALUES (?)", [(9e999,), (2**53 + 1,), (-(2**63),), (2**53,), ("\n",)])
        connection.commit()
    rows = SqliteDatabase(str(path)).query("SELECT v FROM odd", [], 10)["rows"]
    assert [row[0] for row in rows] == ["inf", str(2**53 + 1), str(-(2**63)), 2**53, "\n"]


def test_a_text_that_is_none_is_told(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO orders (region) VALUES (CAST(x'ff' AS TEXT))")
        connection.commit()
    with pytest.raises(QueryFailed):
        SqliteDatabase(str(path)).query("SELECT region FROM orders", [], 10)


# ---------------------------------------------------------------- other writers


@pytest.fixture
def log(path: Path) -> Iterator[sqlite3.Connection]:
    """A writer with a write-ahead log that is not brought into the file before it is told so."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


def alone(path: Path, folder: Path) -> Path:
    """The same file as a jail sees it: without what lies beside it."""
    folder.mkdir()
    os.link(path, folder / "0")
    return folder / "0"


def test_a_database_with_a_log_is_read_as_of_its_last_checkpoint_and_says_so(log, path, tmp_path):
    database = SqliteDatabase(str(alone(path, tmp_path / "jail")))
    log.execute("INSERT INTO orders (region) VALUES ('new')")
    answer = database.query("SELECT count(*) FROM orders", [], 10)
    assert (answer["rows"], answer["note"]) == ([[3]], BEHIND)
    log.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    answer = database.query("SELECT count(*) FROM orders", [], 10)
    assert (answer["rows"], answer["note"]) == ([[4]], BEHIND)


def test_a_file_that_changes_while_it_is_read_is_read_again(log, path, tmp_path, monkeypatch):
    database = SqliteDatabase(str(alone(path, tmp_path / "jail")))
    real = database._once
    times = []

    def meanwhile(*arguments: object, **named: object) -> object:
        answer = real(*arguments, **named)
        times.append(answer)
        if len(times) < 3:
            log.execute("INSERT INTO orders (region) VALUES ('new')")
            log.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return answer

    monkeypatch.setattr(database, "_once", meanwhile)
    assert database.query("SELECT count(*) FROM orders", [], 10)["rows"] == [[5]]
    assert len(times) == 3


def test_a_file_that_never_rests_is_given_up(log, path, tmp_path, monkeypatch):
    database = SqliteDatabase(str(alone(path, tmp_path / "jail")))
    real = database._once

    def meanwhile(*arguments: object, **named: object) -> object:
        answer = real(*arguments, **named)
        log.execute("INSERT INTO orders (region) VALUES ('new')")
        log.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return answer

    monkeypatch.setattr(database, "_once", meanwhile)
    with pytest.raises(DatabaseUnavailable, match="too often"):
        database.query("SELECT count(*) FROM orders", [], 10)


# In a process of its own, as beside a jail.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
for _ in range(20):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE orders SET total = total + 1 WHERE id = 1")
    connection.execute("UPDATE orders SET total = total - 1 WHERE id = 3")
    connection.execute("COMMIT")
"""


def test_many_threads_read_beside_a_writer(path):
    database = SqliteDatabase(str(path))
    sums = []

    def read() -> None:
        for _ in range(20):
            sums.extend(database.query("SELECT sum(total) FROM orders", [], 1)["rows"][0])

    threads = [threading.Thread(target=read) for _ in range(4)]
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) as writer:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert writer.returncode == 0
    assert set(sums) == {4.5}
    assert len(sums) == 80


# ----------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"url": ""},
        {"url": "mysql://host/db"},
        {"url": "http://example.com/db"},
        {"url": "/just/a/path"},
        {"url": "postgresql://user:password@127.0.0.1:5432/db"},
        {"url": "postgresql://127.0.0.1/db"},
        {"url": "postgresql://a,b:5432/db"},
        {"url": "postgresql:///db?host=/run"},
    ],
    ids=str,
)
def test_a_url_that_is_no_database_is_refused_without_its_password(config):
    with pytest.raises(ConfigRefused) as refused:
        functions_of("sql-read", config)
    assert "password@" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "text").write_text("this is no database " * 10)
    os.mkfifo(tmp_path / "fifo")
    for name in ("text", "fifo", "missing", "."):
        with pytest.raises(DatabaseUnavailable) as refused:
            functions_of("sql-read", {"url": f"sqlite:///{tmp_path}/{name}"})
        assert str(tmp_path) not in str(refused.value)


def test_a_damaged_database_is_told_so(path):
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(bytes(data))
    with pytest.raises((DatabaseUnavailable, QueryFailed)):
        SqliteDatabase(str(path)).query("SELECT * FROM orders", [], 10)
