"""Finds the prompt files that an agent asks for: the nearest on the walk up from the working directory, then home's."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kagura_kernel.domain.kit import KIT_DIR, LeftOut
from kagura_kernel.kit.staging.naming import Names, shown_name, why_not_asked
from kagura_kernel.kit.staging.planned import Origin, PlannedFile, PlannedPrompt
from kagura_kernel.kit.staging.reading import Unfit, check_regular, open_root, stamp_of, why_unread
from kagura_kernel.kit.staging.surroundings import Surroundings
from kagura_kernel.membrane.names import folded_path
from kagura_kernel.sandbox.backend import WORKSPACE

MAX_BYTES = 256 << 10
"""Of one prompt file: a brain reads all of it."""

EXPECTED = frozenset({"AGENTS.md", "CLAUDE.md"})
"""Names that are asked for wherever they may be; that there is none goes without saying."""

FOR_AGENTS = EXPECTED | {"GEMINI.md"}
"""Names that people give to what they write for agents; anything else that lies about may be meant for nobody."""

_WHY = "asked for by add_prompt_files"


@dataclass(slots=True)
class FoundPrompts:
    """What the walks found."""

    prompts: list[PlannedPrompt] = field(default_factory=list)  # In the order in which a brain reads them
    left_out: list[LeftOut] = field(default_factory=list)  # What is there and cannot be read, or is nowhere
    problems: list[str] = field(default_factory=list)  # Names that nobody may ask for, each with why


def find_prompt_files(
    own: Iterable[str], of_sub_agents: Iterable[str], where: Surroundings, foreign: Collection[str] = ()
) -> FoundPrompts:
    """The prompt files of these names.

    Args:
        own: What the agent itself asks for.
        of_sub_agents: What its sub-agents ask for.
        where: Where they are looked for.
        foreign: Those of the names that only definitions ask for which somebody else wrote.
    """
    search = _Search(where, frozenset(foreign))
    asked = dict.fromkeys(of_sub_agents, False) | dict.fromkeys(own, True)
    for name in dict.fromkeys((*own, *asked)):
        if why := why_not_asked(name):
            search.found.problems.append(f"the prompt file {shown_name(name)!r}: {why}")
        else:
            search.look_for(name, own=asked[name])
    return search.found


class _Search:
    def __init__(self, where: Surroundings, foreign: Collection[str]) -> None:
        self.found = FoundPrompts()
        self._foreign = foreign
        self._where = where
        self._asked = Names()
        self._targets = Names()

    def look_for(self, name: str, *, own: bool) -> None:
        """The nearest file of this name, and that of the home directory if it is another."""
        if why := self._asked.clash(name):
            self._leave_out(name, why)
            return
        before = len(self.found.prompts) + len(self.found.left_out)
        nearest = next((place for place in self._where.upwards() if self._try(place, name, own=own)), None)
        home = self._where.home if self._where.outside else None
        if home is not None and nearest != home:
            self._try(home, name, own=own)
        if before == len(self.found.prompts) + len(self.found.left_out) and name not in EXPECTED:
            self._leave_out(name, "there is no such file in the project, above it, or in the home directory")

    def _try(self, directory: Path, name: str, *, own: bool) -> bool:
        """Whether a directory has such a file; one that cannot be read is told, and nothing stands in for it."""
        live = directory.is_relative_to(self._where.project)
        anchor = self._where.project if live else directory
        path = os.path.normpath(directory.relative_to(anchor) / name)
        try:
            with open_root(anchor) as root:
                found = root.look(path)
            if stat.S_ISDIR(found.st_mode):
                return False
            check_regular(found, MAX_BYTES)
            self._check_owner(found, directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except Unfit as error:
            self._leave_out(name, str(error))
            return True
        except OSError as error:
            self._leave_out(name, why_unread(error))
            return True
        target = path if live else self._target(name)
        if target:
            file = PlannedFile(target, Origin(anchor, "", path), _WHY, stamp_of(found))
            self.found.prompts.append(
                PlannedPrompt(
                    name=name,
                    place="workspace" if live else "kit",
                    where=self._where.shown(anchor / path),
                    path=f"{WORKSPACE if live else KIT_DIR}/{target}",
                    file=file,
                    own=own,
                    asks=not live and name in self._foreign and name not in FOR_AGENTS,
                )
            )
        return True

    def _target(self, name: str) -> str:
        """Where a file of this name is staged; the second of one name is that of the home directory."""
        taken = any(prompt.name == name and prompt.place == "kit" for prompt in self.found.prompts)
        target = f"home-{name}" if taken else name
        if why := self._targets.clash(target) or self._overlap(f"prompt_files/{target}"):
            self._leave_out(target, why)
            return ""
        return f"prompt_files/{target}"

    def _overlap(self, target: str) -> str:
        """Why a file may not lie there: its place would be another's directory, or its directory another's place."""
        for prompt in self.found.prompts:
            other = prompt.file.target
            if prompt.place == "kit" and (folded_path(other) + "/").startswith(folded_path(target) + "/"):
                return "another prompt file lies below this name"
            if prompt.place == "kit" and (folded_path(target) + "/").startswith(folded_path(other) + "/"):
                return "another prompt file has the name of its directory"
        return ""

    def _check_owner(self, found: os.stat_result, directory: Path) -> None:
        if self._where.is_foreign(directory) and found.st_uid not in (os.geteuid(), 0):
            raise Unfit("it belongs to somebody else")

    def _leave_out(self, name: str, why: str) -> None:
        self.found.left_out.append(LeftOut(f"prompt_files/{shown_name(name)}", why))
