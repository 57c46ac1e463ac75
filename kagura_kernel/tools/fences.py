"""Text for a brain: kept in bounds, and fenced where others wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kagura_kernel.domain.commands import CommandResult
from kagura_kernel.domain.tools import NO_OUTPUT
from kagura_kernel.domain.visible import skeleton

TEXT_LENGTH = 30_000
"""Characters that a model reads of a command's output, and of most other results; about 8,000 tokens."""


def shorten_middle(text: str, limit: int = TEXT_LENGTH) -> str:
    """The text, or its beginning and its end around a line that says how many characters are missing."""
    if len(text) <= limit:
        return text
    head = _to_line_end(text[: limit * 2 // 3])
    tail = text[len(text) - limit // 3 :]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n… {missing} characters left out …\n{tail}"


def command_text(result: CommandResult, *, hint: str = "") -> str:
    """What a model reads of a command: its output, its complaints, and how it ended.

    Standard error follows standard output under a line of its own; without any output that is said. An exit code
    other than 0 is the last line but for the hint.
    """
    out, err = result.stdout.text.rstrip("\n"), result.stderr.text.rstrip("\n")
    # What one leaves free the other one has.
    share = TEXT_LENGTH // 2
    blocks = []
    if out:
        blocks.append(shorten_middle(out, max(share, TEXT_LENGTH - len(err))))
    if err:
        heading = "[stderr]\n" if out else ""
        blocks.append(heading + shorten_middle(err, max(share, TEXT_LENGTH - len(out))))
    if not blocks:
        blocks.append(NO_OUTPUT)
    if result.signal is not None:
        blocks.append(f"[ended by signal {result.signal}]")
    elif result.exit_code:
        blocks.append(f"[exit code {result.exit_code}]")
    if spilled := spill_of(result):
        blocks.append(f"[the whole output is kept for the person as {spilled}; redirect to a file to read parts of it]")
    if hint:
        blocks.append(f"[{hint}]")
    return "\n".join(blocks)


def spill_of(result: CommandResult) -> str | None:
    """Name of the file with a command's full output, if there is one."""
    for output in (result.stdout, result.stderr):
        if output.spill is not None:
            return output.spill.name
    return None


def _to_line_end(head: str) -> str:
    cut = head.rfind("\n", len(head) * 3 // 4)
    return head if cut < 0 else head[:cut]


_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# What a terminal takes for a colour, a movement, a title or a link, whole.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNSEEN = re.compile(
    f"{_ESCAPES.pattern}|"
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ANGLES = re.compile("[<\u02c2\u1438\u2039\u226e\u2329\u276e\u27e8\u3008\ufe64\uff1c]")
_SLASHES = frozenset("/\u1735\u2044\u2215\u2571\u27cb\u29f8\u3033\uff0f")


def fenced(tag: str, text: str, attributes: Mapping[str, str] | None = None) -> str:
    """A text between `<tag …>` and `</tag>`, each on a line of its own.

    The tag is a word of letters. Whatever looks like one of these two marks in the text is written so that it is none.
    """
    said = "".join(f' {name}="{attribute(value)}"' for name, value in (attributes or {}).items())
    return f"<{tag}{said}>\n{_harmless(tag, text)}\n</{tag}>"


def attribute(text: str) -> str:
    """A text as the value of an attribute: one line that does not end it."""
    line = " ".join(plain(text).split())
    return line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def plain(text: str) -> str:
    """A text without what a reader does not see; every end of a line becomes a plain one.

    Controls, marks without width, other directions, letters that are invisible.
    """
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))


def _harmless(tag: str, text: str) -> str:
    name = tag.lower()
    return _ANGLES.sub(lambda found: "&lt;" if _is_mark(name, text, found.end()) else found[0], text)


def _is_mark(name: str, text: str, at: int) -> bool:
    """Whether the tag's name follows an angle, however it is spelt, and whatever unseen stands in it."""
    said = ""
    slashed = False
    while at < len(text):
        if escape := _ESCAPES.match(text, at):
            at = escape.end()
            continue
        letter = text[at]
        at += 1
        if not said and not slashed and letter in _SLASHES:
            slashed = True
            continue
        seen = skeleton(letter)
        if said.startswith(name):
            if seen:
                return not (seen[0].isalnum() or seen[0] == "_")
        elif seen != " " or said:
            said += seen
            if not said.startswith(name[: len(said)]) or len(said) > len(name):
                return False
    return said == name
