"""Annotations that are texts: `functools.singledispatch` runs them as code when a function is registered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .asking import Meaning
from .values import is_made_of_text

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
