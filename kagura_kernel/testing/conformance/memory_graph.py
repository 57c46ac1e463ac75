"""What every memory promises of edges, of forgetting, and of erasing with everything that came from a memory."""

# ruff: noqa: D102, S101, PLR2004 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnknown
from kagura_kernel.domain.memory import CAME_FROM, EDGE_TYPES, FIXES, PREVENTS, RELATED, SUPPORTS, Edge, Query, Tier
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.conformance.memory_rig import IDS, MANY_EDGES, UsesMemory, asked, draft

_NOWHERE = "mem-00000000-0000-4000-8000-000000000000"


def some(memory: MemoryStore, number: int) -> Sequence[str]:
    """The ids of so many memories."""
    return memory.remember_many([draft(f"Milestone {one} of the canal.") for one in range(number)])


def grown(memory: MemoryStore, *pairs: tuple[str, str]) -> None:
    """The first of each pair came from the second."""
    for child, parent in pairs:
        memory.create_edge(Edge(child, parent, CAME_FROM))


class MemoryGraphConformance(UsesMemory):
    """create_edge, explore, forget, restore, erase."""

    def test_an_edge_is_seen_from_both_of_its_ends(self, memory: MemoryStore) -> None:
        one, two, three = some(memory, 3)
        memory.create_edge(Edge(one, two, PREVENTS, 0.5))
        for seed, other in ((one, two), (two, one)):
            around = memory.explore(seed)
            assert [memory.id for memory in around.memories] == [seed, other]
            assert list(around.edges) == [Edge(one, two, PREVENTS, 0.5)]
        alone = memory.explore(three)
        assert ([memory.id for memory in alone.memories], list(alone.edges)) == ([three], [])

    def test_an_edge_that_is_there_gets_the_new_weight(self, memory: MemoryStore) -> None:
        one, two = some(memory, 2)
        for weight in (0.25, 0.75, 0.5):
            memory.create_edge(Edge(one, two, FIXES, weight))
            assert list(memory.explore(one).edges) == [Edge(one, two, FIXES, weight)]
        assert memory.counts().edges == 1

    def test_two_memories_are_joined_in_more_than_one_way(self, memory: MemoryStore) -> None:
        self.needs(MANY_EDGES)
        one, two = some(memory, 2)
        edges = {Edge(one, two, PREVENTS), Edge(one, two, SUPPORTS, 0.5), Edge(two, one, SUPPORTS)}
        for edge in edges:
            memory.create_edge(edge)
        assert set(memory.explore(one).edges) == edges
        assert set(memory.explore(one, types=(PREVENTS,)).edges) == {Edge(one, two, PREVENTS)}

    @pytest.mark.parametrize("kind", EDGE_TYPES)
    def test_every_type_of_edge_is_told_as_it_was_made(self, memory: MemoryStore, kind: str) -> None:
        one, two = some(memory, 2)
        memory.create_edge(Edge(one, two, kind))
        assert list(memory.explore(two).edges) == [Edge(one, two, kind)]

    def test_an_edge_that_cannot_be_is_refused(self, memory: MemoryStore) -> None:
        one, two = some(memory, 2)
        for wrong in (Edge(one, two, "likes"), Edge(one, two, weight=1.5), Edge(one, two, weight=-0.1), Edge(one, one)):
            with pytest.raises(MemoryInvalid):
                memory.create_edge(wrong)
        for lost in (Edge(one, _NOWHERE), Edge(_NOWHERE, one)):
            with pytest.raises(MemoryUnknown) as refusal:
                memory.create_edge(lost)
            assert refusal.value.memory_id == _NOWHERE
        assert memory.counts().edges == 0

    def test_exploring_ends_at_its_depth(self, memory: MemoryStore) -> None:
        chain = some(memory, 6)
        for one, two in pairwise(chain):
            memory.create_edge(Edge(one, two))
        for depth in range(1, 6):
            around = memory.explore(chain[0], depth=depth)
            assert [one.id for one in around.memories] == list(chain[: depth + 1])
            assert len(around.edges) == depth
        middle = memory.explore(chain[3], depth=2)
        assert middle.memories[0].id == chain[3]
        assert {one.id for one in middle.memories[1:3]} == {chain[2], chain[4]}
        assert {one.id for one in middle.memories} == set(chain[1:])

    def test_exploring_a_circle_ends(self, memory: MemoryStore) -> None:
        ring = some(memory, 4)
        for number, one in enumerate(ring):
            memory.create_edge(Edge(one, ring[(number + 1) % 4]))
        around = memory.explore(ring[0], depth=32)
        assert len(around.memories) == 4
        assert len(around.edges) == 4

    def test_exploring_tells_no_more_than_asked_for_and_the_nearest_first(self, memory: MemoryStore) -> None:
        hub, *leaves = some(memory, 13)
        for leaf in leaves:
            memory.create_edge(Edge(hub, leaf))
        few = memory.explore(hub, depth=3, most=5)
        assert len(few.memories) == 5
        assert few.memories[0].id == hub
        told = {one.id for one in few.memories}
        assert all({edge.source, edge.target} <= told for edge in few.edges)
        assert len(few.edges) == 4

    @pytest.mark.parametrize("wrong", [{"depth": -1}, {"depth": 1_000}, {"most": 0}, {"types": ("likes",)}], ids=repr)
    def test_exploring_without_bounds_is_refused(self, memory: MemoryStore, wrong: dict[str, Any]) -> None:
        (one,) = some(memory, 1)
        with pytest.raises(MemoryInvalid):
            memory.explore(one, **wrong)

    def test_exploring_follows_the_asked_types_alone(self, memory: MemoryStore) -> None:
        one, two, three = some(memory, 3)
        memory.create_edge(Edge(one, two, PREVENTS))
        memory.create_edge(Edge(two, three, RELATED))
        assert [m.id for m in memory.explore(one, depth=5, types=(PREVENTS,)).memories] == [one, two]
        assert len(memory.explore(one, depth=5, types=(PREVENTS, RELATED)).memories) == 3

    def test_a_forgotten_memory_is_found_by_its_id_alone(self, memory: MemoryStore) -> None:
        one, two = some(memory, 2)
        memory.create_edge(Edge(one, two))
        gone = memory.forget(one)
        assert gone.forgotten_at is not None
        assert memory.forget(one) == gone
        assert asked(memory, "canal") == ["Milestone 1 of the canal."]
        assert asked(memory, "") == ["Milestone 1 of the canal."]
        assert [m.id for m in memory.explore(two).memories] == [two]
        assert memory.reference(one) == gone
        back = memory.restore(one)
        assert back.forgotten_at is None
        assert memory.restore(one) == back
        assert len(asked(memory, "canal")) == 2
        assert list(memory.explore(two).edges) == [Edge(one, two)]

    def test_an_erased_memory_is_gone_with_its_edges(self, memory: MemoryStore) -> None:
        one, two, three = some(memory, 3)
        memory.create_edge(Edge(one, two))
        memory.create_edge(Edge(three, one))
        memory.create_edge(Edge(two, three))
        erased = memory.erase(one)
        assert (erased.memories, erased.edges) == ((one,), 2)
        with pytest.raises(MemoryUnknown):
            memory.reference(one)
        with pytest.raises(MemoryUnknown):
            memory.erase(one)
        assert "Milestone 0 of the canal." not in asked(memory, "canal")
        assert list(memory.explore(two).edges) == [Edge(two, three)]
        assert memory.counts().edges == 1

    def test_a_forgotten_memory_can_be_erased(self, memory: MemoryStore) -> None:
        (one,) = some(memory, 1)
        memory.forget(one)
        assert memory.erase(one).memories == (one,)
        counts = memory.counts()
        assert (counts.memories, counts.forgotten) == (0, 0)

    def test_without_cascade_what_came_from_it_stays(self, memory: MemoryStore) -> None:
        parent, child = some(memory, 2)
        grown(memory, (child, parent))
        assert memory.erase(parent).memories == (parent,)
        assert memory.reference(child).id == child

    def test_a_cascade_takes_everything_that_came_from_it_and_nothing_else(self, memory: MemoryStore) -> None:
        # A diamond below `top`; `above` is what it came from itself, `beside` is only related to a part of it.
        above, top, left, right, bottom, beside = some(memory, 6)
        grown(memory, (top, above), (left, top), (right, top), (bottom, left), (bottom, right))
        memory.create_edge(Edge(beside, left, SUPPORTS))
        memory.forget(right)
        erased = memory.erase(top, cascade=True)
        assert erased.memories[0] == top
        assert set(erased.memories) == {top, left, right, bottom}
        assert len(erased.memories) == 4
        assert erased.edges == 6
        for lost in erased.memories:
            with pytest.raises(MemoryUnknown):
                memory.reference(lost)
        assert {memory.reference(above).id, memory.reference(beside).id} == {above, beside}
        assert memory.counts().edges == 0

    def test_a_cascade_through_a_circle_ends(self, memory: MemoryStore) -> None:
        ring = some(memory, 3)
        grown(memory, (ring[1], ring[0]), (ring[2], ring[1]), (ring[0], ring[2]))
        erased = memory.erase(ring[0], cascade=True)
        assert erased.memories[0] == ring[0]
        assert set(erased.memories) == set(ring)
        assert erased.edges == 3

    def test_a_long_line_of_descent_is_erased_to_its_end(self, memory: MemoryStore) -> None:
        line = some(memory, 40)
        grown(memory, *((child, parent) for parent, child in pairwise(line)))
        assert set(memory.erase(line[0], cascade=True).memories) == set(line)
        assert memory.counts().memories == 0

    def test_the_words_of_an_erased_turn_find_its_neighbours_no_more(self, memory: MemoryStore) -> None:
        first, second = memory.remember_many(
            [draft("My secret is marmalade.", thread="talk"), draft("I will keep it.", thread="talk")]
        )
        memory.erase(first)
        assert asked(memory, "marmalade") == []
        assert memory.reference(second).text == "I will keep it."

    def test_the_words_of_a_forgotten_turn_find_its_neighbours_no_more(self, memory: MemoryStore) -> None:
        first, _ = memory.remember_many(
            [draft("My secret is marmalade.", thread="talk"), draft("I will keep it.", thread="talk")]
        )
        memory.forget(first)
        assert asked(memory, "marmalade") == []
        memory.restore(first)
        assert asked(memory, "marmalade")[0] == "My secret is marmalade."

    def test_an_erased_id_may_be_used_again(self, memory: MemoryStore) -> None:
        self.needs(IDS)
        facts: dict[str, Any] = {"id": "mem-00000000000again", "tier": Tier.QUARANTINE}
        memory.remember(draft("The first life.", **facts))
        memory.erase("mem-00000000000again")
        assert memory.remember(draft("The second life.", **facts)).text == "The second life."
        assert [one.memory.text for one in memory.recall(Query("life"))] == ["The second life."]
