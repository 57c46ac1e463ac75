"""Whether a value was drawn by chance, and the memory for verdicts on values."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from operator import ne
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


_COSTS = (
    b"w897899ab9dca8aa7f879bbcfge",
    b"6fa89gdahbge797jaj696ccfede",
    b"86abc6dgh7dh6ee7fi7ad8gjkbk",
    b"86fbe6ei78o99gh5gj9c79hjlen",
    b"47cdb5deh6hjbfe7gjabeafihem",
    b"4ad98ccchdgf9a7ecf678ecfbgg",
    b"67ecc77fk5li8ff6fj8cb8ihkck",
    b"47ifh5gba8lkad98fn7af9iikfj",
    b"65fge5kji6jhbdd5imad9ahhmbk",
    b"b9c899bajjie8947bg977halemb",
    b"75iee5fgi8icfcc5digad6fdgfg",
    b"46fdd5ffg8oi9eb7eia8bagdjcj",
    b"66feb5ffe6mf8ff6enhbaaekl9j",
    b"759gf5hik6ohdae77jfbf9jknek",
    b"67g887b6e8hdegc8eif86bcikff",
    b"5dbaafdbgcgd895baj6999bbfgf",
    b"86ief6ggb7lg7gg6al6b99jilbl",
    b"7dgfdehhfhkg9eehdedad1feheh",
    b"56ecb5fcj7keebc7ejb99beioch",
    b"49h9g6ega7ldcde89fg869gfkdm",
    b"56hdg5gj95phdff7en7aaahgjbh",
    b"aa99a8cbg9gf786e9j677jeoejf",
    b"95hfg3jhk5keege6gjcfgegkibe",
    b"65gfb6eg85hfcf87fn98dggffkk",
    b"48d9c7cgd7khccea6gec6dfhadh",
    b"2adbcadegbidbaab7ic89feejfe",
    b"65efa4gie7heccc7dndfebdghd9",
)
"""Half bits for each pair of letters, a digit of base 36 each: a row for the first, a column for the second.

The first row and column are for the ends of a word. Made by dev/letter_costs.py.
"""
_END = ord("`")
"""Stands for both ends of a word; it comes right before the letters."""
_HALF_BITS = {
    (_END + first, _END + second): int(chr(cost), 36)
    for first, row in enumerate(_COSTS)
    for second, cost in enumerate(row)
}
_PIECES = re.compile(rb"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^A-Za-z0-9]+")
_OF_NAMES = frozenset(b"_-. /:")
"""What separates words and parts of a path; other signs are dearer."""
CLASSES = bytes.maketrans(
    bytes(range(256)),
    bytes(0 if 97 <= byte <= 122 else 1 if 65 <= byte <= 90 else 2 if 48 <= byte <= 57 else 3 for byte in range(256)),
)
"""For every byte its class: lower case, upper case, digits, others."""
_SIZES = (26, 26, 10, 10)
"""How many signs of each class values are mostly drawn from."""
_OF_CODE = re.compile(rb"[\s()\[\]{}<>,;\"'`\\|&]")
_LEAST, _DRAWN_MOST = 6, 200
NAMED, SAID, CODE = 6, 10, 16
"""Bits by which chance must be the better account: behind a name, in a sentence, and where a program may stand."""

_NAME = -8
_PARTED = re.compile(rb"(?=.*[_./])[\w./+=\-]+")


def written(value: bytes) -> bool:
    """Whether this is plainly a name or a path of several words: `clk_rcg2_shared_ops`, `libfido2-1.symbols`."""
    return _PARTED.fullmatch(value) is not None and len(value) <= _DRAWN_MOST and not drawn(value, _NAME)


@once
def drawn(value: bytes, beyond: int = NAMED) -> bool:
    """Whether chance accounts for these signs far better than words, numbers and what stands between them.

    Of values without a digit that were drawn it knows nine in ten at six letters, nineteen in twenty at eight and
    nearly all from twelve on; of the words and names in programs and documents it takes one in a hundred for one.

    Args:
        value: Without quotes.
        beyond: Bits by which chance must be the better account.
    """
    if not _LEAST <= len(value) <= _DRAWN_MOST or not value.isascii() or _OF_CODE.search(value):
        return False
    return _as_words(value) - _by_chance(value) > beyond


_QUOTING = re.compile(rb"[\s\"'`\\]")
_LEADS = re.compile(
    rb"[$#%]\{|\$\(|\(.*\)|\[.*\]|\{.*\}|<.*>|\A%.*%|\A@.*@|\A#[0-9a-fA-F]+;?\Z|\A\$[A-Za-z]+\d?(?:_[A-Za-z]+\d?)+\Z"
)
"""What has another name or an expression in it, or is a colour."""


@once
def strewn(value: bytes) -> bool:
    """Whether letters, digits and signs of a keyboard stand in no order, brackets too: `$k9(Lx!2`, `#aT3>w_8`.

    Nothing of what leads to a value reads so: `$NAME`, `<your-token>`, `%(name)s`, `~/.ssh/key`.

    Args:
        value: Without quotes.
    """
    if not _LEAST <= len(value) <= _DRAWN_MOST or not value.isascii() or _QUOTING.search(value):
        return False
    kinds = value.translate(CLASSES)
    if len(set(kinds)) < len(_SIZES) - 1 or _LEADS.search(value):
        return False
    changes = sum(map(ne, kinds[1:], kinds))
    return 2 * changes >= len(value) - 1 or _as_words(value) - _by_chance(value) > SAID


def _as_words(value: bytes) -> float:
    """Bits that it takes to write this as words and numbers."""
    half = 0
    for piece in _PIECES.findall(value):
        if piece.isalpha():
            word = b"`%b`" % piece.lower()
            half += sum(map(_HALF_BITS.__getitem__, pairwise(word))) + 2
        elif piece.isdigit():
            half += 4 + 7 * len(piece)
        else:
            half += sum(5 if sign in _OF_NAMES else 12 for sign in piece)
    return half / 2


def _by_chance(value: bytes) -> float:
    """Bits that it takes when each sign is drawn from those kinds that are there."""
    if value.isalpha() and value.istitle():
        return len(value) * math.log2(26)
    kinds = set(value.translate(CLASSES))
    return len(value) * math.log2(sum(_SIZES[kind] for kind in kinds))
