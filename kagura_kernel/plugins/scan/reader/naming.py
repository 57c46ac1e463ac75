"""Lists of names by which attributes are reached: those `update_wrapper` copies, those `case A(part)` reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .asking import Meaning
from .bindings import Scope
from .folding import NotConstant
from .values import NO_DOUBT, PUT_TOGETHER, Doubt, Values, is_made_of_text, ref

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
