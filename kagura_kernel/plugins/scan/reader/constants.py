"""Works out the value of an expression made of constants alone: how names are put together that nobody should see.

Only pure operations on small values, each with a limit; whatever else stands there makes it `NotConstant`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

MAX_LENGTH = 1 << 16
_MAX_STEPS = 2_000
_MAX_DEPTH = 120

Lookup = Callable[[ast.expr], Any]
"""Gives the constant that an expression stands for, by what is known of its names; raises `NotConstant`."""
Named = Callable[[ast.expr], str]
"""Gives the full dotted name of what an expression refers to; empty for none."""


class NotConstant(Exception):
    """The value cannot be known without running the code."""


_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.FloorDiv: operator.floordiv,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_TEXT_METHODS = frozenset(
    "join replace lower upper strip lstrip rstrip split rsplit title capitalize swapcase casefold removeprefix "
    "removesuffix format encode decode translate splitlines partition rpartition hex index find count "
    "startswith endswith isidentifier copy get keys values items union".split()
)
_CODECS = frozenset(
    "rot13 rot_13 hex hex_codec base64 base64_codec utf-8 utf8 ascii latin-1 latin1 utf-16 utf-32 utf-16-le utf-16-be "
    "utf-7 punycode idna unicode_escape unicode-escape raw_unicode_escape cp037 cp500 cp1252 "
    "uu quopri iso-8859-1".split()
)


def _bounded_range(*words: int) -> list[int]:
    found = range(*words)
    if len(found) > MAX_LENGTH:
        raise NotConstant
    return list(found)


def _pure(name: str) -> Callable[..., Any] | None:
    """The function of that name when it is pure and cheap; loaded only where a source uses it."""
    if name in _BUILTINS:
        return _BUILTINS[name]
    module, _, function = name.rpartition(".")
    if (module, function) not in _PURE:
        return None
    return cast("Callable[..., Any]", getattr(__import__(module, fromlist=["_"]), function))


_PLAIN: tuple[Callable[..., Any], ...] = (
    *(chr, ord, str, int, list, tuple, sorted, len, hex, abs, dict, min, max, format, repr),
)
_BUILTINS: dict[str, Callable[..., Any]] = {
    **{f"builtins.{one.__name__}": one for one in _PLAIN},
    **dict.fromkeys(
        ("builtins.bytes", "builtins.bytearray"),
        lambda *words: bytes(words[0]) if not isinstance(words[0], int) else b"",
    ),
    "builtins.reversed": lambda one: list(reversed(one)),
    "builtins.range": _bounded_range,
    "builtins.enumerate": lambda one: list(enumerate(one)),
    "builtins.zip": lambda *words: list(zip(*words, strict=False)),
    "builtins.set": lambda *words: sorted(set(*words)),
    "builtins.next": lambda one: one[0],
    "builtins.iter": lambda one: one,
    "builtins.bytes.fromhex": bytes.fromhex,
    "builtins.bytearray.fromhex": bytes.fromhex,
    "builtins.str.join": lambda by, words: by.join(words),
    **{f"builtins.str.{one.__name__}": one for one in (str.lower, str.upper, str.format, str.replace, str.encode)},
    "builtins.bytes.decode": bytes.decode,
    "builtins.str.maketrans": str.maketrans,
    "sys.intern": lambda one: one,
}
_PURE = frozenset(
    {
        *(("base64", name) for name in ("b64decode", "urlsafe_b64decode", "standard_b64decode", "b32decode")),
        *(("base64", name) for name in ("b16decode", "b85decode", "a85decode", "decodebytes", "b64encode")),
        *(("binascii", name) for name in ("unhexlify", "a2b_hex", "a2b_base64", "a2b_uu", "a2b_qp")),
        ("urllib.parse", "unquote"),
        ("html", "unescape"),
        ("operator", "add"),
        ("operator", "concat"),
        ("operator", "xor"),
        ("quopri", "decodestring"),
    }
)


def _decoded(value: Any, codec: str = "utf-8") -> Any:
    import codecs

    if codec.lower() not in _CODECS:
        raise NotConstant
    return codecs.decode(value, codec)


class Folder:
    """Folds expressions; `lookup` and `named` know what names stand for."""

    def __init__(self, lookup: Lookup, named: Named) -> None:
        self._lookup = lookup
        self._named = named
        self.steps = 0
        self._depth = 0

    def fold(self, node: ast.expr) -> Any:
        """The value. Raises `NotConstant`: it has none that can be known, or it is too large."""
        self.steps = 0
        try:
            return self.value(node, {})
        except NotConstant:
            raise
        # Whatever an operation on a stranger's constants raises: the expression has no value.
        except Exception as error:
            raise NotConstant from error

    def value(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        """The value of a part, with what is known of the names around it. Raises as `fold`."""
        self.steps += 1
        if self.steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise NotConstant
        self._depth += 1
        try:
            found = self._one(node, known)
        finally:
            self._depth -= 1
        if isinstance(found, str | bytes | list | tuple | dict) and len(found) > MAX_LENGTH:
            raise NotConstant
        if isinstance(found, int) and found.bit_length() > MAX_LENGTH:
            raise NotConstant
        return found

    def _one(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return known[node.id] if node.id in known else self._lookup(node)
        work = self._WORK.get(type(node))
        if work is None:
            raise NotConstant
        return work(self, node, known)

    def _listed(self, node: Any, known: Mapping[str, Any]) -> Any:
        found: list[Any] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                found.extend(self.value(one.value, known))
            else:
                found.append(self.value(one, known))
        return tuple(found) if isinstance(node, ast.Tuple) else found

    def _mapped(self, node: ast.Dict, known: Mapping[str, Any]) -> Any:
        if any(key is None for key in node.keys):
            raise NotConstant
        return {
            self.value(key, known): self.value(value, known)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }

    def _binary(self, node: ast.BinOp, known: Mapping[str, Any]) -> Any:
        left, right = self.value(node.left, known), self.value(node.right, known)
        if isinstance(node.op, ast.Mult):
            size = (len(left) if hasattr(left, "__len__") else 1) * (right if isinstance(right, int) else 1)
            if isinstance(left, int) and hasattr(right, "__len__"):
                size = left * len(right)
            if size > MAX_LENGTH:
                raise NotConstant
            return left * right
        if isinstance(node.op, ast.Mod):
            shape = left.decode("latin-1") if isinstance(left, bytes) else str(left)
            if "*" in shape or any(letter.isdigit() for letter in shape):
                raise NotConstant
            return left % right
        if type(node.op) not in _BINARY:
            raise NotConstant
        return _BINARY[type(node.op)](left, right)

    def _joined(self, node: ast.JoinedStr, known: Mapping[str, Any]) -> Any:
        found: list[str] = []
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                if one.format_spec is not None:
                    spec = self.value(one.format_spec, known)
                    if any(letter.isdigit() for letter in spec):
                        raise NotConstant
                    found.append(format(self.value(one.value, known), spec))
                    continue
                value = self.value(one.value, known)
                found.append(repr(value) if one.conversion == ord("r") else str(value))
            else:
                found.append(str(self.value(one, known)))
        return "".join(found)

    def _part(self, node: ast.Subscript, known: Mapping[str, Any]) -> Any:
        value = self.value(node.value, known)
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(None if one is None else self.value(one, known) for one in ends))]
        return value[self.value(node.slice, known)]

    def _comprehended(self, node: Any, known: Mapping[str, Any]) -> Any:
        envs: list[dict[str, Any]] = [dict(known)]
        for part in node.generators:
            envs = [
                inner
                for env in envs
                for value in self.value(part.iter, env)
                for inner in (env | _bound(part.target, value),)
                if all(self.value(test, inner) for test in part.ifs)
            ]
            if len(envs) > _MAX_STEPS:
                raise NotConstant
        if isinstance(node, ast.DictComp):
            return {self.value(node.key, env): self.value(node.value, env) for env in envs}
        return [self.value(node.elt, env) for env in envs]

    def _compared(self, node: ast.Compare, known: Mapping[str, Any]) -> Any:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARED:
            raise NotConstant
        return _COMPARED[type(node.ops[0])](self.value(node.left, known), self.value(node.comparators[0], known))

    def _called(self, node: ast.Call, known: Mapping[str, Any]) -> Any:
        if isinstance(node.func, ast.Attribute):
            name = self._named(node.func)
            if not name or name.startswith("codecs."):
                return self._method(node, name, known)
        else:
            name = self._named(node.func)
        if name in ("builtins.map", "functools.reduce"):
            return self._applied(node, name, known)
        if name == "builtins.str" and len(node.args) > 1:
            return _decoded(self.value(node.args[0], known), self.value(node.args[1], known))
        function = _pure(name)
        if function is None or any(one.arg is None for one in node.keywords):
            if isinstance(node.func, ast.Lambda):
                return self._immediate(node, node.func, known)
            raise NotConstant
        if any(one.arg not in ("encoding", "errors", "strict") for one in node.keywords):
            raise NotConstant
        return function(*[self.value(one, known) for one in node.args])

    def _immediate(self, node: ast.Call, function: ast.Lambda, known: Mapping[str, Any]) -> Any:
        names = [one.arg for one in function.args.args]
        values = [self.value(one, known) for one in node.args]
        return self.value(function.body, {**known, **dict(zip(names, values, strict=False))})

    def _method(self, node: ast.Call, name: str, known: Mapping[str, Any]) -> Any:
        words = [self.value(one, known) for one in node.args]
        words += [self.value(one.value, known) for one in node.keywords if one.arg in ("encoding", "obj")]
        if name in ("codecs.decode", "codecs.encode"):
            codec = words[1] if len(words) > 1 else "utf-8"
            if name == "codecs.encode" and codec in _CODECS:
                import codecs

                return codecs.encode(words[0], codec)
            return _decoded(words[0], codec)
        if name or not isinstance(node.func, ast.Attribute):
            raise NotConstant
        value = self.value(node.func.value, known)
        return _of_value(value, node.func.attr, words, {one.arg: one.value for one in node.keywords}, self, known)

    def _applied(self, node: ast.Call, name: str, known: Mapping[str, Any]) -> Any:
        function: Callable[..., Any] | None
        if isinstance(node.args[0], ast.Lambda):
            body, names = node.args[0].body, [one.arg for one in node.args[0].args.args]

            def function(*words: Any) -> Any:
                return self.value(body, {**known, **dict(zip(names, words, strict=False))})

        elif isinstance(node.args[0], ast.Attribute) and node.args[0].attr in ("join", "__add__"):
            base, attribute = self.value(node.args[0].value, known), node.args[0].attr

            def function(*words: Any) -> Any:
                return base.join(words[0]) if attribute == "join" else base + words[0]

        else:
            function = _pure(self._named(node.args[0]))
        if function is None:
            raise NotConstant
        values = [self.value(one, known) for one in node.args[1:]]
        if name == "builtins.map":
            return [function(*words) for words in zip(*values, strict=False)]
        import functools

        return functools.reduce(function, *values)

    _WORK: ClassVar[dict[type, Callable[[Folder, Any, Mapping[str, Any]], Any]]] = {
        **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _listed),
        ast.Dict: _mapped,
        ast.BinOp: _binary,
        ast.UnaryOp: lambda self, node, known: _UNARY[type(node.op)](self.value(node.operand, known)),
        ast.JoinedStr: _joined,
        ast.Subscript: _part,
        ast.IfExp: lambda self, node, known: self.value(
            node.body if self.value(node.test, known) else node.orelse, known
        ),
        ast.NamedExpr: lambda self, node, known: self.value(node.value, known),
        **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp), _comprehended),
        ast.Compare: _compared,
        ast.Call: _called,
    }


def _of_value(
    value: Any, name: str, words: list[Any], named: dict[Any, ast.expr], folder: Folder, known: Mapping[str, Any]
) -> Any:
    if name not in _TEXT_METHODS or not isinstance(value, str | bytes | list | tuple | dict):
        if name == "fromhex" and isinstance(value, bytes | str):
            return bytes.fromhex(words[0])
        raise NotConstant
    if name == "decode" and isinstance(value, bytes):
        return _decoded(value, *words[:1])
    if name == "format":
        if not isinstance(value, str) or any(mark in value for mark in (":", "[", ".")):
            raise NotConstant
        values = {str(key): folder.value(one, known) for key, one in named.items() if key}
        return value.format(*words, **values)
    if name in ("join", "replace") and sum(len(str(one)) for one in words) * max(1, len(value)) > 64 * MAX_LENGTH:
        raise NotConstant
    found = getattr(value, name)(*words)
    return list(found) if name in ("keys", "values", "items") else found


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple | ast.List):
        found: dict[str, Any] = {}
        for one, part in zip(target.elts, value, strict=True):
            found |= _bound(one, part)
        return found
    raise NotConstant


_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
