"""Names of things that a line may mention: what is looked up, and by whom is told elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kagura_kernel.domain.grammar import Kind


class Name(NamedTuple):
    """Something that has a name: a run, a file, a variable."""

    text: str  # What is typed
    summary: str = ""  # One line about it; may be empty


class Names(Protocol):
    """Where names come from."""

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        """Names of a kind, the likeliest first; those that do not fit may be among them.

        Args:
            kind: Of which kind.
            prefix: What is typed so far.
            given: The words before it on the line.
        """
        ...
