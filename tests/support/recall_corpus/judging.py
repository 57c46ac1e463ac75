"""How good answers are: what part of the evidence is among the first, and how early the first of it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.support.recall_corpus.making import Question

Retriever = Callable[[str, int], Sequence[str]]
"""Ids of memories, the best first: of a question's text, and at most so many."""

_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some questions."""

    questions: int  # How many
    at_5: float  # The part of the evidence among the first five, and ten; the mean over the questions
    at_10: float
    mrr: float  # The mean of one by the rank of the first evidence, 0 where none is among the first ten


def judge(retriever: Retriever, questions: Iterable[Question]) -> Figures:
    """Ask every question."""
    at_5 = at_10 = mrr = 0.0
    asked = 0
    for question in questions:
        found = list(retriever(question.text, _DEPTH))[:_DEPTH]
        evidence = set(question.answers)
        asked += 1
        at_5 += len(evidence & set(found[:5])) / len(evidence)
        at_10 += len(evidence & set(found)) / len(evidence)
        mrr += next((1 / rank for rank, one in enumerate(found, 1) if one in evidence), 0.0)
    most = max(1, asked)
    return Figures(asked, at_5 / most, at_10 / most, mrr / most)
