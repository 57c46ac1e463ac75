"""The kinds of blocks that cards, boards and lists are made of. They hold text as it came, and never any markup.

A section of a display is a function from values to blocks. `html` and `text` draw them: both from the same blocks, so
that a fact is put into words once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from kagura_kernel.domain.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from kagura_kernel.domain.images import Image

Kind = Literal["", "item", "prose", "code", "strong", "title", "soft", "chip", "pill", "name", "quote", "mark"]


@dataclass(frozen=True, slots=True)
class Span:
    """A few words that look like something. `prose` is ours: what stands between backticks in it is code."""

    words: str | Words
    kind: Kind = ""
    look: str = ""  # classes of the style sheet, without their prefix
    tone: str = ""  # `good`, `busy`, `ask`, `warn`, `bad`, or none
    hint: str = ""  # what a pointer that rests on it is told
    is_last_word: bool = False  # whether the front end announces it: the end of something
    is_status: bool = False  # whether a screen reader speaks when it changes


@dataclass(frozen=True, slots=True)
class Button:
    """Something to press. Text has no buttons."""

    word: str
    act: str
    data: Mapping[str, str] = field(default_factory=dict)  # what is sent along: `id`, `path`, `answer`
    look: str = ""
    label: str = ""  # what a screen reader says where the word alone is not enough
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing of a list that can be opened; `about` says which."""

    words: Words
    about: str
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """A time that goes on in a browser, counted from when it was drawn. Text has no clocks."""

    seconds: float
    counts: Literal["elapsed", "expires"]
    face: str
    ticks: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A place to type in. Text has none."""

    label: str
    value: str = ""
    placeholder: str = ""
    is_budget: bool = False  # an amount, sent along with the button that is pressed
    longest: int = 0  # characters that fit; 0 for any number


@dataclass(frozen=True, slots=True)
class Meter:
    """A part of a whole, from 0 to 1. Text has none."""

    share: float
    about: str  # what a screen reader says


Inline = str | Span | Button | Choice | Clock | Entry | Meter
Words = tuple[Inline, ...]
Pieces = tuple[str | Span, ...]
"""A text in parts with nothing between them, of which some look like something."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, its words with a blank between them."""

    words: Words
    look: str = ""
    tone: str = ""
    plain: str | None = None  # what it is in text, where that is something else; empty for nothing


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells."""

    rows: Sequence[Sequence[Cell]]
    head: Sequence[str] = ()
    look: str = ""
    is_wide: bool = False  # whether it is moved sideways where it is too wide
    has_names: bool = False  # whether the first cell of a row says what the others are about
    of_file: str = ""  # what a screen reader says of rows that are a file's, and look like a box's result
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names, each with what it says."""

    rows: Sequence[tuple[str, Words]]
    tones: Sequence[str] = ()
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    rows: Sequence[Words]


@dataclass(frozen=True, slots=True)
class Pre:
    """Text as it is: of a file, or with `is_output` what a program printed."""

    text: str | Pieces
    look: str = ""
    is_output: bool = False
    is_followed: bool = False  # whether it grows, and is read at its end
    has_end: bool = False  # whether the front end has to know that its end was on screen

    @property
    def pieces(self) -> Pieces:
        """The text in parts, which are one where nothing of it looks like something."""
        return (self.text,) if isinstance(self.text, str) else self.text


@dataclass(frozen=True, slots=True)
class Rich:
    """Markdown of a model or a box, or with `is_html` HTML of a box. Nothing in it does more than to be read."""

    text: str
    look: str = ""
    is_html: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a box."""

    image: Image
    about: str  # what a screen reader says


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified difference."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that belong together; `name` is what a screen reader says of them."""

    inside: Blocks
    look: str = ""
    name: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """A line that opens to what is inside; `key` remembers whether a reader has opened it."""

    line: Words
    inside: Blocks
    key: str
    look: str = ""
    is_open: bool = False
    is_bare: bool = False  # whether what is inside reaches to its edges
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a person is asked; `about` is what it is answered under, and empty where it cannot be answered."""

    inside: Blocks
    name: str
    about: str = ""
    is_open: bool = True
    is_brief: bool = False  # whether it takes one line
    plain: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A place of a form to type in, or to choose in; what is told of it stands below its name. Text has none."""

    name: str
    key: str  # its id on the page
    about: Words
    value: str = ""
    options: Sequence[tuple[str, str]] = ()  # what there is to choose, each value with its word; none to type
    is_number: bool = False
    is_secret: bool = False  # whether what is typed is shown as dots, and never given back
    is_needed: bool = False
    problem: str = ""  # why what was typed cannot be taken


@dataclass(frozen=True, slots=True)
class Countdown:
    """Seconds that are left of a total, and what it means that they pass; without that it has no bar."""

    left: float
    total: float
    meaning: str


@dataclass(frozen=True, slots=True)
class Told:
    """Where it is said why a button did nothing."""

    words: str = ""


Block = (
    Line | Table | Pairs | Bullets | Pre | Rich | Picture | Diff | Group | Fold | Question | Field | Countdown | Told
)
Blocks = tuple[Block, ...]
Cell = tuple[Inline | Block, ...]


_Text = TypeVar("_Text", bound=str)
_One = TypeVar("_One")


def joined(words: Iterable[_One], draw: Callable[[_One], _Text]) -> list[_Text | str]:
    """The words drawn, and the blanks between them; none before our commas, colons and full stops, nor in brackets."""
    parts: list[_Text | str] = []
    for one in words:
        if not (drawn := draw(one)):
            continue
        if parts and parts[-1] != "(" and not (isinstance(one, str) and one.startswith((",", ".", ")", ": "))):
            parts.append(" ")
        parts.append(drawn)
    return parts


def code(text: str, look: str = "", hint: str = "") -> Span:
    """A name, a path, a command."""
    return Span(text, "code", look, hint=hint)


def soft(*words: Inline, hint: str = "") -> Span:
    """Quiet words."""
    return Span(words, "soft", hint=hint)


def chip(word: str, tone: str = "", hint: str = "") -> Span:
    """A state in a word."""
    return Span(word, "chip", tone=tone, hint=hint)


def strong(word: str, tone: str = "") -> Span:
    """A word that leads a line."""
    return Span(word, "strong", tone=tone)


def quote(text: str, look: str = "") -> Span:
    """Somebody else's words."""
    return Span(text, "quote", look)


def item(*words: Inline, hint: str = "") -> Span:
    """One of several facts that stand apart from each other."""
    return Span(words, "item", hint=hint)


def figure(text: str) -> Span:
    """A size, or a length of time, in a table."""
    return Span(text, look="size")


def listed(words: Sequence[Inline]) -> Words:
    """Words with commas between them."""
    return tuple(part for one in words for part in (one, ","))[:-1]


def label(*words: Inline, plain: str | None = None) -> Line:
    """A small remark."""
    return Line(words, "label", plain=plain)


def head(name: str | Words, *rest: Inline, plain: str | None = None) -> Group:
    """The head of a list: its name, and what is to be said of it as a whole."""
    return Group((Line((Span(name, "name"), *rest), "top"),), "head", plain=plain)


def section(name: str, inside: Iterable[Block]) -> Group:
    """Blocks below a name."""
    return Group((Line((name,), "part-name"), *inside), "kit-part")


SPRING = Span("", look="spring")
"""Pushes what follows to the end of the line."""
