"""What is sent into a box to start a toolset's server: the bridge, and what it is to bridge. Only decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

PACKAGE = "kagura_kernel.tools.bridge"
MODULES = ("saying", "events", "https", "program", "remote", "main")
"""Of the bridge; each is compiled in the box when it is first imported."""

_PACKAGES = ("kagura_kernel", "kagura_kernel.tools", PACKAGE)

STUB = """
import json, sys

packages, sources, start = json.loads(sys.stdin.buffer.read().decode("ascii"))
waiting = dict(sources)
ModuleSpec = type(sys.__spec__)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in packages:
            return ModuleSpec(name, Finder, is_package=True)
        return ModuleSpec(name, Finder) if name in waiting else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        if name in waiting:
            exec(compile(waiting[name], "<%s>" % name, "exec", dont_inherit=True), module.__dict__)

sys.meta_path.insert(0, Finder)
from kagura_kernel.tools.bridge.main import main
code = main(start)
sys.stderr.flush()
import os
os._exit(code)
"""


def bridge_argv() -> tuple[str, ...]:
    """The command that waits for a bridge on its standard input, and becomes it."""
    return ("python3", "-I", "-S", "-B", "-u", "-c", STUB)


def bridge_payload(start: Mapping[str, Any]) -> bytes:
    """What has to stand on that command's standard input, to its end.

    Args:
        start: What `bridge.main.main` is told.
    """
    return json.dumps((_PACKAGES, _sources(), start), ensure_ascii=True).encode("ascii")


@cache
def _sources() -> tuple[tuple[str, str], ...]:
    folder = resources.files(PACKAGE)
    return tuple((f"{PACKAGE}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in MODULES)
