"""A pytest plugin that keeps garbage collection out of the parser. Load it with `-p kagura_kernel.testing.parsing`.

CPython counts the depth of a syntax tree that it builds in one place for the whole interpreter. When a collection
begins in the middle of a large module, and a finalizer parses something too (a traceback that is printed does), the
outer parse fails with "AST constructor recursion depth mismatch". Pytest parses large modules to rewrite their asserts,
so collections wait until a tree is whole. Given with `-p` this holds before any other plugin is imported.
"""

from __future__ import annotations

import ast
import functools
import gc
from typing import Any

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
