"""One text made of two: of an old one with some hunks of the new one, or of two changes of the same text.

Hunks are numbered from 1, as they stand in the unified difference of the same two texts. Two changes are merged by git,
which reads no settings and no repository here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Container
from difflib import SequenceMatcher
from pathlib import Path

from kagura_kernel.domain.errors import NotThisTime

_SECONDS = 20.0
_MOST_OVERLAPS = 127
"""What git answers with at most, where it answers with how many parts overlap."""

Lines = tuple[int, int, int, int]
"""Lines from and to before, and from and to afterwards, counted from 0; those at the end are not among them."""


def hunks_between(old: bytes, new: bytes) -> list[list[Lines]]:
    """What differs between two texts, by hunks."""
    found = SequenceMatcher(None, _lines(old), _lines(new)).get_grouped_opcodes()
    return [[(a, b, c, d) for tag, a, b, c, d in group if tag != "equal"] for group in found]


def with_hunks(old: bytes, new: bytes, chosen: Container[int]) -> bytes:
    """The old text with these hunks of the new one; every byte of it is one of either text."""
    before, after = _lines(old), _lines(new)
    made: list[str] = []
    at = 0
    for number, hunk in enumerate(hunks_between(old, new), 1):
        for first, end, first_after, end_after in hunk:
            made += before[at:first]
            made += after[first_after:end_after] if number in chosen else before[first:end]
            at = end
    return "".join([*made, *before[at:]]).encode("utf-8")


def _lines(text: bytes) -> list[str]:
    # As `unified_diff` takes lines, or the numbers would be others.
    return text.decode("utf-8").splitlines(keepends=True)


def can_merge() -> bool:
    """Whether git is there."""
    return shutil.which("git") is not None


def merged(base: bytes, ours: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """Both changes in one text, and whether they overlap: there both stand, between markers of conflict.

    Raises:
        NotThisTime: git is not there, or cannot do it.
    """
    program = shutil.which("git")
    if program is None:
        raise NotThisTime("Two changes of one file are merged by git, which is not installed.")
    with tempfile.TemporaryDirectory(prefix="kagura-merge-") as name:
        folder = Path(name)
        texts = {"ours": ours, "base": base, "theirs": theirs}
        for one, text in texts.items():
            (folder / one).write_bytes(text)
        labels = [word for label in ("the project", "before", "the run") for word in ("-L", label)]
        # Nothing of this machine's settings, nor of a repository above the folder, says how it is done.
        nowhere = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(folder)}
        surroundings = {"PATH": os.defpath, "HOME": name, "LC_ALL": "C", **nowhere}
        try:
            done = subprocess.run(  # noqa: S603 - git with files of ours
                [program, "merge-file", "-p", "-q", *labels, *texts],
                cwd=folder,
                env=surroundings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise NotThisTime("git could not merge the two changes; take one of them.") from error
    if not 0 <= done.returncode <= _MOST_OVERLAPS:
        raise NotThisTime("git could not merge the two changes; take one of them.")
    return done.stdout, done.returncode > 0
