"""What a plan is made of: the places of the host, and files that would be staged, from where and why. Values alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from kagura_kernel.domain.late_dataclass import dataclass, field

Place = Literal["kit", "workspace"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another, as the system has it."""

    device: int  # Of the file system
    inode: int
    size: int  # Bytes
    modified: int  # Nanoseconds since 1970
    changed: int  # Likewise, of its inode; nobody can set it back

    def values(self) -> tuple[int, int, int, int, int]:
        """All of it, in this order."""
        return self.device, self.inode, self.size, self.modified, self.changed


@dataclass(frozen=True, slots=True)
class Origin:
    """How a file of the host is opened again without leaving its root."""

    anchor: Path  # A directory, absolute; no link on the way to the root leads out of it
    root: str  # The root, relative to the anchor; empty for the anchor itself
    path: str  # The file, relative to the root; no link on the way leads out of the root

    @property
    def place(self) -> Path:
        """The file's place on the host, as it was found."""
        return self.anchor / self.root / self.path


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that would be staged, or that is read where it lies in the workspace."""

    target: str  # Its place below the kit's root, with forward slashes; in the workspace, below that
    origin: Origin  # Where it is
    why: str  # `skill csv-tools of ~/.agents/skills`, `asked for by add_prompt_files`
    stamp: Stamp  # Its state when it was looked at
    executable: bool = False  # Whether it may be run

    @property
    def source(self) -> Path:
        """Its place on the host."""
        return self.origin.place

    @property
    def size(self) -> int:
        """Bytes, before redaction."""
        return self.stamp.size


@dataclass(frozen=True, slots=True)
class PlannedSkill:
    """A skill that an agent would be given."""

    name: str  # As its SKILL.md has it
    description: str = field(repr=False)  # Likewise, one line, as it stands on the host: not yet redacted
    place: Place  # `kit`, or `workspace` for one that the box sees as it is
    where: str  # Its directory, as the person may read it
    root: str  # Its directory in the box, absolute
    # What would be staged, SKILL.md among them; of a skill of the workspace, its SKILL.md alone
    files: tuple[PlannedFile, ...]
    # Its name as it stands on the host, in SKILL.md or as that of its directory: not yet redacted
    written: str = field(default="", repr=False)
    # Whether a person's word is needed: it lies outside of the project, and only a definition that somebody else wrote
    # wants it, without having named it
    asks: bool = False


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """A prompt file that a brain would be read."""

    name: str  # As it was asked for
    place: Place  # `kit`, or `workspace` for one that the box sees as it is
    where: str  # Its place, as the person may read it
    path: str  # In the box, absolute
    file: PlannedFile  # What is read
    own: bool = True  # Whether the agent itself asked for it; otherwise one of its sub-agents did
    # Whether a person's word is needed: it lies outside of the project, is none of the files that are written for
    # agents, and only a definition that somebody else wrote asks for it
    asks: bool = False


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """A sub-agent's definition."""

    name: str  # Its name, with those above it: `reviewer`, `reviewer/checker`
    target: str  # Its place below the kit's root
    text: str = field(repr=False)  # The definition as YAML, normalised, as it stands: not yet redacted


@dataclass(frozen=True, slots=True)
class KitPlaces:
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


def kit_places(project: Path, *, home: Path | None, config: Path | None = None, cwd: Path | None = None) -> KitPlaces:
    """The places of one project; each may be written with links.

    Args:
        project: The project's root.
        home: The person's home directory.
        config: Our folder of the person's settings; None is its usual place.
        cwd: Where the walk for prompt files begins; None is the project.
    """
    if config is None:
        import platformdirs

        config = Path(platformdirs.user_config_dir("kagura-kernel", appauthor=False))
    return KitPlaces(
        project=Path(os.path.realpath(project)),
        home=None if home is None else Path(os.path.realpath(home)),
        config=Path(os.path.realpath(config)),
        cwd=None if cwd is None else Path(os.path.realpath(cwd)),
    )
