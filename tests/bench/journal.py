"""How fast facts are stored, one after the other as a run tells them, and how fast a whole journal is checked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from kagura_kernel.domain.events import Event
from kagura_kernel.journal.store import Journal
from tests.bench.harness import Bench, Bound, Line
from tests.support.postgres_network import postgres_server, why_not
from tests.support.sample_run import SampleRun

_TURNS = 100
_ROUNDS = 3
_CHECKED = 20_000


def _run(number: int) -> Iterator[Event]:
    run = SampleRun(run_id=f"run-{number:08d}")
    yield run.started()
    yield run.boxed()
    for turn in range(_TURNS):
        yield run.counted()
        yield from run.tool(turn)
        yield run.said(f"Passage {turn}")
    yield run.finished()


async def facts_stored(bench: Bench) -> list[Line]:
    """In a file, and on a PostgreSQL server of this machine that waits for its disk as servers do."""
    lines = [await asyncio.to_thread(_stored, "a file", bench.folder / "facts", Bound("", 0))]
    bound = Bound("≥ 2,000", 2000, "least")
    if why := why_not():
        return [*lines, Line(_what("PostgreSQL"), bound=bound, missing=why)]
    with postgres_server({"fsync": "on", "full_page_writes": "on"}) as server:
        url = await asyncio.to_thread(server.new_database)
        return [*lines, await asyncio.to_thread(_stored, "PostgreSQL", url, bound)]


async def journal_checked(bench: Bench) -> list[Line]:
    """Every row and the tables, by CPU: the disk's share is small."""
    journal = Journal.open(bench.folder / "checked")
    try:
        rows = await asyncio.to_thread(_filled, journal)
        figures = []
        for _ in range(_ROUNDS):
            began = process_time()
            await asyncio.to_thread(journal.verify)
            figures.append(rows / (process_time() - began))
    finally:
        journal.close()
    bound = Bound("≥ 100,000", 100_000, "least")
    return [Line("journal verified", figure=median(figures), unit="rows/s of CPU", bound=bound, samples=_ROUNDS)]


def _filled(journal: Journal) -> int:
    rows = 0
    for number in itertools.count():
        with journal.writing() as writing:
            for event in _run(number):
                writing.append(event)
                rows += 1
        if rows >= _CHECKED:
            return rows
    return rows


def _stored(where: str, place: Path | str, bound: Bound) -> Line:
    journal = Journal.open(place)
    figures = []
    try:
        for number in range(_ROUNDS):
            events = list(_run(number))
            began = perf_counter()
            for event in events:
                journal.append(event)
            figures.append(len(events) / (perf_counter() - began))
    finally:
        journal.close()
    return Line(_what(where), figure=median(figures), unit="rows/s", bound=bound, samples=_ROUNDS)


def _what(where: str) -> str:
    return f"facts stored one by one, {where}"
