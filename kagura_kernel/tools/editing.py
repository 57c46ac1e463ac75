"""Replaces a passage in a text exactly, or says why not. Pure."""

from __future__ import annotations

from dataclasses import replace

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.tools.text_file import TextFile


def replace_passage(file: TextFile, old: str, new: str, *, everywhere: bool = False) -> tuple[TextFile, int]:
    """The file with `old` replaced by `new`, and how often.

    In a file whose lines end in CR LF a passage written with LF is found as well, and what comes in gets CR LF.

    Raises:
        UsageError: `old` is not there, is there more than once, equals `new`, or `new` cannot be written in the
            file's encoding.
    """
    if old == new:
        raise UsageError("'old' and 'new' are the same: nothing to change.")
    if not file.clean and not new.isascii():
        raise UsageError("The file is not valid UTF-8, so only plain ASCII can be put in; convert it first.")
    if file.crlf:
        new = _with_crlf(new)
        if old not in file.text:
            old = _with_crlf(old)
    count = file.text.count(old)
    if count == 0:
        raise UsageError(f"'old' does not occur in the file{_nearly(file.text, old)}. It has to match exactly.")
    if count > 1 and not everywhere:
        lines = _line_numbers(file.text, old)
        raise UsageError(
            f"'old' occurs {count} times (lines {lines}). Add lines around it until it is unique, or set replace_all."
        )
    return replace(file, text=file.text.replace(old, new)), count


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _nearly(text: str, old: str) -> str:
    """What a near miss looks like, so that the next try can be right."""
    flat = " ".join(old.split())
    if flat and flat in " ".join(text.split()):
        return " (it does with other blanks or line breaks)"
    first = old.strip().splitlines()[0].strip() if old.strip() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if first and first in line:
            return f" (its first line does, in line {number})"
    return ""


def _line_numbers(text: str, old: str, most: int = 10) -> str:
    numbers: list[str] = []
    position = text.find(old)
    while position >= 0 and len(numbers) < most:
        numbers.append(str(text.count("\n", 0, position) + 1))
        position = text.find(old, position + len(old))
    return ", ".join(numbers) + (", …" if position >= 0 else "")
