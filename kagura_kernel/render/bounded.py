"""Long text cut for a card: its beginning, its end, and between them what is missing and where it can be found."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_END_SHARE = 4
"""The end gets one part in so many: it is where errors stand."""


# How a captured output says that its middle was not kept.
_GAP = re.compile(r"^… (\d{1,15}) (?:bytes|characters) left out …$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bounded:
    """The parts of a text that a card shows."""

    head: str  # the beginning; all of it when nothing is missing
    missing: int = 0  # lines left out behind it
    cut: bool = False  # whether a line was cut in the middle
    tail: str = ""  # the end, behind what is missing
    # Bytes missing, at least, where the text itself came with a gap: how many lines that were, nobody knows.
    unseen: int = 0

    def remark(self, where: str | None = None) -> str:
        """`… 12 more lines, full text in FILE …`; empty when everything is shown and lies nowhere else."""
        if self.unseen:
            count = f"{self.unseen:,} more bytes"
        elif self.missing:
            count = f"{self.missing:,} more line{'' if self.missing == 1 else 's'}"
        elif self.cut:
            count = "more"
        else:
            return f"full text in {where}" if where else ""
        return f"… {count}, full text in {where} …" if where else f"… {count} …"

    def whole(self, where: str | None = None) -> str:
        """All parts as plain text."""
        return "\n".join(part for part in (self.head, self.remark(where), self.tail) if part)


def bounded(text: str, *, lines: int = 60, characters: int = 12_000) -> Bounded:
    """At most so many lines and characters of a text."""
    part = _cut(text, lines, characters)
    whole = text.rstrip("\n")
    gaps = _gaps(whole) - _gaps(part.head) - _gaps(part.tail)
    if not gaps:
        return part
    between = _GAP.sub("", whole[len(part.head) : len(whole) - len(part.tail)])
    return replace(part, unseen=gaps + len(between.encode("utf-8", "replace")))


def _gaps(text: str) -> int:
    """Bytes that a text says it lacks."""
    return sum(int(found[1]) for found in _GAP.finditer(text))


def _cut(text: str, lines: int, characters: int) -> Bounded:
    found = text.rstrip("\n").split("\n")
    if len(found) <= lines:
        head, tail = found, []
    else:
        end = lines // _END_SHARE
        head, tail = found[: lines - end], found[len(found) - end :]
    missing = len(found) - len(head) - len(tail)
    first, last = "\n".join(head), "\n".join(tail)
    if len(first) + len(last) <= characters:
        return Bounded(first, missing, tail=last)
    # Few, but endless lines.
    end = characters // _END_SHARE if last or missing == 0 else 0
    last = (last or first)[-end:] if end else ""
    first = first[: characters - end]
    shown = first.count("\n") + 1 + (last.count("\n") + 1 if last else 0)
    return Bounded(first, max(0, len(found) - shown), cut=True, tail=last)
