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
