"""The one redactor of a folder of compiled rules, for everybody in this process who means that folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kagura_kernel.kit.redaction.redactor import Redactor

FOLDER = "redaction"
"""Where compiled rules are kept in a data directory."""


@cache
def redactor_in(home: Path) -> Redactor:
    """The redactor that keeps its compiled rules below this data directory; cheap until it is used."""
    return Redactor(home / FOLDER)
