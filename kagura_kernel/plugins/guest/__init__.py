"""Functions that plugins offer to programs in this box: `from kagura_host import fs_read`, then `fs_read.stat("x")`.

Arguments and answers are what JSON has; bytes travel as text in base64. A call that fails raises `PluginError` with
the plugin's own message. Any thread and any process of the box may call, several at once.

These files are sent into boxes, where they are the package `kagura_host`. Standard library only, any Python from 3.8,
and next to nothing is imported before a program calls.
"""

from __future__ import annotations

import sys

from . import _modules
from ._errors import PluginError

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["PluginError"]

_modules.install(__name__, sys.meta_path)


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _modules.known():
        raise AttributeError(_modules.missing(name))
    return _modules.module(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules.known()})


# What is called like a plugin's module would be found in its place.
del annotations, sys, TYPE_CHECKING
