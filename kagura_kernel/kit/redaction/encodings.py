"""What encoding a file is in, told from its bytes."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"(?:coding[:=][ \t]*|encoding[ \t]*=[ \t]*[\"']|charset[ \t]*=[ \t]*[\"']?)([-\w.]{2,30})")
_EAST = ("shift_jis", "euc_jp", "gb18030", "cp932", "big5", "euc_kr")
_CONTROLS = frozenset(range(32)) - {7, 8, 9, 10, 11, 12, 13, 27}
_SAMPLE = 1 << 20


def encoding_of(data: bytes) -> str | None:
    """Python's name of the encoding in which these bytes are text and come back as they were; None when there is none."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name if _reads(data, name) else None
    if _reads(data, "utf-8"):
        return None if b"\x00" in data and (wide := _wide(data)) is None else (_wide(data) or "utf-8")
    wide = _wide(data)
    if wide is not None:
        return wide
    if any(byte in _CONTROLS for byte in set(data[:_SAMPLE])):
        return None
    declared = _DECLARED.search(data, 0, 1000)
    if declared is not None:
        with suppress(LookupError):
            name = codecs.lookup(declared.group(1).decode()).name
            if _reads(data, name):
                return name
    return _eastern(data) or next((name for name in ("cp1252", "latin-1") if _reads(data, name)), None)


def is_plain(data: bytes) -> bool:
    """Whether all of it is ordinary text in UTF-8, whatever its first bytes look like."""
    return _reads(data, "utf-8") and not any(byte in _CONTROLS for byte in set(data))


def _wide(data: bytes) -> str | None:
    """UTF-16 or 32 without a mark, by where its zeros are."""
    sample = data[:4096]
    if sample.count(0) * 5 < len(sample):
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    order = ("le", "be") if odd >= even else ("be", "le")
    for name, width in [(f"utf-{size * 8}-{end}", size) for size in (4, 2) for end in order]:
        if len(data) % width == 0 and _reads(data, name):
            text = data.decode(name)
            if not any(ord(letter) in _CONTROLS for letter in set(text)):
                return name
    return None


def _reads(data: bytes, name: str) -> bool:
    """Whether these bytes are text in that encoding and come back the same."""
    try:
        return data.decode(name).encode(name) == data
    except (UnicodeError, LookupError):
        return False


def _eastern(data: bytes) -> str | None:
    """The encoding in which the text reads best, when it is one of East Asia."""
    best, most = None, 0.6
    for name in _EAST:
        if not _reads(data, name):
            continue
        score = _east_asian(data.decode(name))
        if score > most:
            best, most = name, score
    return best


def _east_asian(text: str) -> float:
    """Which share of the letters outside ASCII are ones that such texts are full of."""
    other = [letter for letter in text if ord(letter) > 127]
    if not other:
        return 0.0
    good = sum(_weight(ord(letter)) for letter in other)
    return good / len(other)


def _weight(point: int) -> float:
    if 0x3041 <= point <= 0x30FF:
        return 1.0
    if 0x3000 <= point <= 0x303F or 0xFF01 <= point <= 0xFF5E:
        return 0.95
    if 0x4E00 <= point <= 0x9FFF:
        return 0.9 if _common(point) else 0.55
    if 0xAC00 <= point <= 0xD7A3:
        return 0.9
    # Half-width kana are what Western texts look like in Shift-JIS.
    return -0.5 if 0xFF61 <= point <= 0xFF9F else 0.0


def _common(point: int) -> bool:
    """Whether this character is of the everyday ones: the first level of the Japanese and Chinese standards."""
    letter = chr(point)
    for name, low, high in (("gb2312", 0xB0, 0xD7), ("shift_jis", 0x88, 0x97)):
        with suppress(UnicodeError):
            if low <= letter.encode(name)[0] <= high:
                return True
    return False
