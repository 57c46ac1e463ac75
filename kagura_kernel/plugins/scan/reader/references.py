"""What is said of a reference: to a module, to something in one, to an attribute, by a name or by a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from .evaluation import Evaluation, Files
from .fields import DISPATCHING, hidden_code
from .known import HOOKS, READ, is_known
from .names import FIELDS, Uncertainty, Value, Values
from .rules import (
    ATTRIBUTE,
    CAPABLE,
    CODE,
    EXACT,
    FILE_METHODS,
    FILES,
    FORBIDDEN,
    GRAVE_METHODS,
    LIBRARY,
    MODULES,
    MUTATION,
    NETWORK,
    NETWORK_METHODS,
    NEVER,
    NEVER_SET,
    NOT_CONNECTING,
    REACHABLE,
    SAFE,
    SAID,
    SDK,
    STANDARD,
    THROUGH,
    UNKNOWN_NAME,
    VOUCHING,
    WRITING,
    is_dunder,
    is_private,
    rule_of,
    rule_of_import,
)
from .scopes import every_argument

_OPENING = frozenset(
    "zipfile.ZipFile zipfile.Path zipfile.is_zipfile tarfile.open tarfile.TarFile tarfile.is_tarfile "
    "gzip.open gzip.GzipFile bz2.open bz2.BZ2File lzma.open lzma.LZMAFile".split()
)
"""What takes a path, or something that is like an open file."""
_HARMLESS = ("Info", "Error", "File", "Exception")
PURE = ("configparser", "gzip", "bz2", "lzma")
_REACHING = {
    "zipfile": frozenset("extract extractall write writepy mkdir main".split()),
    "tarfile": frozenset("extract extractall add gettarinfo main".split()),
    "configparser": frozenset({"read"}),
    "gzip": frozenset({"main"}),
    "bz2": frozenset(),
    "lzma": frozenset(),
}
IN_MEMORY = frozenset(_REACHING)
"""Modules that reach files only by the names above."""


@lru_cache(maxsize=1)
def _without_files(plugin: Files) -> frozenset[str]:
    """Those of the modules that use no file in any of these sources."""
    found = set(IN_MEMORY)
    for unit in plugin.units.values():
        for node in unit.walk.nodes:
            name = _named(node)
            found -= {module for module, names in _REACHING.items() if name in names}
            if isinstance(node, ast.Name | ast.Attribute):
                for value in unit.values(node):
                    top = value.name.partition(".")[0] if value.kind == "ref" else ""
                    if top in found and not _is_in_memory(unit, value.name, unit.walk.call_of.get(id(node))):
                        found.discard(top)
    return frozenset(found)


def _named(node: ast.AST) -> object:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_in_memory(unit: Evaluation, full: str, call: ast.Call | None) -> bool:
    if full not in _OPENING:
        if full.startswith(PURE):
            return True
        last = full.rpartition(".")[2]
        return full in IN_MEMORY or last.isupper() or last.endswith(_HARMLESS)
    if call is None or any(one.arg in (None, "name", "filename") for one in call.keywords):
        return False
    named = [one.value for one in call.keywords if one.arg in ("file", "fileobj", "root")]
    given = [*call.args[:1], *named]
    return bool(given) and all(_is_bytes(unit, one) for one in given)


def _is_bytes(unit: Evaluation, node: ast.expr) -> bool:
    values = unit.values(node)
    return bool(values) and all(one.kind == "made" and one.name in ("io.BytesIO", "zipfile.ZipFile") for one in values)


_HIDDEN = NEVER | {"__class__", "__dict__", "__defaults__", "__kwdefaults__", "__annotations__"}
_DANGEROUS = FORBIDDEN | {THROUGH}
_FAMILIES = ("exec", "spawn", "posix_spawn", "fork", "pidfd", "set", "CLONE_", "PRIO_")
_TOKEN = re.compile(r"\w+")
_WHOLE_DUNDER = re.compile(r"__\w+__")


class Material(NamedTuple):
    """What a plugin has to make names of: every text in its files, and every name that it defines itself."""

    blob: str  # All of them, in small letters
    tokens: frozenset[str]  # The words in them
    whole: frozenset[str]  # Each as a whole

    def holds(self, text: str) -> bool:
        """Whether a text can be cut out of what is there, forwards or backwards, or joined from two words of it."""
        text = text.lower()
        if not text or text in self.blob or text[::-1] in self.blob:
            return True
        return any(text[:at] in self.tokens and text[at:] in self.tokens for at in range(1, len(text)))


@lru_cache(maxsize=1)
def _material_of(plugin: Files) -> Material:
    """The material of all files; looked up only where a name is put together."""
    found: set[str] = set()
    for unit in plugin.units.values():
        for node in unit.walk.nodes:
            found |= _texts(unit, node)
    small = frozenset(one.lower() for one in found)
    blob = "\n".join(sorted(small))
    return Material(blob, frozenset(_TOKEN.findall(blob)), small)


def _texts(unit: Evaluation, node: ast.AST) -> set[str]:
    if isinstance(node, ast.Constant):
        data = node.value
        return {data.decode("latin-1") if isinstance(data, bytes) else data} if isinstance(data, str | bytes) else set()
    if isinstance(node, ast.BinOp | ast.JoinedStr):
        return {one.data for one in unit.values(node) if one.kind == "const" and isinstance(one.data, str)}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _defined([node.name, *(one.arg for one in every_argument(node.args))])
    if isinstance(node, ast.ClassDef):
        return _defined([node.name, *(one.arg for one in node.keywords if one.arg)])
    if isinstance(node, ast.Call):
        return _defined([one.arg for one in node.keywords if one.arg])
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return _defined([node.id if isinstance(node, ast.Name) else node.attr])
    return _defined([node.asname]) if isinstance(node, ast.alias) and node.asname else set()


def _defined(names: list[str]) -> set[str]:
    """What a class defines for Python to call is a hidden name as it stands; nothing has to be put before it."""
    return {name for name in names if not _WHOLE_DUNDER.fullmatch(name)}


def _doubt_of(parts: Iterable[Value], bases: Values, plugin: Files) -> str:
    """How grave it is to reach an attribute of `bases` by names of which only the ends are known.

    `computed` where a name that is never reached honestly could come of what stands in the source, `unknown` where
    only data could make one, empty where none begins and ends like that.
    """
    found = ""
    for part in parts:
        doubt = _doubt(part, bases, plugin)
        if doubt == "computed":
            return doubt
        found = found or doubt
    return found


def _doubt(part: Value, bases: Values, plugin: Files) -> str:
    head, tail = part.data if isinstance(part.data, tuple) else ("", "")
    # A path of attributes, as `attrgetter` takes it: the last and the first name of it.
    head, tail = head.rpartition(".")[2], tail.partition(".")[0]
    own = bool(bases) and all(one.kind in ("object", "class") for one in bases)
    hidden, grave = _fitting(_HIDDEN, head, tail), [] if own else _fitting(GRAVE_METHODS, head, tail)
    if own:
        hidden = [name for name in hidden if name.startswith("__") or name == "mro"]
    foreign = [one for one in bases if one.kind in ("ref", "own", "const", "def")]
    if any(_leads(one, head, tail) for one in foreign if one.kind == "ref"):
        return "computed"
    if (hidden or grave) and (part.name == "computed" or foreign or head.startswith("__")):
        return "computed"
    material = _material_of(plugin)
    ends = len(head), len(tail)
    if any(material.holds(_middle(name, *ends)) for name in hidden):
        return "computed"
    if any(_middle(name, *ends).lower() in material.whole for name in grave):
        return "computed"
    is_capable = any(one.kind == "ref" and one.name in CAPABLE for one in foreign)
    return "unknown" if hidden or is_capable or not head.lstrip("_")[:1].isalpha() else ""


def _leads(base: Value, head: str, tail: str) -> bool:
    """Whether something dangerous of a module or another object outside begins and ends like that."""
    if base.name == "sys":
        return True
    place = f"{base.name}."
    named = [full.removeprefix(place) for full, rule in EXACT.items() if full.startswith(place) and rule in _DANGEROUS]
    if _fitting([*named, *REACHABLE], head, tail):
        return True
    if base.name not in MODULES:
        return False
    if head.startswith("_") or not head:
        return True
    if base.name == "os" and any(one.startswith(head) or head.startswith(one) for one in _FAMILIES):
        return True
    return bool(_fitting([one for one in STANDARD if f"{base.name}.{one}" not in MODULES], head, tail))


def _fitting(names: Iterable[str], head: str, tail: str) -> list[str]:
    size = len(head) + len(tail)
    return [one for one in names if len(one) >= size and one.startswith(head) and one.endswith(tail)]


def _middle(name: str, head: int, tail: int) -> str:
    return name[head : len(name) - tail]


OPEN = ("builtins.open", "io.open", "codecs.open", "io.FileIO", "os.open")
ANCHORED = frozenset(
    f"importlib.resources.{name}"
    for name in "files contents is_resource open_binary open_text path read_binary read_text".split()
)
"""What imports the module that it is told the name of."""
NAMING = ("__getattr__", "__set_name__")
"""Hooks that take the name of an attribute: to call one is to reach it."""

_INDIRECT = frozenset(
    "builtins.getattr builtins.setattr builtins.delattr builtins.globals builtins.locals builtins.vars "
    "operator.attrgetter operator.methodcaller functools.wraps functools.update_wrapper logging.StrFormatStyle".split()
)
_BOUND = ("__self__", "__func__")
# A path by itself opens nothing; what is done with it counts.
_NO_USE = ("tempfile", "zoneinfo", "pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath")
_PRIVATE = "private-attribute"
_REDIRECTING = ("contextlib.redirect_stderr", "contextlib.redirect_stdout")


class Reaching:
    """What is said of references in one file."""

    def __init__(self, meaning: Evaluation, plugin: Files) -> None:
        self._of = meaning
        self._walk = meaning.walk
        self._plugin = plugin
        self._unit = meaning.unit
        self._functions = self._walk.call_of
        # `importlib` as the way to what of it is no danger.
        self._ways = {
            id(node.value)
            for node in self._walk.nodes
            if isinstance(node, ast.Attribute) and f"importlib.{node.attr}" in MODULES
        }

    def _say(self, rule: str, message: str, line: int) -> None:
        self._plugin.report(rule, message, self._unit, line)

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

    def _referred(self, node: ast.expr, full: str) -> None:
        if full in _INDIRECT and id(node) not in self._functions and id(node) not in self._walk.plain:
            message = f"{shown(full)} is handed on, so that nobody can tell what it will reach."
            self._say("computed-attribute", message, node.lineno)
        if full in ANCHORED and id(node) not in self._functions:
            self._say("dynamic-import", SAID["dynamic-import"].format(full), node.lineno)
        if full == "importlib" and id(node) in self._ways:
            return
        if full.startswith("types.") and (id(node) in self._walk.typing or id(node) in self._walk.plain):
            return
        if full in CAPABLE and id(node) not in self._walk.plain and id(node) not in self._walk.typing:
            self._say("module-as-value", f"The module {full} is handed on like a value.", node.lineno)
        if full not in MODULES or MODULES[full] in FORBIDDEN:
            self._refer(full, node.lineno)

    def _is_in_memory(self, full: str) -> bool:
        return full.partition(".")[0] in IN_MEMORY and full.partition(".")[0] in _without_files(self._plugin)

    def _refer(self, full: str, line: int) -> None:
        rule = rule_of(full)
        if rule == FILES and self._is_in_memory(full):
            top, _, name = full.partition(".")
            if top in PURE and name and not is_known(top, name.partition(".")[0]):
                self._say(UNKNOWN_NAME, SAID[UNKNOWN_NAME].format(full), line)
            return
        if full in DISPATCHING:
            for at in hidden_code(self._of):
                self._say(CODE, "An annotation is a text that runs as code when the function is registered.", at)
        if rule:
            self._used(rule, full)
            self._say(rule, SAID[rule].format(shown(full)), line)

    def _used(self, rule: str, full: str) -> None:
        if rule == NETWORK:
            if full not in MODULES and full not in NOT_CONNECTING:
                self._plugin.uses.add("net")
        elif rule == FILES and not full.startswith(_NO_USE) and full not in OPEN:
            if full.rpartition(".")[2] in WRITING:
                self._plugin.uses.add("write")
            elif full not in MODULES:
                self._plugin.uses.add("read")

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
        if not own and name not in NEVER:
            self._inner(node, bases, name)
        if own or not any(one.kind in ("unknown", "made", "computed", "get") for one in bases):
            return
        found = NETWORK if name in NETWORK_METHODS else FILES if name in FILE_METHODS else ""
        rule = GRAVE_METHODS.get(name, found)
        if rule and name not in self._walk.methods:
            self._used(rule, f".{name}")
            self._say(rule, SAID[rule].format(f".{name}"), node.lineno)

    def _inner(self, node: ast.expr, bases: Values, name: str) -> None:
        """A name with underscores that no class of the plugin has."""
        if name in self._plugin.defined and not any(one.kind in ("ref", "made") for one in bases):
            if name == "__getattr__" and not all(one.kind in ("object", "class") for one in bases):
                self._plugin.doubts.append((self._unit, node.lineno))
            return
        told = bool(bases) and all(one.kind in ("ref", "own") for one in bases)
        if is_dunder(name):
            outer = any(one.kind == "made" and one.name == "builtins.super" for one in bases)
            if outer and name == "__getattr__":
                self._plugin.doubts.append((self._unit, node.lineno))
            elif name in NAMING and not outer:
                self._say("computed-attribute", f"{name} reaches an attribute by any name.", node.lineno)
            elif name not in READ and not (outer and name in HOOKS):
                self._say(_PRIVATE, f"{name} is not known to be harmless to reach.", node.lineno)
        # What is reached of something outside, or of another file, is told by its full name.
        elif is_private(name) and name not in self._plugin.defined and not told:
            self._plugin.private.append((name, self._unit, node.lineno))

    def _set(self, node: ast.expr, bases: Values, name: str) -> None:
        grave = name in NEVER_SET and not all(one.kind == "object" for one in bases)
        if grave or name in NEVER or name == "__class__":
            self._say(ATTRIBUTE, f"Setting {name} changes what an object is.", node.lineno)
        if name == VOUCHING:
            message = f"{name} is made by the plugin, and the library makes code of what it says yes to."
            self._say(CODE, message, node.lineno)
        for base in bases:
            if base.kind == "made" and base.name in (*_REDIRECTING, *FIELDS):
                message = f"{name} of {base.name} says which attribute is reached, and is set."
                self._say("computed-attribute", message, node.lineno)
            elif base.kind == "made" and is_private(name) and base.name not in self._plugin.defined:
                self._say(_PRIVATE, f"{name} of {base.name} is set.", node.lineno)
            if base.kind == "ref":
                full = f"{base.name}.{name}"
                rule = "dynamic-import" if rule_of(full) == "dynamic-import" else MUTATION
                self._say(rule, f"{full} is replaced for everybody in the process.", node.lineno)
            elif base.kind == "own":
                self._say(MUTATION, f"{name} is set in another file of the plugin.", node.lineno)

    def reached(self, node: ast.expr, bases: Values, names: list[str], doubt: Uncertainty) -> None:
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
            what = "An attribute of a module, a builtin or a function"
            self._say("computed-attribute", f"{what} is reached by a name that the source does not show.", node.lineno)
        elif grade:
            self._plugin.doubts.append((self._unit, node.lineno))

    def _grade(self, bases: Values, doubt: Uncertainty) -> str:
        joined = _doubt_of(doubt.parts, bases, self._plugin) if doubt.grade != "computed" else ""
        return joined if joined == "computed" else doubt.grade or joined

    def type_of(self, node: ast.expr, full: str) -> None:
        """The type of something, by which others of its kind can be made."""
        if id(node) not in self._walk.plain and id(node) not in self._walk.typing:
            self._refer(full, node.lineno)


def shown(full: str) -> str:
    """A dotted name as a plugin writes it."""
    return full.removeprefix("builtins.")
