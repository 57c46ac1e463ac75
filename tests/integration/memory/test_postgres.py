"""The memory on a real PostgreSQL server: rights, trouble, several processes, and words with a slip."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pytest
from sqlalchemy import create_engine, make_url, text

from kagura_kernel.domain.errors import MemoryUnavailable
from kagura_kernel.domain.memory import Query
from kagura_kernel.journal import patience
from kagura_kernel.memory.postgres.store import PostgresMemory
from kagura_kernel.memory.store import ready
from kagura_kernel.testing.conformance.memory_rig import asked, draft
from tests.support.postgres_network import PostgresServer, postgres_server, why_not

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        yield running


@dataclass
class Database:
    url: str

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        rows: list[tuple[object, ...]] = []
        with engine.connect() as connection:
            for statement in statements:
                told = connection.execute(text(statement))
                rows = [tuple(row) for row in told] if told.returns_rows else []
        engine.dispose()
        return rows

    @property
    def name(self) -> str:
        return str(make_url(self.url).database)

    def as_user(self, name: str) -> str:
        return self.url.replace("//kagura@", f"//{name}@")


@pytest.fixture
def database(server: PostgresServer) -> Database:
    return Database(server.new_database())


@pytest.fixture
def memory(database: Database) -> Iterator[PostgresMemory]:
    store = PostgresMemory(database.url)
    yield store
    store.close()


def refused(url: str) -> str:
    """What the gate says about a URL."""
    with pytest.raises(MemoryUnavailable) as refusal, closing(PostgresMemory(url)) as memory:
        ready(memory)
    assert "hunter2" not in str(refusal.value)
    return str(refusal.value)


# ------------------------------------------------------------------------ finding


def test_words_with_a_slip_are_found_after_those_without(memory):
    memory.remember_many([draft("The lighthouse keeper sleeps."), draft("The harbour master wakes.")])
    found = memory.recall(Query("lihgthouse harbour"))
    assert [one.memory.text for one in found] == ["The harbour master wakes.", "The lighthouse keeper sleeps."]
    assert found[1].score < found[0].score
    assert found[1].why == ("like lihgthouse",)
    assert memory.finds_slips


def test_without_the_right_to_make_the_extension_it_goes_on_without_and_says_so(database):
    database.run(
        "CREATE ROLE plain LOGIN",
        f"REVOKE CREATE ON DATABASE {database.name} FROM PUBLIC",
        "GRANT ALL ON SCHEMA public TO plain",
    )
    memory = PostgresMemory(database.as_user("plain"))
    assert memory.finds_slips is None
    ready(memory)
    assert memory.finds_slips is False
    memory.remember(draft("The lighthouse keeper sleeps."))
    assert asked(memory, "lihgthouse") == []
    assert asked(memory, "lighthouse") == ["The lighthouse keeper sleeps."]
    memory.close()
    database.run("DROP OWNED BY plain", "DROP ROLE plain")


def test_a_word_that_every_row_has_does_not_hide_the_rare_one(memory):
    memory.remember_many([draft(f"The deploy of service{number} went well.") for number in range(21_000)])
    memory.remember(draft("The deploy of the walrus went well."))
    assert asked(memory, "deploy of the walrus", k=1) == ["The deploy of the walrus went well."]
    assert len(asked(memory, "deploy went well", k=7)) == 7
    assert asked(memory, "service17 deploy", k=1) == ["The deploy of service17 went well."]


def test_a_word_that_every_row_has_is_searched_inside_a_rare_scope(memory):
    crowd = [draft(f"The deploy of service{number} went well.") for number in range(21_000)]
    memory.remember_many([*crowd, draft("A deploy in the quiet corner.", scope="project:quiet")])
    assert asked(memory, "deploy", scopes=("project:quiet",)) == ["A deploy in the quiet corner."]


# ------------------------------------------------------------------------ trouble


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://ada:hunter2@host/x", "no scheme of PostgreSQL"),
        ("not a url", "it is no URL"),
        ("postgresql://ada:hunter2@127.0.0.1:1/x", "host and the port"),
        ("postgresql://ada:hunter2@/x?host=/nowhere&password=hunter2", "host and the port"),
        ("postgresql://ada:hunter2@host:port/x", "it is no URL"),
    ],
)
def test_the_gate_says_what_is_wrong_with_a_url_and_not_its_password(url, why):
    told = refused(url)
    assert why in told
    # Neither the driver's name nor its questions.
    assert "psycopg" not in told
    assert "Is the server" not in told


def test_the_gate_says_that_there_is_no_such_database(server):
    assert "createdb" in refused(server.url("nowhere"))


def test_the_gate_says_that_there_is_no_such_user(database):
    assert "it refuses this user" in refused(database.as_user("nobody_here:hunter2"))


def test_the_gate_says_that_it_is_read_only(database):
    database.run(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
    assert "it is read-only" in refused(database.url)


def test_the_gate_says_that_this_user_may_not_write(database, memory):
    ready(memory)
    database.run("CREATE ROLE reader LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    assert "may not write its tables" in refused(database.as_user("reader"))
    database.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_the_gate_says_that_a_newer_package_made_the_tables(database, memory):
    ready(memory)
    database.run("INSERT INTO kagura_memory_version (version) VALUES (99)")
    assert "Upgrade kagura-kernel" in refused(database.url)


def test_a_database_that_cannot_hold_every_script_is_refused(server, database):
    database.run("CREATE DATABASE narrow ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    assert "createdb -E UTF8" in refused(server.url("narrow"))


def test_a_connection_that_was_cut_is_made_again(database, memory):
    kept = memory.remember(draft("Before the cut."))
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
    )
    assert memory.reference(kept.id) == kept


def test_a_server_that_takes_what_is_sent_and_never_answers_is_given_up(database, memory, monkeypatch):
    monkeypatch.setattr(patience, "ANSWER_SECONDS", 0.5)
    memory.remember(draft("The sky is blue."))
    ours = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    frozen = [int(str(pid)) for (pid,) in database.run(ours)]
    try:
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        # The pool asks a connection first whether it lives, and takes a new one where it does not.
        assert memory.recall(Query("sky"))
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


def test_what_fails_in_the_middle_of_many_leaves_nothing(database, memory):
    ready(memory)
    database.run(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.text = 'Number 900.' THEN RAISE 'full' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON kagura_memories FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(MemoryUnavailable, match="disk is full"):
        memory.remember_many([draft(f"Number {number}.") for number in range(1_000)])
    assert memory.counts().memories == 0


# ------------------------------------------------------------------------ several at once


def test_many_that_open_a_fresh_database_at_once_make_its_tables_once(database):
    def work(number: int) -> int:
        store = PostgresMemory(database.url)
        store.remember(draft(f"Opened by {number}."))
        store.close()
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
    assert database.run("SELECT version FROM kagura_memory_version") == [(1,)]
    assert database.run("SELECT count(*) FROM kagura_memories") == [(8,)]


def test_another_process_finds_what_this_one_kept(database, memory):
    memory.remember(draft("Said by the parent, about the pelican."))
    program = textwrap.dedent("""
        import sys
        from kagura_kernel.domain.memory import Query
        from kagura_kernel.memory.postgres.store import PostgresMemory
        store = PostgresMemory(sys.argv[1])
        print(store.recall(Query("pelican"))[0].memory.text)
        store.close()
    """)
    done = subprocess.run([sys.executable, "-c", program, database.url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Said by the parent, about the pelican."


def test_a_process_that_is_killed_in_the_middle_of_many_leaves_nothing(database, memory):
    ready(memory)
    program = textwrap.dedent("""
        import os, signal, sys
        from kagura_kernel.memory.postgres import search, store
        from kagura_kernel.testing.conformance.memory_rig import draft
        written = []
        make = search.row_of
        def dies(memory):
            written.append(memory)
            if len(written) == 900:
                os.kill(os.getpid(), signal.SIGKILL)
            return make(memory)
        store.row_of = dies
        store.PostgresMemory(sys.argv[1]).remember_many([draft(f"Number {n}.") for n in range(1000)])
    """)
    done = subprocess.run([sys.executable, "-c", program, database.url], capture_output=True, check=False)
    assert done.returncode == -9
    assert memory.counts().memories == 0
