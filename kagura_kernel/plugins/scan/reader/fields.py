"""What reaches attributes by lists of names, by fields of a format text, or by annotations that are texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from .folding import NotConstant
from .meaning import NO_DOUBT, PUT_TOGETHER, Doubt, Meaning, Value, Values, is_made_of_text, ref
from .scopes import Binding, Scope

SHOWN, DATA, HIDDEN = 0, 1, 2
"""How well a format text is known: its fields stand in the source; a caller could choose them; nobody can read them."""

FORMATTER = "string.Formatter"
TEXTS = ("builtins.str", "collections.UserString")
BY_NAME = ("format", "format_map")
OF_FORMATTERS = ("vformat", "_vformat", "get_field")

_MAX_DEPTH = 40
_BALANCED = re.compile(r"[^{}]*(?:\{[^{}]*\}[^{}]*)*")
_KEEPING = frozenset(
    "textwrap.dedent textwrap.indent textwrap.fill inspect.cleandoc builtins.str builtins.list builtins.tuple "
    "builtins.sorted builtins.reversed collections.UserString".split()
)
"""Functions that bring no letter into a text which was not in what they are given."""
_JOINING = frozenset(
    "join format replace strip lstrip rstrip removeprefix removesuffix ljust rjust center expandtabs".split()
)
"""Methods of texts, likewise."""
_INNER: dict[type, tuple[str, ...]] = {
    ast.IfExp: ("body", "orelse"),
    ast.BoolOp: ("values",),
    ast.List: ("elts",),
    ast.Tuple: ("elts",),
    ast.Dict: ("values",),
    ast.Subscript: ("value",),
    ast.ListComp: ("elt",),
    ast.GeneratorExp: ("elt",),
}
"""Where what an expression may be, or be cut from, stands in it."""


def grade_of(meaning: Meaning, node: ast.expr) -> int:
    """How well a format text is known."""
    return _Grading(meaning).grade(node, 0)


def is_formatter(meaning: Meaning, value: Value) -> bool:
    """Whether something is a formatter of fields, which gives what they reach itself and not its text."""
    if value.kind == "made":
        # `super()` is one in a file that has a class of them.
        inside = value.name == "builtins.super"
        return value.name == FORMATTER or (
            inside and any(derives_from_formatter(meaning, one) for one in meaning.walk.classes.values())
        )
    return is_one_of(meaning, value, FORMATTER)


def is_one_of(meaning: Meaning, value: Value, full: str) -> bool:
    """Whether something is of a class of the plugin's own, or that class itself, which derives from this one."""
    if value.kind not in ("object", "class"):
        return False
    home = meaning.plugin.evaluation(value.unit)
    found = home.walk.classes.get(value.node)
    return found is not None and derives_from(home, found, full)


def derives_from_formatter(meaning: Meaning, node: ast.ClassDef) -> bool:
    """Whether a class is one of formatters."""
    return derives_from(meaning, node, FORMATTER)


def derives_from(meaning: Meaning, node: ast.ClassDef, full: str) -> bool:
    """Whether a class is that one with something added."""
    left, seen = [(meaning, node)], {id(node)}
    while left:
        home, one = left.pop()
        for value in home.union(home.values(base) for base in one.bases):
            if value.kind == "ref" and value.name == full:
                return True
            if value.kind == "class" and value.node not in seen:
                seen.add(value.node)
                home = meaning.plugin.evaluation(value.unit)
                left.append((home, home.walk.classes[value.node]))
    return False


class _Grading:
    """One look at an expression, through the names in it to what they were given."""

    def __init__(self, meaning: Meaning) -> None:
        self._of = meaning
        self._seen: set[int] = set()

    def grade(self, node: ast.AST, depth: int) -> int:
        """The grade of a part; what depends on itself adds nothing."""
        if id(node) in self._seen:
            return SHOWN
        if depth > _MAX_DEPTH:
            return HIDDEN
        self._seen.add(id(node))
        if isinstance(node, ast.expr):
            try:
                return _of_constant(self._of.constant(node), whole=depth == 0)
            except NotConstant:
                pass
        parts = self._parts(node)
        if parts is None:
            return self._of_values(self._of.values(node))
        return max((self.grade(one, depth + 1) for one in parts), default=SHOWN)

    def _parts(self, node: ast.AST) -> Iterable[ast.AST] | None:
        """What a text is put together from; None where only its values tell."""
        match node:
            case ast.Name():
                return self._given(node)
            case ast.JoinedStr():
                return [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))) if "%c" in text:
                return None
            case ast.BinOp(op=ast.Add() | ast.Mod() | ast.Mult()):
                return [node.left, node.right]
            case ast.Call(func=ast.Attribute(attr=name, value=base)) if name in _JOINING:
                return [base, *node.args, *(one.value for one in node.keywords)]
            case ast.Call() if self._of.named(node.func) in _KEEPING:
                return [*node.args, *(one.value for one in node.keywords)]
            case _:
                inner = [getattr(node, field) for field in _INNER.get(type(node), ())]
                return [part for one in inner for part in (one if isinstance(one, list) else [one])] or None

    def _given(self, node: ast.Name) -> list[ast.AST] | None:
        """What a name was given in the one place where it is bound, and what was put into it later."""
        scope = self._of.walk.scope_of.get(id(node), self._of.walk.module)
        at: Scope | None = scope.elsewhere.get(node.id, scope)
        while at is not None and node.id not in at.bindings:
            at = at.parent
        bindings = [] if at is None else at.bindings[node.id]
        if not bindings or not all(_is_plain(one) for one in bindings):
            return None
        given = [one.node.value if isinstance(one.node, ast.AugAssign) else one.node for one in bindings]
        return [*given, *self._of.walk.items.get(node.id, ())]

    @staticmethod
    def _of_values(values: Values) -> int:
        if any(is_made_of_text(one) for one in values):
            return HIDDEN
        if values and all(one.kind == "const" for one in values):
            return max(_of_constant(one.data, whole=False) for one in values)
        return DATA


def _is_plain(binding: Binding) -> bool:
    added = isinstance(binding.node, ast.AugAssign) and isinstance(binding.node.op, ast.Add)
    return (binding.kind == "value" and not binding.path) or (binding.kind == "aug" and added)


def _of_constant(data: object, *, whole: bool) -> int:
    """The grade of a constant: a part of a text in which a field begins or ends may be half of a hidden name."""
    texts = data if isinstance(data, list | tuple) else [data]
    halves = [
        one
        for one in texts
        if isinstance(one, str) and not _BALANCED.fullmatch(one.replace("{{", "").replace("}}", ""))
    ]
    if whole or not halves:
        return SHOWN
    return HIDDEN if any("__" in one for one in halves) else DATA


_COPIED = frozenset({ref("functools.WRAPPER_ASSIGNMENTS"), ref("functools.WRAPPER_UPDATES")})
MAKERS = {
    "collections.namedtuple": "field_names",
    "dataclasses.make_dataclass": "fields",
    "typing.NamedTuple": "fields",
}
"""What makes classes with a list of fields, and what that list is called."""
_NOT_KNOWN = Doubt("unknown")
_BETWEEN = re.compile(r"[\s,]+")

Names = tuple[list[str], Doubt]
"""Which names there are, and whether there may be others too."""


def listed(meaning: Meaning, node: ast.expr) -> Names:
    """Which names are in a list of them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _both(listed(meaning, node.left), listed(meaning, node.right))
    return _of_elements(meaning.elements(meaning.values(node) - _COPIED))


def by_place(meaning: Meaning, node: ast.expr) -> Names:
    """Which attributes the parts of a pattern `A(part, part)` may be, where `node` is its `A`."""
    found: Names = ([], NO_DOUBT)
    left, seen = [(meaning, value) for value in meaning.values(node)], set()
    while left:
        home, value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.kind == "class":
            home = meaning.plugin.evaluation(value.unit)
            inner = home.walk.inner.get(value.node)
            if inner is not None and isinstance(inner.node, ast.ClassDef):
                found = _both(found, _of_class(home, inner.node, inner))
                left += [(home, base) for at in inner.node.bases for base in bases_of(home, at)]
        elif value.kind == "made" and value.name in MAKERS:
            found = _both(found, _of_made(home, value.name))
        elif value.kind != "ref":
            found = _both(found, ([], _NOT_KNOWN))
    return found


def bases_of(meaning: Meaning, node: ast.expr) -> Values:
    """What a class derives from; `Generic[T]` is what `Generic` is."""
    if isinstance(node, ast.Subscript) and all(one.kind in ("ref", "class") for one in meaning.values(node.value)):
        return meaning.values(node.value)
    return meaning.values(node)


def _of_class(meaning: Meaning, node: ast.ClassDef, inner: Scope) -> Names:
    """What a class itself says of its places."""
    found: Names = ([], NO_DOUBT)
    for one in node.keywords:
        # A class of classes answers for what is asked of them, whatever they hold.
        if one.arg in (None, "metaclass") and any(value.kind != "ref" for value in meaning.values(one.value)):
            found = _both(found, ([], PUT_TOGETHER))
    if any(isinstance(one, ast.Name) and one.id == "__annotations__" for one in ast.walk(node)):
        found = _both(found, ([], PUT_TOGETHER))
    if any(value.kind != "ref" for one in node.decorator_list for value in _called(meaning, one)):
        found = _both(found, ([], _NOT_KNOWN))
    for binding in inner.bindings.get("__match_args__", ()):
        plain = binding.kind == "value" and not binding.path and isinstance(binding.node, ast.expr)
        found = _both(found, listed(meaning, binding.node) if plain else ([], PUT_TOGETHER))  # type: ignore[arg-type]
    return found


def _called(meaning: Meaning, node: ast.expr) -> Values:
    return meaning.values(node.func if isinstance(node, ast.Call) else node)


def _of_made(meaning: Meaning, maker: str) -> Names:
    """The fields of every class that a file makes in this way."""
    found: Names = ([], NO_DOUBT)
    calls = [one for one in meaning.walk.call_of.values() if ref(maker) in meaning.values(one.func)]
    for one in calls:
        given = [*one.args[1:2], *(word.value for word in one.keywords if word.arg in (None, MAKERS[maker]))]
        for fields in given:
            found = _both(found, _fields(meaning, fields))
    return found if calls else ([], _NOT_KNOWN)


def _fields(meaning: Meaning, node: ast.expr) -> Names:
    try:
        given = meaning.constant(node)
    except NotConstant:
        inside = meaning.elements(meaning.values(node))
        boxes = frozenset(one for one in inside if one.kind == "box")
        return _of_elements((inside - boxes) | meaning.elements(boxes, 0))
    return list(_texts(given)), NO_DOUBT


def _texts(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield from _BETWEEN.split(given)
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _texts(one)


def _of_elements(inside: Values) -> Names:
    names = [one.data for one in inside if one.kind == "const" and isinstance(one.data, str)]
    parts = tuple(one for one in inside if one.kind == "part")
    others = [one for one in inside if one.kind not in ("const", "part")]
    grade = "computed" if any(is_made_of_text(one) for one in others) else "unknown" if others else ""
    return names, Doubt(grade, parts)


def _both(one: Names, other: Names) -> Names:
    grades = (one[1].grade, other[1].grade)
    grade = "computed" if "computed" in grades else grades[0] or grades[1]
    return [*one[0], *other[0]], Doubt(grade, one[1].parts + other[1].parts)


DISPATCHING = ("functools.singledispatch", "functools.singledispatchmethod")
_PLAIN = (ast.Expression, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp)
_MARKS = (ast.Load, ast.BitOr)


def hidden_code(meaning: Meaning) -> Iterator[int]:
    """The lines of annotations that are texts with more than the name of a type in them, or that nobody can read."""
    for node in meaning.walk.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "__annotations__":
            yield node.lineno
        for one in _of(node):
            for part in ast.walk(one):
                if isinstance(part, ast.expr) and _is_code(meaning, part):
                    yield part.lineno


def _of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    spec = node.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    return [one for one in (node.returns, *(arg.annotation for arg in every if arg is not None)) if one is not None]


def _is_code(meaning: Meaning, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and _is_given(meaning, node, set()):
        return True
    return any(
        is_made_of_text(value) or (value.kind == "const" and isinstance(value.data, str) and not _is_type(value.data))
        for value in meaning.values(node)
    )


def _is_given(meaning: Meaning, node: ast.Name, seen: set[int]) -> bool:
    """Whether a name is what a caller gave, or made of that."""
    at = meaning.walk.scope_of.get(id(node))
    while at is not None and node.id not in at.bindings:
        at = at.parent
    for one in at.bindings[node.id] if at is not None else ():
        if one.kind == "param":
            return True
        if one.kind == "value" and id(one.node) not in seen:
            seen.add(id(one.node))
            names = (part for part in ast.walk(one.node) if isinstance(part, ast.Name))
            if any(_is_given(meaning, part, seen) for part in names):
                return True
    return False


def _is_type(text: str) -> bool:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # What is no expression cannot be run as one.
        return True
    return all(
        isinstance(part, (*_PLAIN, *_MARKS)) and "__" not in getattr(part, "attr", "") for part in ast.walk(tree)
    )
