"""A line as words, quoted as in a shell, and the value behind each word by its kind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kagura_kernel.domain.former_names import MODES
from kagura_kernel.domain.grammar import Argument, InputRequest, Kind, Option

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

    found = get_close_matches(word, known, n=1, cutoff=cutoff)
    return found[0] if found else ""


def _one(slot: Slot, text: str) -> Any:
    if slot.kind not in _PATHS and not is_text(text):
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


def is_text(text: str) -> bool:
    """Whether it can be written down: what a shell hands on as bytes that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
        return Path(text).expanduser()
    except RuntimeError:
        raise Unreadable(f"{text!r} names a user that is not known here") from None


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
        raise Unreadable(f"{text!r} cannot name a variable; letters, digits and _ can, as in `df_2`")
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
