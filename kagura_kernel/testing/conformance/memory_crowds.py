"""What every memory promises to many at once, and to the store that takes its place."""

# ruff: noqa: D102, S101, PLR2004 - a test's name is its sentence, and a suite asserts; pytest runs it, never python -O
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

from kagura_kernel.domain.memory import CAME_FROM, PREVENTS, Draft, Edge, Memory, Query, Tier
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory_rig import (
    COUNTED_FEEDBACK,
    IDS,
    MemoryRig,
    UsesMemory,
    asked,
    draft,
    hours,
)

_THREADS = 6


class MemoryCrowdsConformance(UsesMemory):
    """Threads, export, import."""

    def test_many_threads_remember_and_recall_at_once(self, memory: MemoryStore) -> None:
        def work(number: int) -> list[str]:
            ids = []
            for turn in range(5):
                ids.append(memory.remember(draft(f"Worker {number} laid brick {turn}.", thread="wall")).id)
                assert ids[-1] in {one.memory.id for one in memory.recall(Query(f"worker {number} brick {turn}", 100))}
                memory.feedback(ids[0], helped=True)
            return ids

        with ThreadPoolExecutor(_THREADS) as pool:
            ids = [one for batch in pool.map(work, range(_THREADS)) for one in batch]
        assert len(set(ids)) == _THREADS * 5
        assert memory.counts().memories == _THREADS * 5
        assert {memory.reference(one).id for one in ids} == set(ids)

    def test_one_id_remembered_by_many_threads_is_one_memory(self, memory: MemoryStore) -> None:
        self.needs(IDS)

        def work(number: int) -> Memory:
            return memory.remember(draft(f"Thread {number} was first.", id="mem-000000000000race"))

        with ThreadPoolExecutor(_THREADS) as pool:
            kept = {one.text for one in pool.map(work, range(_THREADS))}
        assert len(kept) == 1
        assert memory.counts().memories == 1

    def test_feedback_of_many_threads_is_counted_whole(self, memory: MemoryStore) -> None:
        self.needs(COUNTED_FEEDBACK)
        kept = memory.remember(draft("The ferry leaves at nine."))
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda _: memory.feedback(kept.id, helped=True), range(18)))
        assert memory.reference(kept.id).helped == 18

    async def test_what_is_exported_gives_the_same_answers_in_another_store(
        self, rig: MemoryRig, memory: MemoryStore, clock: FakeClock
    ) -> None:
        self.needs(IDS)
        ids = memory.remember_many(
            [
                draft("The ferry leaves at nine.", thread="port", speaker="Ann", at=hours(1), tags=("boat",)),
                draft("It leaves at ten on Sundays.", thread="port", speaker="Bob", at=hours(2)),
                draft("The ferry was late: the tide was low.", tier=Tier.QUARANTINE, importance=0.9, pinned=True),
                draft("Forgotten ferry."),
                draft("Expired ferry.", expires_at=hours(0.5)),
                draft("フェリーは九時に出る。", data={"seats": 40}, scope="project:port"),
            ]
        )
        memory.create_edge(Edge(ids[2], ids[0], CAME_FROM, 0.5))
        memory.create_edge(Edge(ids[3], ids[0], PREVENTS))
        memory.promote(ids[1], by="Ada")
        memory.forget(ids[3])
        await clock.advance(3_600)
        told = list(memory.export())
        edges = [one for one in told if isinstance(one, Edge)]
        assert [isinstance(one, Edge) for one in told] == sorted(isinstance(one, Edge) for one in told)
        assert edges == [Edge(ids[2], ids[0], CAME_FROM, 0.5)]

        other = rig.open()
        other.remember_many([_as_draft(one) for one in told if isinstance(one, Memory)])
        for edge in edges:
            other.create_edge(edge)
        for question in ("ferry", "when does it leave on Sundays", "tide", "フェリー", "boat", ""):
            assert asked(other, question) == asked(memory, question), question
        assert [one.id for one in other.pinned([""])] == [one.id for one in memory.pinned([""])]
        assert other.explore(ids[0]).edges == memory.explore(ids[0]).edges

    def test_an_export_of_nothing_is_empty(self, memory: MemoryStore) -> None:
        assert list(memory.export()) == []


def _as_draft(memory: Memory) -> Draft:
    return Draft(**{one.name: getattr(memory, one.name) for one in fields(Draft)})
