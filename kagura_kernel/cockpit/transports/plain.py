"""Text for a chat: nothing in it that cannot be seen, and no longer than it may be. Pure."""

from __future__ import annotations

import re

# Everything that could make a text look like another one: control characters, overrides of direction, the invisible.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str) -> str:
    """The text with every character that cannot be seen written out, `⟨U+202E⟩`; line ends and tabs stay."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _ODD.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", plain)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, at most `limit` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The beginning of a visible text, at most `limit` characters, at the end of a line where one is near; and whether
    anything is missing.
    """  # noqa: D205 - one sentence
    shown = visible(text).strip("\n")
    if len(shown) <= limit:
        return shown, False
    head = shown[: limit - 2]
    line_end = head.rfind("\n")
    return (head[:line_end] if line_end > limit // 2 else head) + "\n…", True
