"""What a text is reduced to before a secret is looked for in it: tools wrap, indent, quote, colour and frame.

Pure. A fold decides for each byte alone, so the fold of two pieces is the two folds, one after the other.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from itertools import compress


class Fold:
    """A way to reduce bytes.

    Attributes:
        dropped: Bytes that do not count.
        counting: For each byte, 1 when it counts.

    Args:
        dropped: The same.
        table: What each of the others counts as.
    """

    def __init__(self, dropped: bytes, table: bytes) -> None:
        self.dropped = dropped
        self.counting = bytes(byte not in dropped for byte in range(256))
        self._table = table

    def __call__(self, data: bytes) -> bytes:
        """The bytes that count."""
        return data.translate(self._table, self.dropped)


EXACT = Fold(b"\r\n", bytes(range(256)))
"""Line ends do not count."""

WIDE = Fold(
    bytes(range(0x21)) + b"\x7f|\\'\",:",
    bytes.maketrans(string.ascii_uppercase.encode() + b"-_", string.ascii_lowercase.encode() + b"+/"),
)
"""Neither blanks, controls (UTF-16 has its zeros there), quotes, nor what separates; small is as large, and the two
alphabets of base64 are one."""

_MARKS = re.compile(
    rb"\x1b\[[0-9;:]{0,32}[mK]"  # colours, and the rest of a line wiped out
    rb"|\xe2[\x94\x95][\x80-\xbf]"  # box drawing, in UTF-8
    rb"|=\r?\n"  # where quoted-printable breaks a line
)
_CUT_MARK = re.compile(rb"(?:\x1b(?:\[[0-9;:]{0,32})?|\xe2[\x94\x95]?|=\r?)\Z")
_LONGEST_MARK = 40
_BLOCK = 256


def has_marks(data: bytes) -> bool:
    """Whether there may be something to veil in it, or the beginning of it; quick."""
    return b"\x1b" in data or b"\xe2" in data or b"=\n" in data or b"=\r" in data or data.endswith(b"=")


def veiled(data: bytes) -> bytes:
    """As many bytes, with zeros for what decorates text although it is made of bytes that count."""
    return _MARKS.sub(lambda found: bytes(len(found[0])), data)


def cut_mark(data: bytes) -> int:
    """How many bytes at the end might be the beginning of a decoration."""
    found = _CUT_MARK.search(data, max(0, len(data) - _LONGEST_MARK))
    return len(data) - found.start() if found else 0


class Places:
    """Where in a text stands what its fold consists of.

    Args:
        data: The text.
        fold: How it was folded.
    """

    def __init__(self, data: bytes, fold: Fold) -> None:
        self._data = data
        self._fold = fold
        self._counts = [0]
        """How many bytes of the fold stand before each block."""
        self._block = -1
        self._inside: list[int] = []

    def of(self, number: int) -> int:
        """The place in the text of a place in its fold."""
        while self._counts[-1] <= number:
            at = (len(self._counts) - 1) * _BLOCK
            self._counts.append(self._counts[-1] + len(self._fold(self._data[at : at + _BLOCK])))
        block = bisect_right(self._counts, number) - 1
        if block != self._block:
            data = self._data[block * _BLOCK : (block + 1) * _BLOCK]
            self._block, self._inside = block, list(compress(range(len(data)), data.translate(self._fold.counting)))
        return block * _BLOCK + self._inside[number - self._counts[block]]


_DROPPED = re.compile(b"[" + re.escape(WIDE.dropped) + b"]+")
_ZERO = b"\0"
_GLUE = b" \t|\r\n\0"


class Spelling:
    """One form of a short secret as it is written: large and small letters count, and so does what stands between.

    Only line ends may be added, with blanks and bars around them. Otherwise a short secret would hide ordinary words.
    """

    def __init__(self, form: bytes) -> None:
        self._letters, self._between = _spelt(form)

    def fits(self, text: bytes) -> bool:
        """Whether a text is this form, wrapped or not."""
        letters, between = _spelt(text)
        if letters != self._letters:
            return False
        return all(
            _wrapped(between.get(place, b""), self._between.get(place, b"")) for place in between | self._between
        )


def _spelt(text: bytes) -> tuple[bytes, dict[int, bytes]]:
    between: dict[int, bytes] = {}
    dropped = 0
    for found in _DROPPED.finditer(text):
        between[found.start() - dropped] = found[0]
        dropped += len(found[0])
    return text.translate(None, WIDE.dropped), between


def _wrapped(there: bytes, meant: bytes) -> bool:
    glue = _GLUE if b"\n" in there or b"\r" in there else _ZERO
    return there.translate(None, glue) == meant.translate(None, glue)
