"""Where the words of a question are: rows of the index, read only as far as it pays.

A word that is in very many memories tells little and costs much. Every word is probed first; words that are rare
enough are read whole, the rarest first, as long as the budget lasts. The others are looked for in the texts of the best
candidates alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kagura_kernel.memory.ranking import Wanted, rarity
from kagura_kernel.memory.sqlite.marks import FOUR_TIMES, OFTEN, TWICE, VERY_OFTEN

PROBE = 600
"""Rows of each word that are read in any case, the newest."""
BUDGET = 5_000
"""Rows that are read beyond the probes."""
SELECTIVE = 2_000
"""A filter that lets at most so many memories through is applied within the index."""

_NEWEST = "SELECT rowid FROM term WHERE term MATCH ? ORDER BY rowid DESC LIMIT ?"
_OLDER = "SELECT rowid FROM term WHERE term MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing to look for.

    Attributes:
        label: What `why` says of it.
        forms: Terms of the index; one of them is enough.
        weight: How much it counts beside a word.
        kind: `word`, `speaker` or `date`; of words alone the index says how often they are in a memory.
    """

    label: str
    forms: tuple[str, ...]
    weight: float = 1.0
    kind: Literal["word", "speaker", "date"] = "word"


@dataclass(slots=True)
class Posting:
    """Where one thing is.

    Attributes:
        ask: What was looked for.
        rows: How often it is in which row.
        found: In how many rows it is; an estimate until everything is read.
        whole: Whether `rows` are all of them.
    """

    ask: Ask
    rows: dict[int, float] = field(default_factory=dict)
    found: int = 0
    whole: bool = True

    def wanted(self, total: int, factor: float = 1.0) -> Wanted:
        """For ranking, among `total` memories, and counting `factor` times; only what counts whole spreads."""
        worth = rarity(total, self.found) * self.ask.weight * factor
        return Wanted(self.ask.label, worth, self.rows, spreads=self.ask.kind == "word" and factor == 1)


class Postings:
    """What the index says of one question.

    Args:
        connection: Within a transaction.
        total: How many memories there are, about.
        narrowed: Groups of terms; a row needs one of each group. Empty for no narrowing.
    """

    def __init__(self, connection: sqlite3.Connection, total: int, narrowed: Sequence[Sequence[str]] = ()) -> None:
        self._connection = connection
        self._total = total
        self._narrowed = "".join(f" AND ({_any(group)})" for group in narrowed)

    def read(self, asks: Iterable[Ask]) -> list[Posting]:
        """Everything of the rare words; of the others their newest rows."""
        postings = [self._probed(ask) for ask in asks]
        left = BUDGET
        for posting in sorted((one for one in postings if not one.whole), key=lambda one: one.found):
            if posting.found - PROBE > left:
                break
            left -= self._read_on(posting, left + PROBE)
        if postings and all(not posting.whole for posting in postings):
            self._read_together(postings)
        for posting in postings:
            if posting.whole and posting.rows and posting.ask.kind == "word":
                self._count(posting)
        return [posting for posting in postings if posting.rows]

    def _probed(self, ask: Ask) -> Posting:
        rows = self._rows(_any(ask.forms), PROBE)
        whole = len(rows) < PROBE
        found = len(rows)
        if not whole and len(rows) > 1:
            newest, oldest = rows[0], rows[-1]
            found = max(found, round(found * newest / max(1, newest - oldest)))
        return Posting(ask, dict.fromkeys(rows, 1.0), found, whole)

    def _read_on(self, posting: Posting, most: int) -> int:
        last = min(posting.rows)
        match = f"({_any(posting.ask.forms)}){self._narrowed}"
        rows = [row for (row,) in self._connection.execute(_OLDER, (match, last, most))]
        posting.rows.update(dict.fromkeys(rows, 1.0))
        posting.whole = len(rows) < most
        if posting.whole:
            posting.found = len(posting.rows)
        return len(rows)

    def _read_together(self, postings: Sequence[Posting]) -> None:
        first, *others = sorted(postings, key=lambda one: one.found)
        match = _any(first.ask.forms)
        if others:
            match = f"({match}) AND ({_any(others[0].ask.forms)})"
        rows = self._rows(match, BUDGET // 2)
        first.rows.update(dict.fromkeys(rows, 1.0))
        if others:
            others[0].rows.update(dict.fromkeys(rows, 1.0))

    def _count(self, posting: Posting) -> None:
        for ending, times in ((OFTEN, TWICE), (VERY_OFTEN, FOUR_TIMES)):
            forms = [form + ending for form in posting.ask.forms]
            rows = self._rows(_any(forms), PROBE)
            if not rows:
                return
            for row in rows:
                if row in posting.rows:
                    posting.rows[row] = float(times)

    def _rows(self, match: str, most: int) -> list[int]:
        query = f"({match}){self._narrowed}" if self._narrowed else match
        return [row for (row,) in self._connection.execute(_NEWEST, (query, most))]


def is_selective(connection: sqlite3.Connection, terms: Sequence[str]) -> bool:
    """Whether few memories hold one of the terms."""
    return len(connection.execute(_NEWEST, (_any(terms), SELECTIVE)).fetchall()) < SELECTIVE


def _any(forms: Iterable[str]) -> str:
    return " OR ".join(f'"{form}"' for form in forms)
