"""One kit as it was staged, to look into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill

if TYPE_CHECKING:
    from kagura_kernel.domain.events import KitStaged
    from kagura_kernel.kit.staging.shelf import StagedText


@dataclass(frozen=True, slots=True)
class StagedKit:
    """One kit as it was staged, to look into. Nothing holds it: it may be gone when somebody looks.

    Attributes:
        agent: The agent's name.
        reference: As it was asked for.
        digest: SHA-256 over everything staged; empty where nothing was.
        root: The folder of kits.
        skills: By name; those of the workspace too.
        prompt_files: In the order in which the brain reads them; those of the workspace too.
        agents: Names of sub-agents.
        left_out: What was not staged, at most 200.
        omitted: How many more were not staged.
        unchanged: Whether an earlier build could be used as it was.
        link: The path that stays the same for the agent and its project; None where only a run tells of it.
    """

    agent: str
    reference: str
    digest: str
    root: Path
    skills: tuple[StagedSkill, ...] = ()
    prompt_files: tuple[StagedPrompt, ...] = ()
    agents: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    omitted: int = 0
    unchanged: bool = False
    link: Path | None = field(default=None, compare=False)

    def files(self) -> tuple[StagedFile, ...]:
        """Every file in it, by its place; none of an empty kit.

        Raises:
            KitGone: it is not kept any more.
        """
        from kagura_kernel.kit.staging.shelf import staged_files

        return staged_files(self.root, self.digest) if self.digest else ()

    def read(self, target: str) -> StagedText:
        """One of them, with its redactions; `manifest.json` too.

        Raises:
            KitGone: it is not kept any more.
            UsageError: it has no such file; says which one may be meant.
        """
        from kagura_kernel.kit.staging.manifest import MANIFEST
        from kagura_kernel.kit.staging.shelf import read_staged

        places = [file.target for file in self.files()]
        if target not in {*places, MANIFEST}:
            raise UsageError(_no_such_file(target, places))
        return read_staged(self.root, self.digest, target)


def _no_such_file(target: str, places: Sequence[str]) -> str:
    ending = f"/{target.strip('/')}"
    near = [place for place in places if place.endswith(ending)] or get_close_matches(target, places, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else " `kit show` lists them."
    return f"The kit has no file {target!r}.{hint}"


def staged_of(told: KitStaged, root: Path) -> StagedKit:
    """The kit that a run tells of.

    Args:
        told: The run's event.
        root: The folder of kits.
    """
    return StagedKit(
        agent=told.agent,
        reference=told.reference,
        digest=told.digest,
        root=root,
        skills=told.skills,
        prompt_files=told.prompt_files,
        agents=told.agents,
        left_out=told.left_out,
        omitted=told.omitted,
        unchanged=told.unchanged,
    )
