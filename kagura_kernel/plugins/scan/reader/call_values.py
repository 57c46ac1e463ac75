"""What a call may give back, and what it reaches by names that are given as text."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .constants import NotConstant
from .evaluation import Evaluation, Files
from .fields import TEXTS, is_one_of
from .names import (
    ANY,
    MOST,
    MOST_TRIES,
    NO_DOUBT,
    NOTHING,
    PUT_TOGETHER,
    SOME_TEXT,
    UNKNOWN,
    Uncertainty,
    Value,
    Values,
    const,
    is_made_of_text,
    ref,
)
from .rules import MODULES
from .scopes import REST, Binding, Walk

_THROUGH = frozenset(
    "builtins.list builtins.tuple builtins.iter builtins.reversed builtins.sorted builtins.set builtins.frozenset "
    "builtins.dict builtins.filter copy.copy copy.deepcopy itertools.chain itertools.cycle itertools.repeat "
    "functools.partial functools.partialmethod functools.wraps functools.cache functools.lru_cache "
    "builtins.staticmethod builtins.classmethod builtins.property functools.cached_property contextlib.nullcontext "
    "contextlib.closing types.SimpleNamespace types.MappingProxyType weakref.ref weakref.proxy typing.cast "
    "collections.OrderedDict collections.deque collections.ChainMap collections.UserDict collections.UserString".split()
)
"""Functions whose result holds, or is, what they were given first."""
_ELEMENT = frozenset("builtins.next builtins.min builtins.max random.choice".split())
_TEXTUAL = frozenset(
    "builtins.chr builtins.str builtins.bytes builtins.bytearray builtins.map builtins.format functools.reduce "
    "codecs.decode codecs.encode base64.b64decode base64.b32decode base64.b16decode base64.b85decode base64.a85decode "
    "base64.urlsafe_b64decode base64.standard_b64decode binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 "
    "urllib.parse.unquote html.unescape zlib.decompress bz2.decompress lzma.decompress gzip.decompress "
    "builtins.bytes.fromhex builtins.str.join builtins.bytearray.fromhex operator.add operator.concat operator.mod "
    "operator.iadd operator.iconcat operator.mul".split()
)
_KNOWN_TEXTS = frozenset("logging.getLogger os.path.join os.path.basename builtins.open".split())
_ODD_CODECS = frozenset("rot13 rot_13 hex base64 hex_codec base64_codec unicode_escape uu utf-7 punycode".split())
_TEXT_METHODS = frozenset(
    "join decode replace translate fromhex removeprefix removesuffix format swapcase format_map "
    "__add__ __mod__ __mul__ __rmul__ __format__ __getitem__ ljust rjust center zfill expandtabs".split()
)
_CLEANED = frozenset("lower casefold strip lstrip rstrip replace".split())
_OF_DATA = frozenset("get pop values copy setdefault popitem".split())
_TEMPLATE = Value("made", "string.Template", 0, data=True)
_GRADES = ("", "unknown", "computed")
_TYPES = {"def": "types.FunctionType", "class": "builtins.type", "own": "types.ModuleType"}


class Meaning(Evaluation):
    """What every expression of one file may stand for, calls included."""

    def __init__(self, unit: str, walk: Walk, plugin: Files) -> None:
        super().__init__(unit, walk, plugin)
        self._parameters: dict[tuple[int, str], Values] = {}
        self._working: set[tuple[int, str]] = set()
        self._parameter_tries: dict[tuple[int, str], int] = {}

    def result(self, node: ast.Call) -> Values:
        """What a call may give back."""
        found: set[Value] = set()
        for function in self.values(node.func):
            found |= self._one(function, node)
            if len(found) > MOST:
                break
        return frozenset(found)

    def _one(self, function: Value, node: ast.Call) -> Values:
        if function.kind == "ref":
            return self._outside(function.name, node)
        if function.kind in ("def", "class"):
            return self._own(function, node)
        if function.kind == "get":
            return self._got(function, node)
        if function.kind == "spaceop":
            return self._of_space(function, node)
        if function.kind == "boxop":
            return self._of_box(function, node)
        return self._method(node)

    # ---------------------------------------------------------------- outside

    def _outside(self, name: str, node: ast.Call) -> Values:
        work = _SPECIAL.get(name)
        if work is not None:
            return work(self, node)
        first = node.args[0] if node.args else None
        if first is not None and name in _ELEMENT:
            return self.elements(self.values(first))
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            pass
        if first is not None and name in _THROUGH:
            values = self.values(first)
            return values | self.elements(values) if name == "itertools.chain" else values
        if name in _TEXTUAL:
            return SOME_TEXT
        # A text that a function made of a text in the source could have stood there.
        given = [value for one in node.args for value in self.values(one)]
        shown = (value.kind == "const" or is_made_of_text(value) for value in given)
        hidden = bool(given) and all(shown) and name not in _KNOWN_TEXTS
        return frozenset({Value("made", name, 0, hidden or None)})

    def getattr(self, node: ast.Call) -> Values:
        """`getattr(a, name)`."""
        if len(node.args) < len(("object", "name")) or any(isinstance(one, ast.Starred) for one in node.args):
            self._check(node, self.values(node.args[0]) if node.args else ANY, [], PUT_TOGETHER)
            return ANY
        names, doubt = self.names(node.args[1])
        bases = self.values(node.args[0])
        self._check(node, bases, names, doubt)
        found = self.union(self.attribute(base, name) for base in bases for name in names)
        default = self.union(self.values(one) for one in node.args[2:])
        return found | default | (ANY if doubt else NOTHING)

    def _check(self, node: ast.expr, bases: Values, names: list[str], doubt: Uncertainty) -> None:
        if self.checks is not None:
            self.checks.reached(node, bases, names, doubt)

    def getter(self, node: ast.Call) -> Values:
        """`attrgetter("a.b")` and `methodcaller("a")`."""
        names, doubts = [], NO_DOUBT
        for one in node.args if self.named(node.func).endswith("attrgetter") else node.args[:1]:
            found, doubt = self.names(one)
            names += found
            doubts = Uncertainty(max(doubts.grade, doubt.grade, key=_GRADES.index), doubts.parts + doubt.parts)
        parts = [part for name in names for part in name.split(".")]
        self._check(node, NOTHING, parts, doubts)
        return frozenset({Value("get", "", id(node), tuple(names), self.unit)})

    def _got(self, function: Value, node: ast.Call) -> Values:
        bases = self.values(node.args[0]) if node.args else ANY
        found: set[Value] = set()
        for name in function.data if isinstance(function.data, tuple) else ():
            values = bases
            for part in str(name).split("."):
                self._check(node, values, [part], NO_DOUBT)
                values = self.union(self.attribute(base, part) for base in values)
            found |= values
        return frozenset(found)

    def vars(self, node: ast.Call) -> Values:
        """`vars(a)`, and `vars()`."""
        if not node.args:
            return frozenset({Value("space", "")})
        return frozenset(
            Value("space", base.name if base.kind == "ref" else "" if base.kind == "own" else "?")
            for base in self.values(node.args[0])
        )

    def own_space(self, _node: ast.Call) -> Values:
        """`globals()` and `locals()`."""
        return frozenset({Value("space", "")})

    def type(self, node: ast.Call) -> Values:
        """`type(a)`; with three arguments a new class."""
        if len(node.args) != 1:
            return ANY
        found: set[Value] = set()
        for value in self.values(node.args[0]):
            if value.kind in _TYPES:
                found.add(ref(_TYPES[value.kind]))
            elif value.kind == "ref" and value.name in MODULES:
                found.add(ref("types.ModuleType"))
            elif value.kind == "object":
                found.add(value._replace(kind="class"))
            elif value.kind == "const":
                found.add(ref(f"builtins.{value.name}"))
            else:
                found.add(UNKNOWN)
        if self.checks is not None:
            for one in found:
                if one.kind == "ref" and one.name.startswith("types."):
                    self.checks.type_of(node, one.name)
        return frozenset(found)

    def imported(self, node: ast.Call) -> Values:
        """`__import__(name)` and `import_module(name)`: the call is reported anyway, and what it gives is followed."""
        names, _doubt = self.names(node.args[0]) if node.args else ([], "")
        return frozenset(ref(name) for name in names) or ANY

    def mapped(self, node: ast.Call) -> Values:
        """`map(function, values)`."""
        try:
            return frozenset({const(tuple(self.constant(node)))})  # type: ignore[arg-type]
        except (NotConstant, TypeError):
            return SOME_TEXT

    # -------------------------------------------------------------------- own

    def _own(self, function: Value, node: ast.Call) -> Values:
        if function.kind == "class":
            text = node.args and any(is_one_of(self, function, one) for one in TEXTS)
            given = self.values(node.args[0]) if text else NOTHING
            return given | {function._replace(kind="object")}
        home = self.plugin.units[function.unit]
        return self.union(home.values(one) for one in home.walk.returns.get(function.node, ())[:MOST]) or ANY

    def parameter(self, binding: Binding) -> Values:
        """What a parameter may be given: its default, and what the calls in this file give."""
        key = (id(binding.node), binding.name)
        if key in self._working:
            self.plugin.rings += 1
            return NOTHING
        if key in self._parameters:
            return self._parameters[key]
        rings, self._parameter_tries[key] = self.plugin.rings, self._parameter_tries.get(key, 0) + 1
        self._working.add(key)
        found = self._parameter(binding)
        self._working.discard(key)
        if rings == self.plugin.rings or self._parameter_tries[key] >= MOST_TRIES:
            self._parameters[key] = found
        return found

    def _parameter(self, binding: Binding) -> Values:
        node, place = binding.node, binding.path[0]
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return ANY
        owner = self.walk.class_of.get(id(node))
        is_static = any(getattr(one, "id", "") == "staticmethod" for one in getattr(node, "decorator_list", ()))
        if owner is not None and place == 0 and not is_static:
            return frozenset({Value("object", "", id(owner), None, self.unit)})
        shift = 1 if owner is not None and not is_static else 0
        default = _default(node, binding.name, place)
        found: set[Value] = set(self.values(default)) if default is not None else set()
        calls = self._calls_of(node, owner)
        for call in calls[:MOST]:
            for one in _given(call, binding, place - shift):
                found |= self.values(one)
        return frozenset(found) if calls and found else frozenset({*found, UNKNOWN})

    def _calls_of(self, node: ast.AST, owner: ast.ClassDef | None) -> list[ast.Call]:
        walk = self.walk
        if isinstance(node, ast.Lambda):
            name = walk.names_of_lambda.get(id(node), "")
            return walk.lambda_calls.get(id(node), []) + (walk.calls.get(name, []) if name else [])
        name = getattr(node, "name", "")
        if owner is not None and name in ("__init__", "__new__", "__call__"):
            name = owner.name
        elsewhere = self.plugin.calls_elsewhere(self.unit, name)
        return walk.calls.get(name, []) + elsewhere

    # ------------------------------------------------------------- containers

    def from_space(self, space: Value, key: ast.expr | None, node: ast.expr) -> Values:
        """What is taken out of a namespace by its name."""
        names, doubt = self.names(key) if key is not None else ([], PUT_TOGETHER)
        if space.name == "?":
            self._check(node, NOTHING, names, doubt)
            return self.union(self.stored(name) for name in names) or ANY
        if space.name:
            self._check(node, frozenset({ref(space.name)}), names, doubt)
            return self.union(self.attribute(ref(space.name), name) for name in names) or ANY
        self._check(node, frozenset({Value("own", "", 0, None, self.unit)}), names, doubt)
        module = self.walk.module
        return self.union(self.lookup(name, module, node.lineno) for name in names) or ANY

    def _of_space(self, function: Value, node: ast.Call) -> Values:
        space = Value("space", function.name)
        if function.data in ("get", "pop", "setdefault", "__getitem__"):
            return self.from_space(space, node.args[0] if node.args else None, node)
        if function.data in ("copy", "items", "values", "__iter__", "popitem") and function.name != "?":
            return self.from_space(space, None, node)
        return ANY

    def _of_box(self, function: Value, node: ast.Call) -> Values:
        box = frozenset({Value("box", "", function.node, None, function.unit)})
        if function.data in ("get", "pop", "__getitem__", "setdefault", "popleft"):
            try:
                key = self.constant(node.args[0]) if node.args else None
            except NotConstant:
                key = None
            extra = self.values(node.args[1]) if len(node.args) > 1 else NOTHING
            return self.elements(box, key) | extra
        if function.data in ("values", "copy", "union"):
            return box
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            return ANY

    def _method(self, node: ast.Call) -> Values:
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            pass
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "__getitem__" and node.args:
                return self.elements(self.values(node.func.value))
            base = self.values(node.func.value)
            textual = any(one.kind in ("const", "computed") for one in base)
            codec = node.args[0] if node.args else None
            if node.func.attr == "decode" and isinstance(codec, ast.Constant) and codec.value in _ODD_CODECS:
                return SOME_TEXT
            if node.func.attr == "format" and isinstance(node.func.value, ast.Constant):
                return self.folded(node)
            if node.func.attr in _TEXT_METHODS and textual:
                return SOME_TEXT
            if any(one.kind in ("computed", "part") or one == _TEMPLATE for one in base):
                return SOME_TEXT if node.func.attr not in _CLEANED else _cleaned(base, node, node.func.attr)
            if node.func.attr in _OF_DATA:
                return frozenset(one for one in base if is_made_of_text(one)) or ANY
        return ANY


def _default(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str, place: int) -> ast.expr | None:
    ordinary = [*node.args.posonlyargs, *node.args.args]
    if place >= 0:
        back = place - (len(ordinary) - len(node.args.defaults))
        return node.args.defaults[back] if back >= 0 else None
    for one, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if one.arg == name:
            return default
    return None


def _given(call: ast.Call, binding: Binding, place: int) -> list[ast.expr]:
    named = [one.value for one in call.keywords if one.arg == binding.name]
    if named:
        return named
    if binding.path[0] == REST:
        return []
    starred = [one.value for one in call.args if isinstance(one, ast.Starred)]
    if starred:
        return []
    return [call.args[place]] if 0 <= place < len(call.args) else []


def _cleaned(base: Values, node: ast.Call, method: str) -> Values:
    """Texts of which the ends are known, in small letters, without blanks, or with another letter in place of one."""
    words = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
    letters = [one for one in words if isinstance(one, str) and len(one) == 1]
    if node.keywords or len(letters) != len(node.args) or len(letters) != (2 if method == "replace" else 0):
        return SOME_TEXT
    found: set[Value] = set()
    for one in base:
        if one.kind != "part" or not isinstance(one.data, tuple) or any(end != end.strip() for end in one.data):
            return SOME_TEXT
        ends = tuple(getattr(end, method)(*letters) for end in one.data)
        found.add(Value("part", "computed", 0, ends))
    return frozenset(found)


_SPECIAL: dict[str, Callable[[Meaning, ast.Call], Values]] = {
    "builtins.getattr": Meaning.getattr,
    "builtins.vars": Meaning.vars,
    "builtins.globals": Meaning.own_space,
    "builtins.locals": Meaning.own_space,
    "builtins.type": Meaning.type,
    "builtins.map": Meaning.mapped,
    "builtins.__import__": Meaning.imported,
    "importlib.import_module": Meaning.imported,
    "operator.attrgetter": Meaning.getter,
    "operator.methodcaller": Meaning.getter,
}
