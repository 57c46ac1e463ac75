"""A pytest plugin for what has to hold before any other is imported. Load it with `-p tests.support.parsing`.

It keeps garbage collection out of the parser, and postpones what costs much to import (`domain.late_modules`): wherever
a notebook is read a grammar is built that no test needs, and each worker would build its own.

CPython counts the depth of a syntax tree that it builds in one place for the whole interpreter. When a collection
begins in the middle of a large module, and a finalizer parses something too (a traceback that is printed does), the
outer parse fails with "AST constructor recursion depth mismatch". Pytest parses large modules to rewrite their asserts,
so collections wait until a tree is whole.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from kagura_kernel.domain.late_modules import LATE, later

_parse = ast.parse


@functools.wraps(_parse)
def parse_undisturbed(*arguments: Any, **options: Any) -> Any:
    """`ast.parse` without a garbage collection before its end."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _parse(*arguments, **options)
    finally:
        if collecting:
            gc.enable()


ast.parse = parse_undisturbed


class _LateFinder(PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) if fullname in LATE else None
        return found and later(found)


if _LateFinder not in sys.meta_path:
    sys.meta_path.insert(0, _LateFinder)
