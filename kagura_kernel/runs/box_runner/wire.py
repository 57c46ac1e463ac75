"""What both sides agree on: what a packed value is, how it lies in a file, and why it may not cross."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD = 8 * 2**20
"""Bytes of the line before a value: names of columns and the like."""


class CannotCross(Exception):
    """A value stays where it is; the text says why and what to do."""


@dataclass(frozen=True)
class Packed:
    """A value ready to travel."""

    form: str  # How it travels: `frame`, `series`, `array`, `json`, `image`, `text` or `file`
    data: bytes = field(repr=False)  # The bytes
    details: Mapping[str, Any] = field(default_factory=dict)  # Plain values beside them
    summary: str = ""  # What it is, for reading


def to_file(packed: Packed) -> bytes:
    """A packed value as the bytes of one file: a line of JSON, then the data."""
    head = {"form": packed.form, "details": dict(packed.details), "summary": packed.summary}
    return json.dumps(head).encode() + b"\n" + packed.data


def error_file(why: str) -> bytes:
    """A file that says why there is no value."""
    return json.dumps({"error": why[:2000]}).encode() + b"\n"


def readable_size(count: int) -> str:
    """Bytes for a person."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004 - of the units
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def too_large(size: int, room: int) -> CannotCross:
    """The refusal of something too large."""
    return CannotCross(f"it has {readable_size(size)}, and {readable_size(room)} may cross")


def is_a(value: object, package: str, *names: str) -> bool:
    """Whether a value is of a class of this package, without importing the package."""
    return any(
        one.__name__ in names and (one.__module__ or "").partition(".")[0] == package for one in type(value).__mro__
    )
