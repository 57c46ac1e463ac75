"""What an expression may stand for, as far as that can be told without running anything."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """One possibility.

    Attributes:
        kind: `ref` (something outside the plugin, by its dotted `name`), `made` (an instance of it), `const`
            (`data`), `def` (a function or lambda of the plugin, by its `node`), `class`, `object` (of a class),
            `box` (a container, by the node that makes it), `space` (the namespace of what `name` refers to, as
            `vars` gives it; an empty name is the plugin's own), `spaceop` and `boxop` (a method of those, `data`),
            `own` (another file of the plugin), `get` (what `attrgetter` and `methodcaller` make; `data` are names),
            `computed` (text put together in a way that cannot be followed), `part` (text of which only the two
            ends in `data` are known; `name` is `computed` or `data`, by what lies between) or `unknown`.
        name: See above.
        node: Identity of a node of the tree.
        data: See above.
        unit: The file that the node belongs to.
    """

    kind: str
    name: str = ""
    node: int = 0
    data: object = None
    unit: str = ""


Values = frozenset[Value]

UNKNOWN = Value("unknown")
COMPUTED = Value("computed")
NOTHING: Values = frozenset()
ANY: Values = frozenset({UNKNOWN})
SOME_TEXT: Values = frozenset({COMPUTED})


class Doubt(NamedTuple):
    """Whether a name may be another than those that are known.

    Attributes:
        grade: `computed` (put together in a way that cannot be followed), `unknown` (data) or empty.
        parts: Names of which only the ends are known.
    """

    grade: str = ""
    parts: tuple[Value, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.grade or self.parts)


NO_DOUBT = Doubt()
PUT_TOGETHER = Doubt("computed")

MOST = 64
"""More possibilities than this are not told apart."""
MOST_TRIES = 8
"""How often what depends on itself is worked out anew."""


def ref(name: str) -> Value:
    """Something outside the plugin."""
    return Value("ref", name)


def const(data: object) -> Value:
    """A constant; the kind of it is a part of what it is, so that 1 and True differ."""
    return Value("const", type(data).__name__, 0, data)


def is_made_of_text(value: Value) -> bool:
    """Whether it is made of a text that stands in the source, in a way that does not show what it is."""
    return value.kind in ("computed", "part") or (value.kind == "made" and bool(value.data))
