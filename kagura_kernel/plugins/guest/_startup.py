"""Sent into a box as `sitecustomize`: from then on `kagura_host` is ours, whatever a working directory holds.

A directory on PYTHONPATH is searched after a program's own, so that a project's file of that name would hide the
package. And where another `sitecustomize` was to be run, it is.
"""

from __future__ import annotations

import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIB = __file__.rpartition("/")[0]


class First:
    """Finds our package before anybody else is asked."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> Any:
        """The package's specification; None for all other modules."""
        return PathFinder.find_spec(name, [LIB]) if name == "kagura_host" else None


def go_on() -> None:
    """Run the `sitecustomize` that we stand in front of."""
    found = PathFinder.find_spec("sitecustomize", [place for place in sys.path if place != LIB])
    if found is None or found.loader is None:
        return
    module: Any = module_from_spec(found)
    sys.modules["sitecustomize"] = module
    found.loader.exec_module(module)


sys.meta_path.insert(0, First)
go_on()
