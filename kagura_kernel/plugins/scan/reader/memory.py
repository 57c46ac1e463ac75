"""Whether archives and settings are handled in memory alone, so that a module that could use files uses none."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .asking import Meaning

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


def without_files(units: Iterable[Meaning]) -> frozenset[str]:
    """Those of the modules that use no file in any of these sources."""
    found = set(IN_MEMORY)
    for unit in units:
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


def _is_in_memory(unit: Meaning, full: str, call: ast.Call | None) -> bool:
    """Whether a reference opens nothing, or opens bytes in memory."""
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


def _is_bytes(unit: Meaning, node: ast.expr) -> bool:
    values = unit.values(node)
    return bool(values) and all(one.kind == "made" and one.name in ("io.BytesIO", "zipfile.ZipFile") for one in values)
