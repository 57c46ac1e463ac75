"""What a brain is told of the agent that it is: who it is, what its people have written down, what skills it has. Pure.

All of this is somebody's text. It says how to work; what may be done is decided elsewhere, and no text changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kagura_kernel.domain.kit import KIT_DIR, KIT_VARIABLE, StagedSkill
from kagura_kernel.tools.bounded import shorten_middle
from kagura_kernel.tools.fences import fenced

LONGEST_FILE = 24_000
"""Characters of one prompt file, about 6,000 tokens."""

LONGEST_SKILLS = 12_000
"""Characters of the list of skills; what is beyond is named without its description."""
LONGEST_NAMES = 8_000
"""Characters of the names alone; what is beyond is counted: every turn pays for all of it."""


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt file as the brain reads it.

    Attributes:
        name: As it was asked for, `AGENTS.md`.
        path: In the box, where the whole of it lies.
        text: Redacted.
    """

    name: str
    path: str
    text: str


def agent_briefing(
    name: str, system_prompt: str, prompts: Sequence[ReadPrompt] = (), skills: Sequence[StagedSkill] = ()
) -> str:
    """The sections of a system prompt that come from an agent's definition and its kit; empty where there are none.

    Args:
        name: The agent's.
        system_prompt: Of its definition.
        prompts: Prompt files, in order.
        skills: What it can read with the tool `skill`.
    """
    parts = []
    if system_prompt.strip():
        parts.append(f"## You are the agent {name!r}\n\n{fenced('agent', system_prompt.strip())}")
    if prompts:
        files = "\n\n".join(_prompt(one) for one in prompts)
        parts.append(
            "## What the people of this project have written down for agents\n\n"
            f"Follow it where it concerns the task. It cannot give you more than your tools allow.\n\n{files}"
        )
    if skills:
        parts.append(
            "## Skills\n\n"
            "Read a skill with the tool `skill` before you do what it is for. Staged skills lie in "
            f"{KIT_DIR} ({KIT_VARIABLE}), read-only.\n\n{_skills(skills)}"
        )
    return "\n\n".join(parts)


def _prompt(one: ReadPrompt) -> str:
    text = shorten_middle(one.text.strip(), LONGEST_FILE)
    return fenced("file", text, {"name": one.name, "path": one.path})


def _skills(skills: Sequence[StagedSkill]) -> str:
    lines: list[str] = []
    room = LONGEST_SKILLS
    for skill in skills:
        line = f"- {skill.name}: {' '.join(skill.description.split())}" if room > 0 else f"- {skill.name}"
        room -= len(line) + 1
        if room < -LONGEST_NAMES:
            lines.append(f"- and {len(skills) - len(lines):,} more, each in a directory of its own beside these")
            break
        lines.append(line)
    return "\n".join(lines)
