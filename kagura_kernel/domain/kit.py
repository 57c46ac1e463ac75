"""What is said about kits: what was staged for an agent, what of it was redacted, what was left out. Values alone."""

from __future__ import annotations

import re
from typing import Literal

from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.late_dataclass import dataclass

KIT_DIR = "/kagura/kit"
"""Where a box sees its kit, read-only, in every box of every back-end."""

KIT_VARIABLE = "KAGURA_KIT_DIR"
"""The variable that tells programs in a box where its kit lies; unset where there is none."""

MARKER = re.compile(r"\[REDACTED:(?P<kind>[a-z][a-z0-9-]{0,63})\]", re.ASCII)
"""What stands for a secret in a redacted text. Redacting a text that holds markers leaves them alone."""

AGENT_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
"""What an agent, a sub-agent and a toolset may be called: kebab-case, at most 64 characters."""


def marker(kind: str) -> str:
    """What stands for a secret of this kind."""
    return f"[REDACTED:{kind}]"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file in a kit."""

    target: Exact  # Its place below the kit's root, with forward slashes
    size: int  # Bytes, as staged
    redactions: int = 0  # How many markers were put into it
    kinds: tuple[Exact, ...] = ()  # Of what kinds, sorted, each once


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """A skill in a kit, or one that the box sees in its workspace."""

    name: Exact  # As its SKILL.md has it
    description: str  # Likewise; one line, redacted
    root: Exact  # Its directory in the box, absolute
    # What was staged; empty for a skill of the workspace, which the box sees as it is
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class StagedPrompt:
    """A prompt file that is read to the brain."""

    name: Exact  # As it was asked for, `AGENTS.md`
    place: Literal["kit", "workspace"]  # `kit`, or `workspace` for one that the box sees as it is
    path: Exact  # In the box, absolute
    size: int = 0  # Bytes
    redactions: int = 0  # How many markers stand in what the brain is shown
    kinds: tuple[Exact, ...] = ()  # Of what kinds, sorted, each once


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was not staged."""

    target: Exact  # Where it would have been, below the kit's root; never a place of the host
    reason: str  # Half a sentence: it is a device, it cannot be read, its name clashes, …


@dataclass(frozen=True, slots=True)
class UnresolvedTool:
    """A toolset whose hosts could not be found out."""

    toolset: Exact  # Its name
    command: str  # What it starts
    version: Exact  # Of what; empty for the newest
    reason: str  # What went wrong
