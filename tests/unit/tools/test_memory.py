"""What a brain asks of the memory, over a run's way to it that writes down what it was asked."""

from datetime import UTC, datetime

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.memory import Author, Draft, Edge, Source, Tier
from kagura_kernel.runtime.router import Asker, use_approver
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.tools.fences import TEXT_LENGTH
from kagura_kernel.tools.memory import (
    MOST_JOINED,
    ExploreTool,
    ForgetTool,
    RecallTool,
    ReferenceTool,
    RelateTool,
    RememberTool,
)
from kagura_kernel.tools.toolbox import CallContext, Toolbox

CALL = CallContext("call-1")
PERSON = Source(Author.HUMAN, "mori")


class Access:
    """A run's way to a memory in a dictionary."""

    agent = "helper"
    run_id = "run-1"
    scopes = ("", "project:p", "session:s")

    def __init__(self) -> None:
        self.store = FakeMemory()
        self.written: list[str] = []
        self.seen: list[tuple[str, list[str]]] = []

    def held(self):
        return ""

    def now(self):
        return datetime(2026, 3, 1, tzinfo=UTC)

    async def keep(self, draft, how, *, call_id=""):
        assert (how, call_id) == ("asked", "call-1")
        kept = self.store.remember(draft)
        self.written.append(kept.id)
        return kept

    async def find(self, query):
        return self.store.recall(query)

    async def look_up(self, memory_id):
        return self.store.reference(memory_id)

    async def around(self, memory_id):
        return self.store.explore(memory_id).edges

    async def reach(self, memory_id, depth, most):
        return self.store.explore(memory_id, depth=depth, most=most)

    async def join(self, edge):
        self.store.create_edge(edge)

    async def see(self, how, memories, *, call_id=""):
        assert call_id == "call-1"
        self.seen.append((how, [getattr(one, "memory", one).id for one in memories]))


@pytest.fixture
def access():
    return Access()


def trusted(access, text, **more):
    return access.store.remember(Draft(text, PERSON, tier=Tier.TRUSTED, **more))


async def test_a_note_is_in_quarantine_and_of_its_project(access):
    result = await RememberTool(access).call({"text": "The door is blue.", "importance": 1}, CALL)
    kept = access.store.reference(access.written[0])
    assert (kept.tier, kept.scope, kept.importance) == (Tier.QUARANTINE, "project:p", 1.0)
    assert kept.source == Source(Author.AGENT, "helper", "run-1")
    assert not result.is_error


async def test_a_note_may_concern_its_session_alone(access):
    await RememberTool(access).call({"text": "The door is blue.", "scope": "session"}, CALL)
    assert access.store.reference(access.written[0]).scope == "session:s"


def test_what_a_note_says_is_private_and_looking_is_read_only(access):
    toolbox = Toolbox([RememberTool(access), RecallTool(access), ReferenceTool(access), RelateTool(access)])
    assert toolbox.private("remember", ["scope", "type", "tags", "txt", "text"]) == ("type", "tags", "txt", "text")
    assert [spec.read_only for spec in toolbox.specs()] == [False, True, True, False]


def test_no_tool_promotes_or_pins_and_none_forgets_unasked(access):
    asks = ForgetTool(access, Asker())
    tools = (RememberTool(access), RecallTool(access), ReferenceTool(access), RelateTool(access), asks)
    fields = {name for tool in tools for name in tool.spec.input_schema["properties"]}
    assert not fields & {"pinned", "trusted", "promote", "expires_at", "id_", "source_author", "data"}
    assert RememberTool.spec.input_schema["properties"].keys().isdisjoint({"tier", "pinned", "author"})


@pytest.mark.parametrize(("kind", "said"), [("decision", "a decision of "), ("swordfish", "of a type of its own, of ")])
async def test_a_question_about_a_memory_says_no_type_that_its_author_has_made_up(access, kind, said):
    kept = access.store.remember(Draft("The pass phrase.", PERSON, type=kind))
    approver = ScriptedApprover(Verdict.DENY)
    with use_approver(approver):
        await ForgetTool(access, Asker()).call({"id": kept.id, "reason": "It has changed."}, CALL)
    (question,) = approver.requests
    assert said in question.detail
    # A question is kept in the journal, where nothing can be erased.
    assert "swordfish" not in question.detail


async def test_what_is_recalled_is_no_longer_than_a_brain_reads(access):
    for number in range(20):
        trusted(access, f"door {number} " + "blue " * 300)
    result = await RecallTool(access).call({"query": "blue door", "k": 20}, CALL)
    assert len(result.text) < TEXT_LENGTH + 500
    [(how, ids)] = access.seen
    assert how == "asked"
    assert result.recorded == f"{len(ids)} memories: {', '.join(ids)}"
    assert result.text.count("<memory ") == len(ids)


async def test_recall_asks_for_what_the_brain_names(access):
    one = trusted(access, "The door is blue.", type="decision", tags=("doors",))
    trusted(access, "The door is red.", tags=("doors",))
    await RecallTool(access).call({"query": "door", "type": "decision", "tag": "doors"}, CALL)
    assert access.seen == [("asked", [one.id])]


async def test_what_lies_around_a_memory_is_read_with_its_edges(access):
    first, second, third = (trusted(access, f"Door {name}.") for name in ("one", "two", "three"))
    unchecked = access.store.remember(Draft("Door four.", PERSON))
    for edge in (Edge(first.id, second.id, "supports"), Edge(third.id, second.id, "fixes")):
        access.store.create_edge(edge)
    access.store.create_edge(Edge(unchecked.id, first.id, "contradicts"))
    near = await ExploreTool(access).call({"id": first.id}, CALL)
    assert "Door two." in near.text
    assert f"Joined: {first.id} supports {second.id}." in near.text
    assert "Door four." not in near.text
    far = await ExploreTool(access).call({"id": first.id, "depth": 2, "tier": "any"}, CALL)
    assert all(text in far.text for text in ("Door two.", "Door three.", "Door four.", "marked for having read"))
    assert access.seen[0] == ("asked", [second.id])
    assert far.recorded.startswith("3 memories: ")


@pytest.mark.parametrize("error", [MemoryUnavailable("here", "it is gone", "Mend it."), MemoryUnknown("mem-1")])
async def test_a_memory_that_fails_is_an_error_for_the_brain(access, error, monkeypatch):
    async def fails(*_args, **_named):
        raise error

    for name in ("find", "keep", "look_up", "join"):
        monkeypatch.setattr(access, name, fails)
    access.written.append("mem-1")
    calls = (
        (RecallTool(access), {"query": "x"}),
        (RememberTool(access), {"text": "x"}),
        (ReferenceTool(access), {"id": "mem-1"}),
        (RelateTool(access), {"source": "mem-1", "target": "mem-2", "type": "related"}),
    )
    for tool, arguments in calls:
        result = await tool.call(arguments, CALL)
        assert result.is_error
        assert error.code in result.text


async def test_a_run_joins_so_many_and_no_more(access):
    other = trusted(access, "Another.")
    await RememberTool(access).call({"text": "Mine."}, CALL)
    tool = RelateTool(access)
    asked = {"source": access.written[0], "target": other.id, "type": "supports"}
    results = [await tool.call(asked, CALL) for _ in range(MOST_JOINED + 1)]
    assert not any(result.is_error for result in results[:-1])
    assert "as many as one run may" in results[-1].text
    assert access.store.explore(other.id).edges == (Edge(access.written[0], other.id, "supports"),)
