"""Whether the words of a command lead out of a directory, links followed. Looks at the disk and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def leads_out(words: Iterable[str], directory: Path) -> str:
    """The first word that names something outside of the directory; empty when none does.

    Every word counts as a path, and so does what an option may hold: a program decides that for itself, and to ask
    once too often does no harm.
    """
    root = os.path.realpath(directory)
    for word in words:
        for path in _paths_in(word):
            found = os.path.realpath(os.path.join(root, path))  # noqa: PTH118 - links are followed on the joined text
            if found != root and not found.startswith(root.rstrip("/") + "/"):
                return word
    return ""


def _paths_in(word: str) -> Iterator[str]:
    yield word
    if word.startswith("-"):
        yield word[2:]
    for position, char in enumerate(word):
        if char in "=:":
            yield word[position + 1 :]
