"""What a text is found by: folded and stemmed words, and runs of characters where a script has no spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from kagura_kernel.memory.folding import fold, unfold_umlauts
from kagura_kernel.memory.language.english import english_stem
from kagura_kernel.memory.language.german import german_stem
from kagura_kernel.memory.language.stop_words import ENGLISH, GERMAN, is_german

GRAM_WEIGHTS = {1: 0.35, 2: 1.0, 3: 0.6}
"""How much a run of so many characters counts beside a word."""

_UNSPACED = (
    "\u3040-\u30ff\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_PIECE = re.compile(f"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\\W_]|[\u0900-\u0dff])+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_IS_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(r"[\w\u0308]+")
_UMLAUT = re.compile(r"[äöüÄÖÜ]|[aouAOU]\u0308")
_MOST_WORD = 64
_COMMON_GRAMS_WORDS = """
した ます です いつ どこ なに って のは から まし して いる ある こと もの ので ため され
れた ても でも だっ った には とは では ての との する すか たか てい いま せん たの のか
なか かっ れて よう うに なっ なる 何を 何が 誰が は何 はい を教 教え えて てく くだ ださ
さい ました ですか ますか ている いつで こです たのは はなに はどこ
"""
_COMMON_GRAMS = frozenset(_COMMON_GRAMS_WORDS.split())


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks for.

    Attributes:
        label: As it stands in the question, folded.
        forms: What it is indexed as, one or the other.
        weight: How much it counts; a word counts 1.
    """

    label: str
    forms: tuple[str, ...]
    weight: float = 1.0


def index_terms(text: str) -> list[str]:
    """Everything that a text is found by, as often as it is in it."""
    pieces = _PIECE.findall(fold(text))
    words = [piece for piece in pieces if not _IS_UNSPACED.match(piece)]
    stem = _german if is_german(words) else _english
    terms = [stem(word) for word in words]
    for piece in pieces:
        if _IS_UNSPACED.match(piece):
            terms.extend(gram for size in GRAM_WEIGHTS for gram in _grams(piece, size))
    if not text.isascii():
        terms.extend(stem(other) for other in _umlauts_written_out(text))
    return terms


def query_terms(text: str) -> list[Term]:
    """What a question asks for, each thing once; words that say nothing only where there is no other."""
    pieces = _PIECE.findall(fold(text))
    words = [piece for piece in pieces if not _IS_UNSPACED.match(piece)]
    stopped = GERMAN if is_german(words) else ENGLISH
    telling = [word for word in words if word not in stopped]
    grams = list(_gram_terms([piece for piece in pieces if _IS_UNSPACED.match(piece)]))
    if not telling and not grams:
        telling = words
    return _each_once([*(_word_term(word) for word in telling), *grams])


def _word_term(word: str) -> Term:
    forms = dict.fromkeys((_english(word), _german(word)))
    return Term(word, tuple(forms))


def _gram_terms(runs: Iterable[str]) -> Iterator[Term]:
    for run in runs:
        for size, weight in GRAM_WEIGHTS.items():
            for gram in _grams(run, size):
                if gram not in _COMMON_GRAMS:
                    yield Term(gram, (gram,), weight if len(run) > 1 else 1.0)


def _each_once(terms: Iterable[Term]) -> list[Term]:
    found: dict[str, Term] = {}
    for term in terms:
        known = found.setdefault(term.forms[0], term)
        if known is not term:
            forms = tuple(dict.fromkeys((*known.forms, *term.forms)))
            found[term.forms[0]] = Term(known.label, forms, known.weight)
    return list(found.values())


def _grams(run: str, size: int) -> Iterator[str]:
    if size == 1:
        # A lone kana says nothing, unless it is all there is.
        yield from (letter for letter in run if len(run) == 1 or _IS_IDEOGRAPH.match(letter))
        return
    for start in range(len(run) - size + 1):
        yield run[start : start + size]


def _umlauts_written_out(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if _UMLAUT.search(word) is not None:
            yield from _PIECE.findall(unfold_umlauts(word))


@lru_cache(maxsize=1 << 16)
def _english(word: str) -> str:
    return english_stem(word[:_MOST_WORD])


@lru_cache(maxsize=1 << 16)
def _german(word: str) -> str:
    return german_stem(word[:_MOST_WORD])
