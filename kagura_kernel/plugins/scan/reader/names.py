"""What an expression may stand for, and texts and names that are put together."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .constants import Folder, NotConstant
from .scopes import Binding, Walk


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


class Uncertainty(NamedTuple):
    """Whether a name may be another than those that are known."""

    grade: str = ""  # `computed` (put together in a way that cannot be followed), `unknown` (data) or empty
    parts: tuple[Value, ...] = ()  # Names of which only the ends are known

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.grade or self.parts)


NO_DOUBT = Uncertainty()
PUT_TOGETHER = Uncertainty("computed")

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


class Reach(Protocol):
    """Is told of attributes that are reached by a name given as text."""

    def reached(self, node: ast.expr, bases: Values, names: list[str], doubt: Uncertainty) -> None:
        """Attributes of `bases`; `doubt` says whether there may be others than `names`."""

    def type_of(self, node: ast.expr, full: str) -> None:
        """The type of something, by which others of its kind can be made."""


MAX_FINDINGS = 500
Finding = tuple[str, str, str, int]
"""Rule, message, file, line."""


class Findings:
    """What is noted about a plugin while it is scanned."""

    def __init__(self) -> None:
        self.uses: set[str] = set()  # What its source reaches for: `read`, `write`, `net`
        self.library: set[str] = set()  # What it reaches for through `kagura_plugin`
        self.doubts: list[tuple[str, int]] = []  # Where an attribute is reached by a name that is not known
        # Names with an underscore that no class of the plugin has, with the file and line
        self.private: list[tuple[str, str, int]] = []
        self.set_by_name: set[str] = set()  # Names under which something is stored by `setattr`
        self.suspicious = False  # Whether a text names something that is never reached honestly
        self.rings = 0  # How often what was asked for was just being worked out: values that depend on themselves
        self.schema: Any = None  # The value of `SCHEMA`
        self.found: dict[Finding, None] = {}

    def report(self, rule: str, message: str, path: str, line: int) -> None:
        """Note a finding; the same one is noted once."""
        if len(self.found) < MAX_FINDINGS or rule not in {one[0] for one in self.found}:
            self.found[rule, message, path, line] = None


_MAX_DEPTH = 90
_STEPS_PER_NODE = 30
_STEPS_AT_LEAST = 200_000


class Texts:
    """The constants and names in one file; however a source is written, the work grows with its length alone."""

    def __init__(self, unit: str, walk: Walk, plugin: Findings) -> None:
        self.unit = unit
        self.walk = walk
        self.plugin = plugin
        self.by_id = {id(node): node for node in walk.nodes}
        self._budget = _STEPS_AT_LEAST + _STEPS_PER_NODE * len(self.by_id)
        self._folder = Folder(self._constant, self.named)

    def values(self, node: ast.AST) -> Values:
        """What an expression may stand for."""
        raise NotImplementedError

    def is_text(self, node: ast.expr) -> bool:
        """Whether an expression may be a text that stands in the source, or is made of such."""
        return any(value.kind == "const" or is_made_of_text(value) for value in self.values(node))

    def constant(self, node: ast.expr) -> object:
        """The one constant that an expression stands for.

        Raises `NotConstant`: it has none, or several, or to know it takes too long.
        """
        self._budget -= 1
        if self._budget < 0:
            raise NotConstant
        try:
            return self._folder.fold(node)
        finally:
            self._budget -= self._folder.steps

    def _constant(self, node: ast.expr) -> object:
        self._budget -= 5
        if self._budget < 0:
            raise NotConstant
        values = self.values(node)
        if len(values) != 1:
            raise NotConstant
        (value,) = values
        if value.kind == "const":
            return value.data
        changed = isinstance(node, ast.Name) and node.id in self.walk.items
        if value.kind == "box" and value.unit == self.unit and not changed:
            made = self.by_id.get(value.node)
            if isinstance(made, ast.expr) and made is not node:
                return self._folder.value(made, {})
        raise NotConstant

    def named(self, node: ast.expr) -> str:
        """The dotted name of what an expression refers to; empty when that is nothing outside, or not certain."""
        values = [*self.values(node)]
        return values[0].name if len(values) == 1 and values[0].kind == "ref" else ""

    def folded(self, node: ast.expr) -> Values:
        """What is put together, as the constant that it makes where it makes one."""
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            return self._text(node)

    def _text(self, node: ast.expr) -> Values:
        """What a text that is put together may be, with the ends that are known."""
        pieces, rings = pieces_of(node), self.plugin.rings
        if not pieces:
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            textual = isinstance(node, ast.JoinedStr | ast.Call) or any(self.is_text(one) for one in sides)
            return SOME_TEXT if textual else ANY
        if not any(isinstance(one, str) or self.is_text(one) for one in pieces):
            return ANY if self.plugin.rings == rings else SOME_TEXT
        made: set[_Made] = {("", None, "")}
        holes = 0
        for piece in pieces:
            options = self._options(piece)
            holes += any(tail is not None for _head, tail, _grade in options)
            made = {_joined(one, option) for one in made for option in options}
            if len(made) > MOST:
                return SOME_TEXT
        # A text that grows out of itself may become anything.
        if self.plugin.rings != rings:
            return SOME_TEXT
        # Two that are not known may be halves of anything.
        return frozenset(_value(one, in_pieces=holes > 1) for one in made)

    def _options(self, piece: ast.expr | str) -> set[_Made]:
        if isinstance(piece, str):
            return {(piece, None, "")}
        found: set[_Made] = set()
        values = self.values(piece)
        for value in values:
            if value.kind == "const" and not isinstance(value.data, bytes):
                found.add((str(value.data), None, ""))
            elif value.kind == "part" and isinstance(value.data, tuple):
                found.add((*value.data, value.name))
            elif value.kind == "const" or is_made_of_text(value):
                found.add(("", "", "computed"))
            else:
                found.add(("", "", "data"))
        return found or {("", "", "computed")}

    def names(self, node: ast.expr) -> tuple[list[str], Uncertainty]:
        """Which attribute names an expression may be, and whether others too."""
        try:
            found = self.constant(node)
        except NotConstant:
            pass
        else:
            return ([found], NO_DOUBT) if isinstance(found, str) else ([], NO_DOUBT)
        names, grade, parts = [], "", []
        for value in self.values(node):
            if value.kind == "const":
                names += [value.data] if isinstance(value.data, str) else []
            elif value.kind == "part":
                parts.append(value)
            elif is_made_of_text(value):
                grade = "computed"
            elif not grade:
                grade = "unknown"
        return names, Uncertainty(grade, tuple(parts))


_Made = tuple[str, str | None, str]
"""A text, and None; or its two ends, and what lies between."""


def _joined(one: _Made, other: _Made) -> _Made:
    head, tail, grade = one
    first, last, kind = other
    if tail is None:
        return head + first, last, kind
    return head, (tail + first if last is None else last), "computed" if last is not None else grade


def _value(made: _Made, *, in_pieces: bool) -> Value:
    head, tail, grade = made
    if tail is None:
        return const(head)
    if not head and not tail:
        return COMPUTED if in_pieces or grade == "computed" else UNKNOWN
    return Value("part", "computed" if in_pieces else grade, 0, (head, tail))


def pieces_of(node: ast.expr) -> list[ast.expr | str]:
    """What a text is put together from, from left to right; empty where that cannot be told."""
    if isinstance(node, ast.JoinedStr):
        return [one for part in node.values for one in _of_field(part)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(str(node.left.value).split("%s"), given, "%")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        text = getattr(node.func.value, "value", None)
        return _filled(text.split("{}"), node.args, "{}") if isinstance(text, str) and not node.keywords else []
    found: list[ast.expr | str] = []
    for _ in range(_MAX_DEPTH):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            break
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)] if found else []


def _of_field(part: ast.expr) -> list[ast.expr | str]:
    if not isinstance(part, ast.FormattedValue):
        return [str(part.value)] if isinstance(part, ast.Constant) else [part]
    # A width, a precision or a conversion makes another text of it.
    return [part.value] if part.format_spec is None and part.conversion in (-1, ord("s")) else [part]


def _filled(texts: list[str], given: list[ast.expr], marks: str) -> list[ast.expr | str]:
    if len(texts) != len(given) + 1 or any(mark in text for text in texts for mark in marks):
        return []
    if any(isinstance(one, ast.Starred) for one in given):
        return []
    found: list[ast.expr | str] = [texts[0]]
    for one, text in zip(given, texts[1:], strict=True):
        found += [one, text]
    return found


def sum_of(constant: Callable[[ast.expr], object], binding: Binding, before: list[Binding]) -> object:
    """What `a += b` makes of constants, one after another. Raises `NotConstant`."""
    chain = sorted([*before, binding], key=lambda one: one.line)
    total: object = None
    for one in chain:
        if one.kind == "value" and not one.path and isinstance(one.node, ast.expr):
            total = constant(one.node)
        elif one.kind == "aug" and isinstance(one.node, ast.AugAssign) and isinstance(one.node.op, ast.Add):
            part = constant(one.node.value)
            if not (isinstance(total, str) and isinstance(part, str)):
                raise NotConstant
            total += part
        else:
            raise NotConstant
        if one is binding:
            break
    return total
