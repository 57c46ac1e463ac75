"""What an expression may stand for, and what the parts of the reader ask each other about that."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from .scopes import Scope, Walk


class Value(NamedTuple):
    """One possibility."""

    # `ref` (something outside the plugin, by its dotted `name`), `made` (an instance of it), `const` (`data`), `def` (a
    # function or lambda of the plugin, by its `node`), `class`, `object` (of a class), `box` (a container, by the node
    # that makes it), `space` (the namespace of what `name` refers to, as `vars` gives it; an empty name is the plugin's
    # own), `spaceop` and `boxop` (a method of those, `data`), `own` (another file of the plugin), `get` (what
    # `attrgetter` and `methodcaller` make; `data` are names), `computed` (text put together in a way that cannot be
    # followed), `part` (text of which only the two ends in `data` are known; `name` is `computed` or `data`, by what
    # lies between) or `unknown`
    kind: str
    name: str = ""  # See above
    node: int = 0  # Identity of a node of the tree
    data: object = None  # See above
    unit: str = ""  # The file that the node belongs to


Values = frozenset[Value]

UNKNOWN = Value("unknown")
COMPUTED = Value("computed")
NOTHING: Values = frozenset()
ANY: Values = frozenset({UNKNOWN})
SOME_TEXT: Values = frozenset({COMPUTED})


class Doubt(NamedTuple):
    """Whether a name may be another than those that are known."""

    grade: str = ""  # `computed` (put together in a way that cannot be followed), `unknown` (data) or empty
    parts: tuple[Value, ...] = ()  # Names of which only the ends are known

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.grade or self.parts)


NO_DOUBT = Doubt()
PUT_TOGETHER = Doubt("computed")

FIELDS = ("dataclasses.field", "dataclasses.fields", "dataclasses.Field")
"""What gives the fields of a class: `asdict` and `astuple` read the attributes that they name."""

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


class Material(Protocol):
    """What a plugin has to make names of."""

    @property
    def whole(self) -> frozenset[str]:
        """Each text as a whole, in small letters."""

    def holds(self, text: str) -> bool:
        """Whether a text can be cut out of it, or joined from it."""


class Reach(Protocol):
    """Is told of attributes that are reached by a name given as text."""

    def reached(self, node: ast.expr, bases: Values, names: list[str], doubt: Doubt) -> None:
        """Attributes of `bases`; `doubt` says whether there may be others than `names`."""

    def type_of(self, node: ast.expr, full: str) -> None:
        """The type of something, by which others of its kind can be made."""


class Meaning(Protocol):
    """What the expressions of one file stand for."""

    unit: str
    walk: Walk
    plugin: Files
    checks: Reach | None

    def values(self, node: ast.AST) -> Values:
        """What an expression may stand for."""

    def union(self, many: Iterable[Values]) -> Values:
        """All of them."""

    def attribute(self, base: Value, name: str) -> Values:
        """What an attribute of one possibility may stand for."""

    def elements(self, values: Values, key: object = None) -> Values:
        """What is in containers."""

    def inside(self, box: Value, key: object) -> Values:
        """What one container of the file holds."""

    def of_class(self, base: Value, name: str) -> Values:
        """An attribute of a class of the file."""

    def stored(self, name: str) -> Values:
        """What was stored under an attribute's name."""

    def lookup(self, name: str, scope: Scope, line: int) -> Values:
        """What a name may stand for."""

    def constant(self, node: ast.expr) -> object:
        """The one constant that an expression stands for."""

    def folded(self, node: ast.expr) -> Values:
        """What is put together, as the constant that it makes where it makes one."""

    def names(self, node: ast.expr) -> tuple[list[str], Doubt]:
        """Which attribute names an expression may be, and whether others too."""

    def named(self, node: ast.expr) -> str:
        """The dotted name of what an expression refers to."""


class Files(Protocol):
    """All files of a plugin, and what is noted about them."""

    uses: set[str]
    library: set[str]
    doubts: list[tuple[str, int]]
    private: list[tuple[str, str, int]]
    set_by_name: set[str]
    suspicious: bool
    rings: int
    schema: Any

    @property
    def in_memory(self) -> frozenset[str]:
        """Modules that could use files, and use none here."""

    @property
    def defined(self) -> frozenset[str]:
        """Names of attributes that the plugin's own classes have."""

    @property
    def material(self) -> Material:
        """What there is to make names of."""

    def report(self, rule: str, message: str, path: str, line: int) -> None:
        """Note a finding."""

    def evaluation(self, unit: str) -> Meaning:
        """What is known of one file."""

    def is_there(self, unit: str, module: str, level: int, name: str) -> bool:
        """Whether a relative import finds something."""

    def exported(self, unit: str, module: str, level: int, name: str) -> Values:
        """What `from .module import name` gives."""

    def attribute_of_file(self, unit: str, name: str) -> Values:
        """A name in the module of one file."""

    def calls_elsewhere(self, unit: str, name: str) -> list[ast.Call]:
        """Calls in other files of a function of that name."""
