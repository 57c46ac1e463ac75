"""Blocks as lines of plain text: for terminals, for diffs, for readers without HTML.

Every text is made visible here, as `html` does it: no character of it moves a cursor or hides another one.

Long text is cut for a card: its beginning, its end, and between them what is missing and where it can be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui

_INDENT = "  "


def lines_of(blocks: Iterable[ui.Block]) -> list[str]:
    """These blocks as lines. What can be pressed, and what goes on by itself, is left out."""
    return [line for block in blocks for line in _lines(block)]


def words_in_text(words: ui.Words) -> str:
    """Words with a blank between them."""
    return "".join(ui.joined(words, _inline))


def _lines(block: ui.Block) -> list[str]:  # noqa: PLR0911 - one for each kind
    plain = getattr(block, "plain", None)
    if plain is not None:
        return visible(plain).split("\n") if plain else []
    match block:
        case ui.Line():
            return [said] if (said := words_in_text(block.words)) else []
        case ui.Group() | ui.Question():
            return lines_of(block.inside)
        case ui.Fold():
            return [words_in_text(block.line), *(f"{_INDENT}{line}" for line in lines_of(block.inside))]
        case ui.Table():
            return ["  ".join(filter(None, map(_cell, row))) for row in block.rows]
        case ui.Pairs():
            return [f"{visible(name)}: {words_in_text(words)}" for name, words in block.rows]
        case ui.Bullets():
            return [f"- {words_in_text(row)}" for row in block.rows]
        case ui.Pre():
            return "".join(map(_inline, block.pieces)).split("\n")
        case ui.Rich(is_html=False):
            return visible(block.text.rstrip()).split("\n")
        case _:
            return []


def _cell(cell: ui.Cell) -> str:
    words = [one if isinstance(one, ui.Inline) else " ".join(_lines(one)) for one in cell]
    return words_in_text(tuple(words))


def _inline(one: ui.Inline) -> str:
    match one:
        case str():
            return visible(one)
        case ui.Span(words=str(text)):
            return visible(text)
        case ui.Span(words=words) | ui.Choice(words=words):
            return words_in_text(words) if not isinstance(words, str) else ""
        case _:
            return ""


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
