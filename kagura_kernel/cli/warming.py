"""Begins to read the rules of redaction, which takes a second of its own."""

from __future__ import annotations

import os

from kagura_kernel.journal.place import data_home
from kagura_kernel.kit.redaction.redactor import redactor_in


def warm() -> None:
    """Begin, in another thread; does nothing where that was begun."""
    redactor_in(data_home(os.environ)).warm()
