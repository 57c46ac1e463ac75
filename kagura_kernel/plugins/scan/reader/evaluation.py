"""Follows names to what they stand for: on demand, each expression once, whatever the order in which code runs."""

from __future__ import annotations

import ast
import builtins
import posixpath
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from .constants import NotConstant
from .names import (
    ANY,
    COMPUTED,
    FIELDS,
    MOST,
    MOST_TRIES,
    NOTHING,
    SOME_TEXT,
    UNKNOWN,
    Findings,
    Reach,
    Texts,
    Value,
    Values,
    const,
    is_made_of_text,
    ref,
    sum_of,
)
from .rules import CAPABLE, MODULES, REACHABLE, is_leak, is_private
from .scopes import COMPREHENSIONS, Binding, Scope, Walk

BUILTINS = frozenset(dir(builtins)) | frozenset(
    # Of a module, and what `site` adds where it is not left out.
    "__builtins__ __file__ __loader__ __spec__ __cached__ __path__ help exit quit license credits copyright "
    # What a notebook adds.
    "get_ipython".split()
)

_MAX_DEPTH = 90


class Files(Findings):
    """All files of a plugin, and how they lead to each other."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files
        self.units: dict[str, Evaluation] = {}  # What is known of those that are Python, by path

    @cached_property
    def defined(self) -> frozenset[str]:
        """Names of attributes that the plugin's own classes have."""
        walks = [unit.walk for unit in self.units.values()]
        bound = (inner.bindings for walk in walks for inner in walk.inner.values() if inner.kind == "class")
        return frozenset().union(*bound, *(walk.declared for walk in walks), *(walk.attributes for walk in walks))

    def _resolve(self, unit: str, module: str, level: int) -> str | None:
        """The path without `.py` to which a relative import leads; None when that is outside."""
        folder = posixpath.dirname(unit)
        for _ in range(level - 1):
            if not folder:
                return None
            folder = posixpath.dirname(folder)
        return posixpath.join(folder, *module.split(".")) if module else folder

    def _file(self, place: str) -> str | None:
        for path in (f"{place}.py", posixpath.join(place, "__init__.py")):
            if path in self.units:
                return path
        return None

    def is_there(self, unit: str, module: str, level: int, name: str) -> bool:
        """Whether a relative import finds something in the plugin's own files."""
        place = self._resolve(unit, module, level)
        if place is None:
            return False
        found = self._file(place) if place else None
        if found is None:
            return (name == "*" and bool(place == "")) or self._is_file(posixpath.join(place, name))
        walk = self.units[found].walk
        return name == "*" or name in walk.module.bindings or bool(walk.stars) or self._is_file(f"{place}/{name}")

    def _is_file(self, place: str) -> bool:
        """Files that did not parse count: what is wrong with them is told by itself."""
        return f"{place}.py" in self.files or f"{place}/__init__.py" in self.files

    def exported(self, unit: str, module: str, level: int, name: str) -> Values:
        """What `from .module import name` gives."""
        place = self._resolve(unit, module, level)
        if place is None:
            return ANY
        found = self._file(place) if place or module else None
        if found is not None and found != unit:
            values = self.attribute_of_file(found, name)
            if values:
                return values
        inner = self._file(posixpath.join(place, name))
        return frozenset({Value("own", "", 0, None, inner)}) if inner else ANY

    def attribute_of_file(self, unit: str, name: str) -> Values:
        """A name in the module of one file; the empty set when it has none."""
        if unit not in self.units:
            return ANY
        home = self.units[unit]
        if name in home.walk.module.bindings or home.walk.stars:
            return home.lookup(name, home.walk.module, 1 << 30)
        inner = self._file(posixpath.join(posixpath.dirname(unit), name))
        return frozenset({Value("own", "", 0, None, inner)}) if inner and inner != unit else NOTHING

    def calls_elsewhere(self, unit: str, name: str) -> list[ast.Call]:
        """Calls in other files of a function of that name."""
        return [call for path, one in self.units.items() if path != unit for call in one.walk.calls.get(name, ())]


class Evaluation(Texts):
    """What every expression of one file may stand for; what calls give is known to whoever derives from it."""

    plugin: Files

    def __init__(self, unit: str, walk: Walk, plugin: Files) -> None:
        super().__init__(unit, walk, plugin)
        self.checks: Reach | None = None
        self._known: dict[int, Values] = {}
        self._busy: set[int] = set()
        self._stored: dict[str, Values] = {}
        self._storing: set[str] = set()
        self._items: dict[str, Values] = {}
        self._tries: dict[str, int] = {}
        self._depth = 0
        self._boxes: dict[int, str] | None = None

    def result(self, node: ast.Call) -> Values:
        """What a call may give back."""
        raise NotImplementedError

    def parameter(self, binding: Binding) -> Values:
        """What a parameter may be given."""
        raise NotImplementedError

    def from_space(self, space: Value, key: ast.expr | None, node: ast.expr) -> Values:
        """What is taken out of a namespace by its name."""
        raise NotImplementedError

    # ------------------------------------------------------------ expressions

    def values(self, node: ast.AST) -> Values:
        """What an expression may stand for; the empty set while that is being worked out."""
        key = id(node)
        found = self._known.get(key)
        if found is not None:
            return found
        if key in self._busy:
            self.plugin.rings += 1
            return NOTHING
        if self._depth > _MAX_DEPTH:
            return SOME_TEXT
        self._busy.add(key)
        self._depth += 1
        try:
            work = self._WORK.get(type(node))
            found = ANY if work is None else work(self, node)
        finally:
            self._depth -= 1
            self._busy.discard(key)
        found = found if len(found) <= MOST else frozenset({UNKNOWN, *sorted(found, key=repr)[:MOST]})
        self._known[key] = found
        return found

    @staticmethod
    def union(many: Iterable[Values]) -> Values:
        """All of them."""
        found: set[Value] = set()
        for one in many:
            found |= one
        return frozenset(found)

    # ------------------------------------------------------------------ names

    def lookup(self, name: str, scope: Scope, line: int) -> Values:
        """What a name may stand for in a scope."""
        at: Scope | None = scope.elsewhere.get(name, scope)
        first = True
        while at is not None:
            if name in at.bindings and (first or at.kind != "class" or scope.kind == "comprehension"):
                bindings = at.bindings[name]
                found = self.union(self.bound(one) for one in bindings[:MOST])
                # What has so many values cannot be told from any text.
                more = SOME_TEXT if len(bindings) > MOST else NOTHING
                return found | more | self._shadowed(name, at, scope, line)
            at = at.parent
            first = False
        return self._free(name)

    def _shadowed(self, name: str, at: Scope, scope: Scope, line: int) -> Values:
        """The builtin of a name that is bound in the plugin too, where the binding may not hold yet, or any more."""
        if name not in BUILTINS or at.kind not in ("module", "class"):
            return NOTHING
        certain = [binding.line for binding in at.bindings[name] if binding.certain]
        if not certain:
            return self._free(name)
        first = min(certain)
        late = line < first if scope is at else 0 < self.walk.first_call < first and line < first
        return self._free(name) if late else NOTHING

    def _free(self, name: str) -> Values:
        found: set[Value] = set()
        if name in BUILTINS:
            found.add(ref(f"builtins.{name}"))
        for module, level, _line in self.walk.stars:
            if level:
                found |= self.plugin.exported(self.unit, module, level, name)
            elif name not in BUILTINS:
                found.add(ref(f"{module}.{name}"))
        return frozenset(found) or ANY

    def bound(self, binding: Binding) -> Values:
        """What one binding gives."""
        kind, node = binding.kind, binding.node
        if kind in ("def", "class"):
            return frozenset({Value(kind, "", id(node), None, self.unit)})
        if kind == "import":
            return frozenset({ref(binding.text)})
        if kind == "from":
            if binding.level:
                return self.plugin.exported(self.unit, binding.text, binding.level, binding.name)
            return frozenset({ref(f"{binding.text}.{binding.name}")})
        if kind in ("value", "enter"):
            return self._at(self.values(node), binding.path)
        if kind == "each":
            return self._at(self.elements(self.values(node)), binding.path)
        if kind == "aug" and isinstance(node, ast.AugAssign):
            return self._augmented(binding, node)
        if kind == "param":
            return self.parameter(binding)
        if kind == "match":
            found = self.values(node)
            return (
                self.union(self.attribute(one, binding.text) for one in found)
                if binding.text
                else (found | self.elements(found))
            )
        return ANY

    def _at(self, values: Values, path: tuple[int, ...]) -> Values:
        for place in path:
            values = self.elements(values, place)
        return values

    def _augmented(self, binding: Binding, node: ast.AugAssign) -> Values:
        """`a += b` outside a loop is a sum of what was before; inside one it cannot be followed."""
        before = [one for one in binding.scope.bindings.get(binding.name, ()) if one is not binding]
        if isinstance(node.op, ast.BitOr):
            return self.values(node.value)
        if len(before) > MOST:
            return SOME_TEXT
        try:
            text = sum_of(self.constant, binding, before)
        except NotConstant:
            grown = any(isinstance(one.node, ast.Constant) and bool(one.node.value) for one in before)
            return SOME_TEXT if grown or self.is_text(node.value) else ANY
        return frozenset({const(text)})

    # ------------------------------------------------------------- containers

    def elements(self, values: Values, key: object = None) -> Values:
        """What is in containers; at one key or place where that is given and can be told."""
        found: set[Value] = set()
        for value in values:
            if value.kind == "box":
                found |= self.plugin.units[value.unit].inside(value, key)
            elif value.kind == "const" and isinstance(value.data, str | bytes | tuple):
                found |= {const(one) for one in value.data[:MOST]}
            elif is_made_of_text(value):
                # What a function made of a text in the source holds whatever that text says.
                found.add(value if value.kind == "made" else COMPUTED)
            elif value.kind == "made" and value.name in FIELDS:
                found.add(value)
            elif value.kind != "const":
                found.add(UNKNOWN)
        return frozenset(found)

    def inside(self, box: Value, key: object) -> Values:
        """What one container of this file holds."""
        node = self.by_id.get(box.node)
        if isinstance(node, ast.Dict):
            named = [one for one, at in zip(node.values, node.keys, strict=True) if key is not None and _is(at, key)]
            chosen: Iterable[ast.AST] = named or node.values
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            spread = any(isinstance(one, ast.Starred) for one in node.elts)
            exact = isinstance(key, int) and not spread and -len(node.elts) <= key < len(node.elts)
            chosen = [node.elts[key]] if exact and isinstance(key, int) else node.elts
        elif isinstance(node, ast.DictComp):
            chosen = [node.value]
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            chosen = [node.elt]
        else:
            return ANY
        return self.union(self.values(one) for one in list(chosen)[:MOST]) | self._added(node)

    def _added(self, node: ast.AST) -> Values:
        name = self._names_of(node)
        found = self._items.get(name)
        if found is None:
            rings = self.plugin.rings
            found = self.union(self.values(one) for one in self.walk.items.get(name, ())[:MOST])
            if rings == self.plugin.rings:
                self._items[name] = found
        return found

    def _names_of(self, node: ast.AST) -> str:
        if self._boxes is None:
            self._boxes = {}
            for scope in (self.walk.module, *self.walk.inner.values()):
                for name, bindings in scope.bindings.items():
                    self._boxes.update({id(one.node): name for one in bindings if one.kind == "value"})
            for name, stored in self.walk.attributes.items():
                self._boxes.update({id(one): name for one in stored})
        return self._boxes.get(id(node), "")

    def _subscript(self, node: ast.Subscript) -> Values:
        bases = self.values(node.value)
        try:
            key = self.constant(node.slice) if not isinstance(node.slice, ast.Slice) else None
        except NotConstant:
            key = None
        found: set[Value] = set()
        for base in bases:
            if base.kind == "space":
                found |= self.from_space(base, node.slice, node)
            elif base == ref("sys.modules"):
                found |= {ref(key)} if isinstance(key, str) else {UNKNOWN}
            elif base.kind == "box":
                found |= bases if isinstance(node.slice, ast.Slice) else self.elements(frozenset({base}), key)
            elif base.kind in ("const", "computed", "part"):
                found |= self._cut(base, node)
            elif base.kind == "made" and (base.data or base.name in FIELDS):
                found.add(base)
            else:
                found.add(UNKNOWN)
        return frozenset(found)

    def _cut(self, base: Value, node: ast.Subscript) -> Values:
        """A piece of a constant; which one of a text is not known."""
        found = self.folded(node) if base.kind == "const" else SOME_TEXT
        return SOME_TEXT if found == ANY and isinstance(base.data, str | bytes) else found

    # ------------------------------------------------------------- attributes

    def attribute(self, base: Value, name: str) -> Values:
        """What an attribute of one possibility may stand for."""
        if base.kind == "ref":
            return self._of_reference(base.name, name)
        if base.kind == "own":
            return self.plugin.attribute_of_file(base.unit, name)
        if base.kind == "space":
            return frozenset({Value("spaceop", base.name, 0, name)})
        if base.kind == "box":
            return frozenset({Value("boxop", "", base.node, name, base.unit)})
        if name == "__dict__" and base.kind in ("class", "object", "def", "unknown", "made"):
            return frozenset({Value("space", "?")})
        if base.kind in ("class", "object"):
            return self.plugin.units[base.unit].of_class(base, name)
        if base.kind == "const":
            return ANY
        found = self.stored(name)
        if base.kind == "unknown" and name in REACHABLE and not found:
            return frozenset({ref(name), UNKNOWN})
        return found or ANY

    def _of_reference(self, full: str, name: str) -> Values:
        if name == "__dict__":
            return frozenset({Value("space", full)})
        if full in ("posixpath", "ntpath", "genericpath"):
            full = "os.path"
        if full in MODULES and is_leak(full, name):
            return frozenset({ref(name.lstrip("_")), ref(f"{full}.{name}")})
        if name.lstrip("_") in REACHABLE and full not in MODULES:
            return frozenset({ref(name.lstrip("_").replace("bltns", "builtins")), ref(f"{full}.{name}")})
        return frozenset({ref(f"{full}.{name}")})

    def of_class(self, base: Value, name: str) -> Values:
        """An attribute of a class of this file, or of an object of one."""
        node = self.by_id.get(base.node)
        inner = self.walk.inner.get(base.node)
        found = self.stored(name)
        if inner is not None and name in inner.bindings:
            found |= self.union(self.bound(one) for one in inner.bindings[name])
        elif isinstance(node, ast.ClassDef):
            for parent in node.bases:
                for value in self.values(parent):
                    if value.kind == "class" and value.node != base.node:
                        found |= self.plugin.units[value.unit].of_class(value, name)
                    elif value.kind == "ref":
                        inherited = base.kind == "class" and is_private(name) and name not in self.plugin.defined
                        found |= {ref(f"{value.name}.{name}")} if value.name in CAPABLE or inherited else ANY
        return found or ANY

    def stored(self, name: str) -> Values:
        """What was stored under an attribute's name anywhere in the plugin's file."""
        if name in self._storing:
            self.plugin.rings += 1
            return NOTHING
        if name in self._stored:
            return self._stored[name]
        rings, self._tries[name] = self.plugin.rings, self._tries.get(name, 0) + 1
        self._storing.add(name)
        found = self.union(self.values(one) for one in self.walk.attributes.get(name, ())[:MOST])
        self._storing.discard(name)
        # What was asked for in the middle of a ring lacks what the ring gives: it is not the last word.
        if rings == self.plugin.rings or self._tries[name] >= MOST_TRIES:
            self._stored[name] = found
        return found

    _WORK: ClassVar[dict[type, Callable[[Evaluation, Any], Values]]] = {
        ast.Constant: lambda _, node: frozenset({const(node.value)}),
        ast.Name: lambda self, node: self.lookup(
            node.id, self.walk.scope_of.get(id(node), self.walk.module), node.lineno
        ),
        ast.Attribute: lambda self, node: self.union(
            self.attribute(base, node.attr) for base in self.values(node.value)
        ),
        ast.Call: lambda self, node: self.result(node),
        ast.Subscript: _subscript,
        ast.Lambda: lambda self, node: frozenset({Value("def", "", id(node), None, self.unit)}),
        **dict.fromkeys(
            (ast.List, ast.Tuple, ast.Set, ast.Dict, *COMPREHENSIONS),
            lambda self, node: frozenset({Value("box", "", id(node), None, self.unit)}),
        ),
        ast.BoolOp: lambda self, node: self.union(self.values(one) for one in node.values),
        ast.IfExp: lambda self, node: self.values(node.body) | self.values(node.orelse),
        **dict.fromkeys((ast.NamedExpr, ast.Await, ast.Starred), lambda self, node: self.values(node.value)),
        **dict.fromkeys((ast.BinOp, ast.JoinedStr, ast.UnaryOp, ast.Compare), Texts.folded),
    }


def _is(node: ast.expr | None, key: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == key and type(node.value) is type(key)
