"""How commands print: tables whose cells cannot pose as anything else, times in UTC, values as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kagura_kernel.membrane.names import shown

_GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows below their heading, in columns; whatever a cell holds, it stays on its line."""
    cells = [list(head), *([shown(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(head))]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def moment(at: datetime | None) -> str:
    """A time in UTC, to the second; a dash when there is none."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def span(seconds: float | None) -> str:
    """A duration in the largest units that say it shortly; a dash when it is not known."""
    if seconds is None:
        return "-"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(count: int) -> str:
    """Bytes, rounded to three digits."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:  # noqa: PLR2004 - a step
        value /= 1024
        del units[0]
    return f"{value:.3g} {units[0]}"


def cut(text: str, length: int) -> str:
    """The beginning of the first line of a text, with a mark when there was more."""
    first, _, more = text.strip().partition("\n")
    return first if len(first) <= length and not more else f"{first[: length - 1]}…"


def as_json(value: Any) -> str:
    """One line of JSON; times as ISO 8601."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
