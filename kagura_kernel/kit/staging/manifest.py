"""The table of contents of a kit, as it lies in it: no place of the host, nobody's name, no time. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One staged file, as the manifest has it."""

    staged: StagedFile  # Its place, size and redactions
    sha256: str  # Of its bytes
    encoding: str = ""  # Python's name of it; empty for what is no text
    executable: bool = False  # Whether it may be run


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a kit holds."""

    agent: str  # The agent's name
    definition: str  # SHA-256 of its definition
    files: tuple[ManifestFile, ...] = ()  # By target
    skills: tuple[StagedSkill, ...] = ()  # By name
    prompt_files: tuple[StagedPrompt, ...] = ()  # In the order in which a brain reads them
    agents: tuple[str, ...] = ()  # Names of sub-agents
    left_out: tuple[LeftOut, ...] = ()  # What was not staged
    omitted: int = 0  # How many more were not staged
    _bytes: list[bytes] = field(default_factory=list, repr=False, compare=False)

    def encoded(self) -> bytes:
        """The manifest's file; equal for equal kits."""
        if not self._bytes:
            whole = {
                "version": VERSION,
                "agent": {"name": self.agent, "definition": self.definition},
                "skills": [_skill(skill) for skill in self.skills],
                "prompt_files": [_prompt(prompt) for prompt in self.prompt_files],
                "agents": list(self.agents),
                "files": [_file(file) for file in self.files],
                "left_out": [{"target": one.target, "reason": one.reason} for one in self.left_out],
                "omitted": self.omitted,
            }
            self._bytes.append(f"{json.dumps(whole, indent=1, ensure_ascii=False)}\n".encode())
        return self._bytes[0]

    @property
    def digest(self) -> str:
        """SHA-256 over everything in the kit: over the manifest, which has that of each file."""
        return hashlib.sha256(self.encoded()).hexdigest()


def read_manifest_files(data: bytes) -> tuple[ManifestFile, ...]:
    """The files that a manifest of this version lists.

    Raises:
        ValueError: it is none.
    """
    try:
        return tuple(
            ManifestFile(
                StagedFile(str(one["target"]), int(one["size"]), int(one["redactions"]), tuple(map(str, one["kinds"]))),
                str(one["sha256"]),
                str(one["encoding"]),
                bool(one["executable"]),
            )
            for one in json.loads(data)["files"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it is no manifest of a kit") from error


def bounded(left_out: Sequence[LeftOut], most: int) -> tuple[tuple[LeftOut, ...], int]:
    """The first of what was left out, by target, and how many more there are."""
    ordered = sorted(set(left_out), key=lambda one: (one.target, one.reason))
    return tuple(ordered[:most]), max(0, len(ordered) - most)


def _skill(skill: StagedSkill) -> dict[str, Any]:
    return {"name": skill.name, "root": skill.root, "files": [file.target for file in skill.files]}


def _prompt(prompt: StagedPrompt) -> dict[str, Any]:
    return {"name": prompt.name, "place": prompt.place, "path": prompt.path}


def _file(file: ManifestFile) -> dict[str, Any]:
    return {
        "target": file.staged.target,
        "size": file.staged.size,
        "sha256": file.sha256,
        "encoding": file.encoding,
        "executable": file.executable,
        "redactions": file.staged.redactions,
        "kinds": list(file.staged.kinds),
    }
