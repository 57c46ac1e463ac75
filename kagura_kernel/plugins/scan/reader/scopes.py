"""One walk over a syntax tree: which name is bound where and to what, what is called, what is stored.

The walk keeps its own stack, so that no depth of nesting is too much for it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

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


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Walk:
    """What one walk over a tree found; everything is in the order of the walk, which is that of the text."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", None, tree)
        self.nodes: list[ast.AST] = []
        self.scope_of: dict[int, Scope] = {}
        self.inner: dict[int, Scope] = {}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.lambda_calls: dict[int, list[ast.Call]] = defaultdict(list)
        self.names_of_lambda: dict[int, str] = {}
        self.class_of: dict[int, ast.ClassDef] = {}
        self.returns: dict[int, list[ast.expr]] = defaultdict(list)
        self.attributes: dict[str, list[ast.expr]] = defaultdict(list)
        self.items: dict[str, list[ast.expr]] = defaultdict(list)
        self.stars: list[tuple[str, int, int]] = []
        self.docstrings: set[int] = set()
        self.typing: set[int] = set()
        self.plain: set[int] = set()
        self.taken_from: set[int] = set()
        # Texts that others are compared with: names that stand there are mostly those that are kept out.
        self.refused: set[int] = set()
        self.globals_set: list[tuple[str, int]] = []
        self.methods: set[str] = set()
        self.classes: dict[int, ast.ClassDef] = {}
        # What is called, by the identity of the expression in front of the brackets.
        self.call_of: dict[int, ast.Call] = {}
        # Names of attributes that a class says it has, by an annotation or a slot.
        self.declared: set[str] = set()
        self.first_call = 0
        self._stack: list[tuple[ast.AST, Scope, bool]] = []
        self._run(tree)

    # ------------------------------------------------------------------- walk

    def _run(self, tree: ast.Module) -> None:
        self._docstring(tree)
        self._push(tree.body, self.module, certain=True)
        while self._stack:
            node, scope, certain = self._stack.pop()
            self.nodes.append(node)
            self.scope_of[id(node)] = scope
            visit = self._VISITS.get(type(node))
            if visit is None:
                self._push(_children(node), scope, certain=False if isinstance(node, ast.stmt) else certain)
            else:
                visit(self, node, scope, certain)

    def _push(self, nodes: Iterable[ast.AST | None], scope: Scope, *, certain: bool) -> None:
        found = [(node, scope, certain) for node in nodes if node is not None]
        found.reverse()
        self._stack += found

    def _docstring(self, node: ast.AST) -> None:
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self.docstrings.add(id(value))

    # --------------------------------------------------------------- bindings

    def _bind(self, name: str, binding: Binding) -> None:
        scope = binding.scope
        binding.name = binding.name or name
        target = scope.elsewhere.get(name)
        if target is not None:
            binding.certain = False
            if target.kind == "module":
                self.globals_set.append((name, binding.line))
            scope = target
        scope.bindings.setdefault(name, []).append(binding)

    def _target(self, target: ast.AST, kind: str, value: ast.AST, scope: Scope, *, certain: bool) -> None:
        """Bind everything in the target of an assignment, a loop or a `with`."""
        waiting: list[tuple[ast.AST, tuple[int, ...]]] = [(target, ())]
        while waiting:
            part, path = waiting.pop()
            if isinstance(part, ast.Name):
                self._bind(part.id, Binding(kind, scope, value, path=path, certain=certain))
                if isinstance(value, ast.Lambda):
                    self.names_of_lambda[id(value)] = part.id
            elif isinstance(part, ast.Starred):
                waiting.append((part.value, path))
            elif isinstance(part, ast.Tuple | ast.List):
                waiting.extend((one, (*path, place)) for place, one in enumerate(part.elts))
            elif isinstance(part, ast.Attribute) and isinstance(value, ast.expr):
                self.attributes[part.attr].append(value)
                if isinstance(value, ast.Lambda):
                    self.names_of_lambda[id(value)] = part.attr
            elif isinstance(part, ast.Subscript) and isinstance(value, ast.expr):
                self.items[_last_name(part.value)].append(value)

    def _assign(self, node: ast.Assign, scope: Scope, certain: bool) -> None:
        for target in node.targets:
            self._target(target, "value", node.value, scope, certain=certain)
            if isinstance(target, ast.Name) and target.id == "__slots__":
                self.declared.update(str(one.value) for one in ast.walk(node.value) if isinstance(one, ast.Constant))
        if all(isinstance(target, ast.Name) for target in node.targets):
            self.plain.add(id(node.value))
        self._push([*node.targets, node.value], scope, certain=certain)

    def _annotated(self, node: ast.AnnAssign, scope: Scope, certain: bool) -> None:
        if node.value is not None:
            self._target(node.target, "value", node.value, scope, certain=certain)
            if isinstance(node.target, ast.Name):
                self.plain.add(id(node.value))
        elif isinstance(node.target, ast.Name):
            self.declared.add(node.target.id)
        self._annotation(node.annotation, scope)
        self._push([node.target, node.value], scope, certain=certain)

    def _augmented(self, node: ast.AugAssign, scope: Scope, certain: bool) -> None:
        if isinstance(node.target, ast.Name):
            self._bind(node.target.id, Binding("aug", scope, node, certain=False))
        else:
            self._target(node.target, "value", node.value, scope, certain=certain)
        self._push([node.target, node.value], scope, certain=certain)

    def _walrus(self, node: ast.NamedExpr, scope: Scope, certain: bool) -> None:
        """`(a := value)`; in a comprehension the name is that of the function around it."""
        self._target(node.target, "value", node.value, _around(scope), certain=False)
        self.plain.add(id(node.value))
        self._push([node.value], scope, certain=certain)

    def _loop(self, node: ast.For | ast.AsyncFor, scope: Scope, certain: bool) -> None:
        self._target(node.target, "each", node.iter, scope, certain=False)
        self._push([node.target, node.iter, *node.body, *node.orelse], scope, certain=False)

    def _entered(self, node: ast.With | ast.AsyncWith, scope: Scope, certain: bool) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._target(item.optional_vars, "enter", item.context_expr, scope, certain=certain)
        self._push([*node.items, *node.body], scope, certain=certain)

    def _caught(self, node: ast.ExceptHandler, scope: Scope, certain: bool) -> None:
        if node.name:
            self._bind(node.name, Binding("other", scope, node, certain=False))
        self._push(_children(node), scope, certain=False)

    def _deleted(self, node: ast.Delete, scope: Scope, certain: bool) -> None:
        """`del a`: the name may mean a builtin again."""
        for target in node.targets:
            if isinstance(target, ast.Name):
                for binding in scope.bindings.get(target.id, ()):
                    binding.certain = False
        self._push(node.targets, scope, certain=certain)

    def _matched(self, node: ast.Match, scope: Scope, certain: bool) -> None:
        """`match value`: a capture may be the value, a part of it, or an attribute of it."""
        waiting: list[tuple[ast.AST, str]] = [(case.pattern, "") for case in node.cases]
        while waiting:
            pattern, attribute = waiting.pop()
            name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
            if isinstance(name, str):
                self._bind(name, Binding("match", scope, node.subject, text=attribute, certain=False))
            if isinstance(pattern, ast.MatchClass):
                waiting += zip(pattern.kwd_patterns, pattern.kwd_attrs, strict=True)
                waiting += [(one, attribute) for one in pattern.patterns]
            else:
                waiting += [(one, attribute) for one in ast.iter_child_nodes(pattern) if isinstance(one, ast.pattern)]
        self._push([node.subject, *node.cases], scope, certain=False)

    def _imported(self, node: ast.Import, scope: Scope, certain: bool) -> None:
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.partition(".")[0]
            self._bind(alias.asname or full, Binding("import", scope, node, text=full, certain=certain))

    def _taken(self, node: ast.ImportFrom, scope: Scope, certain: bool) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                self.stars.append((module, node.level, node.lineno))
                continue
            binding = Binding("from", scope, node, text=module, level=node.level, certain=certain, name=alias.name)
            self._bind(alias.asname or alias.name, binding)

    def _shared(self, node: ast.Global | ast.Nonlocal, scope: Scope, certain: bool) -> None:
        target: Scope | None = self.module
        if isinstance(node, ast.Nonlocal):
            target = scope.parent
            while target is not None and (target.kind == "class" or node.names[0] not in target.bindings):
                target = target.parent
        for name in node.names:
            scope.elsewhere[name] = target or self.module

    # ----------------------------------------------------------------- scopes

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, certain: bool) -> None:
        """`def f(…)`; its decorators and defaults are evaluated around it."""
        kind = "decorated" if any(not _is_plain(one) for one in node.decorator_list) else "def"
        self._bind(node.name, Binding(kind, scope, node, certain=certain))
        if scope.kind == "class" and isinstance(scope.node, ast.ClassDef):
            self.class_of[id(node)] = scope.node
            self.methods.add(node.name)
        self._docstring(node)
        outside = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
        inner = self._callable(node, scope)
        self._push(node.body, inner, certain=True)
        self._push(outside, scope, certain=certain)
        if node.returns is not None:
            self._annotation(node.returns, scope)

    def _anonymous(self, node: ast.Lambda, scope: Scope, certain: bool) -> None:
        inner = self._callable(node, scope)
        self.returns[id(node)].append(node.body)
        self._push([node.body], inner, certain=True)
        self._push([*node.args.defaults, *node.args.kw_defaults], scope, certain=certain)

    def _callable(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Scope:
        inner = Scope("function", scope, node)
        self.inner[id(node)] = inner
        ordinary = [*node.args.posonlyargs, *node.args.args]
        for place, one in enumerate(ordinary):
            self._bind(one.arg, Binding("param", inner, node, path=(place,), name=one.arg))
        for one in node.args.kwonlyargs:
            self._bind(one.arg, Binding("param", inner, node, path=(-1,), name=one.arg))
        for rest in (node.args.vararg, node.args.kwarg):
            if rest is not None:
                self._bind(rest.arg, Binding("param", inner, node, path=(REST, len(ordinary)), name=rest.arg))
        for one in every_argument(node.args):
            if one.annotation is not None:
                self._annotation(one.annotation, scope)
        return inner

    def _defined(self, node: ast.ClassDef, scope: Scope, certain: bool) -> None:
        self.classes[id(node)] = node
        self._bind(node.name, Binding("class", scope, node, certain=certain))
        self._docstring(node)
        inner = Scope("class", scope, node)
        self.inner[id(node)] = inner
        self._push(node.body, inner, certain=True)
        self._push([*node.decorator_list, *node.bases, *node.keywords], scope, certain=certain)

    def _comprehended(self, node: ast.AST, scope: Scope, certain: bool) -> None:
        inner = Scope("comprehension", scope, node)
        self.inner[id(node)] = inner
        for part in node.generators:  # type: ignore[attr-defined]
            self._target(part.target, "each", part.iter, inner, certain=False)
        self._push(_children(node), inner, certain=False)

    # ------------------------------------------------------------------ facts

    def _called(self, node: ast.Call, scope: Scope, certain: bool) -> None:
        """`f(…)`; what is stored by a container's method counts as stored."""
        name = _last_name(node.func)
        self.call_of[id(node.func)] = node
        if name:
            self.calls[name].append(node)
        if isinstance(node.func, ast.Lambda):
            self.lambda_calls[id(node.func)].append(node)
        if isinstance(node.func, ast.Attribute) and name in _STORING:
            self.items[_last_name(node.func.value)] += node.args
        if scope.kind in ("module", "class") and not self.first_call:
            self.first_call = node.lineno
        if name in ("isinstance", "issubclass", "cast"):
            types = node.args[1:] if name != "cast" else node.args[:1]
            self.typing.update(id(one) for part in types for one in ast.walk(part))
        if name in ("getattr", "hasattr", "setattr", "delattr", "isinstance", "vars", "id", "repr", "print", "dir"):
            self.plain.update(id(one) for one in node.args[:1])
        self._push(_children(node), scope, certain=certain)

    def _held(self, node: ast.Attribute | ast.Expr, scope: Scope, certain: bool) -> None:
        """`a.b`, or `a` alone: naming a module to reach into it is not handing it around."""
        self.plain.add(id(node.value))
        self._push([node.value], scope, certain=certain)

    def _subscripted(self, node: ast.Subscript, scope: Scope, certain: bool) -> None:
        """`a[b]`: taking one thing out of a namespace is not handing it around."""
        self.taken_from.add(id(node.value))
        self._push([node.value, node.slice], scope, certain=certain)

    def _compared(self, node: ast.Compare, scope: Scope, certain: bool) -> None:
        self.plain.update(id(one) for one in (node.left, *node.comparators))
        for one in (node.left, *node.comparators):
            self.refused.add(id(one))
            self.refused.update(id(part) for part in getattr(one, "elts", ()))
        self._push(_children(node), scope, certain=certain)

    def _gathered(self, node: ast.Set, scope: Scope, certain: bool) -> None:
        """`{a, b}`: a set has no order, and is there to be compared with."""
        self.refused.update(id(one) for one in node.elts)
        self._push(node.elts, scope, certain=certain)

    def _returned(self, node: ast.Return | ast.Yield | ast.YieldFrom, scope: Scope, certain: bool) -> None:
        if node.value is not None:
            self.returns[id(_around(scope).node)].append(node.value)
            self._push([node.value], scope, certain=False)

    def _annotation(self, node: ast.expr, scope: Scope) -> None:
        """Types are only looked at, but for a text with a call in it: some libraries evaluate those."""
        waiting: list[ast.AST] = [node]
        while waiting:
            part = waiting.pop()
            self.typing.add(id(part))
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and "(" in part.value:
                try:
                    inner = ast.parse(part.value.strip(), mode="eval").body
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue
                for one in ast.walk(inner):
                    if hasattr(one, "lineno"):
                        one.lineno = part.lineno
                self._push([inner], scope, certain=False)
            elif not isinstance(part, ast.Subscript) or _last_name(part.value) != "Literal":
                waiting += _children(part)
        self._push([node], scope, certain=False)

    _VISITS: ClassVar[dict[type, Callable[[Walk, Any, Scope, bool], None]]] = {
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.NamedExpr: _walrus,
        **dict.fromkeys((ast.For, ast.AsyncFor), _loop),
        **dict.fromkeys((ast.With, ast.AsyncWith), _entered),
        ast.ExceptHandler: _caught,
        ast.Delete: _deleted,
        ast.Match: _matched,
        ast.Import: _imported,
        ast.ImportFrom: _taken,
        **dict.fromkeys((ast.Global, ast.Nonlocal), _shared),
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _function),
        ast.Lambda: _anonymous,
        ast.ClassDef: _defined,
        **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _comprehended),
        ast.Call: _called,
        **dict.fromkeys((ast.Attribute, ast.Expr), _held),
        ast.Subscript: _subscripted,
        ast.Compare: _compared,
        ast.Set: _gathered,
        **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _returned),
    }


_STORING = frozenset({"append", "add", "insert", "appendleft", "setdefault", "extend", "update", "put", "put_nowait"})


def _around(scope: Scope) -> Scope:
    """The function, class or module that a comprehension stands in."""
    while scope.kind == "comprehension" and scope.parent:
        scope = scope.parent
    return scope


def _children(node: ast.AST) -> list[ast.AST]:
    """What stands in a node, in the order of the text, but for what has no place in it: `Load`, `Add`."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        if isinstance(value, list):
            found += [one for one in value if type(one) in _PLACED]
        elif type(value) in _PLACED:
            found.append(value)
    return found


_KINDS = (
    *(ast.expr, ast.stmt, ast.comprehension, ast.excepthandler, ast.arguments, ast.arg, ast.keyword, ast.alias),
    *(ast.withitem, ast.match_case, ast.pattern, getattr(ast, "type_param", ast.arg)),
)
# To look a type up is faster than to ask whether it is one of so many.
_PLACED = frozenset(kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, _KINDS))


def every_argument(spec: ast.arguments) -> list[ast.arg]:
    """All that a function takes."""
    every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg)
    return [one for one in every if one is not None]


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_plain(decorator: ast.expr) -> bool:
    """Whether what is decorated still is the function itself, to a caller."""
    name = _last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return name in ("staticmethod", "classmethod", "cache", "lru_cache", "wraps", "override", "contextmanager")
