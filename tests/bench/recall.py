"""How well the embedded memory finds again what it was told, and how fast, beside SQLite's search as it comes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter, process_time

from kagura_kernel.domain.memory import Author, Draft, Query, Source, Tier
from kagura_kernel.memory.embeddings import MiniLM, find_model
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.bench.harness import Bench, Bound, Line, milliseconds
from tests.support.recall_corpus.judging import Figures, Retriever, judge
from tests.support.recall_corpus.making import LANGUAGES, Corpus, make_corpus
from tests.support.recall_corpus.plain import porter, substring

MANY = 100_000
VERY_MANY = "KAGURA_BENCH_MILLION"
"""When this environment variable is set, recall is measured among 1,000,000 memories too."""

_BATCH = 10_000
_WORDS = 30_000
_EVERYWHERE = "memory"
_QUESTIONS = 200
_SINGLES = 200
_SOURCE = Source(Author.IMPORT)
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


async def recall_of_what_was_told(bench: Bench) -> list[Line]:
    """The part of the evidence among the first 5 and 10, on the half of the questions that no weight was tuned on."""
    return await asyncio.to_thread(_judged, bench.folder / "recall")


async def recall_in_a_large_memory(bench: Bench) -> list[Line]:
    """Remembering in bulk and singly, opening, and asking among very many memories."""
    sizes = [MANY, 1_000_000] if os.environ.get(VERY_MANY) else [MANY]
    lines: list[Line] = []
    for size in sizes:
        lines += await asyncio.to_thread(_timed, bench.folder / f"large-{size}.db", size)
    return lines


def _judged(folder: Path) -> list[Line]:
    lines: list[Line] = []
    for threads in (True, False):
        corpus = make_corpus(threads=threads)
        told = "as turns of threads" if threads else "as lines in order"
        with_words = SqliteMemory(folder / f"{threads}" / "memory.db")
        with_words.remember_many(corpus.drafts)
        retrievers = {"recall": _recalling(with_words)}
        with_meaning = None
        if threads and (model := find_model()):
            with_meaning = SqliteMemory(folder / "meaning" / "memory.db", encoder=MiniLM(model))
            with_meaning.remember_many(corpus.drafts)
            with_meaning.encode_now()
            retrievers["recall with embeddings"] = _recalling(with_meaning)
        floors = {"FTS5 porter": porter(corpus.drafts), "substrings": substring(corpus.drafts)}
        lines += _compared(corpus, f"told {told}", retrievers, floors if threads else {})
        for store in (with_words, with_meaning):
            if store is not None:
                store.close()
    return lines


def _recalling(store: SqliteMemory) -> Retriever:
    def retrieve(question: str, most: int) -> Sequence[str]:
        return [found.memory.id for found in store.recall(Query(question, k=most))]

    return retrieve


def _compared(
    corpus: Corpus, told: str, retrievers: dict[str, Retriever], floors: dict[str, Retriever]
) -> Iterator[Line]:
    for language in LANGUAGES:
        asked = [one for one in corpus.questions if one.language == language and not one.tuning]
        for name, retriever in (floors | retrievers).items():
            found = judge(retriever, asked)
            for measure in ("at_5", "at_10", "mrr"):
                yield _quality(f"{name}, {language}, {told}", measure, found)


def _quality(what: str, measure: str, found: Figures) -> Line:
    names = {"at_5": "R@5", "at_10": "R@10", "mrr": "MRR"}
    # A hundredth is the smallest part that the table shows.
    return Line(f"{what}: {names[measure]}", figure=100 * getattr(found, measure), unit="%", samples=found.questions)


def _timed(path: Path, size: int) -> list[Line]:
    random = Random(11)
    words = ["".join(random.choices("abcdefghijklmnoprstuvwz", k=random.randrange(3, 10))) for _ in range(_WORDS)]
    often = list(itertools.accumulate(1 / (rank + 3) for rank in range(_WORDS)))
    store = SqliteMemory(path)
    taken = 0.0
    for start in range(0, size, _BATCH):
        drafts = list(_drafts(random, words, often, range(start, start + _BATCH)))
        began = process_time()
        store.remember_many(drafts)
        taken += process_time() - began
    singles = []
    for draft in _drafts(random, words, often, range(size, size + _SINGLES)):
        began = perf_counter()
        store.remember(draft)
        singles.append(perf_counter() - began)
    store.close()
    began = perf_counter()
    store = SqliteMemory(path)
    opening = perf_counter() - began
    among = f"among {size:,} memories"
    lines = [
        Line(
            "memories remembered in bulk, per second of CPU",
            figure=size / taken,
            unit="/s",
            bound=Bound("≥ 15,000 /s", 15_000, "least"),
            samples=1,
        ),
        _line(f"one remembered {among}, on the disk", _middle(singles), 2, _SINGLES),
        _line(f"memory opened, {size:,} in it", opening, 50, 1),
    ]
    for what, always, query in (
        ("recall", "", Query("")),
        ("recall with a word that every memory has", _EVERYWHERE, Query("")),
        ("recall of trusted ones in one of fifty scopes", "", Query("", tier=Tier.TRUSTED, scopes=("project:7",))),
    ):
        took = []
        for _ in range(_QUESTIONS):
            text = " ".join([*random.choices(words, cum_weights=often, k=6), always])
            took.append(_asked(store, Query(text, tier=query.tier, scopes=query.scopes)))
        parts = quantiles(took, n=20)
        most = (10, 20) if size == MANY else (60, 60)
        lines.append(_line(f"{what} {among}, p50", parts[9], most[0], _QUESTIONS))
        lines.append(_line(f"{what} {among}, p95", parts[18], most[1], _QUESTIONS))
    store.close()
    return lines


def _drafts(random: Random, words: list[str], often: list[float], numbers: range) -> Iterator[Draft]:
    for number in numbers:
        text = " ".join(random.choices(words, cum_weights=often, k=random.randrange(8, 40)))
        yield Draft(
            f"{_EVERYWHERE} {text}",
            _SOURCE,
            tier=random.choice(list(Tier)),
            scope=f"project:{number % 50}",
            thread=f"thread-{number // 200}" if number % 2 else "",
            at=_BEGIN + timedelta(minutes=number),
        )


def _asked(store: SqliteMemory, query: Query) -> float:
    began = perf_counter()
    store.recall(query)
    return perf_counter() - began


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _line(what: str, seconds: float, most: float, samples: int) -> Line:
    return Line(what, figure=milliseconds(seconds), bound=Bound(f"≤ {most:g} ms", most), samples=samples)
