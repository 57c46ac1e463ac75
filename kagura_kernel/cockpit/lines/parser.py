"""From a line to a command with its values, by the one list; every mistake is one clear error. Pure.

A line is words, quoted as in a shell, and the value behind each word is read by its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS, HELP
from kagura_kernel.cockpit.lines.help import usage_lines
from kagura_kernel.domain.errors import NotThisTime, UnknownName, UsageError
from kagura_kernel.domain.former_names import MODES
from kagura_kernel.domain.grammar import EVERYWHERE, Argument, CellMagic, Command, InputRequest, Kind, Option, Surface
from kagura_kernel.domain.visible import is_whole
from kagura_kernel.journal.place import expanded

_BLANK = " \t\r\n"
_QUOTES = "'\""
_ESCAPE = "\\"


class Word(NamedTuple):
    """One word of a line."""

    text: str  # Without its quotes
    raw: str  # As it stands in the line
    start: int = 0  # Where it begins
    unfinished: str = ""  # The quote that is not closed, or a backslash with nothing behind it; otherwise empty

    @property
    def end(self) -> int:
        """Where it is over."""
        return self.start + len(self.raw)


def words_of(line: str) -> list[Word]:
    """All words; only the last one can be unfinished. Never raises."""
    words: list[Word] = []
    place = 0
    while place < len(line):
        if line[place] in _BLANK:
            place += 1
            continue
        word = _word_at(line, place)
        words.append(word)
        place = word.end
    return words


def unquoted(raw: str) -> str:
    """A spelling without the quotes around the whole of it; quotes inside stay, as in `x=df['a']`."""
    if raw[:1] not in _QUOTES or not raw:
        return raw
    place = 1
    while place < len(raw) and raw[place] != raw[0]:
        place += 2 if raw[place] == _ESCAPE and raw[0] == '"' else 1
    return _word_at(raw, 0).text if place == len(raw) - 1 else raw


def _word_at(line: str, start: int) -> Word:
    text: list[str] = []
    quote = ""
    place = start
    while place < len(line):
        sign = line[place]
        if sign == _ESCAPE and quote != "'":
            if place + 1 == len(line):
                return Word("".join(text), line[start:], start, quote or _ESCAPE)
            escaped = line[place + 1]
            # Between double quotes a backslash is itself, unless it stands before one of the two.
            text.append(escaped if not quote or escaped in (quote, _ESCAPE) else sign + escaped)
            place += 2
            continue
        if quote:
            quote = "" if sign == quote else quote
            text.append("" if not quote else sign)
        elif sign in _QUOTES:
            quote = sign
        elif sign in _BLANK:
            break
        else:
            text.append(sign)
        place += 1
    return Word("".join(text), line[start:place], start, quote)


N = TypeVar("N", int, float)
Slot = Argument | Option

LARGEST_COUNT = 1_000_000_000
LONGEST_SECONDS = 365 * 24 * 3600
LARGEST_USD = 1_000_000
"""Bounds of what a person can mean; far below what clocks, databases and floats can hold."""

_PATHS = frozenset({Kind.FILE, Kind.DIRECTORY, Kind.NOTEBOOK})
"""What the system names by bytes, which need be no text."""


class Unreadable(Exception):
    """A word is not of its kind; the text says why, one clause on its way to an error that names the whole line."""


def read(slot: Slot, text: str) -> Any:
    """The value behind a word; a tuple where commas may join several.

    Raises:
        Unreadable: it is not of its kind.
    """
    if isinstance(slot, Option) and slot.commas:
        return _several(slot, text)
    return _one(slot, text)


def near(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """What was probably meant; empty when nothing is near."""
    from difflib import get_close_matches

    # Letters that changed places are the commonest slip, and count for little there.
    swapped = [one for one in known if sorted(one) == sorted(word)]
    found = swapped or get_close_matches(word, known, n=1, cutoff=cutoff)
    return found[0] if found else ""


def _one(slot: Slot, text: str) -> Any:
    if slot.kind not in _PATHS and not is_whole(text):
        raise Unreadable(f"{text!r} holds what is no text in UTF-8")
    if slot.kind is Kind.CHOICE:
        return _choice(text, slot)
    reader = _READERS.get(slot.kind) if slot.kind is not None else None
    return text if reader is None else reader(text)


def _several(slot: Option, text: str) -> tuple[Any, ...]:
    # An expression may hold commas of its own.
    if slot.kind is Kind.EXPRESSION and "=" in text:
        return (_expression(text),)
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise Unreadable(f"{text!r} ends with a comma, or has one too many; several stand without spaces, as in `a,b`")
    return tuple(_one(slot, word) for word in words)


def _number(text: str, what: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"{text!r} is no {what}") from None
    if not 0 <= value < float("inf"):
        raise Unreadable(f"{text!r} is no {what}")
    return _bounded(value, text, most)


def _bounded(value: N, text: str, most: float) -> N:
    if value > most:
        raise Unreadable(f"{text!r} is too large; it can be {most:,} at most")
    return value


def _seconds(text: str) -> float:
    return _number(text.removesuffix("s"), "number of seconds", LONGEST_SECONDS)


def _usd(text: str) -> float:
    value = _number(text.removeprefix("$"), "amount in USD", LARGEST_USD)
    if value == 0:
        raise Unreadable("a budget of 0 USD buys nothing")
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise Unreadable(f"{text!r} is no whole number") from None
    if value < 1:
        raise Unreadable(f"{text!r} is too small; it has to be 1 or more")
    return _bounded(value, text, LARGEST_COUNT)


def _path(text: str) -> Path:
    if not text:
        raise Unreadable("the name of the file is empty")
    if "\0" in text:
        raise Unreadable("the name of a file holds no NUL")
    try:
        return expanded(text)
    except UsageError as error:
        raise Unreadable(error.message.rstrip(".")) from None


def _source(text: str) -> str:
    # As it was typed: of `https://…` a path would leave one slash.
    return text if "://" in text else str(_path(text))


def _session(text: str) -> str:
    if not text.strip():
        raise Unreadable("the name of the session is empty")
    return text


def _choice(text: str, slot: Slot) -> str:
    known = slot.choices
    if text in known:
        return text
    if isinstance(slot, Option) and "--mode" in slot.flags and text in MODES:
        raise Unreadable(f"{text!r} is none of {', '.join(known)}: {MODES[text]}")
    meant = near(text, known)
    hint = f". Did you mean {meant}?" if meant else ""
    if len(known) == 1:
        raise Unreadable(f"{text!r} is not {known[0]}, which is all that can stand here{hint}")
    raise Unreadable(f"{text!r} is none of {', '.join(known)}{hint}")


def _host(text: str) -> str:
    known = ("ask", "none", *_host_sets())
    # Whoever has sets of their own may name them after ours, and a single word may be a host of this network: only
    # what is nearly one of ours, and holds none of them, is taken for a slip.
    if "." in text or ":" in text or any(name in text for name in known):
        return text
    if meant := near(text, known, cutoff=0.8):
        raise Unreadable(
            f"{text!r} is no set of hosts. Did you mean {meant}? A host of this name is written {text}:443"
        )
    return text


def _host_sets() -> Sequence[str]:
    from kagura_kernel.membrane.egress.hosts import HOST_SETS

    return tuple(HOST_SETS)


def _grant(text: str) -> str:
    if not 0 < text.find(":") < len(text) - 1:
        # Not repeated: somebody may have pasted a secret here.
        raise Unreadable("a grant is written PROVIDER:SCOPE, as in `--grant github:read`")
    return text


def _variable(text: str) -> str:
    from kagura_kernel.domain.variables import VARIABLE_NAME

    if not VARIABLE_NAME.fullmatch(text):
        # Python takes letters of every script, a shell does not.
        other = f"; `-i value={text}` gives it such a name there" if text.isidentifier() else ""
        raise Unreadable(f"{text!r} cannot name a variable in a box; A to Z, digits and _ can, as in `df_2`{other}")
    return text


def _expression(text: str) -> InputRequest:
    """A name and the Python expression whose value it gets; a name alone stands for itself."""
    name, sign, expression = text.partition("=")
    name = _variable(name.strip())
    if not sign:
        return InputRequest(name, name)
    expression = expression.strip()
    try:
        compile(expression, "<option>", "eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Unreadable(
            f"{expression!r} is no Python expression; one with spaces stands in quotes, as in `-i 'top=df[df.x > 3]'`"
        ) from None
    return InputRequest(name, expression)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise Unreadable(f"{text!r} has no value; NAME=VALUE is needed")
    return name, value


_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.SECONDS: _seconds,
    Kind.USD: _usd,
    Kind.COUNT: _count,
    Kind.FILE: _path,
    Kind.DIRECTORY: _path,
    Kind.NOTEBOOK: _path,
    Kind.SOURCE: _source,
    Kind.SESSION: _session,
    Kind.HOST: _host,
    Kind.GRANT: _grant,
    Kind.VARIABLE: _variable,
    Kind.EXPRESSION: _expression,
    Kind.PAIR: _pair,
}


HELP_FLAGS = frozenset({"--help", "-h"})


class Parsed(NamedTuple):
    """An understood line."""

    command: Command
    values: Mapping[str, Any]  # By the names of its arguments and options, defaults included


def parse_line(line: str, surface: Surface, *, prefix: str | None = None) -> Parsed:
    """The command on a line without its prefix; an empty line asks for help, and so does `--help` anywhere in it.

    Args:
        line: Quoted as in a shell.
        surface: Where it was typed.
        prefix: How errors begin a command; None as usual there.

    Raises:
        UnknownName: there is no such command; says what was probably meant.
        UsageError: a word is missing, too many, or not of its kind; or the command lives elsewhere.
    """
    return _parse(_closed(line, surface.prefix if prefix is None else prefix), surface, prefix)


def parse_words(words: Sequence[str], surface: Surface) -> Parsed:
    """The same for words that a shell has split already."""
    return _parse([Word(word, word) for word in words], surface, None)


def parse_cell_line(magic: CellMagic, line: str) -> Mapping[str, Any]:
    """The values on the first line of a cell, by the names of the magic's arguments and options.

    Raises:
        UsageError: as `parse_line`; the text ends with the usage.
    """
    form = _Form(magic.typed, f"\n{usage_lines(magic)}", magic.arguments, magic.options, cell=magic)
    return form.fill(_closed(line, f"{magic.typed} "))


def cell_magic(name: str) -> CellMagic:
    """`kagura` or `sandbox`.

    Raises:
        UnknownName: there is no such cell magic.
    """
    for magic in CELL_MAGICS:
        if magic.name == name:
            return magic
    raise UnknownName("cell magic", name, [magic.name for magic in CELL_MAGICS])


def find(words: Sequence[str], surface: Surface) -> tuple[Command, int] | None:
    """The command that these words begin with, and how many of them name it; None when none does.

    A longer name comes before a shorter one.
    """
    found: list[tuple[int, bool, Command]] = []
    for command in COMMANDS:
        for name in (command.name, *command.aliases):
            parts = name.split()
            if list(words[: len(parts)]) == parts:
                found.append((len(parts), surface in command.surfaces, command))
    if not found:
        return None
    count, _, command = max(found, key=lambda one: one[:2])
    return command, count


def names_on(surface: Surface) -> list[str]:
    """Names of all commands that can be typed there."""
    return [command.name for command in COMMANDS if surface in command.surfaces]


def as_typed(text: str, surface: Surface, begin: str) -> str:
    """A message whose commands that can be typed there begin as they do there, with `begin` in place of `%kagura `."""
    names = "|".join(map(re.escape, names_on(surface)))
    return re.sub(rf"(?<!%)%kagura ({names})\b", rf"{begin}\1", text)


def _closed(line: str, before: str) -> list[Word]:
    words = words_of(line)
    if words and words[-1].unfinished:
        what = "nothing stands behind the backslash" if words[-1].unfinished == "\\" else "a quote is not closed"
        raise UsageError(f"{before}{line}: {what}.")
    return words


def _parse(words: list[Word], surface: Surface, prefix: str | None) -> Parsed:
    texts = [word.text for word in words]
    if not texts or texts[0] in HELP_FLAGS or texts[0] == "?":
        return Parsed(HELP, {"word": ()})
    begin = surface.prefix if prefix is None else prefix
    found = find(texts, surface)
    if found is None:
        _refuse_word(texts, surface, begin, _asks_help(texts[1:]))
        return Parsed(HELP, {"word": (texts[0],)})
    command, count = found
    rest = words[count:]
    if _asks_help([word.text for word in rest]):
        return Parsed(HELP, {"word": tuple(command.name.split())})
    if surface not in command.surfaces:
        raise NotThisTime(
            f"`{begin}{command.name}` does not work here; it is a command of the {command.home.value}: "
            f"`{command.home.prefix}{(command.examples or (command.name,))[0]}`."
        )
    where = f"{begin}{command.name}"
    one_line = surface is Surface.TERMINAL
    tail = f" `{where} --help` says what can be asked for." if one_line else f"\n{usage_lines(command, surface, begin)}"
    form = _Form(where, tail, command.arguments_on(surface), command.options_on(surface))
    form.siblings = [name for name in names_on(surface) if name.startswith(f"{command.name} ")]
    return Parsed(command, form.fill(rest))


def _asks_help(rest: Sequence[str]) -> bool:
    before = rest[: rest.index("--")] if "--" in rest else rest
    return not HELP_FLAGS.isdisjoint(before) or list(rest) == ["?"]


def _refuse_word(texts: Sequence[str], surface: Surface, begin: str, asks: bool) -> None:
    """Say why there is no such command; returns when it is a word that only begins commands, and help is wanted."""
    known = names_on(surface)
    parts = [name for name in known if name.startswith(f"{texts[0]} ")]
    if parts and asks:
        return
    if parts and len(texts) == 1:
        more = ", ".join(name.removeprefix(f"{texts[0]} ") for name in parts)
        raise UsageError(
            f"`{begin}{texts[0]}` needs one more word: {more}. `{begin}help {texts[0]}` says what each is for."
        )
    if parts:
        raise UnknownName("command", " ".join(texts[:2]), parts)
    ends_so = [f"`{begin}{name}`" for name in known if name.endswith(f" {texts[0]}")]
    hint = f"Did you mean {' or '.join(ends_so)}?" if ends_so else ""
    raise UnknownName("command", texts[0], list(dict.fromkeys(name.split()[0] for name in known)), hint=hint)


class _Form:
    """What one line may hold, and how its errors read."""

    def __init__(
        self,
        where: str,
        tail: str,
        arguments: Sequence[Argument],
        options: Sequence[Option],
        *,
        cell: CellMagic | None = None,
    ) -> None:
        self._where = where
        self._tail = tail
        self._arguments = arguments
        self._options = {flag: option for option in options for flag in option.flags}
        self._cell = cell
        self._given: set[str] = set()
        # Longer commands that begin like this one: a word too many may be meant for them
        self.siblings: Sequence[str] = ()
        last = arguments[-1] if arguments else None
        self._options_in_text = last is not None and last.options
        # From here on every word belongs to a text, dashes or not.
        self._text_at = len(arguments) - 1 if last is not None and last.kind is Kind.TEXT and last.many else None

    def fill(self, words: Sequence[Word]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for option in self._options.values():
            values[option.name] = () if option.many else False if option.kind is None else option.default
        placed: list[str] = []
        coming = iter(_joined(words))
        for word in coming:
            if word.raw == "--":
                placed += [rest.text for rest in coming]
            elif self._is_option(word.raw, placed):
                self._take(word, coming, values)
            else:
                placed.append(word.text)
        self._place(placed, values)
        return values

    def _is_option(self, raw: str, placed: Sequence[str]) -> bool:
        if not raw.startswith("-") or raw == "-":
            return False
        if self._text_at is not None and len(placed) > self._text_at:
            return raw.partition("=")[0] in self._options or (self._options_in_text and raw.startswith("--"))
        return not (_is_number(raw) and self._arguments)

    def _take(self, word: Word, coming: Iterator[Word], values: dict[str, Any]) -> None:
        option, behind = self._option(word)
        if option.kind is None:
            if behind is not None:
                self.fail(f"{option.flags[-1]} takes no value")
            value: Any = True
        else:
            value = self._read(option, behind or self._next(option, coming))
        for other in option.excludes:
            if other in self._given:
                self.fail(f"{other} and {option.flags[-1]} do not go together")
        self._given.update(option.flags)
        if option.many:
            # Given twice counts once.
            more = value if option.commas else (value,)
            value = tuple(dict.fromkeys((*values[option.name], *more)))
        values[option.name] = value

    def _option(self, word: Word) -> tuple[Option, Word | None]:
        """The option that a word names, and the value behind it in the same word."""
        flag, sign, _ = word.raw.partition("=")
        begin = len(flag) + 1 if sign else None
        if flag not in self._options and word.raw[:2] in self._options:
            flag, begin = word.raw[:2], 2
        if flag not in self._options:
            self._refuse_option(flag)
        return self._options[flag], None if begin is None else Word(word.text[begin:], word.raw[begin:])

    def _next(self, option: Option, coming: Iterator[Word]) -> Word:
        word = next(coming, None)
        if word is None or (word.raw.startswith("-") and word.raw != "-" and not _is_number(word.raw)):
            self.fail(f"{option.flags[-1]} needs a value: `{option.shown}`")
        return word

    def _read(self, option: Option, word: Word) -> Any:
        # Quotes inside an expression are Python's.
        text = unquoted(word.raw) if option.kind is Kind.EXPRESSION else word.text
        try:
            return read(option, text)
        except Unreadable as why:
            self.fail(f"{option.flags[-1]}: {why}")

    def _place(self, placed: list[str], values: dict[str, Any]) -> None:
        for argument in self._arguments:
            if argument.required and not placed:
                article = "an" if argument.shown[0] in "AEIOU" else "a"
                one_of = f"one of {', '.join(argument.choices)}"
                self.fail(f"it needs {one_of if argument.choices else f'{article} {argument.shown}'}")
            count = len(placed) if argument.many else 1
            mine, placed = placed[:count], placed[count:]
            try:
                found = tuple(read(argument, word) for word in mine)
            except Unreadable as why:
                self.fail(f"{why}{self._with_commas()}")
            values[argument.name] = found if argument.many else found[0] if found else argument.default
        if placed:
            self._refuse_rest(placed[0])

    def _with_commas(self) -> str:
        """What somebody may not know who gives an option several values: no comma, and the next one is a word."""
        lists = [one.flags[-1] for one in self._options.values() if one.commas and one.flags[-1] in self._given]
        return f"; several values of {lists[-1]} have commas, as in `{lists[-1]} a,b`" if lists else ""

    def _refuse_option(self, flag: str) -> NoReturn:
        # Without the dashes, which all options share.
        names = {name.lstrip("-"): name for name in self._options}
        meant = near(flag.lstrip("-"), list(names))
        hint = f" Did you mean {names[meant]}?" if meant else ""
        takes = [one.typed for one in CELL_MAGICS if any(flag in option.flags for option in one.options)]
        if self._cell is not None and takes:
            hint = f" It is one of {takes[0]}."
        if not hint and self._text_at is not None:
            hint = " A text that begins with a dash stands behind `--`."
        self.fail(f"there is no option {flag!r} here.{hint}")

    def _refuse_rest(self, word: str) -> NoReturn:
        if self._cell is not None:
            known = [choice for argument in self._arguments for choice in argument.choices]
            meant = near(word, known)
            hint = f" Did you mean {meant}?" if meant not in ("", word) else ""
            hint += "" if self._arguments else f" The {self._cell.body} goes into the lines below."
            self.fail(f"there is no word {word!r} here{self._with_commas()}.{hint}")
        if self.siblings:
            raise UnknownName("command", f"{self.siblings[0].split()[0]} {word}", list(self.siblings))
        self.fail(f"it takes no {word!r}")

    def fail(self, message: str) -> NoReturn:
        """Never returns.

        Raises:
            UsageError: always.
        """
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{self._where}: {message[:1].upper()}{message[1:]}{end}{self._tail}")


def _joined(words: Sequence[Word]) -> list[Word]:
    """The words, with `last everywhere` as one: it names a run or an approval, and in a text the blank comes back."""
    joined: list[Word] = []
    for word in words:
        if joined and f"{joined[-1].raw} {word.raw}" == EVERYWHERE:
            joined[-1] = Word(EVERYWHERE, EVERYWHERE, joined[-1].start)
        else:
            joined.append(word)
    return joined


def _is_number(raw: str) -> bool:
    try:
        float(raw)
    except ValueError:
        return False
    return True
