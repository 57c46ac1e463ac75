"""Plain values as JSON and back, exactly: what JSON has no word for is marked.

`{"$kagura": [kind, value]}` stands for a date, a time, a decimal number, a path, or a dictionary that has such a key.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pathlib
from collections.abc import Callable
from typing import Any

from .wire import CannotCross, readable_size

MARK = "$kagura"
MAX_DEPTH = 100
MAX_BYTES = 32 * 2**20
MAX_VALUES = 2_000_000
LONGEST_NUMBER = 4000

_ADVICE = "Use a DataFrame, a NumPy array or a file"


def encode(value: Any, path: Callable[[pathlib.PurePath], str] = str) -> tuple[bytes, bool]:
    """A plain value as JSON, and whether a tuple in it becomes a list.

    Args:
        value: None, numbers, text, dates, times, decimals, paths, and lists and dictionaries of these.
        path: Where a path leads on the other side; raises `CannotCross`.

    Raises:
        CannotCross: it is, or holds, something else; the text names the place.
    """
    encoder = _Encoder(path)
    plain = encoder.encoded(value, "", 0)
    data = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    check_bounds(data)
    return data, encoder.tuples


class _Encoder:
    def __init__(self, path: Callable[[pathlib.PurePath], str]) -> None:
        self._path = path
        self._count = 0
        self.tuples = False

    def encoded(self, value: Any, where: str, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            # Before somebody waits for all of them.
            raise CannotCross(f"it holds more than the {MAX_VALUES:,} plain values that may cross. {_ADVICE}")
        if depth > MAX_DEPTH:
            raise CannotCross(f"it is nested more than {MAX_DEPTH} levels deep, or holds itself")
        if value is None or type(value) in (bool, str, float):
            return value
        if type(value) in (list, tuple):
            self.tuples |= isinstance(value, tuple)
            return [self.encoded(one, f"{where}[{number}]", depth + 1) for number, one in enumerate(value)]
        if isinstance(value, dict):
            return self._dict(value, where, depth)
        return self._scalar(value, where, depth)

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        found: dict[str, Any] = {}
        for key, one in value.items():
            if not isinstance(key, str):
                raise CannotCross(
                    f"a dictionary{_at(where)} has the key {short(key)}, and keys have to be text. Write "
                    "`{str(key): value for key, value in NAME.items()}`"
                )
            found[str(key)] = self.encoded(one, f"{where}[{short(key)}]", depth + 1)
        return {MARK: ["dict", [[key, one] for key, one in found.items()]]} if MARK in found else found

    def _scalar(self, value: Any, where: str, depth: int) -> Any:
        if type(value) is int:
            if value.bit_length() > 3 * LONGEST_NUMBER:
                raise CannotCross(f"a whole number{_at(where)} has more than {LONGEST_NUMBER} digits")
            return value
        if (marked := self._marked(value)) is not None:
            return {MARK: marked}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.encoded(tuple(value), where, depth)
        plain = _from_numpy(value)
        if plain is value:
            raise CannotCross(f"{_what(value)}{_at(where)} cannot cross: {_instead(value)}")
        return self.encoded(plain, where, depth + 1)

    def _marked(self, value: Any) -> list[str] | None:
        """A value that JSON has no word for, with the word for it; None for what is none of these."""
        if isinstance(value, dt.datetime) and (value != value or getattr(value, "nanosecond", None)):  # noqa: PLR0124 - NaT is a datetime unlike itself
            return None
        for kind, name, write in _MARKS:
            if isinstance(value, kind):
                return [name, write(value)]
        return ["path", self._path(value)] if isinstance(value, pathlib.PurePath) else None


def _from_numpy(value: Any) -> Any:
    """A number, text or time of NumPy as Python's own; everything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


_MARKS: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (dt.datetime, "datetime", dt.datetime.isoformat),
    (dt.date, "date", dt.date.isoformat),
    (dt.time, "time", dt.time.isoformat),
    (dt.timedelta, "timedelta", lambda value: f"{value.days} {value.seconds} {value.microseconds}"),
    (decimal.Decimal, "decimal", str),
)


def check_bounds(data: bytes) -> None:
    """Whether JSON is small enough to be read without harm, by a look at its bytes alone.

    Raises:
        CannotCross: it is too long, or holds too many values.
    """
    if len(data) > MAX_BYTES:
        raise CannotCross(
            f"as a plain value it has {readable_size(len(data))}, and plain values may have "
            f"{readable_size(MAX_BYTES)}. {_ADVICE}"
        )
    count = data.count(b",") + data.count(b"[") + data.count(b"{")
    if count > MAX_VALUES:
        raise CannotCross(f"it holds about {count:,} plain values, and {MAX_VALUES:,} may cross. {_ADVICE}")


def decode(data: bytes, path: Callable[[str], Any] = pathlib.Path) -> Any:
    """What was encoded; nothing in it is believed.

    Args:
        data: JSON, with marks.
        path: A path of the other side to one of this side; raises `CannotCross`.

    Raises:
        CannotCross: it is no JSON, too large, too deep, or a mark is wrong.
    """
    check_bounds(data)
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"), object_hook=lambda found: _unmarked(found, path))
    except CannotCross:
        raise
    except (ValueError, RecursionError, MemoryError, ArithmeticError, TypeError) as error:
        raise CannotCross("it is not the JSON of a plain value") from error
    if _too_deep(value):
        raise CannotCross(f"it is nested more than {MAX_DEPTH} levels deep")
    return value


def _unmarked(found: dict[str, Any], path: Callable[[str], Any]) -> Any:
    if MARK not in found:
        return found
    kind, value = found[MARK]
    if kind == "dict":
        return {str(key): one for key, one in value}
    if not isinstance(value, str) or len(value) > 2 * LONGEST_NUMBER or len(found) > 1:
        raise ValueError(kind)
    if kind == "path":
        return path(value)
    if kind == "timedelta":
        days, seconds, micro = map(int, value.split())
        return dt.timedelta(days, seconds, micro)
    read: dict[str, Callable[[str], Any]] = {
        "datetime": dt.datetime.fromisoformat,
        "date": dt.date.fromisoformat,
        "time": dt.time.fromisoformat,
        "decimal": decimal.Decimal,
    }
    return read[str(kind)](value) if kind in read else _unknown(kind)


def _unknown(kind: object) -> Any:
    raise ValueError(kind)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 2):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not inner:
            return False
        level = inner
    return True


def short(value: object, most: int = 60) -> str:
    """A value for a sentence."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a repr may do anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


def _at(where: str) -> str:
    return f" at {where[:80]}" if where else ""


def _what(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def is_figure_part(value: object) -> bool:
    """Whether it belongs to a figure of matplotlib."""
    return type(value).__module__.startswith("matplotlib.") and hasattr(value, "figure")


_INSTEAD: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda value: isinstance(value, (set, frozenset)), "make it a list with `sorted(…)` or `list(…)`"),
    (lambda value: isinstance(value, (bytes, bytearray)), "bytes cross by themselves, under a name of their own"),
    (lambda value: isinstance(value, complex), "pass its real and imaginary parts"),
    (lambda value: isinstance(value, dt.datetime), "round it to microseconds, or use None for no time"),
    (lambda value: hasattr(value, "_value_"), "pass its `.value`"),
    (callable, "only data crosses; put the code into the cell or into a file of the project"),
    (is_figure_part, "pass its `.figure`"),
    (lambda value: hasattr(value, "to_arrow"), "pass `.to_arrow()` or `.to_pandas()` of it"),
    (
        lambda value: str(getattr(value, "dtype", "")).startswith(("period", "interval")),
        "pass `.astype(str).to_list()` of it",
    ),
    (lambda value: hasattr(value, "to_timestamp"), "pass `.to_timestamp()` of it, or `str(…)`"),
    (lambda value: hasattr(value, "to_frame"), "pass `.to_frame()` or `.to_list()` of it"),
    (lambda value: hasattr(value, "__dataclass_fields__"), "pass `dataclasses.asdict(…)` of it"),
    (lambda value: hasattr(value, "__next__"), "pass `list(…)` of it"),
)


def _instead(value: object) -> str:
    """What to do about a value that does not cross."""
    for fits, advice in _INSTEAD:
        if fits(value):
            return advice
    return "only data crosses (frames, arrays, plain values, images, bytes); pass what you need of it as such"
