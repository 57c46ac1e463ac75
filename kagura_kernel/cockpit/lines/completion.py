"""What may stand at a cursor, and what stands there in words: from the one list, and from names that are looked up.

Pure but for the names. Options, commands and choices never need a look-up, so completing them costs nothing. Neither
function raises, whatever the cell holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS
from kagura_kernel.cockpit.lines.help import argument_help, cell_help, command_help, option_help, overview
from kagura_kernel.cockpit.lines.parser import Word, find, words_of
from kagura_kernel.domain.grammar import Argument, CellMagic, Command, Kind, Option, Surface

_MARKER = re.compile(r"\s*#+\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$")
_LINE_MAGIC = re.compile(r"(?P<before>\s*(?:(?:[^\s=%!?#'\"][^=%!?#'\"]*)?=\s*)?)%kagura(?![\w%])")
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

    `cursor` counts the characters before it; `prompt` says whether a plain cell is one.
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


class LinePosition(NamedTuple):
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


def standing(words: Sequence[Word], magic: CellMagic | None, surface: Surface = Surface.NOTEBOOK) -> LinePosition:
    """How far a line has come after these words."""
    texts = tuple(word.text for word in words)
    form: Command | CellMagic | None = magic
    count = 0
    if magic is None:
        found = find(texts, surface)
        if found is None or surface not in found[0].surfaces:
            return LinePosition(texts, None, surface=surface)
        form, count = found
    state = LinePosition(texts, form, surface=surface)
    flags = {flag: option for option in state.options for flag in option.flags}
    for word in words[count:]:
        state = _after(state, word, flags)
    return state


def _after(state: LinePosition, word: Word, flags: dict[str, Option]) -> LinePosition:
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


class Name(NamedTuple):
    """Something that has a name: a run, a file, a variable."""

    text: str  # What is typed
    summary: str = ""  # One line about it; may be empty


class Names(Protocol):
    """Where names come from."""

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind, the likeliest first; those that do not fit may be among them.

        Args:
            kind: Of which kind.
            prefix: What is typed so far.
            given: The words before it on the line.
        """
        ...


_ANY_AT = re.compile(r"@(?:\"(?P<quoted>[^\"\n]+)\"?|(?P<bare>[^\s\"@]+))")


def explain(text: str, cursor: int, names: Names, *, prompt: bool) -> str | None:
    """What stands at the cursor, in words; None where the cell is not ours there, or there is nothing to say.

    Args:
        text: The whole cell.
        cursor: Characters before the cursor.
        names: Looked up for values alone.
        prompt: Whether a plain cell is a prompt, as in the kagura kernel.
    """
    place = locate(text, cursor, prompt=prompt)
    if place is None:
        return None
    if not isinstance(place, OnLine):
        return _file_at(text, cursor, names)
    words = [word._replace(start=word.start + place.begin) for word in words_of(text[place.begin : place.end])]
    at = next((number for number, word in enumerate(words) if word.start <= cursor <= word.end), None)
    if at is None or cursor < place.begin:
        return _whole(standing([word for word in words if word.end < cursor], place.magic), place)
    return _word(standing(words[:at], place.magic), words[at], words, place, names)


def _file_at(text: str, cursor: int, names: Names) -> str | None:
    for found in _ANY_AT.finditer(text):
        if found.start() <= cursor <= found.end():
            path = found["quoted"] or found["bare"]
            return _summary(names, Kind.FILE, path, ())
    return None


def _whole(state: LinePosition, place: OnLine) -> str:
    if place.magic is not None:
        return cell_help(place.magic)
    if isinstance(state.form, Command):
        return command_help(state.form, Surface.NOTEBOOK, prefix=place.prefix)
    return overview(Surface.NOTEBOOK, prefix=place.prefix)


def _word(before: LinePosition, word: Word, words: list[Word], place: OnLine, names: Names) -> str | None:
    slot: Option | Argument | None = before.option
    value = word.text
    if slot is None and not before.ended:
        flag, sign, behind = word.raw.partition("=")
        option = next((one for one in before.options if flag in one.flags), None)
        if option is not None and not sign:
            return _of_option(option, before)
        if option is not None:
            slot, value = option, behind
    if slot is None and before.form is None:
        return _whole(standing(words, place.magic), place)
    slot = slot or before.argument
    if slot is None:
        return _whole(before, place)
    kind = slot.kind or Kind.TEXT
    if kind is Kind.EXPRESSION:
        value = value.partition("=")[2] or value
    if kind is Kind.PAIR:
        # What can be said there, not what was: the sign belongs to its name, and nothing behind it is looked up.
        value = value.partition("=")[0]
        known = (one for one in names.names(kind, value, before.words) if one.text == f"{value}=")
        return next((f"{value}: {one.summary}" for one in known), None) or _of_slot(slot, before)
    told = None if kind in (Kind.CHOICE, Kind.TEXT) else _summary(names, kind, value, before.words)
    return told or _of_slot(slot, before)


def _of_slot(slot: Option | Argument, state: LinePosition) -> str:
    return _of_option(slot, state) if isinstance(slot, Option) else argument_help(slot)


def _of_option(option: Option, state: LinePosition) -> str:
    form = state.form
    examples = form.examples if form is not None else ()
    percent = "%kagura " if isinstance(form, Command) else "%%"
    fitting = [f"  {percent}{one}" for one in examples if not set(one.split()).isdisjoint(option.flags)]
    return "\n".join([option_help(option), *(["examples", *fitting] if fitting else [])])


def _summary(names: Names, kind: Kind, value: str, given: tuple[str, ...]) -> str | None:
    found = list(names.names(kind, value, given))
    exact = [name for name in found if name.text == value]
    ending = [name for name in found if value and name.text.endswith(value)] if kind is not Kind.FILE else []
    for name in exact or (ending if len(ending) == 1 else []):
        return f"{name.text}: {name.summary}" if name.summary else name.text
    return None


__all__ = ["Completion", "Completions", "Name", "Names", "complete", "explain"]

_AT = re.compile(r"(?:^|(?<=[\s(\[{\"'“‘,;:]))@(?:\"(?P<quoted>[^\"\n]*)|(?P<bare>[^\s\"@]*))$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_INSIDE = re.compile(r"(\.\w*|\[\s*[\"'][^\"'\]]*)$")
_ENDINGS = frozenset({Kind.RUN, Kind.LEASE, Kind.APPROVAL})
"""Kinds that may be named by the end of their id."""


class Completion(NamedTuple):
    """One thing that may stand at the cursor."""

    text: str  # What takes the place of the word
    kind: str  # What it is: `command`, `option`, or a kind of the grammar in small letters
    summary: str = ""  # One line about it; may be empty


class Completions(NamedTuple):
    """All of them."""

    start: int  # Where the word that they replace begins
    end: int  # Where it ends: the cursor
    # In the order in which to show them; none where nothing of ours or of Python can stand
    items: tuple[Completion, ...]


def complete(text: str, cursor: int, names: Names, *, prompt: bool) -> Completions | None:
    """What may stand at the cursor; None where the cell is not ours there.

    As `explain`, names are looked up for values alone.
    """
    place = locate(text, cursor, prompt=prompt)
    if place is None:
        return None
    if not isinstance(place, OnLine):
        return _in_prompt(text, cursor, names)
    if cursor < place.begin or (place.prefix != "/" and cursor == place.begin):
        return None
    before, word = words_at(text, place, cursor)
    state = standing(before, place.magic)
    if _is_inside_a_value(state, word):
        return None
    start, items = _at_word(state, word, names, command=place.magic is None)
    return Completions(start, cursor, items)


def complete_command(line: str, surface: Surface, names: Names) -> Completions:
    """What may stand at the end of a line that is a command without its prefix.

    The line goes up to the cursor and is quoted as in a shell; names are looked up for values alone.
    """
    before, word = words_at(line, OnLine(0, 0, len(line), None), len(line))
    start, items = _at_word(standing(before, None, surface), word, names, command=True)
    return Completions(start, len(line), items)


def _at_word(state: LinePosition, word: Word, names: Names, *, command: bool) -> tuple[int, tuple[Completion, ...]]:
    """Where the completed part of a word begins, and what may stand there, each once."""
    items: list[Completion] = []
    start = word.start
    if command and state.option is None and not state.placed:
        items += _next_words(state.words, word.text, state.surface)
    if state.form is not None:
        start, more = _in_form(state, word, names)
        items += more
    once = {item.text: item for item in reversed(items)}
    return start, tuple(once[text] for text in dict.fromkeys(item.text for item in items))


def _is_inside_a_value(state: LinePosition, word: Word) -> bool:
    """Whether an attribute or a key of a variable is being typed, which Python alone knows: `-i top=df.he`."""
    option = state.option
    _, sign, expression = word.raw.partition("=")
    return bool(option is not None and option.kind is Kind.EXPRESSION and sign and _INSIDE.search(expression))


def _in_prompt(text: str, cursor: int, names: Names) -> Completions:
    found = _AT.search(text[:cursor])
    if found is None:
        return Completions(cursor, cursor, ())
    quoted = found["quoted"] is not None
    prefix = found["quoted"] if quoted else found["bare"]
    items = tuple(
        Completion(_at_path(name.text, quoted=quoted), "file", name.summary)
        for name in names.names(Kind.FILE, prefix, ())
        if name.text.startswith(prefix)
    )
    return Completions(cursor - len(prefix), cursor, items)


def _at_path(path: str, *, quoted: bool) -> str:
    if quoted:
        # A folder goes on.
        return path if path.endswith("/") else f'{path}"'
    return f'"{path}"' if re.search(r"\s", path) else path


def _next_words(before: Sequence[str], prefix: str, surface: Surface) -> Iterator[Completion]:
    """Words that begin or continue a command's name."""
    seen: dict[str, str] = {}
    for command in COMMANDS:
        parts = command.name.split()
        if surface in command.surfaces and parts[: len(before)] == list(before) and len(parts) > len(before):
            word = parts[len(before)]
            last = len(parts) == len(before) + 1
            seen[word] = command.summary if last else f"{seen[word]}, {parts[-1]}" if word in seen else parts[-1]
    return (Completion(word, "command", summary) for word, summary in seen.items() if word.startswith(prefix))


def _in_form(state: LinePosition, word: Word, names: Names) -> tuple[int, list[Completion]]:
    """Where the completed part of a word begins, and what may stand there."""
    if state.option is not None:
        return _values(state, state.option, word, names)
    flag, sign, _ = word.raw.partition("=")
    if sign and flag.startswith("-") and not state.ended:
        option = next((one for one in state.options if flag in one.flags and one.kind is not None), None)
        if option is None:
            return word.start, []
        skipped = len(flag) + 1
        value = Word(word.text[skipped:], word.raw[skipped:], word.start + skipped, word.unfinished)
        return _values(state, option, value, names)
    if word.raw.startswith("-") and not state.ended:
        return word.start, list(_options(state, word.raw))
    if state.argument is None:
        return word.start, [] if word.raw or state.ended else list(_options(state, ""))
    start, items = _values(state, state.argument, word, names)
    if not word.raw and not state.ended:
        items += _options(state, "")
    return start, items


def _options(state: LinePosition, prefix: str) -> Iterator[Completion]:
    for option in state.options:
        if not option.many and not state.given.isdisjoint(option.flags):
            continue
        if not state.given.isdisjoint(option.excludes):
            continue
        flag = next((flag for flag in reversed(option.flags) if flag.startswith(prefix)), None)
        if flag is not None:
            yield Completion(flag, "option", f"{option.value}: {option.help}" if option.value else option.help)


def _values(state: LinePosition, slot: Argument | Option, word: Word, names: Names) -> tuple[int, list[Completion]]:
    start, prefix = word.start, word.text
    taken: tuple[str, ...] = ()
    kind = slot.kind or Kind.TEXT
    if isinstance(slot, Option) and slot.commas and word.raw == word.text:
        begin = word.raw.rfind(",") + 1
        taken = tuple(word.raw[:begin].split(","))
        start, prefix = start + begin, prefix[begin:]
    if kind is Kind.EXPRESSION and "=" in prefix and word.raw == word.text:
        # Behind the sign stands Python; the names that it may begin with are variables.
        place = next((one.start() for one in _IDENTIFIER.finditer(prefix) if one.end() == len(prefix)), len(prefix))
        start, prefix = start + place, prefix[place:]
    found = [name for name in _names(slot, kind, prefix, state.words, names) if name.text not in taken]
    fitting = [name for name in found if name.text.casefold().startswith(prefix.casefold())]
    if prefix and kind in _ENDINGS:
        fitting += [name for name in found if name.text.endswith(prefix) and name not in fitting]
    return start, [
        Completion(_quoted(name.text, word), kind.name.lower(), name.summary)
        for name in fitting
        if name.text not in state.placed
    ]


def _names(slot: Argument | Option, kind: Kind, prefix: str, given: Sequence[str], names: Names) -> Iterable[Name]:
    if kind is Kind.CHOICE:
        return [Name(choice) for choice in slot.choices]
    if kind is Kind.COMMAND:
        return _help_words()
    return names.names(kind, prefix, given)


def _help_words() -> Iterator[Name]:
    for magic in CELL_MAGICS:
        yield Name(magic.typed, magic.summary)
    for command in COMMANDS:
        yield Name(command.name.split()[0], command.summary)


def _quoted(text: str, word: Word) -> str:
    if word.unfinished in ("'", '"') and word.unfinished not in text:
        return f"{word.unfinished}{text}" if text.endswith("/") else f"{word.unfinished}{text}{word.unfinished}"
    quoted = shlex.quote(text)
    # What no shell expands here needs no quotes.
    return quoted if re.search(r"[\s'\"\\]", text) else text
