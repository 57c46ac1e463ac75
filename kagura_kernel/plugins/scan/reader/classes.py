"""What a plugin's classes and its two names mean for Python: bases, hooks, `SCHEMA`, `create_host_functions`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from .fields import MAKERS, bases_of, derives_from_formatter
from .known import HOOKS, is_base
from .meaning import Meaning, Value
from .rules import ATTRIBUTE, CODE, COMPUTED, MITIGATION, NEVER, PATHS, SAFE, SDK, VOUCHING, is_dunder, rule_of
from .scopes import Binding, Walk
from .source import Report

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


def check_class(meaning: Meaning, node: ast.ClassDef, say: Say) -> None:
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
    if derives_from_formatter(meaning, node) and "parse" in inner.bindings:
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


def check_hook(meaning: Meaning, name: str, node: ast.AST, line: int, say: Say) -> None:
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


def _is_a_call(meaning: Meaning, node: ast.FunctionDef) -> bool:
    """Whether a copy is made by a call alone: a function and its arguments, with nothing to be set afterwards."""
    returns = meaning.walk.returns.get(id(node), ())
    return not node.decorator_list and all(_makes_only(meaning, one) for one in returns)


def _makes_only(meaning: Meaning, node: ast.expr) -> bool:
    if not isinstance(node, ast.Tuple):
        return isinstance(node, ast.Constant)
    pair = len(("function", "arguments"))
    if len(node.elts) <= pair:
        return True
    # What is set afterwards is set on an object of the plugin's own.
    made = node.elts[0]
    own = isinstance(made, ast.Attribute) and made.attr == "__class__"
    return own or all(value.kind == "class" for value in meaning.values(made))


def hooks_of(meaning: Meaning, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
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
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CHANGING
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == SCHEMA
        ):
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
    if not _is_function(only):
        report("replaced-entry", f"{ENTRY} is not a function that can be read.", only.line)
    elif not only.certain:
        report("replaced-entry", f"{ENTRY} is defined under a condition.", only.line)
    elif isinstance(only.node, ast.AsyncFunctionDef):
        report("replaced-entry", f"{ENTRY} is asynchronous; it must be an ordinary function.", only.line)


def _is_function(binding: Binding) -> bool:
    if binding.kind == "from":
        return binding.level > 0
    return binding.kind == "def" or (binding.kind == "value" and isinstance(binding.node, ast.Lambda))
