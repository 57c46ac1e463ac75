"""`sql-read` and a real PostgreSQL server: what it reads, what it refuses, and that no password is in the jail."""

import asyncio
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from kagura_kernel.domain.errors import PluginFailed
from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.membrane.postgres.port import PostgresParts, open_service
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.sdk import (
    DatabaseUnavailable,
    NotFound,
    PluginFault,
    QueryFailed,
    QueryRefused,
    QueryTimeout,
    TooLarge,
)
from kagura_kernel.plugins.sdk.postgres import PostgresDatabase
from tests.support.postgres_network import PASSWORD, NetworkPostgres, postgres_network, why_not

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]

USER = "trust_user"
SET_UP = """
CREATE TABLE odd (i bigint, d numeric, t timestamptz, b bytea, j jsonb, a int[], u uuid, f float8, n text);
INSERT INTO odd VALUES (9007199254740993, 1.10, '2025-01-02 03:04:05+00', '\\x00ff', '{"a": [1, null]}', '{1,2}',
  '00000000-0000-0000-0000-000000000001', 'NaN', NULL);
CREATE VIEW seen AS SELECT 1 AS one;
CREATE TABLE keyed (id int PRIMARY KEY, "Name with 'signs'" text NOT NULL);
CREATE SEQUENCE steps;
CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN INSERT INTO keyed VALUES (1, 'x'); RETURN 1; END $$;
ALTER TABLE odd OWNER TO trust_user; ALTER TABLE keyed OWNER TO trust_user; ALTER VIEW seen OWNER TO trust_user;
GRANT ALL ON SEQUENCE steps TO trust_user;
CREATE TABLE not_theirs (x int)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NetworkPostgres]:
    with postgres_network() as running:
        running.ask(SET_UP, USER)
        yield running


@pytest.fixture
def database(server: NetworkPostgres) -> Callable[..., PostgresDatabase]:
    """The database without a membrane in between, so that what refuses is the plugin's own."""
    url = f"postgresql://{USER}@127.0.0.1:{server.port}/{USER}?sslmode=disable"
    return lambda **arguments: PostgresDatabase(url, **arguments)


def test_rows_are_read_with_parameters_and_a_limit(database):
    answer = database().query("SELECT n FROM numbers WHERE n > $1 AND n % $2 = 0 ORDER BY n", [10, 7], 3)
    assert answer == {"columns": ["n"], "rows": [[14], [21], [28]], "count": 3, "complete": False}
    assert database().query("SELECT n FROM numbers", [], 1000)["complete"]
    assert database().query("VALUES (1, 'a%s'), (2, '%%')", [], 10)["rows"] == [[1, "a%s"], [2, "%%"]]
    assert database().query("SELECT $1::text", ["x' OR '1'='1"], 10)["rows"] == [["x' OR '1'='1"]]
    assert database().query("WITH x AS (SELECT 1 AS a) TABLE x", [], 10)["rows"] == [[1]]


def test_values_come_as_json_has_them(database):
    assert database().query("SELECT * FROM odd", [], 10)["rows"] == [
        [
            "9007199254740993",
            "1.10",
            "2025-01-02T03:04:05+00:00",
            {"base64": "AP8="},
            {"a": [1, None]},
            [1, 2],
            "00000000-0000-0000-0000-000000000001",
            "nan",
            None,
        ]
    ]


def test_tables_and_columns_are_told(database):
    found = database().tables()
    assert found == {
        "tables": [
            {"schema": "public", "name": "keyed", "kind": "table"},
            {"schema": "public", "name": "numbers", "kind": "table"},
            {"schema": "public", "name": "odd", "kind": "table"},
            {"schema": "public", "name": "seen", "kind": "view"},
        ],
        "complete": True,
    }
    assert database().columns("public.keyed")["columns"] == [
        {"name": "id", "type": "integer", "nullable": False, "primary_key": True},
        {"name": "Name with 'signs'", "type": "text", "nullable": False, "primary_key": False},
    ]
    for name in ("no_such", "keyed'; DROP TABLE keyed; --", "a.b.c.d.e"):
        with pytest.raises(NotFound):
            database().columns(name)


WRITING = [
    "INSERT INTO keyed VALUES (1, 'x')",
    "INSERT INTO keyed VALUES (1, 'x') RETURNING id",
    "WITH x AS (INSERT INTO keyed VALUES (1, 'x') RETURNING id) SELECT * FROM x",
    "UPDATE keyed SET id = 2",
    "DELETE FROM numbers",
    "TRUNCATE numbers",
    "DROP TABLE numbers",
    "CREATE TABLE more (x int)",
    "CREATE TEMP TABLE more (x int)",
    "SELECT * INTO more FROM numbers",
    "SELECT nextval('steps')",
    "SELECT setval('steps', 7)",
    "SELECT sneaky()",
    "SELECT * FROM numbers FOR UPDATE",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SET TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "RESET ALL",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "COPY numbers TO STDOUT",
    "COPY numbers FROM STDIN",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "DO $$ BEGIN DELETE FROM numbers; END $$",
    "CALL sneaky()",
    "LISTEN x",
    "NOTIFY x",
    "LOCK TABLE numbers",
    "VACUUM",
    "EXPLAIN ANALYZE DELETE FROM numbers",
    "PREPARE x AS DELETE FROM numbers",
    "SELECT 1; COMMIT; DELETE FROM numbers",
    "SELECT 1; SELECT 2",
    "SELECT 1) TO STDOUT; DELETE FROM numbers; --",
    "SELECT pg_read_file('/etc/passwd')",
]


def state(server: NetworkPostgres) -> list[Any]:
    return [
        server.ask("SELECT count(*), sum(n) FROM numbers", USER),
        server.ask("SELECT count(*) FROM keyed", USER),
        server.ask("SELECT last_value, is_called FROM steps", USER),
        server.ask("SELECT count(*) FROM pg_class", USER),
        server.ask("SELECT count(*) FROM pg_largeobject_metadata", USER),
    ]


@pytest.mark.parametrize("sql", WRITING)
def test_whatever_does_more_than_read_is_refused_and_changes_nothing(sql, database, server):
    before = state(server)
    with pytest.raises(PluginFault) as refused:
        database().query(sql, [], 10)
    assert type(refused.value) in {QueryRefused, QueryFailed}, refused.value
    assert state(server) == before


def test_what_a_server_takes_for_reading_and_is_not_does_not_last(database, server):
    # Up to version 15 a large object can be made in a transaction that is READ ONLY.
    before = state(server)
    with suppress(PluginFault):
        database().query("SELECT lo_create(0), lo_from_bytea(0, 'x')", [], 1)
    assert state(server) == before


def test_nothing_that_one_call_sets_lasts_to_the_next(database):
    database().query("SELECT set_config('statement_timeout', '0', false)", [], 1)
    found = database(seconds=3).query("SELECT current_setting('statement_timeout')", [], 1)["rows"]
    assert found == [["3s"]]


def test_a_statement_without_end_is_stopped_by_the_server(database):
    with pytest.raises(QueryTimeout):
        database(seconds=0.2).query("SELECT count(*) FROM generate_series(1, 100000000000)", [], 1)
    with pytest.raises(QueryTimeout):
        database(seconds=0.2).query("SELECT set_config('statement_timeout', '0', true), pg_sleep(1000)", [], 1)


def test_an_answer_as_a_whole_is_bounded(database):
    answer = database().query("SELECT repeat('x', 5000) FROM numbers", [], 1000)
    assert not answer["complete"]
    assert 100 < answer["count"] < 500
    with pytest.raises(TooLarge):
        database().query("SELECT repeat('x', 3000000)", [], 10)


def test_json_that_nests_without_end_becomes_text(database):
    deep = "[" * 60 + "]" * 60
    ((value,),) = database().query("SELECT $1::jsonb", [deep], 1)["rows"]
    depth = 0
    while isinstance(value, list):
        depth, value = depth + 1, value[0]
    assert depth < 20
    assert isinstance(value, str)


def test_what_the_server_does_not_take_is_told_in_its_words(database):
    with pytest.raises(QueryFailed, match='relation "no_such" does not exist'):
        database().query("SELECT * FROM no_such", [], 1)
    with pytest.raises(QueryFailed, match="permission denied"):
        database().query("SELECT * FROM not_theirs", [], 1)
    for sql, parameters in (("SELECT $2", [1]), ("SELECT $1::int", ["x"]), ("SELECT $1", [])):
        with pytest.raises(PluginFault):
            database().query(sql, parameters, 1)


def test_nobody_who_answers_is_told_so(server):
    here = f"127.0.0.1:{server.port}"
    for place in (f"{USER}@127.0.0.1:1/{USER}", f"nobody@{here}/x", f"{USER}@{here}/x"):
        with pytest.raises(DatabaseUnavailable) as failed:
            PostgresDatabase(f"postgresql://{place}").query("SELECT 1", [], 1)
        assert "127.0.0.1" not in str(failed.value)


async def test_a_server_that_falls_silent_is_left(monkeypatch):
    monkeypatch.setattr("kagura_kernel.plugins.sdk.postgres._MARGIN", 0.0)
    hung_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        # The session is open, and ready for a query.
        writer.write(b"R\0\0\0\x08\0\0\0\0" + b"Z\0\0\0\x05I")
        while await reader.read(1024):
            pass
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    try:
        url = f"postgresql://{USER}@127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        database = PostgresDatabase(url, seconds=0.2)
        with pytest.raises(DatabaseUnavailable):
            await asyncio.to_thread(database.query, "SELECT 1", [], 1)
        await hung_up.wait()
    finally:
        server.close()


def test_many_threads_read_at_once(database):
    found: list[int] = []

    def read() -> None:
        found.extend(database().query("SELECT sum(n)::int FROM numbers", [], 1)["rows"][0])

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [500500] * 6


@contextmanager
def without_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Variables that a client of PostgreSQL would otherwise hear."""
    with monkeypatch.context() as patched:
        patched.setenv("PGPASSWORD", PASSWORD)
        patched.setenv("PGOPTIONS", "-c default_transaction_read_only=off")
        yield


def test_a_password_of_the_environment_does_not_sign_in(server, monkeypatch):
    with without_variables(monkeypatch), pytest.raises(DatabaseUnavailable):
        PostgresDatabase(f"postgresql://scram_user@127.0.0.1:{server.port}/scram_user").query("SELECT 1", [], 1)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not here")
async def test_in_its_jail_it_reads_through_the_membrane_and_has_no_password(enabled, server):
    records: list[object] = []

    async def resolve(host: str, port: int) -> list[str]:
        del port
        return [host]

    async def opened(box: Any, service: Any) -> int:
        return await open_service(box, service, PostgresParts(resolve, records.append, plugin="sql-read"))

    parts = JailParts(lambda _: asyncio.sleep(0), open_service=opened)
    async with enabled("sql-read", parts=parts, url=server.url("scram_user")) as jail:
        answer = await jail.call("sql_read", "query", ["SELECT sum(n)::int, current_user FROM numbers"], {})
        assert answer["rows"] == [[500500, "scram_user"]]
        assert (await jail.call("sql_read", "tables", [], {}))["tables"][0]["name"] == "numbers"
        for sql in ("DELETE FROM numbers", "SELECT 1; DELETE FROM numbers"):
            with pytest.raises(PluginFailed) as failed:
                await jail.call("sql_read", "query", [sql], {})
            assert failed.value.kind in {"QueryRefused", "QueryFailed"}
            assert PASSWORD not in failed.value.text
        assert PASSWORD not in jail.log
    assert server.ask("SELECT count(*) FROM numbers", "scram_user") == [(1000,)]
    assert {fact.plugin for fact in records if isinstance(fact, EgressDecided)} == {"sql-read"}
