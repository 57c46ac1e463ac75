"""Rows of a database as JSON: every value in a form that JSON has, and all of them together within a bound. Pure."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .faults import TooLarge

MAX_ROWS = 1_000
"""Rows of one answer."""

MAX_BYTES = 2 * 2**20
"""Bytes of one answer as JSON."""

_DEEPEST = 12
_SAFE_WHOLE = 2**53


def plain(value: Any) -> Any:
    """A value of a database as JSON has it.

    Numbers that JSON readers round (above 2^53) and exact decimals are texts, as are moments (ISO 8601), NaN and the
    infinities; bytes are `{"base64": …}`; what nests too deep, and whatever else there is, is its text.
    """
    return _plain(value, 0)


def collect(columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int) -> dict[str, Any]:
    """An answer: `columns`, `rows` (lists in their order), `count`, and `complete`, False where there were more.

    Args:
        columns: Their names.
        rows: From the database; at most one more than `most` is taken.
        most: How many the answer may have.

    Raises:
        TooLarge: one row alone is more than an answer may hold.
    """
    taken: list[list[Any]] = []
    size = 0
    complete = True
    for row in rows:
        if len(taken) >= most:
            complete = False
            break
        values = [plain(value) for value in row]
        size += len(json.dumps(values))
        if size > MAX_BYTES:
            if not taken:
                raise TooLarge(f"One row has more than {MAX_BYTES:,} bytes. Select less of it.")
            complete = False
            break
        taken.append(values)
    return {"columns": list(columns), "rows": taken, "count": len(taken), "complete": complete}


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # Half a character cannot be written as UTF-8.
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return value if -_SAFE_WHOLE <= value <= _SAFE_WHOLE else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _plain_other(value, depth)


def _plain_other(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(name): _plain(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(one, depth + 1) for one in value]
    # Exact decimals, identifiers, spans, addresses, and what nests too deep.
    return str(value).encode("utf-8", "replace").decode("utf-8")
