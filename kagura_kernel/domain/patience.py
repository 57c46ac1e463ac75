"""How often a run may ask: nobody is worn down until they say yes."""

from __future__ import annotations

from collections import Counter

from kagura_kernel.domain.approvals import Decision, Verdict

MAX_REFUSED = 3
"""Refusals in a row, unanswered questions included; whoever says no so often does not want to be asked."""

MAX_OPEN = 8
"""Questions of one kind that may wait at once."""

LIMIT = "the limit on questions"
"""Who said no where nobody was asked."""


class Patience:
    """Counts the answers to the questions of one run, each kind for itself. Used on one loop."""

    def __init__(self) -> None:
        self._refused: Counter[str] = Counter()
        self._open: Counter[str] = Counter()

    def refused(self, kind: str) -> int:
        """How many questions of a kind were refused in a row, once these are too many; 0 before."""
        return self._refused[kind] if self._refused[kind] >= MAX_REFUSED else 0

    def why_not(self, kind: str) -> str:
        """Why one more question of a kind is not put, as a clause for whoever asks; empty where it may be."""
        words = kind.replace("_", " ")
        if refused := self.refused(kind):
            return (
                f"{refused} questions of the kind “{words}” were refused in a row, so this run puts no more of them: "
                "go on without, or say in the answer what you would have needed"
            )
        if self._open[kind] >= MAX_OPEN:
            return f"{MAX_OPEN} questions of the kind “{words}” wait for an answer already: wait for those first"
        return ""

    def asks(self, kind: str) -> None:
        """A question is put."""
        self._open[kind] += 1

    def withdrawn(self, kind: str) -> None:
        """A question waits no longer, answered or not."""
        self._open[kind] -= 1

    def heard(self, kind: str, decision: Decision) -> None:
        """A question is answered. A policy's no is nobody's refusal."""
        if decision.allowed:
            self._refused[kind] = 0
        elif decision.verdict is not Verdict.ABORTED and decision.by != "policy":
            self._refused[kind] += 1
