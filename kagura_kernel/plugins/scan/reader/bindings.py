"""Scopes, and the ways in which a name comes to its value."""

from __future__ import annotations

import ast

REST = -2
"""The place of a parameter that takes all arguments that are left."""


class Scope:
    """Where names are bound: a module, a class, a function or a comprehension."""

    __slots__ = ("bindings", "elsewhere", "kind", "node", "parent")

    def __init__(self, kind: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind = kind
        self.parent = parent
        self.node = node
        self.bindings: dict[str, list[Binding]] = {}
        # Names that a `global` or `nonlocal` statement gives to another scope.
        self.elsewhere: dict[str, Scope] = {}


class Binding:
    """One way in which a name comes to its value.

    `kind` says how to read the rest: `value` (of `node`, the element at `path`), `each` (of what `node` yields), `aug`,
    `def`, `class`, `import` (the dotted name `text`), `from` (`text` is the module, `level` its dots, `name` what is
    taken), `param` (`path[0]` is its place), `enter`, `match` (`text` is the attribute) or `other`.
    """

    __slots__ = ("certain", "kind", "level", "line", "name", "node", "path", "scope", "text")

    def __init__(
        self,
        kind: str,
        scope: Scope,
        node: ast.AST,
        *,
        path: tuple[int, ...] = (),
        text: str = "",
        level: int = 0,
        certain: bool = True,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.scope = scope
        self.node = node
        self.path = path
        self.text = text
        self.level = level
        self.certain = certain
        self.name = name
        self.line = getattr(node, "lineno", 0)
