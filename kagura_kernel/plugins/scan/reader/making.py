"""What texts an expression makes, where they name something: followed as far as that costs little."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from .asking import Meaning
from .bindings import Binding
from .folding import Folder, NotConstant
from .values import ANY, COMPUTED, MOST, NO_DOUBT, SOME_TEXT, UNKNOWN, Doubt, Value, Values, const, is_made_of_text

_MAX_DEPTH = 90
_STEPS_PER_NODE = 30
_STEPS_AT_LEAST = 200_000


class Texts:
    """The constants and names in one file; however a source is written, the work grows with its length alone."""

    def __init__(self, meaning: Meaning, by_id: Mapping[int, ast.AST]) -> None:
        self._of = meaning
        self._by_id = by_id
        self._budget = _STEPS_AT_LEAST + _STEPS_PER_NODE * len(by_id)
        self._folder = Folder(self._constant, self.named)

    def is_text(self, node: ast.expr) -> bool:
        """Whether an expression may be a text that stands in the source, or is made of such."""
        return any(value.kind == "const" or is_made_of_text(value) for value in self._of.values(node))

    def constant(self, node: ast.expr) -> object:
        """The one constant that an expression stands for.

        Raises:
            NotConstant: it has none, or several, or to know it takes too long.
        """
        self._budget -= 1
        if self._budget < 0:
            raise NotConstant
        try:
            return self._folder.fold(node)
        finally:
            self._budget -= self._folder.steps

    def _constant(self, node: ast.expr) -> object:
        self._budget -= 5
        if self._budget < 0:
            raise NotConstant
        values = self._of.values(node)
        if len(values) != 1:
            raise NotConstant
        (value,) = values
        if value.kind == "const":
            return value.data
        if value.kind == "box" and value.unit == self._of.unit and not self._is_changed(node):
            made = self._by_id.get(value.node)
            if isinstance(made, ast.expr) and made is not node:
                return self._folder.value(made, {})
        raise NotConstant

    def _is_changed(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._of.walk.items

    def named(self, node: ast.expr) -> str:
        """The dotted name of what an expression refers to; empty when that is nothing outside, or not certain."""
        values = self._of.values(node)
        if len(values) != 1:
            return ""
        (value,) = values
        return value.name if value.kind == "ref" else ""

    def folded(self, node: ast.expr) -> Values:
        """What is put together, as the constant that it makes where it makes one."""
        try:
            return frozenset({const(self.constant(node))})
        except (NotConstant, TypeError):
            return self._text(node)

    def _text(self, node: ast.expr) -> Values:
        """What a text that is put together may be, with the ends that are known."""
        pieces, rings = pieces_of(node), self._of.plugin.rings
        if not pieces:
            sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            textual = isinstance(node, ast.JoinedStr | ast.Call) or any(self.is_text(one) for one in sides)
            return SOME_TEXT if textual else ANY
        if not any(isinstance(one, str) or self.is_text(one) for one in pieces):
            return ANY if self._of.plugin.rings == rings else SOME_TEXT
        made: set[_Made] = {("", None, "")}
        holes = 0
        for piece in pieces:
            options = self._options(piece)
            holes += any(tail is not None for _head, tail, _grade in options)
            made = {_joined(one, option) for one in made for option in options}
            if len(made) > MOST:
                return SOME_TEXT
        # A text that grows out of itself may become anything.
        if self._of.plugin.rings != rings:
            return SOME_TEXT
        # Two that are not known may be halves of anything.
        return frozenset(_value(one, in_pieces=holes > 1) for one in made)

    def _options(self, piece: ast.expr | str) -> set[_Made]:
        if isinstance(piece, str):
            return {(piece, None, "")}
        found: set[_Made] = set()
        values = self._of.values(piece)
        for value in values:
            if value.kind == "const" and not isinstance(value.data, bytes):
                found.add((str(value.data), None, ""))
            elif value.kind == "part" and isinstance(value.data, tuple):
                found.add((*value.data, value.name))
            elif value.kind == "const" or is_made_of_text(value):
                found.add(("", "", "computed"))
            else:
                found.add(("", "", "data"))
        return found or {("", "", "computed")}

    def names(self, node: ast.expr) -> tuple[list[str], Doubt]:
        """Which attribute names an expression may be, and whether others too."""
        try:
            found = self.constant(node)
        except NotConstant:
            pass
        else:
            return ([found], NO_DOUBT) if isinstance(found, str) else ([], NO_DOUBT)
        names, grade, parts = [], "", []
        for value in self._of.values(node):
            if value.kind == "const":
                names += [value.data] if isinstance(value.data, str) else []
            elif value.kind == "part":
                parts.append(value)
            elif is_made_of_text(value):
                grade = "computed"
            elif not grade:
                grade = "unknown"
        return names, Doubt(grade, tuple(parts))


_Made = tuple[str, str | None, str]
"""A text, and None; or its two ends, and what lies between."""


def _joined(one: _Made, other: _Made) -> _Made:
    head, tail, grade = one
    first, last, kind = other
    if tail is None:
        return head + first, last, kind
    return head, (tail + first if last is None else last), "computed" if last is not None else grade


def _value(made: _Made, *, in_pieces: bool) -> Value:
    head, tail, grade = made
    if tail is None:
        return const(head)
    if not head and not tail:
        return COMPUTED if in_pieces or grade == "computed" else UNKNOWN
    return Value("part", "computed" if in_pieces else grade, 0, (head, tail))


def pieces_of(node: ast.expr) -> list[ast.expr | str]:
    """What a text is put together from, from left to right; empty where that cannot be told."""
    if isinstance(node, ast.JoinedStr):
        return [one for part in node.values for one in _of_field(part)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(str(node.left.value).split("%s"), given, "%")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        text = getattr(node.func.value, "value", None)
        return _filled(text.split("{}"), node.args, "{}") if isinstance(text, str) and not node.keywords else []
    found: list[ast.expr | str] = []
    for _ in range(_MAX_DEPTH):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            break
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)] if found else []


def _of_field(part: ast.expr) -> list[ast.expr | str]:
    if not isinstance(part, ast.FormattedValue):
        return [str(part.value)] if isinstance(part, ast.Constant) else [part]
    # A width, a precision or a conversion makes another text of it.
    return [part.value] if part.format_spec is None and part.conversion in (-1, ord("s")) else [part]


def _filled(texts: list[str], given: list[ast.expr], marks: str) -> list[ast.expr | str]:
    if len(texts) != len(given) + 1 or any(mark in text for text in texts for mark in marks):
        return []
    if any(isinstance(one, ast.Starred) for one in given):
        return []
    found: list[ast.expr | str] = [texts[0]]
    for one, text in zip(given, texts[1:], strict=True):
        found += [one, text]
    return found


def sum_of(constant: Callable[[ast.expr], object], binding: Binding, before: list[Binding]) -> object:
    """What `a += b` makes of constants, one after another. Raises `NotConstant`."""
    chain = sorted([*before, binding], key=lambda one: one.line)
    total: object = None
    for one in chain:
        if one.kind == "value" and not one.path and isinstance(one.node, ast.expr):
            total = constant(one.node)
        elif one.kind == "aug" and isinstance(one.node, ast.AugAssign) and isinstance(one.node.op, ast.Add):
            part = constant(one.node.value)
            if not (isinstance(total, str) and isinstance(part, str)):
                raise NotConstant
            total += part
        else:
            raise NotConstant
        if one is binding:
            break
    return total
