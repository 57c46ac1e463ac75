"""Prints the table in kagura_kernel/kit/redaction/letters.py: what each pair of letters costs in words and names.

python dev/letter_costs.py

It counts every word once that stands in three or more of the sources and documents of this Python and of what is
installed beside it, and those of the seed phrases in languages with Latin letters.
"""

from __future__ import annotations

import os
import re
import sysconfig
import unicodedata
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from math import log2
from pathlib import Path
from string import ascii_lowercase, digits

KINDS = frozenset({".py", ".pyi", ".md", ".rst", ".txt"})
STEP = 6
"""Of so many files one is read."""
LONGEST = 100_000
LEAST = 3
"""Files in which a word stands."""
LONGEST_WORD = 24
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SIGNS = " " + ascii_lowercase
"""A space stands for both ends of a word."""
LANGUAGES = ("english", "french", "italian", "spanish", "portuguese", "czech")


def written() -> Iterator[str]:
    """The words of sources and documents, each once."""
    roots = dict.fromkeys((Path(os.__file__).parent, Path(sysconfig.get_path("purelib"))))
    places = sorted({path for root in roots for path in root.rglob("*") if path.suffix in KINDS and path.is_file()})
    counts: Counter[str] = Counter()
    for place in places[::STEP]:
        text = place.read_text("utf-8", "replace")[:LONGEST]
        counts.update({word.lower() for word in WORD.findall(text) if 1 < len(word) <= LONGEST_WORD})
    yield from (word for word, count in counts.items() if count >= LEAST)


def spoken() -> Iterator[str]:
    """The words of seed phrases, without accents."""
    folder = files("mnemonic") / "wordlist"
    for language in LANGUAGES:
        for word in (folder / f"{language}.txt").read_text("utf-8").split():
            yield re.sub("[^a-z]", "", unicodedata.normalize("NFD", word.lower()))


def main() -> None:
    """Count pairs; print a row for each first sign, a sign for each cost."""
    pairs: Counter[str] = Counter()
    for word in (*written(), *spoken()):
        around = f" {word} "
        pairs.update(first + second for first, second in pairwise(around))
    for first in SIGNS:
        total = sum(pairs[first + second] for second in SIGNS)
        costs = (round(-2 * log2((pairs[first + second] + 0.5) / (total + 13.5))) for second in SIGNS)
        print(f'    b"{"".join((digits + ascii_lowercase)[min(cost, 35)] for cost in costs)}",')


if __name__ == "__main__":
    main()
