"""Applies the rules to every node of one file: to what is referred to, called or not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .constants import NotConstant
from .evaluation import Evaluation
from .fields import (
    BY_NAME,
    DISPATCHING,
    FORMATTER,
    HIDDEN,
    OF_FORMATTERS,
    TEXTS,
    Grading,
    by_place,
    check_base,
    check_class,
    check_hook,
    derives_from,
    hooks_of,
    is_formatter,
    is_one_of,
    listed,
)
from .names import NO_DOUBT, Uncertainty, Value, Values, ref
from .references import ANCHORED, NAMING, OPEN, Reaching, shown
from .rules import (
    ATTRIBUTE,
    CAPABLE,
    CODE,
    ENVIRONMENT,
    FILES,
    MODULES,
    MUTATION,
    NEVER,
    OUTSIDE,
    SAID,
    SDK,
    rule_of,
    rule_of_import,
)
from .source import is_suspicious, of_text

_WORDS = {"eval_str": CODE, "fromfile_prefix_chars": FILES, "capture_locals": ENVIRONMENT}
"""Arguments that make something ordinary do more: by which rule."""
_SETTERS = ("__setattr__", "__delattr__")
_STORES = ("builtins.setattr", "builtins.delattr")
_COPIERS = {"functools.wraps": 0, "functools.update_wrapper": 1}
"""What copies attributes by their names, and at which place it is told from what."""
_TEXTUAL = ("string.Template", *TEXTS)
_GETTERS = frozenset({"operator.attrgetter", "operator.methodcaller"})
_ITSELF = ("builtins.__name__", "builtins.__package__")
_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args")


class CallChecks(Reaching):
    """The rules for the calls of one file."""

    def called(self, node: ast.Call) -> None:
        """Look at a call: what it opens, sets, names and reaches."""
        self._of.values(node)
        names = {value.name for value in self._of.values(node.func) if value.kind == "ref"}
        for full in names & set(OPEN):
            self._plugin.uses.add(_opened_for(self._of, full, node))
        for full in names & set(_STORES):
            if len(node.args) > 1:
                self._stored(node, self._of.values(node.args[0]), node.args[1])
            elif node.args:
                self._say("computed-attribute", f"What {shown(full)} sets cannot be told.", node.lineno)
        self._namespace(node, names)
        self._naming(node, names)
        if _lets_callers_reach(node):
            self._say("computed-attribute", "Callers may reach any attribute by a path with dots.", node.lineno)
        for rule, word in ((_WORDS[one.arg], one.arg) for one in node.keywords if one.arg in _WORDS):
            self._say(rule, SAID[rule].format(word), node.lineno)
        for name, value in hooks_of(self._of, node):
            check_hook(self._of, name, value, node.lineno, self._say)
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)

    def _made_class(self, node: ast.Call) -> None:
        self._say("dynamic-class", "A class is made while the code runs.", node.lineno)
        for value in self._of.elements(self._of.values(node.args[1])):
            check_base(value, node.lineno, self._say)

    def _got_by_name(self, node: ast.Call) -> None:
        """`methodcaller("format", a)` and the like: what is called reaches attributes by texts itself."""
        for one in node.args:
            if any(name.rpartition(".")[2] in (*BY_NAME, *OF_FORMATTERS, *NAMING) for name in self._of.names(one)[0]):
                self.reached(node, frozenset(), [], Uncertainty("computed"))

    def _naming(self, node: ast.Call, names: set[str]) -> None:
        """What is told names, or a text with names in it, of attributes and modules."""
        if "inspect.getmembers" in names and node.args:
            self.reached(node, self._of.values(node.args[0]), [], Uncertainty("unknown"))
        if "builtins.type" in names and len(node.args) > 1:
            self._made_class(node)
        if names & _GETTERS:
            self._got_by_name(node)
        for full in names & set(_COPIERS):
            self._copied(node, _COPIERS[full])
        if names & ANCHORED:
            self._anchored(node)
        if "builtins.getattr" in names and any({*self._of.names(at)[0]} & {*BY_NAME} for at in node.args[1:2]):
            self._reaching_text(node, node.args[:1], (), objects=False)
        if names & {f"{text}.{method}" for text in TEXTS for method in BY_NAME}:
            self._reaching_text(node, node.args[:1], node.args[1:], objects=False)
        if self._makes(node, names, "logging.StrFormatStyle"):
            self._log_format(node, braces=True)
        elif "logging.basicConfig" in names or self._makes(node, names, "logging.Formatter"):
            self._log_format(node, braces=False)

    def _makes(self, node: ast.Call, names: set[str], full: str) -> bool:
        """Whether it makes an object of that class, or of one of the plugin's own that derives from it."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            return any(derives_from(self._of, one, full) for one in self._walk.classes.values())
        return full in names or any(
            value.kind == "class" and is_one_of(self._of, value, full) for value in self._of.values(node.func)
        )

    def _namespace(self, node: ast.Call, functions: set[str]) -> None:
        if id(node) in self._walk.taken_from or id(node) in self._walk.plain:
            return
        foreign = any(one.kind == "space" and one.name not in ("", "?") for one in self._of.values(node))
        if foreign or "builtins.globals" in functions:
            self._say(ATTRIBUTE, "The namespace of a module is handed on like a value.", node.lineno)

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr in _SETTERS and node.args:
            made = frozenset(one for one in self._of.values(node.args[0]) if one.kind == "made")
            self._stored(node, made, node.args[-2] if len(node.args) > 1 else node.args[0])
        if function.attr in _PARSING:
            given = [*node.args[1:2], *(one.value for one in node.keywords if one.arg in ("namespace", None))]
            if any(value.kind not in ("object", "made") for one in given for value in self._of.values(one)):
                self._plugin.doubts.append((self._unit, node.lineno))
        if function.attr in (*BY_NAME, *OF_FORMATTERS):
            self._formatted(node, function)

    def _formatted(self, node: ast.Call, function: ast.Attribute) -> None:
        receivers = self._of.values(function.value)
        if receivers and receivers <= {ref(one) for one in TEXTS}:
            return  # with the text as its first argument: looked at as the function that it is
        given = [*node.args, *(one.value for one in node.keywords)]
        formatter = any(is_formatter(self._of, one) for one in receivers)
        if ref(FORMATTER) in receivers:
            self._reaching_text(node, given[1:2], given[2:], objects=True)
        elif function.attr == "get_field":
            if any(Grading(self._of).grade(one) for one in given[:1]):
                message = "Attributes are reached by a field name that the source does not show."
                self._say("computed-attribute", message, node.lineno)
            self._reaching_text(node, given[:1], (), objects=False)
        elif function.attr in OF_FORMATTERS or formatter:
            self._reaching_text(node, given[:1], given[1:], objects=True)
        elif receivers and all(one.kind == "class" and self._is_text(one) for one in receivers):
            self._reaching_text(node, given[:1], given[1:], objects=False)
        # What is of a class of the plugin's own has a method of that name, and is no text for all that.
        elif not all(
            _is_other(one) or (one.kind in ("object", "class") and not self._is_text(one)) for one in receivers
        ):
            self._reaching_text(node, [function.value], given, objects=False)

    def _is_text(self, value: Value) -> bool:
        return any(is_one_of(self._of, value, one) for one in TEXTS)

    def _reaching_text(
        self, node: ast.expr, texts: Sequence[ast.expr], given: Sequence[ast.expr], *, objects: bool
    ) -> None:
        """A text whose fields reach attributes of what is given: their texts, or the `objects` themselves."""
        for one in texts:
            for value in self._of.values(one) if not isinstance(one, ast.Constant) else ():
                if value.kind == "const" and isinstance(value.data, str):
                    self._look(value.data, node.lineno)
        grade = max((Grading(self._of).grade(one) for one in texts), default=HIDDEN)
        bases = self._of.union(self._of.values(one) for one in given)
        if grade == HIDDEN:
            self.reached(node, frozenset(), [], Uncertainty("computed"))
        elif grade and objects:
            self.reached(node, bases, [], Uncertainty("unknown"))
        elif grade:
            # The text of an attribute of a constant says nothing that the source does not.
            foreign = frozenset(one for one in bases if one.kind != "const")
            self.reached(node, foreign, [], Uncertainty("unknown"))

    def _log_format(self, node: ast.Call, *, braces: bool) -> None:
        """A format text of braces for records; in the other styles a field reaches no attribute."""
        named = {one.arg: one.value for one in node.keywords}
        style = named.get("style") or (node.args[2] if len(node.args) > len(("fmt", "datefmt")) else None)
        if not braces and (style is None or (isinstance(style, ast.Constant) and style.value != "{")):
            return
        texts = [one for one in (*node.args[:1], named.get("fmt"), named.get("format")) if one is not None]
        if texts:
            self._reaching_text(node, texts[:1], (), objects=False)

    def _copied(self, node: ast.Call, place: int) -> None:
        """`update_wrapper(wrapper, wrapped, assigned, updated)`, and `wraps` without the first of them."""
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            self.reached(node, frozenset(), [], Uncertainty("computed"))
            return
        named = {one.arg: one.value for one in node.keywords}
        words = dict(zip(("wrapped", "assigned", "updated"), node.args[place:], strict=False)) | named
        bases = self._of.values(words["wrapped"]) if "wrapped" in words else frozenset()
        for word in ("assigned", "updated"):
            if word in words:
                self.reached(node, bases, *listed(self._of, words[word]))

    def _anchored(self, node: ast.Call) -> None:
        """A function that imports the module whose files it gives."""
        given = [*node.args, *(one.value for one in node.keywords if one.arg in (None, "anchor", "package"))][:1]
        for value in self._of.union(self._of.values(one) for one in given):
            if value.kind == "const" and isinstance(value.data, str):
                self._import(value.data, node.lineno)
            elif not (value.kind == "ref" and value.name in _ITSELF):
                self._say("dynamic-import", SAID["dynamic-import"].format("importlib.resources"), node.lineno)

    def _stored(self, node: ast.Call, bases: Values, at: ast.expr) -> None:
        names, doubt = self._of.names(at)
        self._plugin.set_by_name.update(names)
        for name in names:
            self._set(node, bases, name)
        grade = self._grade(bases, doubt)
        if grade == "computed" or (doubt.grade and any(one.kind in ("ref", "def", "own") for one in bases)):
            message = "An attribute is set by a name that the source does not show."
            self._say("computed-attribute", message, node.lineno)
        elif grade and not (bases and all(one.kind == "object" for one in bases)):
            self._plugin.doubts.append((self._unit, node.lineno))

    def _look(self, text: str, line: int, *, refused: bool = False) -> None:
        if is_suspicious(text) and not refused:
            self._plugin.suspicious = True
        for rule, message in of_text(text):
            self._say(rule, message, line)


def _is_other(value: Value) -> bool:
    """Whether it is something outside that is no text, but has a method of that name."""
    return value.kind == "made" and value.name.rpartition(".")[2][:1].isupper() and value.name not in _TEXTUAL


def _opened_for(meaning: Evaluation, full: str, node: ast.Call) -> str:
    at = next((one.value for one in node.keywords if one.arg in ("mode", "flags")), None)
    if at is None and len(node.args) > 1:
        at = node.args[1]
    if at is None:
        return "read"
    text = ast.unparse(at) if full == "os.open" else ""
    try:
        mode = str(meaning.constant(at)) if not text else ""
    except NotConstant:
        mode = "r"
    writes = any(letter in mode for letter in "wax+") or any(word in text for word in ("WRONLY", "RDWR", "CREAT"))
    return "write" if writes else "read"


def _lets_callers_reach(node: ast.Call) -> bool:
    """Whether it is `register_instance(a, allow_dotted_names=True)`, by which callers reach any attribute."""
    given = [one.value for one in node.keywords if one.arg == "allow_dotted_names"]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "register_instance":
        given += node.args[1:2]
    return any(not (isinstance(one, ast.Constant) and not one.value) for one in given)


# Nothing shorter is a name of anything; what is longer is no path or name.
_SHORTEST, _LONGEST = 4, 400


class Checks(CallChecks):
    """The rules, for one file."""

    def run(self) -> None:
        """Look at every node."""
        for node in self._walk.nodes:
            check = self._CHECKS.get(type(node))
            if check is not None:
                check(self, node)
        for name, line in self._walk.globals_set:
            self._say(MUTATION, f"The global name {name} is set inside a function.", line)
        for module, level, line in self._walk.stars:
            self._star(module, level, line)

    # ------------------------------------------------------------ what comes in

    def _imported(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name, node.lineno)

    def _taken(self, node: ast.ImportFrom) -> None:
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

    def _named(self, node: ast.Name) -> None:
        if node.id == "__annotations__":
            self._say(CODE, "Annotations are made while the code runs, and the library runs them as code.", node.lineno)
        if isinstance(node.ctx, ast.Store):
            return
        for value in self._of.values(node):
            if value.kind == "ref":
                self._referred(node, value.name)

    def _attribute(self, node: ast.Attribute) -> None:
        bases = self._of.values(node.value)
        if isinstance(node.ctx, ast.Load):
            self._reach(node, bases, node.attr)
            if node.attr in BY_NAME and id(node) not in self._functions:
                self._reaching_text(node, [node.value], (), objects=False)
                if bases & {ref(one) for one in TEXTS}:
                    self.reached(node, frozenset(), [], Uncertainty("computed"))
            if node.attr in _SETTERS and id(node) not in self._functions and id(node) not in self._walk.refused:
                self._say("computed-attribute", f"{node.attr} is handed on, and sets whatever it is told.", node.lineno)
            handed_on = node.attr in OF_FORMATTERS and id(node) not in self._functions
            if handed_on and (ref(FORMATTER) in bases or any(is_formatter(self._of, one) for one in bases)):
                self.reached(node, frozenset(), [], Uncertainty("computed"))
            for value in self._of.values(node):
                if value.kind == "ref":
                    self._referred(node, value.name)
        else:
            self._set(node, bases, node.attr)

    # ------------------------------------------------------------------ calls

    def _subscript(self, node: ast.Subscript) -> None:
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

    def _constant(self, node: ast.Constant) -> None:
        """A text that stands in the code; what documents it is left alone."""
        data = node.value
        if id(node) in self._walk.docstrings:
            return
        if isinstance(data, bytes):
            data = data.decode("latin-1")
        if isinstance(data, str) and len(data) >= _SHORTEST:
            self._look(data, node.lineno, refused=id(node) in self._walk.refused)

    def _folded(self, node: ast.BinOp | ast.JoinedStr) -> None:
        for value in self._of.values(node):
            if value.kind == "const" and isinstance(value.data, str) and len(value.data) < _LONGEST:
                self._look(value.data, node.lineno)

    def _matched(self, node: ast.Match) -> None:
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

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        scope = self._walk.scope_of[id(node)]
        if scope.kind == "module" and node.name in ("__getattr__", "__dir__"):
            self._say(MUTATION, f"{node.name} answers for names that the module does not have.", node.lineno)

    def _mapped(self, node: ast.Dict) -> None:
        """A dictionary may become attributes of something: `type`, `SimpleNamespace`."""
        for name, value in hooks_of(self._of, node):
            check_hook(self._of, name, value, node.lineno, self._say)

    def _classed(self, node: ast.ClassDef) -> None:
        check_class(self._of, node, self._say)
        if derives_from(self._of, node, FORMATTER):
            self._plugin.doubts.append((self._unit, node.lineno))

    _CHECKS: ClassVar[dict[type, Callable[[Checks, Any], None]]] = {
        ast.Import: _imported,
        ast.ImportFrom: _taken,
        ast.Name: _named,
        ast.Attribute: _attribute,
        ast.Call: CallChecks.called,
        ast.Subscript: _subscript,
        ast.Constant: _constant,
        **dict.fromkeys((ast.BinOp, ast.JoinedStr), _folded),
        ast.Dict: _mapped,
        ast.Match: _matched,
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _defined),
        ast.ClassDef: _classed,
    }
