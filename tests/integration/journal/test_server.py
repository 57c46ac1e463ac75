"""What only a PostgreSQL server can do to a journal."""

import os
import signal
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.cli import doctor_journal
from kagura_kernel.cli.doctor_journal import books, clock
from kagura_kernel.cli.doctor_rows import FAIL
from kagura_kernel.domain.errors import ConfigurationError, JournalUnreadable, JournalUnwritable
from kagura_kernel.journal import patience
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.postgres_network import PostgresServer, postgres_server, why_not
from tests.support.sample_run import SampleRun

pytestmark = pytest.mark.postgres
RUN = SampleRun()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that a test may stop."""
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        yield running


def as_administrator(url: str, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def asked(url: str, query: str) -> list[Any]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = list(connection.execute(text(query)))
    engine.dispose()
    return found


def test_a_server_that_was_restarted_is_found_again_without_anyone_noticing(own_server):
    journal = Journal.open(own_server.new_database())
    try:
        mailbox = Mailbox(journal)
        journal.append(RUN.started())
        mailbox.post(RUN.request())
        own_server.stop()
        own_server.start()
        assert len(mailbox.pending()) == 1
        assert journal.append(RUN.noted()) == 2
        assert journal.verify().rows == 2
    finally:
        journal.close()


def test_a_server_that_is_gone_stops_the_writing_and_says_so(own_server):
    url = own_server.new_database()
    journal = Journal.open(url)
    try:
        own_server.stop()
        for use in (lambda: journal.append(RUN.noted()), journal.check_writable, lambda: Journal.open(url)):
            with pytest.raises(JournalUnwritable, match=r"cannot be used: [^?]*\w\. Nothing is executed"):
                use()
        with pytest.raises(JournalUnreadable, match=r"cannot be read: [^?]*\w\. Mend the database server"):
            journal.events()
    finally:
        journal.close()
        own_server.start()


def test_a_server_that_takes_what_is_sent_and_never_answers_is_given_up(own_server, monkeypatch):
    monkeypatch.setattr(patience, "ANSWER_SECONDS", 0.5)
    url = own_server.new_database()
    journal = Journal.open(url)
    journal.append(RUN.started())
    ours = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    frozen = [pid for (pid,) in asked(url, ours)]
    try:
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(JournalUnwritable, match=r"the server has not answered for 0\.5 s"):
            journal.append(RUN.noted())
        # A new connection is none of those that froze.
        assert journal.append(RUN.noted()) == 2
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        journal.close()


def test_what_lies_beside_a_journal_elsewhere_is_its_owners_alone(server, tmp_path):
    home = tmp_path / "data" / "kagura"
    make_cockpit({"KAGURA_JOURNAL_URL": server.new_database(), "KAGURA_HOME": str(home), "HOME": str(tmp_path)}).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_connection_that_the_server_ends_in_the_middle_of_a_transaction_leaves_nothing_of_it(server):
    url = server.new_database()
    journal = Journal.open(url)

    def cut_off_between_two_rows() -> None:
        with journal.writing() as writing:
            writing.append(RUN.noted())
            as_administrator(
                url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
            )
            writing.append(RUN.noted())

    try:
        with pytest.raises(JournalUnwritable):
            cut_off_between_two_rows()
        assert journal.append(RUN.noted()) == 1
        assert journal.verify().rows == 1
    finally:
        journal.close()


def test_connections_that_a_server_ends_because_they_idle_are_made_anew(server):
    url = server.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    as_administrator(url, f"ALTER DATABASE {name} SET idle_session_timeout = '100ms'")
    journal = Journal.open(url)
    try:
        for number in range(1, 4):
            assert journal.append(RUN.noted()) == number
            assert len(journal.events()) == number
            assert journal.mark()
            while asked(server.url("postgres"), f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'"):
                time.sleep(0.02)
        assert journal.verify().rows == 3
    finally:
        journal.close()


def test_a_connection_that_the_server_ends_while_a_row_waits_for_its_turn_leaves_nothing_of_it(server):
    url = server.new_database()
    journal, other = Journal.open(url), Journal.open(url)
    try:
        # From here on a row goes to the server in one message with its transaction.
        assert journal.append(RUN.started()) == 1
        with other.writing(), ThreadPoolExecutor(1) as pool:
            appended = pool.submit(journal.append, RUN.counted())
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not other.read(text(waits))[0][0]:
                assert not appended.done()
            as_administrator(
                url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
            with pytest.raises(JournalUnwritable):
                appended.result()
        assert journal.append(RUN.noted()) == 2
        assert journal.verify().rows == 2
    finally:
        other.close()
        journal.close()


def test_a_user_who_may_not_write_is_told_so(server):
    url = server.new_database()
    journal = Journal.open(url)
    as_administrator(url, "CREATE ROLE reader LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = Journal.open(url.replace("kagura@", "reader@"))
    read_only = f"{url}&options=-cdefault_transaction_read_only%3Don"
    replica = Journal.open(read_only)
    try:
        journal.append(RUN.noted())
        assert reader.verify().rows == 1
        with pytest.raises(JournalUnwritable, match="this user has no right to it"):
            reader.append(RUN.noted())
        with pytest.raises(JournalUnwritable, match="it is read-only; name the primary server"):
            replica.append(RUN.noted())
        found = next(books(read_only, RUN.at, full=True))
        assert (found.state, found.then) == (FAIL, "mend the database server, or `journal_url` in the settings")
    finally:
        for each in (reader, replica, journal):
            each.close()
        as_administrator(url, "DROP OWNED BY reader", "DROP ROLE reader")


def test_tables_of_other_programs_in_the_same_database_are_no_obstacle(server):
    url = server.new_database()
    as_administrator(url, "CREATE TABLE events (id INTEGER)", "CREATE TABLE runs (id INTEGER)")
    journal = Journal.open(url)
    try:
        assert journal.append(RUN.started()) == 1
    finally:
        journal.close()


def test_a_journal_whose_tables_are_dropped_says_so(server):
    url = server.new_database()
    journal = Journal.open(url)
    try:
        as_administrator(url, "DROP TABLE journal_events")
        with pytest.raises(JournalUnreadable, match="its tables are gone"):
            journal.append(RUN.noted())
        with pytest.raises(JournalUnreadable, match="its tables are gone"):
            journal.events()
    finally:
        journal.close()


def test_a_database_that_does_not_exist_is_refused(server):
    with pytest.raises(JournalUnwritable, match="does not exist"):
        Journal.open(server.url("nowhere"))


def test_a_clock_that_is_not_the_server_s_is_told(server, monkeypatch):
    url = server.new_database()
    Journal.open(url).close()
    assert clock(url).state == "ok"
    monkeypatch.setattr(doctor_journal, "AHEAD", -timedelta(seconds=1))
    found = clock(url)
    assert (found.state, "Z on the journal's server: each side" in found.said) == ("fail", True)


def test_a_password_is_in_no_message(server):
    place = server.url("nowhere").replace("kagura@", "kagura:hunter2@") + "&password=hunter2&options=hunter2"
    with pytest.raises(JournalUnwritable) as caught:
        Journal.open(place)
    assert "hunter2" not in str(caught.value)
    assert str(server.home) in str(caught.value).replace("%2F", "/")
    with pytest.raises(ConfigurationError) as wrong:
        Journal.open("mysql://kagura:hunter2@db/x?password=hunter2")
    assert "hunter2" not in str(wrong.value)
