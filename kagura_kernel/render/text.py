"""Blocks as lines of plain text: for terminals, for diffs, for readers without HTML.

Every text is made visible here, as `html` does it: no character of it moves a cursor or hides another one.
"""

from __future__ import annotations

from collections.abc import Iterable

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
