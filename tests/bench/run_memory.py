"""What a run waits for its memory before anything else of it exists: the gate, and what it starts with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

from kagura_kernel.domain.memory import Author, Draft, Source, Tier
from kagura_kernel.journal.session_registry import last_run
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.memory.store import ready
from kagura_kernel.runs.memory_start import start_of
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.sandbox.backend import BoxSpec
from tests.bench.harness import Bench, Bound, Line, milliseconds
from tests.bench.recall import MANY

_BATCH = 10_000
_WORDS = 20_000
_SCOPES = ("", "project:p", "session:ses-1")
_SOURCE = Source(Author.IMPORT)


async def memory_before_a_run(bench: Bench) -> list[Line]:
    """The gate, and looking up what a run starts with, among very many memories."""
    return await asyncio.to_thread(_measured, bench.folder / "before-a-run", bench.samples)


def _measured(folder: Path, samples: int) -> list[Line]:
    random = Random(7)
    words = [f"word{number}" for number in range(_WORDS)]
    store, journal = SqliteMemory(folder / "memory.db"), Journal.open(folder / "journal")
    for _ in range(0, MANY, _BATCH):
        store.remember_many(_draft(random, words) for _ in range(_BATCH))
    task = "Deploy the service and check " + " ".join(random.sample(words, 5))
    order = RunOrder("run-1", "ses-1", task, Path("/p"), BoxSpec())

    def start() -> None:
        last = last_run(journal, order.session_id)
        start_of(store, order, _SCOPES, datetime.now(UTC), lambda memory: memory, last)

    gate = _middle(lambda: ready(store), samples)
    begun = _middle(start, samples)
    store.close()
    journal.close()
    among = f"among {MANY:,} memories"
    return [
        Line(f"the gate before a run, {among}", figure=milliseconds(gate), bound=Bound("≤ 5 ms", 5), samples=samples),
        Line(
            f"what a run starts with, looked up {among}",
            figure=milliseconds(begun),
            bound=Bound("≤ 30 ms", 30),
            samples=samples,
        ),
    ]


def _draft(random: Random, words: list[str]) -> Draft:
    tier = Tier.TRUSTED if random.random() < 0.5 else Tier.QUARANTINE
    text = f"deploy service {' '.join(random.choices(words, k=20))}"
    return Draft(text, _SOURCE, tier=tier, scope=random.choice(["", "project:p", "project:q"]))


def _middle(call: Callable[[], None], samples: int) -> float:
    taken = []
    for _ in range(max(samples, 5)):
        began = perf_counter()
        call()
        taken.append(perf_counter() - began)
    return median(taken)
