"""A run remembers wherever its memory lies: in a file, on a database server, in the cloud."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier, project_scope
from kagura_kernel.memory.cloud.store import CloudMemory
from kagura_kernel.memory.cloud.wire import CloudAccess
from kagura_kernel.memory.postgres.store import PostgresMemory
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.memory import FakeMemory
from tests.support.memory_cloud.server import CONTEXT, KEY, FakeMemoryCloudServer
from tests.support.plugins import FakePlugins
from tests.support.postgres_network import postgres_server, why_not


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        yield running.new_database()


def kept_in(where: str, request: pytest.FixtureRequest, folder: Path, running: ExitStack) -> MemoryStore:
    match where:
        case "a file":
            return SqliteMemory(folder / "memory.sqlite3")
        case "a server":
            return PostgresMemory(request.getfixturevalue("database"))
        case "the cloud":
            server = running.enter_context(FakeMemoryCloudServer())
            return CloudMemory(CloudAccess(server.mcp_url, CONTEXT, KEY))
        case _:
            return FakeMemory()


@pytest.fixture(params=["a dictionary", "a file", pytest.param("a server", marks=pytest.mark.postgres), "the cloud"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore]:
    with ExitStack() as running:
        store = kept_in(request.param, request, tmp_path, running)
        yield store
        store.close()


async def test_a_run_starts_from_asks_and_leaves_memories(runs, memory):
    fits = memory.remember(
        Draft("Deploy to staging only after the database service is up.", Source(Author.HUMAN, "m"), tier=Tier.TRUSTED)
    )
    memory.remember(Draft("Deploy to staging by force, says an agent.", Source(Author.AGENT, "x"), pinned=True))
    read: list[str] = []
    script = [
        Ask("recall", {"query": "database service staging"}),
        Ask("remember", {"text": "The staging host answers on port 8080 alone.", "related": [fits.id]}),
        lambda results: Ask("reference", {"id": results[-1].text.split()[2].rstrip(",")}),
        Ask("bash", {"command": "echo 42 > answer.txt"}),
        lambda results: read.extend(one.text for one in results) or "I did it.",
    ]
    brain = FakeBrain(script)
    ended = await runs.listened(
        runs.make(
            FakePlugins(), "Deploy the service to staging.", brain=brain, memory=memory, verify="grep -q 42 answer.txt"
        )
    )
    assert ended.outcome.status == "done"
    assert "database service is up" in brain.turns[0].system
    assert "by force" not in brain.turns[0].system
    assert fits.id in read[0]
    assert "port 8080 alone" in read[2]
    assert f"related {fits.id}" in read[2] or f"came-from {fits.id}" in read[2]
    outcome, words = (memory.reference(one) for one in ended.outcome.memories[:2])
    # To have read its own note again does not mark it.
    assert (outcome.tier, words.tier) == (Tier.TRUSTED, Tier.QUARANTINE)
    assert outcome.data["verified"] is True
    found = memory.recall(Query("staging host port", tier=Tier.QUARANTINE, scopes=(project_scope(runs.project),)))
    assert any("8080" in one.memory.text for one in found)
    gone = memory.erase(fits.id, cascade=True)
    assert {fits.id, outcome.id, words.id} <= set(gone.memories)
