"""The two names that a plugin's source must have: `SCHEMA`, a literal, and `create_host_functions`, one function."""

from __future__ import annotations

import ast
from typing import Any

from .bindings import Binding
from .gate import Report
from .scopes import Walk

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
