"""Blocks as lines of plain text: for terminals, for diffs, for readers without HTML.

Every text is made visible here, as `html` does it: no character of it moves a cursor or hides another one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kagura_kernel.domain.visible import visible
from kagura_kernel.render.blocks import (
    Block,
    Bullets,
    Cell,
    Choice,
    Fold,
    Group,
    Inline,
    Line,
    Pairs,
    Pre,
    Question,
    Rich,
    Span,
    Table,
    Words,
    joined,
)

_INDENT = "  "


def lines_of(blocks: Iterable[Block]) -> list[str]:
    """These blocks as lines. What can be pressed, and what goes on by itself, is left out."""
    return [line for block in blocks for line in _lines(block)]


def words_in_text(words: Words) -> str:
    """Words with a blank between them."""
    return "".join(joined(words, _inline))


def _lines(block: Block) -> list[str]:  # noqa: PLR0911 - one for each kind
    plain = getattr(block, "plain", None)
    if plain is not None:
        return visible(plain).split("\n") if plain else []
    match block:
        case Line():
            return [said] if (said := words_in_text(block.words)) else []
        case Group() | Question():
            return lines_of(block.inside)
        case Fold():
            return [words_in_text(block.line), *(f"{_INDENT}{line}" for line in lines_of(block.inside))]
        case Table():
            return ["  ".join(filter(None, map(_cell, row))) for row in block.rows]
        case Pairs():
            return [f"{visible(name)}: {words_in_text(words)}" for name, words in block.rows]
        case Bullets():
            return [f"- {words_in_text(row)}" for row in block.rows]
        case Pre():
            return "".join(map(_inline, block.pieces)).split("\n")
        case Rich(is_html=False):
            return visible(block.text.rstrip()).split("\n")
        case _:
            return []


def _cell(cell: Cell) -> str:
    words = [one if isinstance(one, Inline) else " ".join(_lines(one)) for one in cell]
    return words_in_text(tuple(words))


def _inline(one: Inline) -> str:
    match one:
        case str():
            return visible(one)
        case Span(words=str(text)):
            return visible(text)
        case Span(words=words) | Choice(words=words):
            return words_in_text(words) if not isinstance(words, str) else ""
        case _:
            return ""
