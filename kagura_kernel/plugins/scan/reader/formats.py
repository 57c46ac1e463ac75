"""Format texts whose fields the source does not show: they reach attributes like `getattr` with such a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from .asking import Meaning
from .bindings import Binding, Scope
from .folding import NotConstant
from .values import Value, Values, is_made_of_text

SHOWN, DATA, PUT_TOGETHER = 0, 1, 2
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
            return PUT_TOGETHER
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
            return PUT_TOGETHER
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
    return PUT_TOGETHER if any("__" in one for one in halves) else DATA
