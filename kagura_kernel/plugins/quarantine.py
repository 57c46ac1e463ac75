"""When a plugin has failed too often to be left alone: counted in a row, and any answer begins anew. Only decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

MAX_DEATHS = 3
"""Times in a row that its process may end, or have to be ended, before the plugin is put off."""

MAX_DEFECTS = 5
"""Unhandled errors of its code in a row, likewise."""


class Outcome(Enum):
    """What came of a call, or befell a jail."""

    ANSWER = auto()
    """A value, or an error with which a plugin answers."""

    DEFECT = auto()
    """An error that its code did not mean to raise."""

    DEATH = auto()
    """Its process ended, or took too long and was ended."""

    BREACH = auto()
    """It sent what no jailer would."""


@dataclass(slots=True)
class Troubles:
    """What has happened to one plugin since it last answered.

    Attributes:
        deaths: In a row.
        defects: In a row.
    """

    deaths: int = 0
    defects: int = 0

    def note(self, outcome: Outcome, why: str = "") -> str:
        """Count it; why the plugin has to go into quarantine, half a sentence, or an empty text.

        Args:
            outcome: What happened.
            why: The last of it, half a sentence.
        """
        match outcome:
            case Outcome.ANSWER:
                self.deaths = self.defects = 0
            case Outcome.DEFECT:
                self.defects += 1
            case Outcome.DEATH:
                self.deaths += 1
            case Outcome.BREACH:
                return f"it broke out of the protocol of its jail: {why}"
        if self.deaths >= MAX_DEATHS:
            return f"it failed {self.deaths} times in a row, at last because {why}"
        if self.defects >= MAX_DEFECTS:
            return f"its code went wrong {self.defects} times in a row, at last with {why}"
        return ""
