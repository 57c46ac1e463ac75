"""The fake of the Memory Cloud speaks as the service's own client expects, and our memory as that client writes."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kagura_kernel.domain.memory import Edge, Query, Tier
from kagura_kernel.memory.cloud.store import CloudMemory
from kagura_kernel.memory.cloud.wire import CloudAccess
from kagura_kernel.testing.conformance.memory_rig import draft
from tests.support.memory_cloud.server import CONTEXT, KEY, FakeMemoryCloudServer


@pytest.fixture
def server() -> Iterator[FakeMemoryCloudServer]:
    with FakeMemoryCloudServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeMemoryCloudServer) -> AsyncIterator[Any]:
    oracle = pytest.importorskip("kagura_memory")
    async with oracle.KaguraClient(api_key=KEY, mcp_url=server.mcp_url) as opened:
        yield opened


@pytest.fixture
def memory(server: FakeMemoryCloudServer) -> Iterator[CloudMemory]:
    store = CloudMemory(CloudAccess(server.mcp_url, CONTEXT, KEY))
    yield store
    store.close()


async def test_the_services_own_client_remembers_recalls_and_references_on_the_fake(client: Any) -> None:
    kept = await client.remember(CONTEXT, "The harbour opens at six", "From May on.", tags=["harbour"], importance=0.7)
    found = await client.recall(CONTEXT, "harbour", filters={"trust_tier": "trusted", "tags": ["harbour"]})
    assert [row["memory_id"] for row in found["results"]] == [kept["memory_id"]]
    told = await client.reference(CONTEXT, kept["memory_id"])
    assert told["memory"]["content"] == "From May on."
    listed = await client.list_memories(CONTEXT)
    assert [row.id for row in listed.memories] == [kept["memory_id"]]


async def test_the_services_own_client_pins_rates_joins_and_forgets_on_the_fake(client: Any) -> None:
    one = (await client.remember(CONTEXT, "The first of the two", "One.", delivery_mode="always"))["memory_id"]
    two = (await client.remember(CONTEXT, "The second of the two", "Two."))["memory_id"]
    pinned = await client.load_pinned(CONTEXT)
    assert [row["memory_id"] for row in pinned["memories"]] == [one]
    await client.update_memory(CONTEXT, one, delivery_mode="on_recall")
    assert (await client.load_pinned(CONTEXT))["memories"] == []
    await client.feedback(CONTEXT, one, helpful=True)
    edge = await client.create_edge(CONTEXT, one, two, "depends_on", 0.5)
    assert (edge.edge_type, edge.weight) == ("depends_on", 0.5)
    assert (await client.update_edge(CONTEXT, one, two, weight=0.75)).weight == 0.75
    assert [one.target_id for one in await client.list_edges(CONTEXT, two)] == [two]
    assert (await client.explore(CONTEXT, one))["exploration"]["related_memories"][0]["memory_id"] == two
    assert await client.delete_edge(CONTEXT, one, two)
    assert (await client.forget(CONTEXT, one))["deleted_count"] == 1
    await client.set_state(CONTEXT, "step", 3)
    assert (await client.get_state(CONTEXT, "step"))["value"] == 3


async def test_the_services_own_client_understands_how_the_fake_says_no(client: Any, server: Any) -> None:
    import kagura_memory.exceptions as told

    nowhere = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(told.KaguraNotFoundError):
        await client.reference(CONTEXT, nowhere)
    with pytest.raises(told.KaguraNotFoundError):
        await client.load_pinned(nowhere)
    with pytest.raises(told.KaguraError, match="10-500"):
        await client.remember(CONTEXT, "too short", "x")
    one = (await client.remember(CONTEXT, "The first of the two", "One."))["memory_id"]
    two = (await client.remember(CONTEXT, "The second of the two", "Two."))["memory_id"]
    with pytest.raises(told.KaguraError, match="edge_type must be one of"):
        await client.create_edge(CONTEXT, one, two, "prevents")
    server.drop_sessions()
    assert (await client.load_pinned(CONTEXT))["memories"] == []
    assert (await client.get_server_info()).version == server.version


async def test_a_wrong_key_is_refused_as_the_services_own_client_expects(server: FakeMemoryCloudServer) -> None:
    oracle = pytest.importorskip("kagura_memory")
    async with oracle.KaguraClient(api_key="wrong", mcp_url=server.mcp_url) as client:
        with pytest.raises(oracle.KaguraAuthError):
            await client.load_pinned(CONTEXT)


async def test_the_services_own_client_reads_what_our_memory_writes(client: Any, memory: CloudMemory) -> None:
    one = memory.remember(draft("The crane is repaired on Mondays.", tags=("crane",), pinned=True, importance=0.75))
    two = memory.remember(draft("Order the crane's rope early.", tier=Tier.QUARANTINE))
    memory.create_edge(Edge(two.id, one.id, "prevents", 0.5))
    told = (await client.reference(CONTEXT, one.id.removeprefix("mem-")))["memory"]
    assert (told["content"], told["importance"]) == ("The crane is repaired on Mondays.", 0.75)
    assert set(told["tags"]) == {"crane", "kagura-trusted"}
    assert [row["memory_id"] for row in (await client.load_pinned(CONTEXT))["memories"]] == [told["memory_id"]]
    (edge,) = await client.list_edges(CONTEXT, two.id.removeprefix("mem-"))
    assert (edge.edge_type, edge.weight) == ("related_to", 0.5)


async def test_our_memory_reads_what_the_services_own_client_writes(client: Any, memory: CloudMemory) -> None:
    kept = await client.remember(
        CONTEXT, "The rope is kept in shed four", "Ask Bob for its key.", type="fact", tags=["Rope", "shed"]
    )
    (found,) = memory.recall(Query("rope"))
    assert (found.memory.id, found.memory.type) == (f"mem-{kept['memory_id']}", "fact")
    assert (found.memory.text, found.memory.tier) == ("Ask Bob for its key.", Tier.QUARANTINE)
    memory.erase(found.memory.id)
    assert (await client.recall(CONTEXT, "rope"))["results"] == []
