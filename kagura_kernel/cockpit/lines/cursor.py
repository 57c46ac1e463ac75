"""Where a cursor stands in a cell: on a line of ours, in a prompt, or in what is not ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kagura_kernel.cockpit.commands import CELL_MAGICS
from kagura_kernel.cockpit.lines.parsing import find
from kagura_kernel.cockpit.lines.words import Word, words_of
from kagura_kernel.domain.grammar import Argument, CellMagic, Command, Option, Surface

_MARKER = re.compile(r"\s*#+\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$")
_LINE_MAGIC = re.compile(r"(?P<before>\s*(?:[^=%!?#'\"]*=\s*)?)%kagura(?![\w%])")
_WRAPPERS = ("%%capture", "%%py", "%%time", "%%timeit")


class OnLine(NamedTuple):
    """On a line that the grammar reads."""

    head: int  # Where its prefix begins: `%kagura`, `%%kagura` or `/`
    begin: int  # Where the words behind the prefix begin
    end: int  # Where the line is over
    magic: CellMagic | None  # The cell magic at whose top it stands; None for a command
    prefix: str = "%kagura "  # How a command begins here


class InPrompt(NamedTuple):
    """In words for an agent."""


def locate(text: str, cursor: int, *, prompt: bool) -> OnLine | InPrompt | None:
    """Where the cursor is in a cell; None where the cell is not ours there.

    Args:
        text: The whole cell.
        cursor: Characters before the cursor.
        prompt: Whether a plain cell is a prompt.
    """
    first = _first_line(text)
    end = _line_end(text, first)
    top = text[first:end]
    start = top.lstrip()
    if start.startswith("%%"):
        return _below_magic(text, cursor, first, end, prompt=prompt)
    begin = text.rfind("\n", 0, cursor) + 1
    if prompt and start.startswith("/"):
        return _on_slash(text, begin)
    if prompt and start[:1] not in {"%", "!", "?"}:
        return InPrompt() if cursor >= first else None
    return _on_line_magic(text, begin)


def _first_line(text: str) -> int:
    place = 0
    while place < len(text):
        end = _line_end(text, place)
        line = text[place:end]
        if line.strip() and not _MARKER.match(line):
            return place
        place = end + 1
    return min(place, len(text))


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _below_magic(text: str, cursor: int, first: int, end: int, *, prompt: bool) -> OnLine | InPrompt | None:
    head = first + len(text[first:end]) - len(text[first:end].lstrip())
    word = text[head:end].split(maxsplit=1)[0]
    for magic in CELL_MAGICS:
        if word == magic.typed:
            if cursor <= end:
                return OnLine(head, head + len(word), end, magic) if cursor >= head else None
            return InPrompt() if magic.body == "task" else None
    if word not in _WRAPPERS or cursor <= end:
        return None
    # The cell below is a cell of its own; below `%%py` it is Python.
    below = locate(text[end + 1 :], cursor - end - 1, prompt=prompt and word != "%%py")
    if isinstance(below, OnLine):
        shift = end + 1
        return below._replace(head=below.head + shift, begin=below.begin + shift, end=below.end + shift)
    return below


def _on_slash(text: str, begin: int) -> OnLine | None:
    end = _line_end(text, begin)
    line = text[begin:end]
    indent = len(line) - len(line.lstrip())
    if not line.lstrip().startswith("/"):
        return None
    return OnLine(begin + indent, begin + indent + 1, end, None, "/")


def _on_line_magic(text: str, begin: int) -> OnLine | None:
    end = _line_end(text, begin)
    found = _LINE_MAGIC.match(text, begin, end)
    return None if found is None else OnLine(found.end("before"), found.end(), end, None)


class Standing(NamedTuple):
    """How far a line has come before the word at the cursor."""

    words: tuple[str, ...]  # All words before it
    form: Command | CellMagic | None  # The command or cell magic that they name; None while they name none
    option: Option | None = None  # The option whose value comes next
    placed: tuple[str, ...] = ()  # Values of arguments so far
    given: frozenset[str] = frozenset()  # Flags so far
    ended: bool = False  # Whether `--` was written, so that nothing is an option any more
    surface: Surface = Surface.NOTEBOOK  # Where the line is typed

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Those of the form, as they are there."""
        if isinstance(self.form, Command):
            return self.form.arguments_on(self.surface)
        return self.form.arguments if self.form is not None else ()

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of the form, as they are there."""
        if isinstance(self.form, Command):
            return self.form.options_on(self.surface)
        return self.form.options if self.form is not None else ()

    @property
    def argument(self) -> Argument | None:
        """The argument that comes next."""
        if not self.arguments:
            return None
        place = min(len(self.placed), len(self.arguments) - 1)
        found = self.arguments[place]
        return found if len(self.placed) == place or found.many else None


def standing(words: Sequence[Word], magic: CellMagic | None, surface: Surface = Surface.NOTEBOOK) -> Standing:
    """How far a line has come after these words."""
    texts = tuple(word.text for word in words)
    form: Command | CellMagic | None = magic
    count = 0
    if magic is None:
        found = find(texts, surface)
        if found is None or surface not in found[0].surfaces:
            return Standing(texts, None, surface=surface)
        form, count = found
    state = Standing(texts, form, surface=surface)
    flags = {flag: option for option in state.options for flag in option.flags}
    for word in words[count:]:
        state = _after(state, word, flags)
    return state


def _after(state: Standing, word: Word, flags: dict[str, Option]) -> Standing:
    if state.option is not None:
        return state._replace(option=None)
    if word.raw == "--" and not state.ended:
        return state._replace(ended=True)
    name, sign, _ = word.raw.partition("=")
    if not state.ended and name in flags:
        option = flags[name]
        waiting = option if option.kind is not None and not sign else None
        return state._replace(option=waiting, given=state.given | frozenset(option.flags))
    return state._replace(placed=(*state.placed, word.text))


def words_at(text: str, place: OnLine, cursor: int) -> tuple[list[Word], Word]:
    """The words before the one at the cursor, and that one up to the cursor; it may be empty. Places are the cell's."""
    words = [word._replace(start=word.start + place.begin) for word in words_of(text[place.begin : cursor])]
    if words and (words[-1].end == cursor or words[-1].unfinished):
        return words[:-1], words[-1]
    return words, Word("", "", cursor)
