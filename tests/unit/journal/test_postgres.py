"""What the driver is asked for when a journal, or a memory, lies on a server."""

from typing import Any

import pytest

from kagura_kernel.domain.errors import JournalUnwritable, MemoryUnavailable
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.postgres.store import PostgresMemory
from kagura_kernel.memory.store import ready

psycopg = pytest.importorskip("psycopg")
URL = "postgresql://olga@db.example.org/kagura"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the last connection was asked for; there is none to be had."""
    words: dict[str, Any] = {}

    def connect(*_: object, **given: object) -> None:
        words.clear()
        words.update(given)
        raise psycopg.OperationalError

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    return words


def open_journal(url: str) -> None:
    with pytest.raises(JournalUnwritable):
        Journal.open(url, create=False)


def open_memory(url: str) -> None:
    with pytest.raises(MemoryUnavailable):
        ready(PostgresMemory(url))


@pytest.mark.parametrize("open_it", [open_journal, open_memory])
def test_a_server_that_vanishes_without_hanging_up_is_waited_for_as_long_as_a_run_can_bear(asked, open_it):
    open_it(URL)
    # It would be a quarter of an hour for what was sent, and two hours where nothing was.
    assert 5_000 <= int(asked["tcp_user_timeout"]) <= 30_000
    assert int(asked["keepalives_idle"]) <= 30
    open_it(f"{URL}?tcp_user_timeout=90000")
    assert asked["tcp_user_timeout"] == "90000"
    assert int(asked["keepalives_idle"]) <= 30


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('FATAL:  password authentication failed for user "olga"', "refuses the password; correct it in `journal_url`"),
        ("fe_sendauth: no password supplied", "asks for a password, and there is none in `journal_url`"),
    ],
)
def test_a_password_that_was_changed_is_named_with_where_it_is_kept(said, told, monkeypatch):
    def connect(*_: object, **__: object) -> None:
        raise psycopg.OperationalError(
            f'connection failed: connection to server at "127.0.0.1", port 5432 failed: {said}'
        )

    monkeypatch.setattr(psycopg.Connection, "connect", connect)
    with pytest.raises(JournalUnwritable) as caught:
        Journal.open(URL, create=False)
    assert told in caught.value.message
