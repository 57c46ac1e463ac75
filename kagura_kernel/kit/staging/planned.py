"""What a plan is made of: files that would be staged, from where and why. Values alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Place = Literal["kit", "workspace"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another, as the system has it.

    Attributes:
        device: Of the file system.
        inode: In it.
        size: Bytes.
        modified: Nanoseconds since 1970.
        changed: Likewise, of its inode; nobody can set it back.
    """

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    def values(self) -> tuple[int, int, int, int, int]:
        """All of it, in this order."""
        return self.device, self.inode, self.size, self.modified, self.changed


@dataclass(frozen=True, slots=True)
class Origin:
    """How a file of the host is opened again without leaving its root.

    Attributes:
        anchor: A directory, absolute; no link on the way to the root leads out of it.
        root: The root, relative to the anchor; empty for the anchor itself.
        path: The file, relative to the root; no link on the way leads out of the root.
    """

    anchor: Path
    root: str
    path: str

    @property
    def place(self) -> Path:
        """The file's place on the host, as it was found."""
        return self.anchor / self.root / self.path


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that would be staged, or that is read where it lies in the workspace.

    Attributes:
        target: Its place below the kit's root, with forward slashes; in the workspace, below that.
        origin: Where it is.
        why: `skill csv-tools of ~/.agents/skills`, `asked for by add_prompt_files`.
        stamp: Its state when it was looked at.
        executable: Whether it may be run.
    """

    target: str
    origin: Origin
    why: str
    stamp: Stamp
    executable: bool = False

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
    """A skill that an agent would be given.

    Attributes:
        name: As its SKILL.md has it.
        description: Likewise, one line, as it stands on the host: not yet redacted.
        place: `kit`, or `workspace` for one that the box sees as it is.
        where: Its directory, as the person may read it.
        root: Its directory in the box, absolute.
        files: What would be staged, SKILL.md among them; of a skill of the workspace, its SKILL.md alone.
        written: Its name as it stands on the host, in SKILL.md or as that of its directory: not yet redacted.
        asks: Whether a person's word is needed: it lies outside of the project, and only a definition that somebody
            else wrote wants it, without having named it.
    """

    name: str
    description: str = field(repr=False)
    place: Place
    where: str
    root: str
    files: tuple[PlannedFile, ...]
    written: str = field(default="", repr=False)
    asks: bool = False


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """A prompt file that a brain would be read.

    Attributes:
        name: As it was asked for.
        place: `kit`, or `workspace` for one that the box sees as it is.
        where: Its place, as the person may read it.
        path: In the box, absolute.
        file: What is read.
        own: Whether the agent itself asked for it; otherwise one of its sub-agents did.
        asks: Whether a person's word is needed: it lies outside of the project, is none of the files that are written
            for agents, and only a definition that somebody else wrote asks for it.
    """

    name: str
    place: Place
    where: str
    path: str
    file: PlannedFile
    own: bool = True
    asks: bool = False


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """A sub-agent's definition.

    Attributes:
        name: Its name, with those above it: `reviewer`, `reviewer/checker`.
        target: Its place below the kit's root.
        text: The definition as YAML, normalised, as it stands: not yet redacted.
    """

    name: str
    target: str
    text: str = field(repr=False)
