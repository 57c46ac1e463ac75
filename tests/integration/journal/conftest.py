"""The same promises on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.postgres_network import PostgresServer, postgres_server, why_not


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "home")
        return
    server: PostgresServer = request.getfixturevalue("server")
    url = server.lend()
    yield url
    server.give_back(url)


@pytest.fixture
def open_journal(where: str) -> Iterator[Callable[[], Journal]]:
    """Opens the journal once more, as another process would."""
    opened: list[Journal] = []

    def again() -> Journal:
        opened.append(Journal.open(where))
        return opened[-1]

    yield again
    for journal in opened:
        journal.close()


@pytest.fixture
def journal(open_journal: Callable[[], Journal]) -> Journal:
    return open_journal()


@pytest.fixture
def mailbox(journal: Journal) -> Mailbox:
    return Mailbox(journal)
