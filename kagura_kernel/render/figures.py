"""Figures in words, the same on every card, in every table and in every chart."""

from __future__ import annotations

_MINUTE = 60
_HOUR = 3600
_THOUSAND = 1000


def seconds(value: float) -> str:
    """`40 ms`, `0.3 s`, `42 s`, `3 min 05 s`."""
    if value < 0.1:  # noqa: PLR2004  # `0.0 s` would say nothing
        return f"{value * 1000:.0f} ms"
    if value < 10:  # noqa: PLR2004  # below ten a tenth still tells something
        return f"{value:.1f} s"
    if value < _MINUTE:
        return f"{value:.0f} s"
    return f"{int(value) // _MINUTE} min {int(value) % _MINUTE:02d} s"


def clock_face(value: float) -> str:
    """`0:42`, `1:02:03`, for counting up and down."""
    whole = max(0, int(value))
    minutes, rest = divmod(whole, _MINUTE)
    if whole < _HOUR:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def span(value: float) -> str:
    """A length of time without false precision: `40 s`, `12 min`, `1 h 05 min`."""
    whole = max(0, round(value))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    return f"{whole // _HOUR} h" + (f" {rest:02d} min" if (rest := whole % _HOUR // _MINUTE) else "")


def data_size(count: int) -> str:
    """`812 B`, `12.4 kB`, `1.3 MB`: powers of a thousand, as on a bill."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < _THOUSAND:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004
        value /= _THOUSAND
    return f"{value:,.1f} TB"


def money(usd: float | None) -> str:
    """`$0.0132`; empty when unknown, which is not the same as nothing."""
    if usd is None:
        return ""
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def whole_cost(own: float | None, children: int, theirs: float | None) -> str:
    """`$0.0142, of which 2 children $0.0100`; what is unknown is said, and never left out of a sum silently.

    `theirs` is what the children cost, None when that of one is unknown.
    """
    if not children:
        return money(own)
    who = "1 child" if children == 1 else f"{children:,} children"
    if theirs is None:
        return f"{money(own) or 'cost unknown'}, and {who} of unknown cost"
    if own is None:
        return f"cost unknown, {who} {money(theirs)}"
    return f"{money(own + theirs)}, of which {who} {money(theirs)}"


def tokens(count: int) -> str:
    """`812`, `12.4k`."""
    return str(count) if count < _THOUSAND else f"{count / _THOUSAND:.1f}k"


def counted(number: int, noun: str, many: str = "") -> str:
    """`1 file`, `3 files`; `many` is the word for several where it is not made with an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"
