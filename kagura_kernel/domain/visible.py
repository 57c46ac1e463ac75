"""Text from models, boxes and files, made safe to look at, wherever it is shown.

Everything that such text could use to pose as something else is turned into something visible: control characters,
bidirectional overrides, invisible characters, lone surrogates.
"""

from __future__ import annotations

import re

# Zero-width joiners stay: emoji and several scripts are written with them.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str) -> str:
    """The text with every character that cannot be seen written out, `⟨U+202E⟩`; line ends and tabs stay."""
    return _ODD.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def printed(text: str) -> str:
    """Output of a program: colours are dropped, a lone carriage return is a new line, the rest as in `visible`."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return visible(plain)
