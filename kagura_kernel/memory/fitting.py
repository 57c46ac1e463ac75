"""Whether a memory has to do with a question at all: a recall always tells the best, however little that is. Pure."""

from __future__ import annotations

from kagura_kernel.domain.memory import Memory
from kagura_kernel.memory.words import Term, index_terms, query_terms

LEAST_SHARED = 0.25
"""What part of the telling words of one of the two has to be in the other."""
LEAST_WORDS = 2
"""How many words they share; one says little, unless it is `HALF` of what was asked."""
HALF = 0.5
LONGEST = 4_000
"""Characters of each that are compared."""


def has_to_do_with(question: str, memory: Memory) -> bool:
    """Whether enough of the words of one are in the other, whatever their endings."""
    asked = query_terms(question[:LONGEST])
    said = " ".join((memory.text[:LONGEST], memory.summary, memory.speaker, *memory.tags))
    shared, part = _shared(asked, said)
    if shared < LEAST_WORDS and part < HALF:
        return False
    return part >= LEAST_SHARED or _shared(query_terms(said), question[:LONGEST])[1] >= LEAST_SHARED


def _shared(terms: list[Term], text: str) -> tuple[int, float]:
    """How many of these words are in a text, and what part of their weight that is."""
    forms = set(index_terms(text))
    found = [term for term in terms if forms.intersection(term.forms)]
    whole = sum(term.weight for term in terms)
    return len(found), sum(term.weight for term in found) / whole if whole else 0.0
