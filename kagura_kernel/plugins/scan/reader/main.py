"""The scan's process: a source comes in on standard input, findings go out on standard output, both as JSON."""

from __future__ import annotations

import binascii
import gc
import json
import resource
import sys
from typing import Any

from .plugin import Plugin

MEMORY = 3 << 30
SECONDS = 30
_RECURSION = 6_000


def main() -> None:
    """Read a request, scan, answer; ends itself when a source asks for more than a scan may take."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(_RECURSION)
    # A tree has no rings that would be worth looking for, and the process ends soon.
    gc.disable()
    request = json.load(sys.stdin.buffer)
    files = {path: binascii.a2b_base64(data) for path, data in request["files"].items()}
    plugin = Plugin(files, request["source"])
    findings = plugin.scan()
    answer = {"findings": findings, "uses": sorted(plugin.uses), "library": sorted(plugin.library)}
    answer["schema"] = _plain(plugin.schema)
    sys.stdout.write(json.dumps(answer))


def _plain(schema: Any) -> str | None:
    """A schema as the literal that it is: JSON has no tuples, sets or bytes, and the reader of schemas refuses them."""
    return None if schema is None else repr(schema)
