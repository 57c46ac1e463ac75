"""Names under which a brain sees a toolset's tools: `<toolset>_<tool>`, identifiers, short, each once. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

LONGEST = 50
"""Characters; what a brain's program puts before a name has to fit into the 64 that models take as well."""

_OTHER = re.compile(r"[^A-Za-z0-9]+")
_MARK = 6


def tool_name(toolset: str, tool: str, taken: Collection[str]) -> str:
    """An identifier for a tool that is none of `taken`.

    What does not fit, or would be taken for another, ends with a mark made of the whole name, so that it is the same
    in every run in which the same tools are offered.

    Args:
        toolset: Its name, kebab-case.
        tool: As its server calls it, anything.
        taken: Names that are given already.
    """
    plain = f"{toolset.replace('-', '_')}_{_OTHER.sub('_', tool).strip('_') or 'tool'}"
    if len(plain) <= LONGEST and plain not in taken:
        return plain
    number = 0
    while True:
        mark = hashlib.sha256(f"{toolset}\0{tool}\0{number}".encode("utf-8", "replace")).hexdigest()[:_MARK]
        name = f"{plain[: LONGEST - _MARK - 1].rstrip('_')}_{mark}"
        if name not in taken:
            return name
        number += 1
