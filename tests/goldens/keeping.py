"""What was kept, held against what is made now; `KAGURA_TEST_GOLDENS=write` keeps what is made now instead."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

KEPT = Path(__file__).parent / "kept"
WRITE = "KAGURA_TEST_GOLDENS"
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LONGEST, MOST = 40, 20
"""Lines of a difference that are shown, and of how many files."""


def hold(folder: str, made: Mapping[str, str]) -> None:
    """Fail, with what is different, unless exactly this is kept; or keep it, and forget what is made no more.

    Args:
        folder: Where it is kept, below `kept`; a file for each subject.
        made: The texts, by the names of their files.
    """
    place = KEPT / folder
    kept = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    now = {name: whole(text) for name, text in made.items()}
    if os.environ.get(WRITE) == "write":
        for name in kept.keys() - now.keys():
            kept[name].unlink()
        for name, text in now.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text, "utf-8")
        return
    told = [f"{folder}/{name} is kept, and nothing makes it any more." for name in sorted(kept.keys() - now.keys())]
    told += [f"{folder}/{name} is made, and nothing is kept of it." for name in sorted(now.keys() - kept.keys())]
    for name in sorted(now.keys() & kept.keys()):
        if (before := kept[name].read_text("utf-8")) != now[name]:
            told.append(f"{folder}/{name} is not what it was:\n{_difference(before, now[name])}")
    if told:
        how = f"Where that is meant, `{WRITE}=write pytest tests/goldens` keeps it; `git diff` shows all of it then."
        pytest.fail("\n\n".join([f"{len(told)} in all. {how}", *told[:MOST]]), pytrace=False)


def _difference(before: str, now: str) -> str:
    found = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "kept", "made", lineterm="", n=2))[2:]
    more = [f"… {len(found) - LONGEST:,} more lines"] if len(found) > LONGEST else []
    return "\n".join([*found[:LONGEST], *more])


def whole(text: str) -> str:
    """A text as it is kept: characters to be seen, no blanks at the ends of lines, one line end at its end."""
    text = _UNSEEN.sub(lambda found: f"⟦{ord(found[0]):x}⟧", text)
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"
