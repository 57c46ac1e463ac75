"""What classes derive from, and what they define for Python to call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .asking import Meaning
from .formats import derives_from_formatter
from .known import HOOKS, is_base
from .modules import CODE, MITIGATION, PATHS, SAFE, SDK
from .naming import MAKERS, bases_of
from .references import ATTRIBUTE, COMPUTED, NEVER, is_dunder, rule_of
from .values import Value

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
_READ = ("__dataclass_fields__", "__dataclass_params__", "__signature__")
"""What the library reads names of attributes from."""


def check_class(meaning: Meaning, node: ast.ClassDef, say: Say) -> None:
    """Report what a class derives from, and what it defines, where that is not known to be harmless."""
    for base in node.bases:
        for value in bases_of(meaning, base):
            _check_base(value, base.lineno, say)
    for word in node.keywords:
        for value in meaning.values(word.value) if word.arg in ("metaclass", None) else ():
            if value.kind != "class" and not (value.kind == "ref" and value.name in _METACLASSES):
                say(UNKNOWN_BASE, "The class of a class is not known to be harmless.", node.lineno)
    inner = meaning.walk.inner[id(node)]
    for name, bindings in inner.bindings.items():
        for binding in bindings:
            check_hook(meaning, name, binding.node, binding.line or node.lineno, say)
    if derives_from_formatter(meaning, node) and "parse" in inner.bindings:
        message = "A formatter's fields are made while the code runs, and give whatever attribute they name."
        say(COMPUTED, message, node.lineno)


def _check_base(value: Value, line: int, say: Say) -> None:
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
    pair = len(("function", "arguments"))
    return bool(returns) and all(isinstance(one, ast.Tuple) and len(one.elts) == pair for one in returns)


def hooks_of(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names between underscores that a call or a dictionary hands on with a value: they can become attributes."""
    if isinstance(node, ast.Call):
        yield from ((one.arg, one.value) for one in node.keywords if one.arg and is_dunder(one.arg))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in NEVER | {*_RUN} and not isinstance(value, ast.Constant):
                yield str(key.value), value
