"""Applies the rules to every node of one file: to what is referred to, called or not."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .annotations import DISPATCHING, hidden_code
from .asking import Files, Meaning
from .given import lets_callers_reach, opened_for
from .joining import doubt_of
from .memory import IN_MEMORY
from .modules import (
    CAPABLE,
    CODE,
    FILES,
    FORBIDDEN,
    MODULES,
    MUTATION,
    NETWORK,
    OUTSIDE,
    SAFE,
    SDK,
    rule_of_import,
)
from .references import (
    ATTRIBUTE,
    FILE_METHODS,
    GRAVE_METHODS,
    NETWORK_METHODS,
    NEVER,
    NEVER_SET,
    NOT_CONNECTING,
    WRITING,
    rule_of,
)
from .saying import LIBRARY, SAID
from .texts import is_suspicious, of_text
from .values import NO_DOUBT, Doubt, Values, ref

_INDIRECT = frozenset(
    "builtins.getattr builtins.setattr builtins.delattr builtins.globals builtins.locals builtins.vars "
    "operator.attrgetter operator.methodcaller".split()
)
_BOUND = ("__self__", "__func__")
_STORES = ("builtins.setattr", "builtins.delattr")
_OPEN = ("builtins.open", "io.open", "codecs.open", "io.FileIO", "os.open")
# Nothing shorter is a name of anything; what is longer is no path or name.
_SHORTEST, _LONGEST = 4, 400
# A path by itself opens nothing; what is done with it counts.
_NO_USE = ("tempfile", "zoneinfo", "pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath")
_FORMATS = ("format", "format_map", "vformat", "get_field")


class Checks:
    """The rules, for one file."""

    def __init__(self, meaning: Meaning, plugin: Files) -> None:
        self._of = meaning
        self._walk = meaning.walk
        self._plugin = plugin
        self._unit = meaning.unit
        self._functions = {id(node.func) for node in self._walk.nodes if isinstance(node, ast.Call)}

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

    def _say(self, rule: str, message: str, line: int) -> None:
        self._plugin.report(rule, message, self._unit, line)

    # ------------------------------------------------------------ what comes in

    def imported(self, node: ast.Import) -> None:
        """`import a.b`."""
        for alias in node.names:
            self._import(alias.name, node.lineno)

    def _import(self, name: str, line: int) -> bool:
        rule = SAFE if self._is_in_memory(name) else rule_of_import(name)
        if rule:
            self._used(rule, name)
            self._say(rule, SAID[rule].format(name), line)
        elif name == SDK or name.startswith(f"{SDK}."):
            self._sdk(name, line)
        return rule in FORBIDDEN

    def _sdk(self, name: str, line: int) -> None:
        self._plugin.library |= LIBRARY.get(name.removeprefix(f"{SDK}."), set())
        self._say("mitigation", f"{name} keeps to rules of its own.", line)

    def taken(self, node: ast.ImportFrom) -> None:
        """`from a import b`."""
        module = node.module or ""
        if node.level:
            self._relative(node)
            return
        if self._import(module, node.lineno):
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
        if isinstance(node.ctx, ast.Store):
            return
        for value in self._of.values(node):
            if value.kind == "ref":
                self._referred(node, value.name)

    def _referred(self, node: ast.expr, full: str) -> None:
        if full in _INDIRECT and id(node) not in self._functions and id(node) not in self._walk.plain:
            message = f"{_shown(full)} is handed on, so that nobody can tell what it will reach."
            self._say("computed-attribute", message, node.lineno)
        if full.startswith("types.") and (id(node) in self._walk.typing or id(node) in self._walk.plain):
            return
        if full in CAPABLE and id(node) not in self._walk.plain and id(node) not in self._walk.typing:
            self._say("module-as-value", f"The module {full} is handed on like a value.", node.lineno)
        if full not in MODULES or MODULES[full] in FORBIDDEN:
            self._refer(full, node.lineno)

    def _is_in_memory(self, full: str) -> bool:
        return full.partition(".")[0] in IN_MEMORY and full.partition(".")[0] in self._plugin.in_memory

    def _refer(self, full: str, line: int) -> None:
        rule = rule_of(full)
        if rule == FILES and self._is_in_memory(full):
            return
        if full in DISPATCHING:
            for at in hidden_code(self._of):
                self._say(CODE, "An annotation is a text that runs as code when the function is registered.", at)
        if rule:
            self._used(rule, full)
            self._say(rule, SAID[rule].format(_shown(full)), line)

    def _used(self, rule: str, full: str) -> None:
        if rule == NETWORK:
            if full not in MODULES and full not in NOT_CONNECTING:
                self._plugin.uses.add("net")
        elif rule == FILES and not full.startswith(_NO_USE) and full not in _OPEN:
            if full.rpartition(".")[2] in WRITING:
                self._plugin.uses.add("write")
            elif full not in MODULES:
                self._plugin.uses.add("read")

    def attribute(self, node: ast.Attribute) -> None:
        """`a.b`, read or set."""
        bases = self._of.values(node.value)
        if isinstance(node.ctx, ast.Load):
            self._reach(node, bases, node.attr)
            for value in self._of.values(node):
                if value.kind == "ref":
                    self._referred(node, value.name)
        else:
            self._set(node, bases, node.attr)

    def _reach(self, node: ast.expr, bases: Values, name: str) -> None:
        own = any(one.kind in ("object", "class") for one in bases) and name in self._walk.methods
        kinds = {one.kind for one in bases}
        # The classes below a class of the plugin are its own, and so is what one of its methods is bound to.
        inside = (name == "__subclasses__" and kinds == {"class"}) or (name in _BOUND and kinds == {"def"})
        if name in NEVER and not inside and not (own and not name.startswith("__")):
            self._say(ATTRIBUTE, SAID[ATTRIBUTE].format(name), node.lineno)
        if name == "__class__" and any(one.kind == "ref" and one.name in MODULES for one in bases):
            self._say(ATTRIBUTE, "The class of a module, by which others can be made.", node.lineno)
        if name == "__dict__" and any(one.kind == "ref" for one in bases):
            self._say(ATTRIBUTE, "The namespace of a module or class that is not the plugin's own.", node.lineno)
        if own or not any(one.kind in ("unknown", "made", "computed", "get") for one in bases):
            return
        if name in GRAVE_METHODS and name not in self._walk.methods:
            rule = GRAVE_METHODS[name]
            self._say(rule, SAID[rule].format(f".{name}"), node.lineno)
        elif name in NETWORK_METHODS and name not in self._walk.methods:
            self._used(NETWORK, f".{name}")
            self._say(NETWORK, SAID[NETWORK].format(f".{name}"), node.lineno)
        elif name in FILE_METHODS and name not in self._walk.methods:
            self._used(FILES, f".{name}")
            self._say(FILES, SAID[FILES].format(f".{name}"), node.lineno)

    def _set(self, node: ast.expr, bases: Values, name: str) -> None:
        grave = name in NEVER_SET and not all(one.kind == "object" for one in bases)
        if grave or name in NEVER or name == "__class__":
            self._say(ATTRIBUTE, f"Setting {name} changes what an object is.", node.lineno)
        for base in bases:
            if base.kind == "ref":
                full = f"{base.name}.{name}"
                rule = rule_of(full)
                self._say(
                    rule if rule == "dynamic-import" else MUTATION,
                    f"{full} is replaced for everybody in the process.",
                    node.lineno,
                )
            elif base.kind == "own":
                self._say(MUTATION, f"{name} is set in another file of the plugin.", node.lineno)

    def reached(self, node: ast.expr, bases: Values, names: list[str], doubt: Doubt) -> None:
        """Attributes that are reached by a name that is given as text: `getattr`, `attrgetter`, `vars`."""
        for name in names:
            self._reach(node, bases, name)
            for base in bases:
                for value in self._of.attribute(base, name) if base.kind in ("ref", "own") else ():
                    if value.kind == "ref":
                        self._refer(value.name, node.lineno)
        grade = self._grade(bases, doubt)
        if grade == "computed":
            message = "An attribute is reached by a name that is put together while the code runs."
            self._say("computed-attribute", message, node.lineno)
        elif doubt.grade and any(one.kind in ("ref", "own", "const", "def") for one in bases):
            message = (
                "An attribute of a module, a builtin or a function is reached by a name that the source does not show."
            )
            self._say("computed-attribute", message, node.lineno)
        elif grade:
            self._plugin.doubts.append((self._unit, node.lineno))

    def _grade(self, bases: Values, doubt: Doubt) -> str:
        """How grave it is that a name is not known."""
        joined = doubt_of(doubt.parts, bases, self._plugin) if doubt.grade != "computed" else ""
        return joined if joined == "computed" else doubt.grade or joined

    def type_of(self, node: ast.expr, full: str) -> None:
        """The type of something, by which others of its kind can be made."""
        if id(node) not in self._walk.plain and id(node) not in self._walk.typing:
            self._refer(full, node.lineno)

    # ------------------------------------------------------------------ calls

    def called(self, node: ast.Call) -> None:
        """`f(…)`."""
        self._of.values(node)
        names = {value.name for value in self._of.values(node.func) if value.kind == "ref"}
        for full in names & set(_OPEN):
            self._plugin.uses.add(opened_for(self._of, full, node))
        for full in names & set(_STORES):
            if len(node.args) > 1:
                self._stored(node, self._of.values(node.args[0]), node.args[1])
            elif node.args:
                self._say("computed-attribute", f"What {_shown(full)} sets cannot be told.", node.lineno)
        self._namespace(node, names)
        if "inspect.getmembers" in names and node.args:
            self.reached(node, self._of.values(node.args[0]), [], Doubt("unknown"))
        if "builtins.type" in names and len(node.args) > 1:
            self._say("dynamic-class", "A class is made while the code runs.", node.lineno)
        if lets_callers_reach(node):
            self._say("computed-attribute", "Callers may reach any attribute by a path with dots.", node.lineno)
        if any(one.arg == "eval_str" for one in node.keywords):
            self._say(CODE, SAID[CODE].format("eval_str"), node.lineno)
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)

    def _namespace(self, node: ast.Call, functions: set[str]) -> None:
        """The whole namespace of a module, handed on."""
        if id(node) in self._walk.taken_from or id(node) in self._walk.plain:
            return
        foreign = any(one.kind == "space" and one.name not in ("", "?") for one in self._of.values(node))
        if foreign or "builtins.globals" in functions:
            self._say(ATTRIBUTE, "The namespace of a module is handed on like a value.", node.lineno)

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr in ("__setattr__", "__delattr__") and node.args:
            self._stored(node, frozenset(), node.args[-2] if len(node.args) > 1 else node.args[0])
        if function.attr in _FORMATS:
            self._formatted(node, function)
        if function.attr == "get_field" and node.args and self._of.names(node.args[0])[1]:
            # Unlike the other three it gives the object itself, not its text.
            message = "Attributes are reached by a field name that the source does not show."
            self._say("computed-attribute", message, node.lineno)

    def _formatted(self, node: ast.Call, function: ast.Attribute) -> None:
        for one in [function.value, *node.args[:1]] if function.attr in ("vformat", "get_field") else [function.value]:
            if isinstance(one, ast.Constant):
                continue
            values = self._of.values(one)
            if any(value.kind == "computed" for value in values):
                self._plugin.formats.append((self._unit, node.lineno))
            for value in values:
                if value.kind == "const" and isinstance(value.data, str):
                    self._look(value.data, node.lineno)

    def _stored(self, node: ast.Call, bases: Values, at: ast.expr) -> None:
        names, doubt = self._of.names(at)
        for name in names:
            self._set(node, bases, name)
        grade = self._grade(bases, doubt)
        if grade == "computed" or (doubt.grade and any(one.kind in ("ref", "def", "own") for one in bases)):
            message = "An attribute is set by a name that the source does not show."
            self._say("computed-attribute", message, node.lineno)
        elif grade and not (bases and all(one.kind == "object" for one in bases)):
            self._plugin.doubts.append((self._unit, node.lineno))

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

    def _look(self, text: str, line: int, *, refused: bool = False) -> None:
        if is_suspicious(text) and not refused:
            self._plugin.suspicious = True
        for rule, message in of_text(text):
            self._say(rule, message, line)

    def folded(self, node: ast.BinOp | ast.JoinedStr) -> None:
        """A text that is put together from constants is looked at as a whole."""
        for value in self._of.values(node):
            if value.kind == "const" and isinstance(value.data, str) and len(value.data) < _LONGEST:
                self._look(value.data, node.lineno)

    def matched(self, node: ast.Match) -> None:
        """`case A(name=part)` reads the attribute `name` of what is matched."""
        bases = self._of.values(node.subject)
        for case in node.cases:
            for part in ast.walk(case.pattern):
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

    def classed(self, node: ast.ClassDef) -> None:
        """What a class derives from is referred to, too."""
        for one in node.bases:
            for value in self._of.values(one):
                if value.kind == "computed":
                    self._say("computed-attribute", "A class derives from what cannot be told.", node.lineno)


def _shown(full: str) -> str:
    return full.removeprefix("builtins.")


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
    ast.Match: Checks.matched,
    ast.FunctionDef: Checks.defined,
    ast.AsyncFunctionDef: Checks.defined,
    ast.ClassDef: Checks.classed,
}
