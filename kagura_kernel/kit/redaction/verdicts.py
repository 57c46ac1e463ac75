"""Verdicts on values, remembered while one text is looked through: several rules ask the same about the same value."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec

P = ParamSpec("P")
_MOST = 4096
"""Verdicts; with more, all of them are forgotten."""
_LONGEST = 256
"""Bytes of a value that is remembered."""


class _Known(threading.local):
    """What is known in this thread; None while no text is looked through."""

    verdicts: dict[tuple[object, ...], bool] | None = None


_known = _Known()


@contextmanager
def remembered() -> Iterator[None]:
    """Remember verdicts until the end; of no value anything is kept longer than that."""
    before = _known.verdicts
    _known.verdicts = {} if before is None else before
    try:
        yield
    finally:
        _known.verdicts = before


def once(judge: Callable[Concatenate[bytes, P], bool]) -> Callable[Concatenate[bytes, P], bool]:
    """The same judge, who is asked once about each value of a text."""

    @wraps(judge)
    def judged(value: bytes, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        verdicts = _known.verdicts
        if verdicts is None or len(value) > _LONGEST:
            return judge(value, *args, **kwargs)
        asked = (judge, value, *args, *kwargs.values())
        verdict = verdicts.get(asked)
        if verdict is None:
            if len(verdicts) >= _MOST:
                verdicts.clear()
            verdict = verdicts[asked] = judge(value, *args, **kwargs)
        return verdict

    return judged
