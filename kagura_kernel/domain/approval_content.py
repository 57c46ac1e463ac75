"""What an approval would let happen, taken apart for reading: one content for every display.

It shows the very values that would be used. A text composed of several of them is never taken apart again: what a model
writes could imitate the seams.

Text that a person decides about, so that nothing of it can be out of sight or pose as something else.

Every display of a question shows this form of it. It is for reading only: what was asked is kept, hashed and carried
out as it came.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.visible import LATIN_LOOKALIKES, LOOKALIKES, shown_place, visible

# Beside what is odd in any text: blanks that are none, and what changes or joins letters without a mark of its own.
_UNSEEN = (
    "\u034f\u1680\u180b-\u180d\u180f\u2000-\u200d\u202f\u205f"
    "\u2800\ufe00-\ufe0f\U0001d159\U00016fe4\U000e0100-\U000e01ef"
)
# Prose has these: before a sign in French, and where a paragraph begins in Japanese.
_WIDE = "\u00a0\u3000"
_UNSEEN_LETTER = re.compile(f"[{_UNSEEN}]")
_WIDE_BLANK = re.compile(f"[{_WIDE}]")
_PICTURED = ("\u200d", "\ufe0e", "\ufe0f")
_NOTHING = re.compile(
    # What `visible` writes out has nothing to see either.
    f"[\\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    f"\uffa0{_UNSEEN}{_WIDE}]*"
)
_FEWEST_LINES = 3
_BLANKS = re.compile(r"(?m)(?<=\S)[ \t]{16,}|^[ \t]{41,}|[ \t]{16,}$")
_WORD = re.compile(r"[^\W_]+")
# No name of a host has more pieces: a text made of them must not take long.
_ACCENT = r"[\u0300-\u036f]"
_PIECE = rf"(?:[^\W_]{_ACCENT}*+)++"
_LABEL = rf"{_PIECE}(?:[-_]++{_PIECE}){{0,62}}+"
# From the beginning of a word and its marks alone: otherwise each letter with one would be such a beginning.
_HOST = re.compile(
    rf"(?<![^\W_])(?<!{_ACCENT})(?:{_ACCENT}*+{_LABEL}(?:\.{_LABEL}){{1,126}}+|(?<=://){_ACCENT}*+{_LABEL})"
)
_SCRIPTS = """
    ADLAM ARABIC ARABIC-INDIC ARMENIAN BAMUM BENGALI BUGINESE CANADIAN CARIAN CHEROKEE COPTIC CYRILLIC DESERET
    DEVANAGARI EXTENDED ETHIOPIC FULLWIDTH GEORGIAN GLAGOLITIC GOTHIC GREEK GUJARATI GURMUKHI HEBREW KANNADA KHMER
    LAO LIMBU LISU LYCIAN LYDIAN MALAYALAM MATHEMATICAL MONGOLIAN MYANMAR NKO OLD ORIYA OSAGE OSMANYA ROMAN RUNIC
    SINHALA TAI TAMIL TELUGU THAI TIFINAGH VAI WARANG YI
"""
_LIKE_LATIN = frozenset(_SCRIPTS.split())
"""Scripts, by the first word of a letter's name, with letters or digits that look like those of ASCII.

All but those of East Asia, which stand beside them in ordinary text."""
_SIGNS = re.compile(
    "(?<=[A-Za-z0-9])"
    "[\u02d0\u02f8\u0589\u05c3\u2024\u2044\u2215\u29f8\u3002\uff0e\uff0f\uff1a\uff20\uff61\uff3c]"
    "(?=[A-Za-z0-9])"
)
"""Signs between two letters of ASCII that look like those which end a host's name."""


def plainly(text: str) -> str:
    """The text as a person has to see it who decides about it.

    Runs of lines in which there is nothing to see become one mark that says how many they are, and so do long runs of
    blanks; characters that nobody sees, and letters that pose as those of another script in a word or a host's name,
    are written out, as `⟨U+0430⟩`.
    """
    shown = _WIDE_BLANK.sub(_written, marked(_folded(text)))
    return _BLANKS.sub(lambda found: f"⟨{len(found[0])} blanks⟩", shown)


def marked(text: str) -> str:
    """A text to be read closely, such as a difference: its lines and blanks stay, and those letters are written out."""
    if not text.isascii():
        text = _HOST.sub(lambda found: _WORD.sub(_twins, found[0]), _WORD.sub(_mixed, text))
        text = _SIGNS.sub(_written, text)
        text = _UNSEEN_LETTER.sub(_unseen, text)
        # What no font has a picture for: formats of music and hieroglyphs, private signs, numbers without a letter.
        odd = {letter for letter in set(text) if not letter.isprintable()} - {"\n", "\t", *_WIDE, *_PICTURED}
        text = text.translate({ord(letter): _marked(letter) for letter in odd})
    return visible(text)


def size_words(text: str) -> str:
    """How much there is to read: `63 lines, 60 of them empty`; empty for a single line."""
    lines = text.strip("\n").split("\n")
    if len(lines) == 1:
        return ""
    empty = sum(_is_empty(line) for line in lines)
    return f"{len(lines)} lines, {empty} of them empty" if empty else f"{len(lines)} lines"


def _folded(text: str) -> str:
    kept: list[str] = []
    run: list[str] = []
    for line in [*text.split("\n"), None]:
        if line is not None and _is_empty(line):
            run.append(line)
            continue
        kept += run if len(run) < _FEWEST_LINES else [f"⟨{len(run)} empty lines⟩"]
        run = []
        if line is not None:
            kept.append(line)
    return "\n".join(kept)


def _is_empty(line: str) -> bool:
    return _NOTHING.fullmatch(line) is not None


def _marked(letter: str) -> str:
    return f"⟨U+{ord(letter):04X}⟩"


def _written(found: re.Match[str]) -> str:
    return _marked(found[0])


def _unseen(found: re.Match[str]) -> str:
    before = found.string[found.start() - 1 : found.start()]
    # Pictures are put together with these.
    if found[0] in _PICTURED and before and (before in _PICTURED or unicodedata.category(before) in ("So", "Sk")):
        return found[0]
    return _written(found)


def _mixed(found: re.Match[str]) -> str:
    """A word in which letters of ASCII stand beside some that look like them."""
    word = found[0]
    if word.isascii() or not any(letter.isascii() and letter.isalpha() for letter in word):
        return word
    return "".join(_marked(letter) if _poses(letter) else letter for letter in word)


def _twins(found: re.Match[str]) -> str:
    """A part of a host's name that is made of nothing but such letters, or has an odd one of Latin's own."""
    word = found[0]
    if word.isascii():
        return word
    if not all(letter in LOOKALIKES or letter.isdigit() for letter in word):
        return "".join(_marked(letter) if _is_odd_latin(letter) else letter for letter in word)
    return "".join(_marked(letter) if letter in LOOKALIKES else letter for letter in word)


def _is_odd_latin(letter: str) -> bool:
    """Whether it is a letter of Latin that no alphabet of Europe has: a click, a tone, one with a hook or a bar."""
    if letter.isascii() or not unicodedata.name(letter, "").startswith("LATIN"):
        return False
    usual = "\u00c0" <= letter <= "\u017f" or unicodedata.normalize("NFD", letter)[0].isascii()
    return letter in LATIN_LOOKALIKES or not usual


def _poses(letter: str) -> bool:
    return not letter.isascii() and unicodedata.name(letter, "").partition(" ")[0] in _LIKE_LATIN


# What the question itself shows already.
_SHOWN: Mapping[str, frozenset[str]] = {
    ApprovalKind.NETWORK: frozenset({"host", "port"}),
    ApprovalKind.HOST_COMMAND: frozenset({"command", "stdin", "directory"}),
    ApprovalKind.QUESTION: frozenset({"question", "options"}),
    ApprovalKind.WRITE: frozenset({"diff"}),
}
# Of these the arguments are the question; elsewhere a composed text says what they mean.
_IN_SIGHT = frozenset({ApprovalKind.PLUGIN, ApprovalKind.TOOL, ApprovalKind.WRITE})
# Of these all titles are the same.
_TITLED_ALIKE = frozenset({ApprovalKind.HOST_COMMAND, ApprovalKind.QUESTION})

MAY_CONNECT = "May the box connect to"
"""What stands before a host that is asked for; the host follows."""


@dataclass(frozen=True, slots=True)
class Block:
    """A text that has been on screen to its end before anybody allows it."""

    label: str  # What it is; empty where the title says so
    text: str  # As it is shown
    size: str  # How many lines it has, in words; empty for one


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts that a reader has to see."""

    title: str  # What would happen, as it is shown
    target: str  # The host that is asked for, an international one in both spellings; empty for other questions
    blocks: tuple[Block, ...]  # What would be used, in full
    place: str  # The host directory it would work in, as it is shown; empty where there is none
    # What it would mean, in the words of whoever composed the question, as it is shown; empty where the rest is all
    means: str
    subject: str  # The whole command, host or text, exactly as it would be used: to be kept, not to be shown
    stdin: str  # What a command would read, likewise
    directory: str  # The host directory, likewise

    @property
    def what(self) -> str:
        """The host, or all of the subject, as it is shown."""
        return self.target or plainly(self.subject)


def asked(kind: str, title: str, detail: str, arguments: Mapping[str, Any]) -> Asked:
    """The parts of one question; where they are not known apart, the detail as a whole."""
    subject, stdin, directory, means, target = detail, "", "", "", ""
    if asks_for_host(kind, arguments):
        target = subject = shown_place(str(arguments["host"]), int(arguments["port"]))
        means = detail
    elif kind == ApprovalKind.HOST_COMMAND and isinstance(arguments.get("command"), str):
        subject, stdin = arguments["command"], str(arguments.get("stdin") or "")
        directory = str(arguments.get("directory") or "")
    is_question = kind == ApprovalKind.QUESTION
    # A tool's call is its arguments, which stand below.
    told = is_question or target or subject in ("", title) or (kind == ApprovalKind.TOOL and arguments)
    blocks = [] if told else [_block("", subject)]
    blocks += [_block("It would read", stdin)] if stdin else []
    if in_sight(kind):
        blocks += [_block(name, text) for name, text in more_arguments(kind, arguments).items()]
    heading = MAY_CONNECT if target else (detail or title) if is_question else title
    return Asked(
        plainly(heading), plainly(target), tuple(blocks), plainly(directory), plainly(means), subject, stdin, directory
    )


def asked_for(kind: str, title: str, detail: str, arguments: Mapping[str, Any]) -> str:
    """What tells a question from others of its kind: the very command or question, and the title of all else."""
    return asked(kind, title, detail, arguments).what if kind in _TITLED_ALIKE else plainly(title)


def asked_line(kind: str, title: str, detail: str, arguments: Mapping[str, Any]) -> str:
    """The same behind the title, which says what kind of thing it is."""
    what = asked_for(kind, title, detail, arguments)
    return what if what == plainly(title) else f"{plainly(title)}: {what}"


def asks_for_host(kind: str, arguments: Mapping[str, Any]) -> bool:
    """Whether it is about one host and port, known apart."""
    told = isinstance(arguments.get("host"), str) and isinstance(arguments.get("port"), int)
    return kind == ApprovalKind.NETWORK and told


def more_arguments(kind: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Arguments that the question does not show by itself, each as it would be used."""
    shown = _SHOWN.get(kind, frozenset())
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        for name, value in arguments.items()
        if name not in shown and value not in (None, "", [], {}, ())
    }


def in_sight(kind: str) -> bool:
    """Whether the arguments are what is decided about, so that nobody has to unfold them."""
    return kind in _IN_SIGHT


def _block(label: str, text: str) -> Block:
    return Block(plainly(label), plainly(text), size_words(text))
