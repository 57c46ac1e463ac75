"""What a run was given by its agent, folded from its events: the kit, and the toolsets that were started for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kagura_kernel.domain.events import KitStaged, ToolsetEnded, ToolsetStarted
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill

USUAL = "default"
"""The agent of a cell that names none."""


class Staged(Protocol):
    """What was staged, wherever that is told: by a run's event, or by a build."""

    @property
    def agent(self) -> str:
        """The agent's name."""
        ...

    @property
    def skills(self) -> tuple[StagedSkill, ...]:
        """By name."""
        ...

    @property
    def prompt_files(self) -> tuple[StagedPrompt, ...]:
        """In the order in which the brain reads them."""
        ...

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of sub-agents."""
        ...

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What was not staged."""
        ...

    @property
    def omitted(self) -> int:
        """How many more were not staged."""
        ...


@dataclass(slots=True)
class Kitted:
    """The kit and the toolsets of a run."""

    staged: KitStaged | None = None  # what was staged, once that is known
    started: dict[str, ToolsetStarted] = field(default_factory=dict)  # toolsets that answered, by name
    ended: dict[str, ToolsetEnded] = field(default_factory=dict)  # those that are gone before their run, or never came

    def apply(self, event: KitStaged | ToolsetStarted | ToolsetEnded) -> None:
        """Take one event."""
        match event:
            case KitStaged():
                self.staged = event
            case ToolsetStarted():
                self.started[event.toolset] = event
            case ToolsetEnded():
                self.ended[event.toolset] = event

    @property
    def toolsets(self) -> list[str]:
        """Names of all of them, those that answered first."""
        return list(dict.fromkeys([*self.started, *self.ended]))

    def __bool__(self) -> bool:
        """Whether there is anything to say: an agent that was named, something staged or left out, a toolset."""
        staged = self.staged
        if staged is None:
            return bool(self.toolsets)
        return bool(staged.reference or self.toolsets or staged.unresolved or staged.tool_hosts or not empty(staged))


def empty(staged: Staged) -> bool:
    """Whether nothing was staged, nothing is read from the workspace, and nothing was left out."""
    return not (staged.skills or staged.prompt_files or staged.agents or staged.left_out or staged.omitted)


def files_of(skill: StagedSkill) -> Sequence[tuple[str, StagedFile]]:
    """A skill's files, each with its place below the skill."""
    root = f"skills/{skill.name}/"
    return [(one.target.removeprefix(root), one) for one in skill.files]


def redactions(staged: Staged) -> int:
    """How many markers were put in, all in all."""
    in_skills = sum(one.redactions for skill in staged.skills for one in skill.files)
    return in_skills + sum(prompt.redactions for prompt in staged.prompt_files)


def left_out_count(staged: Staged) -> int:
    """How many things were not staged."""
    return len(staged.left_out) + staged.omitted
