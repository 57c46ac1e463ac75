"""Seed phrases of wallets: words of one list in a row, in the languages of BIP-39."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.spans import Span

_LENGTHS = (24, 21, 18, 15, 12)
_WORD_BITS = 11
_ROW = Lazy(r"\b[a-z]{3,8}(?:[ ,\t]+[a-z]{3,8}){11,}\b")
_REACH = 900
_RUN = Lazy(r"\b[a-z]{3,8}(?:(?:[^a-z]{1,6}|[^a-z]{0,4}word[^a-z]{1,6})[a-z]{3,8}){11,}\b")
_WORD = re.compile(rb"[A-Za-z]{3,8}")
_OTHER_RUN = Lazy(
    r"[^\x00-\x40\x5b-\x60\x7b-\x7f“”「」。、，：！？]{1,12}(?:[ \t\x{3000},、，]+[^\x00-\x40\x5b-\x60\x7b-\x7f“”「」。、，：！？]{1,12}){11,}"
)
_OTHER_WORD = re.compile(r"[^\W\d_]{1,12}")
_CHINESE_RUN = Lazy(r"[\x{4e00}-\x{9fff}](?:[ \x{3000}]?[\x{4e00}-\x{9fff}]){11,}")
_SAID = Lazy(
    r"seed|mnemonic|recovery|wallet|phrase|bip[ _\-]?39|backup words|secret words|metamask|ledger|trezor|助记词|シード|ニーモニック|復元|リカバリ|wiederherstellung"
)
_OTHERS = ("french", "italian", "japanese", "spanish", "portuguese", "czech", "korean")


def find(data: bytes) -> Iterator[Span]:
    """Phrases of 12 to 24 words whose checksum is right, or that are said to be one."""
    for run in _ROW.finditer(data):
        yield from _english(data, run.start(), run.end())
    done = 0
    foreign = not data.isascii()
    for said in _SAID.finditer(data):
        if said.start() < done:
            continue
        begin, done = max(0, said.start() - 8), min(len(data), said.end() + _REACH)
        for run in _RUN.finditer(data, begin, done):
            yield from _english(data, run.start(), run.end())
        if foreign:
            yield from _foreign_runs(data, begin, done)


def is_seed_word(word: str) -> bool:
    """Whether this is a word of the English list, in either case."""
    return word.isascii() and word.lower() in _list("english")


def _foreign_runs(data: bytes, begin: int, end: int) -> Iterator[Span]:
    for run in _CHINESE_RUN.finditer(data, begin, end):
        yield from _foreign(data, run.start(), run.end(), "chinese_simplified", letters=True)
    for run in _OTHER_RUN.finditer(data, begin, end):
        for language in _OTHERS:
            yield from _foreign(data, run.start(), run.end(), language)


def _english(data: bytes, start: int, end: int) -> Iterator[Span]:
    return _phrases(data, [word.span() for word in _WORD.finditer(data, start, end)])


def _phrases(data: bytes, words: Sequence[tuple[int, int]]) -> Iterator[Span]:
    known = _list("english")
    numbers = [known.get(data[start:end].lower().decode()) for start, end in words]
    at = 0
    while at < len(numbers):
        if numbers[at] is None:
            at += 1
            continue
        stop = at + 1
        between = _between(data, words, stop)
        while stop < len(numbers) and numbers[stop] is not None and _between(data, words, stop) == between:
            stop += 1
        at = _behind_title(data, words, at, stop)
        row = [number for number in numbers[at:stop] if number is not None]
        taken = _taken(data, row, words[at][0], words[stop - 1][1])
        if taken is not None:
            first, last = at + taken[0], at + taken[1] - 1
            if not _published(data, words[first : last + 1]):
                yield Span(words[first][0], words[last][1], "seed-phrase")
        # The word before another separator may be the first of the phrase.
        at = stop - 1 if stop - 1 > at and stop < len(numbers) and numbers[stop] is not None else stop


def _behind_title(data: bytes, words: Sequence[tuple[int, int]], at: int, stop: int) -> int:
    """The number of the first word behind `Recovery phrase` or `Seed phrase`, whose own words are in the list too."""
    if stop - at <= _LENGTHS[-1]:
        return at
    start = words[at][0]
    title = _TITLE.match(data, max(data.rfind(b"\n", 0, start) + 1, start - _WIDEST), words[at + 1][1])
    return at if title is None else next(number for number in (at, at + 1, at + 2) if words[number][0] >= title.end(1))


_TITLE = re.compile(
    rb"(?i)[^\n]*?\b((?:recovery|seed|secret|mnemonic|backup|wallet)[ _-](?:phrase|words?|seed))(?![a-z])"
)
_WIDEST = 60
_NUMBERS = re.compile(rb"\d+|\s+")


def _between(data: bytes, words: Sequence[tuple[int, int]], number: int) -> bytes:
    """What separates a word from the one before it, without numbers and the kind of space: the same in one phrase."""
    if number >= len(words):
        return b""
    return _NUMBERS.sub(b"", data[words[number - 1][1] : words[number][0]])


def _taken(data: bytes, row: Sequence[int], start: int, end: int) -> tuple[int, int] | None:
    """Which of these words are a phrase: all, when somebody says so nearby; else those with a right checksum."""
    if len(row) < _LENGTHS[-1]:
        return None
    near = data[max(0, start - 240) : start] + b" " + data[end : end + 80]
    if _SAID.search(near) is not None and len(row) <= 30:
        return 0, next(length for length in _LENGTHS if length <= len(row))
    for length in _LENGTHS:
        for first in range(min(len(row) - length, 64) + 1):
            if len(set(row[first : first + length])) >= length - 3 and _checks(row[first : first + length]):
                return first, first + length
    return None


def _published(data: bytes, words: Sequence[tuple[int, int]]) -> bool:
    """Test vectors: one word again and again, or the first rows of the standard's own examples."""
    texts = [data[start:end].lower() for start, end in words]
    if len(set(texts)) <= 3:
        return True
    begins = b" ".join(texts[:3])
    return (
        begins in {b"legal winner thank", b"letter advice cage", b"test test test", b"candy maple cake"}
        or texts[0] == texts[1] == texts[2]
    )


def _checks(row: Sequence[int]) -> bool:
    """Whether the last bits are the checksum of the others."""
    bits = 0
    for number in row:
        bits = bits << _WORD_BITS | number
    check = len(row) // 3
    size = len(row) * _WORD_BITS - check
    digest = hashlib.sha256((bits >> check).to_bytes(size // 8, "big")).digest()
    return bits & ((1 << check) - 1) == digest[0] >> (8 - check)


def _foreign(data: bytes, start: int, end: int, language: str, *, letters: bool = False) -> Iterator[Span]:
    known = _list(language)
    text = data[start:end].decode("utf-8", "replace")
    pieces = [
        (one.start(), one.end()) for one in re.finditer(r"[\u4e00-\u9fff]" if letters else _OTHER_WORD.pattern, text)
    ]
    rows: list[list[tuple[int, int]]] = [[]]
    for piece in pieces:
        if _plain(text[piece[0] : piece[1]]) in known:
            rows[-1].append(piece)
        else:
            rows.append([])
    for row in rows:
        if len(row) not in _LENGTHS and not (len(row) > _LENGTHS[-1] and not letters):
            continue
        numbers = [known[_plain(text[first:last])] for first, last in row]
        at = start + len(text[: row[0][0]].encode())
        if letters and not _apart(row) and not _SAID_IN_CHINESE.search(data, max(0, at - 120), at):
            continue
        stop = start + len(text[: row[-1][1]].encode())
        if _taken(data, numbers, at, stop) is not None:
            yield Span(at, stop, "seed-phrase")


_SAID_IN_CHINESE = re.compile("(?i)助记词|助記詞|种子|恢复短语|mnemonic|seed".encode())


def _apart(row: Sequence[tuple[int, int]]) -> bool:
    """Whether something stands between the letters; without it they are a sentence, whose letters are the common ones."""
    return all(before[1] < after[0] for before, after in pairwise(row))


def _plain(word: str) -> str:
    """Without accents and in one form, as wallets compare words."""
    import unicodedata

    return unicodedata.normalize("NFKD", word.lower())


@cache
def _list(language: str) -> dict[str, int]:
    """The words of a language and their numbers."""
    text = (files("mnemonic") / "wordlist" / f"{language}.txt").read_text("utf-8")
    return {_plain(word): number for number, word in enumerate(text.split())}
