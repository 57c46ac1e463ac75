"""Pieces of a stream that are no UTF-8: looked at in every encoding that they may be in, and kept in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kagura_kernel.kit.redaction.encodings import possible_encodings

_ODD = re.compile("[\udc80-\udcff]")
"""A byte that is no UTF-8, as `surrogateescape` decodes it."""
_LINES = re.compile("[^\n]*\n|[^\n]+")
_WIDEST = 4


def without_foreign_secrets(text: str, redact: Callable[[str], str]) -> str:
    """A text in which bytes of another encoding stand for what they are, without the secrets around them.

    Args:
        text: UTF-8 decoded with `surrogateescape`, looked through as such.
        redact: Redacts one text.
    """
    if "\x00" in text:
        return _text(_wide(_bytes(text), redact))
    if text.isascii():
        return _text(_redacted(_bytes(text), redact)) if "\x1b$" in text else text
    if _ODD.search(text) is None:
        return text
    return "".join(
        _text(_redacted(_bytes(lines), redact)) if _ODD.search(lines) is not None else lines for lines in _groups(text)
    )


def _groups(text: str) -> Iterator[str]:
    """The text cut between lines of UTF-8 and lines of something else; those of ASCII go with what they follow."""
    group: list[str] = []
    odd: bool | None = None
    for line in _LINES.findall(text):
        kind = None if line.isascii() else _ODD.search(line) is not None
        if kind is not None and odd is not None and kind != odd:
            yield "".join(group)
            group = []
        odd = odd if kind is None else kind
        group.append(line)
    yield "".join(group)


def _redacted(data: bytes, redact: Callable[[str], str]) -> bytes:
    for encoding in possible_encodings(data):
        text = data.decode(encoding)
        clean = redact(text)
        if clean != text:
            data = clean.encode(encoding)
    return data


def _wide(data: bytes, redact: Callable[[str], str]) -> bytes:
    """The same for two or four bytes to a letter; a line's end may have cut the first or the last one."""
    for skipped in range(_WIDEST):
        whole = len(data) - (len(data) - skipped) % _WIDEST
        for end in {whole, len(data) - (len(data) - skipped) % 2}:
            clean = _redacted(data[skipped:end], redact)
            if clean != data[skipped:end]:
                return data[:skipped] + clean + data[end:]
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
