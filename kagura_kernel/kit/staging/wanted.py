"""Which skills an agent and its sub-agents are given, by what their definitions say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kagura_kernel.kit.definitions.wording import hint

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.definition import Skills


@dataclass(frozen=True, slots=True)
class Wanted:
    """What several definitions want together.

    Attributes:
        workspace: Every skill of the project.
        local: Every skill of the project and of the person.
        patterns: Names, which may hold `*` and `?`, of whichever skills.
    """

    workspace: bool = False
    local: bool = False
    patterns: tuple[str, ...] = ()

    @property
    def beyond_workspace(self) -> bool:
        """Whether places outside of the project are looked into at all."""
        return self.local or bool(self.patterns)

    @property
    def nothing(self) -> bool:
        """Whether no skill is wanted."""
        return not (self.workspace or self.beyond_workspace)

    def covers(self, name: str, *, live: bool) -> bool:
        """Whether a skill is wanted.

        Args:
            name: Its name.
            live: Whether it is one of the project.
        """
        return self.local or (live and self.workspace) or any(fnmatchcase(name, one) for one in self.patterns)

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """What is asked for by name and nowhere, among the names that there are: each half a sentence."""
        known = sorted(set(names))
        return [
            f"the skill {one!r} is asked for and nowhere to be found{hint(one, known)}"
            for one in self.patterns
            if not any(fnmatchcase(name, one) for name in known)
        ]


def wanted_by(definitions: Iterable[Skills]) -> Wanted:
    """What these definitions want together."""
    each = tuple(definitions)
    return Wanted(
        workspace="workspace" in each,
        local="local" in each,
        patterns=tuple(dict.fromkeys(pattern for skills in each if isinstance(skills, tuple) for pattern in skills)),
    )
