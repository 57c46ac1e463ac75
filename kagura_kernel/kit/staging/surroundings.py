"""The places of the host that a kit is made from: a project, a home, and what lies between them. Reads nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where one kit looks."""

    project: Path  # The project's root, absolute and without links: what the box sees as its workspace
    home: Path | None  # The person's home directory, absolute and without links; None where there is none
    config: Path  # The person's folder of settings of ours, whose `skills` is a place of skills
    # Where the walk for prompt files begins: the project or a directory in it; None is the project
    cwd: Path | None = None
    outside: bool = True  # Whether what lies outside the project is looked at too

    def upwards(self) -> Iterator[Path]:
        """The directories from where the walk begins up to the project's root, then those above it.

        It ends at the home directory, or at the top for a project that does not lie in it; or at the project's root
        where nothing outside is looked at.
        """
        start = self.cwd if self.cwd is not None and self.cwd.is_relative_to(self.project) else self.project
        for directory in (start, *start.parents):
            yield directory
            if directory == self.home or (directory == self.project and not self.outside):
                return

    def above(self) -> Iterator[Path]:
        """Of `upwards`, the directories above the project that are not the home directory."""
        walk = set(self.upwards())
        return (place for place in self.project.parents if place != self.home and place in walk)

    def is_foreign(self, directory: Path) -> bool:
        """Whether others than the person may have put something there: it is neither the project's nor at home."""
        own = (self.project, self.config) if self.home is None else (self.project, self.config, self.home)
        return not any(directory.is_relative_to(place) for place in own)

    def shown(self, path: Path) -> str:
        """A place as the person may read it: below home with `~`, below the project with `.`."""
        if path.is_relative_to(self.project):
            return "." if path == self.project else f"./{path.relative_to(self.project)}"
        if self.home is not None and path.is_relative_to(self.home):
            return "~" if path == self.home else f"~/{path.relative_to(self.home)}"
        return str(path)


def surroundings_of(
    project: Path, *, home: Path | None, config: Path | None = None, cwd: Path | None = None
) -> Surroundings:
    """The surroundings of a project; every place may be written with links.

    Args:
        project: The project's root.
        home: The person's home directory.
        config: Our folder of the person's settings; None is its usual place.
        cwd: Where the walk for prompt files begins; None is the project.
    """
    if config is None:
        import platformdirs

        config = Path(platformdirs.user_config_dir("kagura-kernel", appauthor=False))
    return Surroundings(
        project=Path(os.path.realpath(project)),
        home=None if home is None else Path(os.path.realpath(home)),
        config=Path(os.path.realpath(config)),
        cwd=None if cwd is None else Path(os.path.realpath(cwd)),
    )
