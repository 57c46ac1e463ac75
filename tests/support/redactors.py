"""One redactor for all tests of a process, whose rules are compiled once for all processes."""

from __future__ import annotations

from functools import cache

from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.testing.false_home import compiled_rules


@cache
def shared_redactor() -> Redactor:
    """The redactor; the first text waits for its rules, which a test run before may have left compiled."""
    return Redactor(compiled_rules())
