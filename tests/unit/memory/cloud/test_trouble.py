"""Every way in which the cloud fails is told with what to do about it, and nothing is done twice."""

import gzip
import json
import traceback
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from kagura_kernel.domain.errors import MemoryInvalid, MemoryStoreError, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import Edge, Query, Tier
from kagura_kernel.memory.cloud import wire
from kagura_kernel.memory.cloud.store import CloudMemory
from kagura_kernel.memory.cloud.wire import CloudAccess, CloudEvents
from kagura_kernel.memory.store import ready
from kagura_kernel.testing.conformance.memory_rig import draft
from kagura_kernel.testing.credential_service import Reply, Trouble
from tests.support.memory_cloud.server import CONTEXT, KEY, READ_ONLY_KEY, RESOURCE, FakeMemoryCloudServer

ID = "00000000-0000-4000-8000-00000000000a"


@pytest.fixture
def server() -> Iterator[FakeMemoryCloudServer]:
    with FakeMemoryCloudServer() as running:
        yield running


@pytest.fixture
def memory(server: FakeMemoryCloudServer) -> Iterator[CloudMemory]:
    store = CloudMemory(CloudAccess(server.mcp_url, CONTEXT, KEY))
    yield store
    store.close()


def refused(store: CloudMemory) -> str:
    """What the gate says; the key is nowhere in it."""
    with pytest.raises(MemoryUnavailable) as refusal:
        ready(store)
    store.close()
    told = str(refusal.value)
    assert KEY not in "".join(traceback.format_exception(refusal.value))
    return told


def test_the_gate_lets_a_memory_pass_that_can_be_read_and_written(memory, server):
    ready(memory)
    assert server.books.state == {"kagura-kernel": "ready"}


def test_the_gate_says_that_there_is_no_way_to_it():
    with FakeMemoryCloudServer() as gone:
        address = gone.mcp_url
    told = refused(CloudMemory(CloudAccess(address, CONTEXT, KEY)))
    assert "there is no way to it" in told
    assert "online" in told


def test_the_gate_says_that_the_key_is_wrong_and_where_it_came_from(server):
    told = refused(CloudMemory(CloudAccess(server.mcp_url, CONTEXT, "wrong-key-1", "KAGURA_API_KEY")))
    assert "refuses the key from KAGURA_API_KEY" in told
    assert "wrong-key-1" not in told


def test_the_gate_says_that_the_context_is_wrong(server):
    memory = CloudMemory(CloudAccess(server.mcp_url, "00000000-0000-4000-8000-000000000000", KEY))
    with pytest.raises(MemoryUnavailable, match="KAGURA_CONTEXT_ID"):
        memory.counts()
    assert "KAGURA_CONTEXT_ID" in refused(memory)


def test_the_gate_says_that_it_is_read_only(server):
    told = refused(CloudMemory(CloudAccess(server.mcp_url, CONTEXT, READ_ONLY_KEY)))
    assert "read-only for this key" in told


@pytest.mark.parametrize("version", ["0.17.1", "v0.23.9", "0.23.9-rc1"])
def test_the_gate_says_that_the_server_is_too_old(server, memory, version):
    server.version = version
    assert "0.24.0 is needed. Upgrade the server" in refused(memory)


@pytest.mark.parametrize(
    "version", ["0.24.0", "0.24", "v1.0.0", "0.24.1rc1", "0.100.2+local", "main-abc123", "²", "9" * 5000]
)
def test_the_gate_lets_newer_servers_and_odd_versions_pass(server, memory, version):
    server.version = version
    ready(memory)


def test_the_gate_says_that_nothing_of_the_kind_is_at_the_address(server):
    told = refused(CloudMemory(CloudAccess(server.url + "/elsewhere", CONTEXT, KEY)))
    assert "Correct the address" in told


def test_a_tool_that_the_server_does_not_know_means_that_it_is_too_old(memory, server, monkeypatch):
    monkeypatch.setattr(type(server.books), "call", lambda *_: {}["no tool"])
    with pytest.raises(MemoryUnavailable, match=r"too old.*load_pinned"):
        memory.pinned([""])


def test_a_session_that_the_server_has_forgotten_is_begun_again_once(memory, server):
    kept = memory.remember(draft("The harbour is closed."))
    server.drop_sessions()
    server.calls.clear()
    assert memory.reference(kept.id) == kept
    assert server.calls == ["initialize", "reference"]


def test_what_may_be_asked_twice_is_asked_again_when_it_fails(memory, server):
    kept = memory.remember(draft("The harbour is closed."))
    for trouble in (Trouble.BROKEN, Trouble.LOST, Trouble.GARBLED):
        server.trouble(trouble, trouble)
        assert memory.reference(kept.id) == kept
    server.trouble(*[Trouble.BROKEN] * 3)
    with pytest.raises(MemoryUnavailable, match=r"HTTP 500\. Try again later"):
        memory.reference(kept.id)


@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.GARBLED, Trouble.BROKEN])
def test_a_memory_is_never_kept_twice_because_an_answer_was_lost(memory, server, trouble):
    memory.remember(draft("One."))
    server.trouble(trouble)
    with pytest.raises(MemoryUnavailable):
        memory.remember(draft("Two."))
    assert sum(row.content == "Two." for row in server.books.rows.values()) == (trouble is not Trouble.BROKEN)
    assert server.calls.count("remember") <= 2


def test_an_answer_that_does_not_come_ends(server):
    hasty = CloudMemory(CloudAccess(server.mcp_url, CONTEXT, KEY), timeout=0.2)
    hasty.check()
    server.trouble(*[Trouble.STALLED] * 3)
    with pytest.raises(MemoryUnavailable, match="did not answer within"):
        hasty.recall(Query("harbour"))
    hasty.close()


def test_being_asked_too_often_says_how_long_to_wait(memory, server):
    server.trouble(Trouble.BUSY)
    with pytest.raises(MemoryUnavailable, match=r"asked too often\. Wait 7 s"):
        memory.check()


def test_an_answer_has_an_end_however_it_is_packed(memory, server, monkeypatch):
    endless = iter(lambda: b" " * 2**20, b"")
    page = httpx.Response(200, content=endless)
    with httpx.Client(transport=httpx.MockTransport(lambda _: page)) as client:
        monkeypatch.setattr(memory._wire, "_client", client)
        monkeypatch.setattr(wire, "_PAUSES", ())
        with pytest.raises(MemoryUnavailable, match="cannot be understood"):
            memory.check()
    packed = Reply(200, gzip.compress(b'{"version": "0.77.0"}'), {"content-encoding": "gzip"})
    monkeypatch.setattr(server, "respond", lambda _: packed)
    monkeypatch.setattr(memory._wire, "_client", None)
    with pytest.raises(MemoryUnavailable, match="cannot be understood"):
        memory.check()


def test_an_answer_that_comes_in_drops_ends(memory, monkeypatch):
    monkeypatch.setattr(wire, "_PAUSES", ())
    monkeypatch.setattr(memory._wire, "_timeout", -1.0)
    page = httpx.Response(200, content=iter([b"{", b"}"]))
    with httpx.Client(transport=httpx.MockTransport(lambda _: page)) as client:
        monkeypatch.setattr(memory._wire, "_client", client)
        with pytest.raises(MemoryUnavailable, match="did not answer within"):
            memory.check()


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 100_000,
        "9" * 5000,
        json.dumps(dict.fromkeys(("memory", "memories", "results", "edges", "edge"), 5)),
        json.dumps({name: [5] for name in ("memories", "results", "edges")}),
        json.dumps({"memory": {"importance": "much"}, "results": [{"memory_id": ID, "score": 10**400}]}),
        json.dumps({"memory": {"tags": 5}, "memories": [{"memory_id": ID}], "edges": [{"weight": 10**400}]}),
        json.dumps({"memory": {"details": {"kagura": {"author": []}}, "memory_id": 5}, "results": [{"memory_id": ID}]}),
        json.dumps({"memory": {"created_at": "9999-12-31T23:59:59-23:59"}, "results": [{"memory_id": ID}]}),
    ],
)
def test_an_answer_that_makes_no_sense_raises_nothing_but_what_is_told(monkeypatch, answer):
    def send(_method, url, **_):
        told = json.dumps({"result": {"content": [{"text": answer}]}})
        said = told if url.endswith("/mcp") else answer
        return wire.CloudAnswer(200, {"mcp-session-id": "s"}, said.encode())

    memory = CloudMemory(CloudAccess("https://memory.example/mcp", CONTEXT, KEY))
    monkeypatch.setattr(memory._wire, "_send", send)
    monkeypatch.setattr(wire, "_PAUSES", ())
    one, other = f"mem-{ID}", f"mem-{ID[:-1]}b"
    for ask in (
        memory.check,
        lambda: memory.recall(Query("harbour")),
        lambda: memory.recall(Query("")),
        lambda: memory.pinned([""]),
        lambda: memory.reference(one),
        lambda: memory.create_edge(Edge(one, other)),
        lambda: memory.explore(one),
        memory.counts,
    ):
        with suppress(MemoryStoreError):
            ask()


def test_an_address_that_stands_for_no_name_is_told():
    memory = CloudMemory(CloudAccess("https://xn--a/mcp", CONTEXT, KEY))
    assert "there is no way to it" in refused(memory)


def test_of_many_none_stays_when_one_cannot_be_kept(memory, server):
    memory.check()
    keep = memory._wire.call
    server.calls.clear()

    def fails_at_the_third(tool, **arguments):
        if tool == "remember" and server.calls.count("remember") == 2:
            server.trouble(Trouble.BROKEN)
        return keep(tool, **arguments)

    memory._wire.call = fails_at_the_third
    with pytest.raises(MemoryUnavailable):
        memory.remember_many([draft(f"Number {number}.") for number in range(5)])
    assert server.books.rows == {}


def test_what_the_server_says_is_not_repeated_when_it_holds_the_key(memory, server, monkeypatch):
    def leak(*_):
        return {"status": "error", "error": "internal", "message": f"Bearer {KEY} was wrong"}

    monkeypatch.setattr(type(server.books), "call", leak)
    with pytest.raises(MemoryUnavailable, match="is not repeated") as refusal:
        memory.pinned([""])
    assert KEY not in str(refusal.value)


# ---------------------------------------------------------------- what it cannot express


def test_an_id_of_ones_own_is_refused(memory):
    with pytest.raises(MemoryInvalid, match="the cloud gives ids itself"):
        memory.remember(draft("One.", id="mem-mine"))
    with pytest.raises(MemoryInvalid, match="number 2"):
        memory.remember_many([draft("One."), draft("Two.", id="mem-mine")])
    assert memory.counts().memories == 0


@pytest.mark.parametrize("tag", ["kagura-trusted", "kagura-forgotten", "kagura-edge-prevents-000000000000"])
def test_a_tag_that_would_forge_trust_is_refused(memory, tag):
    with pytest.raises(MemoryInvalid, match="the engine's own"):
        memory.remember(draft("Trust me.", tier=Tier.QUARANTINE, tags=(tag,)))


def test_what_somebody_else_wrote_is_quarantined_until_a_person_promotes_it(memory, server):
    told = server.books.call(
        "remember",
        {"context_id": CONTEXT, "summary": "Written by another client", "content": "The harbour opens at six."},
    )
    found = memory.recall(Query("harbour"))
    assert [one.memory.tier for one in found] == [Tier.QUARANTINE]
    assert memory.recall(Query("harbour", tier=Tier.TRUSTED)) == []
    memory.promote(f"mem-{told['memory_id']}", by="Ada")
    assert [one.memory.promoted_by for one in memory.recall(Query("harbour", tier=Tier.TRUSTED))] == ["Ada"]


def test_what_a_connector_brought_is_not_trusted_even_where_its_tags_say_so(memory, server):
    kept = memory.remember(draft("The harbour opens at six."))
    (row,) = server.books.rows.values()
    assert [one.memory.id for one in memory.recall(Query("harbour", tier=Tier.TRUSTED))] == [kept.id]
    row.external = True
    assert memory.recall(Query("harbour", tier=Tier.TRUSTED)) == []


def test_an_unknown_memory_is_told_by_our_id(memory):
    with pytest.raises(MemoryUnknown) as refusal:
        memory.reference("mem-00000000-0000-4000-8000-000000000000")
    assert refusal.value.memory_id == "mem-00000000-0000-4000-8000-000000000000"


# ---------------------------------------------------------------- costs


def test_costs_are_pushed_with_a_key_of_their_own(server):
    costs = CloudEvents(CloudAccess(server.mcp_url, CONTEXT, KEY), RESOURCE, KEY)
    server.trouble(Trouble.BROKEN)
    costs.push("run-1", {"reported_usd": 0.25, "model": "large"})
    (event,) = server.events
    assert (event["op"], event["doc_id"]) == ("upsert", "run-1")
    assert event["payload"] == {"reported_usd": 0.25, "model": "large"}
    costs.close()


def test_a_wrong_key_for_costs_is_told_and_not_shown(server):
    costs = CloudEvents(CloudAccess(server.mcp_url, CONTEXT, KEY), RESOURCE, "wrong-key-2")
    with pytest.raises(MemoryUnavailable, match="refuses the key") as refusal:
        costs.push("run-1", {})
    assert "wrong-key-2" not in str(refusal.value)
    costs.close()
