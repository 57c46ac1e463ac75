"""What recall is compared with: SQLite's full-text search as it comes, and a search for parts of words."""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections.abc import Sequence

from kagura_kernel.domain.memory import Draft
from kagura_kernel.memory.words import ENGLISH, GERMAN
from tests.support.recall_corpus.judging import Retriever

_WORD = re.compile(r"\w+")


def porter(drafts: Sequence[Draft]) -> Retriever:
    """FTS5 with its Porter tokenizer, stop words left out of the question, and its own order."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE turn USING fts5(said, tokenize='porter unicode61')")
    connection.executemany("INSERT INTO turn VALUES (?)", ((_said(draft),) for draft in drafts))

    def retrieve(question: str, most: int) -> Sequence[str]:
        words = [word for word in _WORD.findall(question.lower()) if word not in ENGLISH | GERMAN]
        match = " OR ".join(f'"{word}"' for word in words)
        sql = "SELECT rowid FROM turn WHERE turn MATCH ? ORDER BY rank LIMIT ?"
        rows = connection.execute(sql, (match, most)) if words else ()
        return [drafts[row - 1].id for (row,) in rows]

    weakref.finalize(retrieve, connection.close)
    return retrieve


def substring(drafts: Sequence[Draft]) -> Retriever:
    """Whatever holds any word of the question as a part, in the order in which it was remembered."""
    texts = [(draft.id, _said(draft).lower()) for draft in drafts]

    def retrieve(question: str, most: int) -> Sequence[str]:
        words = _WORD.findall(question.lower())
        return [one for one, text in texts if any(word in text for word in words)][:most]

    return retrieve


def _said(draft: Draft) -> str:
    return f"{draft.speaker}: {draft.text}" if draft.speaker else draft.text
