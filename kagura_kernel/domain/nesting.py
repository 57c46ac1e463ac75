"""How lists and mappings lie in each other. Pure, and without recursion: depth is somebody else's word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def one_level_in(level: Iterable[object]) -> list[object]:
    """What lies directly in these values: items of lists and tuples, values of mappings; nothing of any other."""
    inner: list[object] = []
    for one in level:
        if isinstance(one, Mapping):
            inner.extend(one.values())
        elif isinstance(one, list | tuple):
            inner.extend(one)
    return inner


def is_deeper_than(value: object, depth: int) -> bool:
    """Whether something in a value lies more than `depth` levels deep."""
    level = [value]
    for _ in range(depth + 1):
        level = one_level_in(level)
        if not level:
            return False
    return True
