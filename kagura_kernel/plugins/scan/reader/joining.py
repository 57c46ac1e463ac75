"""Names that are put together from a text in the source and data: which hidden name could come of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from .asking import Files, Meaning
from .modules import CAPABLE, FORBIDDEN, MODULES, STANDARD
from .references import EXACT, GRAVE_METHODS, NEVER, REACHABLE, THROUGH
from .values import Value, Values

_HIDDEN = NEVER | {"__class__", "__dict__", "__defaults__", "__kwdefaults__", "__annotations__"}
_DANGEROUS = FORBIDDEN | {THROUGH}
_FAMILIES = ("exec", "spawn", "posix_spawn", "fork", "pidfd", "set", "CLONE_", "PRIO_")
_HOLDING = frozenset(
    {
        ast.Constant,
        ast.BinOp,
        ast.JoinedStr,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Call,
        ast.Name,
        ast.Attribute,
        ast.alias,
    }
)
_TOKEN = re.compile(r"\w+")
_WHOLE_DUNDER = re.compile(r"__\w+__")


class Material(NamedTuple):
    """What a plugin has to make names of: every text in its files, and every name that it defines itself.

    Attributes:
        blob: All of them, in small letters.
        tokens: The words in them.
        whole: Each as a whole.
    """

    blob: str
    tokens: frozenset[str]
    whole: frozenset[str]

    def holds(self, text: str) -> bool:
        """Whether a text can be cut out of what is there, forwards or backwards, or joined from two words of it."""
        text = text.lower()
        if not text or text in self.blob or text[::-1] in self.blob:
            return True
        return any(text[:at] in self.tokens and text[at:] in self.tokens for at in range(1, len(text)))


def material_of(units: Iterable[Meaning]) -> Material:
    """The material of all files."""
    found: set[str] = set()
    for unit in units:
        for node in unit.walk.nodes:
            if type(node) in _HOLDING:
                found |= _texts(unit, node)
    small = frozenset(one.lower() for one in found)
    blob = "\n".join(sorted(small))
    return Material(blob, frozenset(_TOKEN.findall(blob)), small)


def _texts(unit: Meaning, node: ast.AST) -> set[str]:
    if isinstance(node, ast.Constant):
        data = node.value
        return {data.decode("latin-1") if isinstance(data, bytes) else data} if isinstance(data, str | bytes) else set()
    if isinstance(node, ast.BinOp | ast.JoinedStr):
        return {one.data for one in unit.values(node) if one.kind == "const" and isinstance(one.data, str)}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        spec = node.args
        every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
        return _defined([node.name, *(one.arg for one in every if one is not None)])
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


def doubt_of(parts: Iterable[Value], bases: Values, plugin: Files) -> str:
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
    material = plugin.material
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
    if head.startswith("_") or not head or (base.name == "os" and _meets(head)):
        return True
    return bool(_fitting([one for one in STANDARD if f"{base.name}.{one}" not in MODULES], head, tail))


def _meets(head: str) -> bool:
    return any(one.startswith(head) or head.startswith(one) for one in _FAMILIES)


def _fitting(names: Iterable[str], head: str, tail: str) -> list[str]:
    size = len(head) + len(tail)
    return [one for one in names if len(one) >= size and one.startswith(head) and one.endswith(tail)]


def _middle(name: str, head: int, tail: int) -> str:
    return name[head : len(name) - tail]
