"""Names that are put together, and what an expression may stand for, as the reader's parts ask each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from .folding import Folder, NotConstant
from .rules import (
    CAPABLE,
    EXACT,
    FORBIDDEN,
    GRAVE_METHODS,
    MODULES,
    NEVER,
    REACHABLE,
    STANDARD,
    THROUGH,
)
from .scopes import Binding, Scope, Walk


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


class MaterialSeen(Protocol):
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
    def material(self) -> MaterialSeen:
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


_MAX_DEPTH = 90
_STEPS_PER_NODE = 30
_STEPS_AT_LEAST = 200_000


class Texts:
    """The constants and names in one file; however a source is written, the work grows with its length alone."""

    def __init__(self, meaning: Meaning, by_id: Mapping[int, ast.AST]) -> None:
        self._of = meaning
        self._by_id = by_id
        self._budget = _STEPS_AT_LEAST + _STEPS_PER_NODE * len(by_id)
        self._folder = Folder(self._constant, self.named)

    def is_text(self, node: ast.expr) -> bool:
        """Whether an expression may be a text that stands in the source, or is made of such."""
        return any(value.kind == "const" or is_made_of_text(value) for value in self._of.values(node))

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
        values = self._of.values(node)
        if len(values) != 1:
            raise NotConstant
        (value,) = values
        if value.kind == "const":
            return value.data
        if value.kind == "box" and value.unit == self._of.unit and not self._is_changed(node):
            made = self._by_id.get(value.node)
            if isinstance(made, ast.expr) and made is not node:
                return self._folder.value(made, {})
        raise NotConstant

    def _is_changed(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._of.walk.items

    def named(self, node: ast.expr) -> str:
        """The dotted name of what an expression refers to; empty when that is nothing outside, or not certain."""
        values = self._of.values(node)
        if len(values) != 1:
            return ""
        (value,) = values
        return value.name if value.kind == "ref" else ""

    def folded(self, node: ast.expr) -> Values:
        """What is put together, as the constant that it makes where it makes one."""
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            return self._text(node)

    def _text(self, node: ast.expr) -> Values:
        """What a text that is put together may be, with the ends that are known."""
        pieces, rings = pieces_of(node), self._of.plugin.rings
        if not pieces:
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            textual = isinstance(node, ast.JoinedStr | ast.Call) or any(self.is_text(one) for one in sides)
            return SOME_TEXT if textual else ANY
        if not any(isinstance(one, str) or self.is_text(one) for one in pieces):
            return ANY if self._of.plugin.rings == rings else SOME_TEXT
        made: set[_Made] = {("", None, "")}
        holes = 0
        for piece in pieces:
            options = self._options(piece)
            holes += any(tail is not None for _head, tail, _grade in options)
            made = {_joined(one, option) for one in made for option in options}
            if len(made) > MOST:
                return SOME_TEXT
        # A text that grows out of itself may become anything.
        if self._of.plugin.rings != rings:
            return SOME_TEXT
        # Two that are not known may be halves of anything.
        return frozenset(_value(one, in_pieces=holes > 1) for one in made)

    def _options(self, piece: ast.expr | str) -> set[_Made]:
        if isinstance(piece, str):
            return {(piece, None, "")}
        found: set[_Made] = set()
        values = self._of.values(piece)
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

    def names(self, node: ast.expr) -> tuple[list[str], Doubt]:
        """Which attribute names an expression may be, and whether others too."""
        try:
            found = self.constant(node)
        except NotConstant:
            pass
        else:
            return ([found], NO_DOUBT) if isinstance(found, str) else ([], NO_DOUBT)
        names, grade, parts = [], "", []
        for value in self._of.values(node):
            if value.kind == "const":
                names += [value.data] if isinstance(value.data, str) else []
            elif value.kind == "part":
                parts.append(value)
            elif is_made_of_text(value):
                grade = "computed"
            elif not grade:
                grade = "unknown"
        return names, Doubt(grade, tuple(parts))


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


_HIDDEN = NEVER | {"__class__", "__dict__", "__defaults__", "__kwdefaults__", "__annotations__"}
_DANGEROUS = FORBIDDEN | {THROUGH}
_FAMILIES = ("exec", "spawn", "posix_spawn", "fork", "pidfd", "set", "CLONE_", "PRIO_")
_HOLDING = frozenset(
    {
        ast.Constant,
        ast.BinOp,
        ast.JoinedStr,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Call,
        ast.Name,
        ast.Attribute,
        ast.alias,
    }
)
_TOKEN = re.compile(r"\w+")
_WHOLE_DUNDER = re.compile(r"__\w+__")


class Material(NamedTuple):
    """What a plugin has to make names of: every text in its files, and every name that it defines itself."""

    blob: str  # All of them, in small letters
    tokens: frozenset[str]  # The words in them
    whole: frozenset[str]  # Each as a whole

    def holds(self, text: str) -> bool:
        """Whether a text can be cut out of what is there, forwards or backwards, or joined from two words of it."""
        text = text.lower()
        if not text or text in self.blob or text[::-1] in self.blob:
            return True
        return any(text[:at] in self.tokens and text[at:] in self.tokens for at in range(1, len(text)))


def material_of(units: Iterable[Meaning]) -> Material:
    """The material of all files."""
    found: set[str] = set()
    for unit in units:
        for node in unit.walk.nodes:
            if type(node) in _HOLDING:
                found |= _texts(unit, node)
    small = frozenset(one.lower() for one in found)
    blob = "\n".join(sorted(small))
    return Material(blob, frozenset(_TOKEN.findall(blob)), small)


def _texts(unit: Meaning, node: ast.AST) -> set[str]:
    if isinstance(node, ast.Constant):
        data = node.value
        return {data.decode("latin-1") if isinstance(data, bytes) else data} if isinstance(data, str | bytes) else set()
    if isinstance(node, ast.BinOp | ast.JoinedStr):
        return {one.data for one in unit.values(node) if one.kind == "const" and isinstance(one.data, str)}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        spec = node.args
        every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
        return _defined([node.name, *(one.arg for one in every if one is not None)])
    if isinstance(node, ast.ClassDef):
        return _defined([node.name, *(one.arg for one in node.keywords if one.arg)])
    if isinstance(node, ast.Call):
        return _defined([one.arg for one in node.keywords if one.arg])
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return _defined([node.id if isinstance(node, ast.Name) else node.attr])
    return _defined([node.asname]) if isinstance(node, ast.alias) and node.asname else set()


def _defined(names: list[str]) -> set[str]:
    """What a class defines for Python to call is a hidden name as it stands; nothing has to be put before it."""
    return {name for name in names if not _WHOLE_DUNDER.fullmatch(name)}


def doubt_of(parts: Iterable[Value], bases: Values, plugin: Files) -> str:
    """How grave it is to reach an attribute of `bases` by names of which only the ends are known.

    `computed` where a name that is never reached honestly could come of what stands in the source, `unknown` where
    only data could make one, empty where none begins and ends like that.
    """
    found = ""
    for part in parts:
        doubt = _doubt(part, bases, plugin)
        if doubt == "computed":
            return doubt
        found = found or doubt
    return found


def _doubt(part: Value, bases: Values, plugin: Files) -> str:
    head, tail = part.data if isinstance(part.data, tuple) else ("", "")
    # A path of attributes, as `attrgetter` takes it: the last and the first name of it.
    head, tail = head.rpartition(".")[2], tail.partition(".")[0]
    own = bool(bases) and all(one.kind in ("object", "class") for one in bases)
    hidden, grave = _fitting(_HIDDEN, head, tail), [] if own else _fitting(GRAVE_METHODS, head, tail)
    if own:
        hidden = [name for name in hidden if name.startswith("__") or name == "mro"]
    foreign = [one for one in bases if one.kind in ("ref", "own", "const", "def")]
    if any(_leads(one, head, tail) for one in foreign if one.kind == "ref"):
        return "computed"
    if (hidden or grave) and (part.name == "computed" or foreign or head.startswith("__")):
        return "computed"
    material = plugin.material
    ends = len(head), len(tail)
    if any(material.holds(_middle(name, *ends)) for name in hidden):
        return "computed"
    if any(_middle(name, *ends).lower() in material.whole for name in grave):
        return "computed"
    is_capable = any(one.kind == "ref" and one.name in CAPABLE for one in foreign)
    return "unknown" if hidden or is_capable or not head.lstrip("_")[:1].isalpha() else ""


def _leads(base: Value, head: str, tail: str) -> bool:
    """Whether something dangerous of a module or another object outside begins and ends like that."""
    if base.name == "sys":
        return True
    place = f"{base.name}."
    named = [full.removeprefix(place) for full, rule in EXACT.items() if full.startswith(place) and rule in _DANGEROUS]
    if _fitting([*named, *REACHABLE], head, tail):
        return True
    if base.name not in MODULES:
        return False
    if head.startswith("_") or not head or (base.name == "os" and _meets(head)):
        return True
    return bool(_fitting([one for one in STANDARD if f"{base.name}.{one}" not in MODULES], head, tail))


def _meets(head: str) -> bool:
    return any(one.startswith(head) or head.startswith(one) for one in _FAMILIES)


def _fitting(names: Iterable[str], head: str, tail: str) -> list[str]:
    size = len(head) + len(tail)
    return [one for one in names if len(one) >= size and one.startswith(head) and one.endswith(tail)]


def _middle(name: str, head: int, tail: int) -> str:
    return name[head : len(name) - tail]
