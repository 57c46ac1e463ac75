"""Applies the rules to every node of one file: to what is referred to, called or not."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .annotations import DISPATCHING
from .call_checks import CallChecks
from .classes import check_class, check_hook, hooks_of
from .formats import BY_NAME, FORMATTER, OF_FORMATTERS, TEXTS, derives_from, is_formatter
from .modules import CAPABLE, CODE, MODULES, MUTATION, OUTSIDE, SDK, rule_of_import
from .naming import by_place
from .references import ATTRIBUTE, NEVER, rule_of
from .saying import SAID
from .values import NO_DOUBT, Doubt, ref

# Nothing shorter is a name of anything; what is longer is no path or name.
_SHORTEST, _LONGEST = 4, 400


class Checks(CallChecks):
    """The rules, for one file."""

    def run(self) -> None:
        """Look at every node."""
        for node in self._walk.nodes:
            check = _CHECKS.get(type(node))
            if check is not None:
                check(self, node)
        for name, line in self._walk.globals_set:
            self._say(MUTATION, f"The global name {name} is set inside a function.", line)
        for module, level, line in self._walk.stars:
            self._star(module, level, line)

    # ------------------------------------------------------------ what comes in

    def imported(self, node: ast.Import) -> None:
        """`import a.b`."""
        for alias in node.names:
            self._import(alias.name, node.lineno)

    def taken(self, node: ast.ImportFrom) -> None:
        """`from a import b`."""
        module = node.module or ""
        if node.level:
            self._relative(node)
            return
        parts = [f"{module}.{alias.name}" for alias in node.names]
        within = parts if module == "importlib" and MODULES.keys() >= set(parts) else [module]
        if any(self._import(one, node.lineno) for one in within):
            return
        if module == SDK:
            for alias in node.names:
                self._sdk(f"{SDK}.{alias.name}", node.lineno)
                self._refer(f"{SDK}.{alias.name}", node.lineno)
            return
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if alias.name == "*" or module == "types":
                continue
            if alias.name in NEVER:
                self._say(ATTRIBUTE, SAID[ATTRIBUTE].format(full), node.lineno)
            elif rule_of(full) != rule_of_import(module) or full in MODULES or full in DISPATCHING:
                self._refer(full, node.lineno)

    def _relative(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if not self._plugin.is_there(self._unit, node.module or "", node.level, alias.name):
                dots = "." * node.level
                message = f"from {dots}{node.module or ''} import {alias.name} finds nothing in the plugin's directory."
                self._say(OUTSIDE, message, node.lineno)

    def _star(self, module: str, level: int, line: int) -> None:
        if not level and (module in CAPABLE or module in ("builtins", "posix")):
            self._say("star-import", f"from {module} import * brings everything in {module}, unnamed.", line)
        else:
            self._say("star-names", f"from {'.' * level}{module} import * hides where names come from.", line)

    # ------------------------------------------------------------- references

    def named(self, node: ast.Name) -> None:
        """A name that is read."""
        if node.id == "__annotations__":
            self._say(CODE, "Annotations are made while the code runs, and the library runs them as code.", node.lineno)
        if isinstance(node.ctx, ast.Store):
            return
        for value in self._of.values(node):
            if value.kind == "ref":
                self._referred(node, value.name)

    def attribute(self, node: ast.Attribute) -> None:
        """`a.b`, read or set."""
        bases = self._of.values(node.value)
        if isinstance(node.ctx, ast.Load):
            self._reach(node, bases, node.attr)
            if node.attr in BY_NAME and id(node) not in self._functions:
                self._reaching_text(node, [node.value], (), objects=False)
                if bases & {ref(one) for one in TEXTS}:
                    self.reached(node, frozenset(), [], Doubt("computed"))
            if node.attr in ("__setattr__", "__delattr__") and id(node) not in self._functions:
                self._say("computed-attribute", f"{node.attr} is handed on, and sets whatever it is told.", node.lineno)
            handed_on = node.attr in OF_FORMATTERS and id(node) not in self._functions
            if handed_on and (ref(FORMATTER) in bases or any(is_formatter(self._of, one) for one in bases)):
                self.reached(node, frozenset(), [], Doubt("computed"))
            for value in self._of.values(node):
                if value.kind == "ref":
                    self._referred(node, value.name)
        else:
            self._set(node, bases, node.attr)

    # ------------------------------------------------------------------ calls

    def subscript(self, node: ast.Subscript) -> None:
        """`a[b]`, read or set."""
        bases = self._of.values(node.value)
        self._of.values(node)
        if isinstance(node.ctx, ast.Load):
            for value in self._of.values(node):
                if value.kind == "ref":
                    self._referred(node, value.name)
            return
        for base in bases:
            if base.kind == "space":
                self._say(MUTATION, "A namespace is changed by its names.", node.lineno)
                names, _doubt = self._of.names(node.slice)
                for name in names:
                    self._set(node, frozenset({ref(base.name)} if base.name not in ("", "?") else ()), name)

    # ------------------------------------------------------------------- rest

    def constant(self, node: ast.Constant) -> None:
        """A text that stands in the code; what documents it is left alone."""
        data = node.value
        if id(node) in self._walk.docstrings:
            return
        if isinstance(data, bytes):
            data = data.decode("latin-1")
        if isinstance(data, str) and len(data) >= _SHORTEST:
            self._look(data, node.lineno, refused=id(node) in self._walk.refused)

    def folded(self, node: ast.BinOp | ast.JoinedStr) -> None:
        """A text that is put together from constants is looked at as a whole."""
        for value in self._of.values(node):
            if value.kind == "const" and isinstance(value.data, str) and len(value.data) < _LONGEST:
                self._look(value.data, node.lineno)

    def matched(self, node: ast.Match) -> None:
        """`case A(name=part)` reads the attribute `name` of what is matched, `case A(part)` one that `A` names."""
        bases = self._of.values(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchClass) and part.patterns:
                    self.reached(node.subject, bases, *by_place(self._of, part.cls))
                if isinstance(part, ast.MatchClass) and part.kwd_attrs:
                    self.reached(node.subject, bases, list(part.kwd_attrs), NO_DOUBT)
                if isinstance(part, ast.MatchMapping):
                    names = [one.value for one in part.keys if isinstance(one, ast.Constant)]
                    spaces = frozenset(ref(one.name) for one in bases if one.kind == "space" and len(one.name) > 1)
                    self.reached(node.subject, spaces, [name for name in names if isinstance(name, str)], NO_DOUBT)

    def defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function that Python itself calls where a name is missing."""
        scope = self._walk.scope_of[id(node)]
        if scope.kind == "module" and node.name in ("__getattr__", "__dir__"):
            self._say(MUTATION, f"{node.name} answers for names that the module does not have.", node.lineno)

    def mapped(self, node: ast.Dict) -> None:
        """A dictionary may become attributes of something: `type`, `SimpleNamespace`."""
        for name, value in hooks_of(node):
            check_hook(self._of, name, value, node.lineno, self._say)

    def classed(self, node: ast.ClassDef) -> None:
        """What a class derives from is referred to, too."""
        check_class(self._of, node, self._say)
        if derives_from(self._of, node, FORMATTER):
            self._plugin.doubts.append((self._unit, node.lineno))


_CHECKS: dict[type, Callable[[Checks, Any], None]] = {
    ast.Import: Checks.imported,
    ast.ImportFrom: Checks.taken,
    ast.Name: Checks.named,
    ast.Attribute: Checks.attribute,
    ast.Call: Checks.called,
    ast.Subscript: Checks.subscript,
    ast.Constant: Checks.constant,
    ast.BinOp: Checks.folded,
    ast.JoinedStr: Checks.folded,
    ast.Dict: Checks.mapped,
    ast.Match: Checks.matched,
    ast.FunctionDef: Checks.defined,
    ast.AsyncFunctionDef: Checks.defined,
    ast.ClassDef: Checks.classed,
}
