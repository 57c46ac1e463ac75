"""Long text cut for a card: its beginning, its end, and between them what is missing and where it can be found."""

from __future__ import annotations

from dataclasses import dataclass

_END_SHARE = 4
"""The end gets one part in so many: it is where errors stand."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """The parts of a text that a card shows.

    Attributes:
        head: The beginning; all of it when nothing is missing.
        missing: Lines left out behind it.
        cut: Whether a line was cut in the middle.
        tail: The end, behind what is missing.
    """

    head: str
    missing: int = 0
    cut: bool = False
    tail: str = ""

    def remark(self, where: str | None = None) -> str:
        """`… 12 more lines, full text in FILE …`; empty when everything is shown and lies nowhere else."""
        if self.missing:
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
