"""Attributes that lists of names, format texts or annotations reach; what a plugin's classes mean for Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .constants import NotConstant
from .evaluation import Evaluation
from .known import HOOKS, is_base
from .names import NO_DOUBT, PUT_TOGETHER, Uncertainty, Value, Values, is_made_of_text, ref
from .rules import ATTRIBUTE, CODE, COMPUTED, MITIGATION, NEVER, PATHS, SAFE, SDK, VOUCHING, is_dunder, rule_of
from .scopes import Binding, Scope, Walk, every_argument
from .source import Report

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


def is_formatter(meaning: Evaluation, value: Value) -> bool:
    """Whether something is a formatter of fields, which gives what they reach itself and not its text."""
    if value.kind == "made":
        # `super()` is one in a file that has a class of them.
        inside = value.name == "builtins.super"
        return value.name == FORMATTER or (
            inside and any(derives_from(meaning, one, FORMATTER) for one in meaning.walk.classes.values())
        )
    return is_one_of(meaning, value, FORMATTER)


def is_one_of(meaning: Evaluation, value: Value, full: str) -> bool:
    """Whether something is of a class of the plugin's own, or that class itself, which derives from this one."""
    if value.kind not in ("object", "class"):
        return False
    home = meaning.plugin.units[value.unit]
    found = home.walk.classes.get(value.node)
    return found is not None and derives_from(home, found, full)


def derives_from(meaning: Evaluation, node: ast.ClassDef, full: str) -> bool:
    """Whether a class is that one with something added."""
    left, seen = [(meaning, node)], {id(node)}
    while left:
        home, one = left.pop()
        for value in home.union(home.values(base) for base in one.bases):
            if value.kind == "ref" and value.name == full:
                return True
            if value.kind == "class" and value.node not in seen:
                seen.add(value.node)
                home = meaning.plugin.units[value.unit]
                left.append((home, home.walk.classes[value.node]))
    return False


class Grading:
    """One look at an expression, through the names in it to what they were given."""

    def __init__(self, meaning: Evaluation) -> None:
        self._of = meaning
        self._seen: set[int] = set()

    def grade(self, node: ast.AST, depth: int = 0) -> int:
        """How well a format text, or a part of it, is known; what depends on itself adds nothing."""
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
        bindings = _bindings_of(self._of, node)
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


def _bindings_of(meaning: Evaluation, node: ast.Name) -> list[Binding]:
    scope = meaning.walk.scope_of.get(id(node), meaning.walk.module)
    at: Scope | None = scope.elsewhere.get(node.id, scope)
    while at is not None and node.id not in at.bindings:
        at = at.parent
    return [] if at is None else at.bindings[node.id]


def _is_plain(binding: Binding) -> bool:
    added = isinstance(binding.node, ast.AugAssign) and isinstance(binding.node.op, ast.Add)
    return (binding.kind == "value" and not binding.path) or (binding.kind == "aug" and added)


def _of_constant(data: object, *, whole: bool) -> int:
    """The grade of a constant: a part of a text in which a field begins or ends may be half of a hidden name."""
    texts = [one for one in (data if isinstance(data, list | tuple) else [data]) if isinstance(one, str)]
    halves = [one for one in texts if not _BALANCED.fullmatch(one.replace("{{", "").replace("}}", ""))]
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
_NOT_KNOWN = Uncertainty("unknown")
_BETWEEN = re.compile(r"[\s,]+")

Names = tuple[list[str], Uncertainty]
"""Which names there are, and whether there may be others too."""


def listed(meaning: Evaluation, node: ast.expr) -> Names:
    """Which names are in a list of them."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _both(listed(meaning, node.left), listed(meaning, node.right))
    return _of_elements(meaning.elements(meaning.values(node) - _COPIED))


def by_place(meaning: Evaluation, node: ast.expr) -> Names:
    """Which attributes the parts of a pattern `A(part, part)` may be, where `node` is its `A`."""
    found: Names = ([], NO_DOUBT)
    left, seen = [(meaning, value) for value in meaning.values(node)], set()
    while left:
        home, value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.kind == "class":
            home = meaning.plugin.units[value.unit]
            inner = home.walk.inner.get(value.node)
            if inner is not None and isinstance(inner.node, ast.ClassDef):
                found = _both(found, _of_class(home, inner.node, inner))
                left += [(home, base) for at in inner.node.bases for base in bases_of(home, at)]
        elif value.kind == "made" and value.name in MAKERS:
            found = _both(found, _of_made(home, value.name))
        elif value.kind != "ref":
            found = _both(found, ([], _NOT_KNOWN))
    return found


def bases_of(meaning: Evaluation, node: ast.expr) -> Values:
    """What a class derives from; `Generic[T]` is what `Generic` is."""
    if isinstance(node, ast.Subscript) and all(one.kind in ("ref", "class") for one in meaning.values(node.value)):
        return meaning.values(node.value)
    return meaning.values(node)


def _of_class(meaning: Evaluation, node: ast.ClassDef, inner: Scope) -> Names:
    found: Names = ([], NO_DOUBT)
    for one in node.keywords:
        # A class of classes answers for what is asked of them, whatever they hold.
        if one.arg in (None, "metaclass") and any(value.kind != "ref" for value in meaning.values(one.value)):
            found = _both(found, ([], PUT_TOGETHER))
    if any(isinstance(one, ast.Name) and one.id == "__annotations__" for one in ast.walk(node)):
        found = _both(found, ([], PUT_TOGETHER))
    makers = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    if any(value.kind != "ref" for value in meaning.union(map(meaning.values, makers))):
        found = _both(found, ([], _NOT_KNOWN))
    for binding in inner.bindings.get("__match_args__", ()):
        plain = binding.kind == "value" and not binding.path and isinstance(binding.node, ast.expr)
        found = _both(found, listed(meaning, binding.node) if plain else ([], PUT_TOGETHER))  # type: ignore[arg-type]
    return found


def _of_made(meaning: Evaluation, maker: str) -> Names:
    found: Names = ([], NO_DOUBT)
    calls = [one for one in meaning.walk.call_of.values() if ref(maker) in meaning.values(one.func)]
    for one in calls:
        given = [*one.args[1:2], *(word.value for word in one.keywords if word.arg in (None, MAKERS[maker]))]
        for fields in given:
            found = _both(found, _fields(meaning, fields))
    return found if calls else ([], _NOT_KNOWN)


def _fields(meaning: Evaluation, node: ast.expr) -> Names:
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
    return names, Uncertainty(grade, parts)


def _both(one: Names, other: Names) -> Names:
    grades = (one[1].grade, other[1].grade)
    grade = "computed" if "computed" in grades else grades[0] or grades[1]
    return [*one[0], *other[0]], Uncertainty(grade, one[1].parts + other[1].parts)


DISPATCHING = ("functools.singledispatch", "functools.singledispatchmethod")
_PLAIN = (
    *(ast.Expression, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp),
    *(ast.Load, ast.BitOr),
)


def hidden_code(meaning: Evaluation) -> Iterator[int]:
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
    return [one for one in (node.returns, *(arg.annotation for arg in every_argument(node.args))) if one is not None]


def _is_code(meaning: Evaluation, node: ast.expr) -> bool:
    if isinstance(node, ast.Name) and _is_given(meaning, node, set()):
        return True
    return any(
        is_made_of_text(value) or (value.kind == "const" and isinstance(value.data, str) and not _is_type(value.data))
        for value in meaning.values(node)
    )


def _is_given(meaning: Evaluation, node: ast.Name, seen: set[int]) -> bool:
    """Whether a name is what a caller gave, or made of that."""
    for one in _bindings_of(meaning, node):
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
    return all(isinstance(part, _PLAIN) and "__" not in getattr(part, "attr", "") for part in ast.walk(tree))


Say = Callable[[str, str, int], None]
"""Takes a rule, a message and a line."""

UNKNOWN_BASE, UNKNOWN_HOOK = "unknown-base", "unknown-hook"

_BY_NAME = frozenset(
    "contextlib.redirect_stderr contextlib.redirect_stdout enum.property functools.cached_property "
    "operator.attrgetter operator.methodcaller types.DynamicClassAttribute".split()
)
"""Classes that reach attributes by a name which one that derives from them can set."""
_METACLASSES = frozenset("abc.ABCMeta builtins.type enum.EnumMeta enum.EnumType".split())
_COPYING = ("__reduce__", "__reduce_ex__")
_RUN = ("__annotations__", "__annotate__", "__text_signature__")
"""What the library runs as code."""
_MADE = NEVER | {*_RUN, VOUCHING}
_READ = ("__dataclass_fields__", "__dataclass_params__", "__signature__")
"""What the library reads names of attributes from."""


def check_class(meaning: Evaluation, node: ast.ClassDef, say: Say) -> None:
    """Report what a class derives from, and what it defines, where that is not known to be harmless."""
    for base in node.bases:
        for value in bases_of(meaning, base):
            check_base(value, base.lineno, say)
    for word in node.keywords:
        for value in meaning.values(word.value) if word.arg in ("metaclass", None) else ():
            if value.kind != "class" and not (value.kind == "ref" and value.name in _METACLASSES):
                say(UNKNOWN_BASE, "The class of a class is not known to be harmless.", node.lineno)
    inner = meaning.walk.inner[id(node)]
    for name, bindings in inner.bindings.items():
        for binding in bindings:
            check_hook(meaning, name, binding.node, binding.line or node.lineno, say)
    names = {value.name for base in node.bases for value in bases_of(meaning, base) if value.kind == "ref"}
    if {"builtins.str", "collections.UserString"} <= names:
        say(CODE, "A text answers for another one, and the library makes code of it.", node.lineno)
    if derives_from(meaning, node, FORMATTER) and "parse" in inner.bindings:
        message = "A formatter's fields are made while the code runs, and give whatever attribute they name."
        say(COMPUTED, message, node.lineno)


def check_base(value: Value, line: int, say: Say) -> None:
    """Report one possibility of what a class derives from, where that is not known to be harmless."""
    if value.kind == "computed":
        say(COMPUTED, "A class derives from what cannot be told.", line)
    elif value.kind == "ref" and value.name in _BY_NAME:
        say(COMPUTED, f"A class that derives from {value.name} reaches attributes by any name.", line)
    elif value.kind == "ref":
        told = rule_of(value.name) not in (SAFE, PATHS, MITIGATION)
        if not (told or is_base(value.name) or value.name.partition(".")[0] == SDK):
            shown = value.name.removeprefix("builtins.")
            say(UNKNOWN_BASE, f"{shown} is not known to be harmless to derive from.", line)
    elif value.kind != "class" and not (value.kind == "made" and value.name in MAKERS):
        say(UNKNOWN_BASE, "A class derives from what is only known when the code runs.", line)


def check_hook(meaning: Evaluation, name: str, node: ast.AST, line: int, say: Say) -> None:
    """Report something that is defined under a name which Python, or its library, looks for by itself."""
    if name == VOUCHING:
        say(CODE, f"{name} is made by the plugin, and the library makes code of what it says yes to.", line)
    if not is_dunder(name) or name in HOOKS:
        return
    if name in _RUN:
        say(CODE, f"{name} is made by the plugin, and the library runs it as code.", line)
    elif name in _READ:
        say(COMPUTED, f"{name} is made by the plugin, and the library reaches what it names.", line)
    elif name in _COPYING and isinstance(node, ast.FunctionDef) and _is_a_call(meaning, node):
        say(UNKNOWN_HOOK, f"{name} says what is called when an object is copied.", line)
    elif name in _COPYING:
        say(COMPUTED, f"{name} sets attributes of anything when an object is copied.", line)
    elif name in NEVER and name != "__getattribute__":
        say(ATTRIBUTE, f"{name} is what an object is, and the plugin makes it.", line)
    else:
        say(UNKNOWN_HOOK, f"{name} is not known to be harmless where a plugin defines it.", line)


def _is_a_call(meaning: Evaluation, node: ast.FunctionDef) -> bool:
    """Whether a copy is made by a call alone: a function and its arguments, with nothing to be set afterwards."""
    returns = meaning.walk.returns.get(id(node), ())
    return not node.decorator_list and all(_makes_only(meaning, one) for one in returns)


def _makes_only(meaning: Evaluation, node: ast.expr) -> bool:
    if not isinstance(node, ast.Tuple):
        return isinstance(node, ast.Constant)
    if len(node.elts) <= len(("function", "arguments")):
        return True
    # What is set afterwards is set on an object of the plugin's own.
    made = node.elts[0]
    own = isinstance(made, ast.Attribute) and made.attr == "__class__"
    return own or all(value.kind == "class" for value in meaning.values(made))


def hooks_of(meaning: Evaluation, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names between underscores that a call or a dictionary hands on with a value: they can become attributes."""
    if isinstance(node, ast.Call):
        yield from ((one.arg, one.value) for one in node.keywords if one.arg and is_dunder(one.arg))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            plain = isinstance(key, ast.Constant)
            for one in meaning.values(key) if key is not None else ():
                if one.kind == "const" and one.data in _MADE and not (plain and isinstance(value, ast.Constant)):
                    yield str(one.data), value


SCHEMA = "SCHEMA"
ENTRY = "create_host_functions"

_CHANGING = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__", "__ior__"})


def read_schema(walk: Walk, report: Report) -> Any:
    """The value of `SCHEMA`; None when there is none that can be read without running the source."""
    bindings = walk.module.bindings.get(SCHEMA, [])
    if not bindings:
        report("missing-schema", "There is no SCHEMA, and every plugin has one: SCHEMA = {} configures nothing.", 0)
        return None
    first = bindings[0]
    if len(bindings) > 1:
        report("computed-schema", "SCHEMA is set more than once.", bindings[1].line)
        return None
    if first.kind != "value" or first.path or not first.certain or not isinstance(first.node, ast.expr):
        report("computed-schema", "SCHEMA is not simply set, at the top of the file.", first.line)
        return None
    changed = _changed(walk)
    if changed:
        report("computed-schema", "SCHEMA is changed after it was set.", changed)
        return None
    try:
        return ast.literal_eval(first.node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        report("computed-schema", "SCHEMA is computed; it must be a literal.", first.node.lineno)
        return None


def _changed(walk: Walk) -> int:
    """The line in which `SCHEMA` is changed in place; 0 for none."""
    for node in walk.nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            base: ast.AST = node.value
            while isinstance(base, ast.Subscript | ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id == SCHEMA:
                return node.lineno
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=ast.Name(id="SCHEMA"))) if name in _CHANGING:
                return node.lineno
    return 0


def check_entry(walk: Walk, report: Report) -> None:
    """`create_host_functions` is defined once, and stays what it is."""
    bindings = walk.module.bindings.get(ENTRY, [])
    if not bindings:
        if not any(level for _module, level, _line in walk.stars):
            report("missing-entry", f"There is no {ENTRY}(config).", 0)
        return
    if len(bindings) > 1:
        report("replaced-entry", f"{ENTRY} is defined more than once.", bindings[1].line)
        return
    (only,) = bindings
    if only.kind == "from":
        is_function = only.level > 0
    else:
        is_function = only.kind == "def" or (only.kind == "value" and isinstance(only.node, ast.Lambda))
    if not is_function:
        report("replaced-entry", f"{ENTRY} is not a function that can be read.", only.line)
    elif not only.certain:
        report("replaced-entry", f"{ENTRY} is defined under a condition.", only.line)
    elif isinstance(only.node, ast.AsyncFunctionDef):
        report("replaced-entry", f"{ENTRY} is asynchronous; it must be an ordinary function.", only.line)
