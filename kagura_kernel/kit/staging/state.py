"""What is remembered of the latest build beside a kit's versions: what it was made of, and what came of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.kit import LeftOut, StagedPrompt, StagedSkill
from kagura_kernel.kit.staging.writing import replace_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

STATE = "state.json"
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What came of a build.

    Attributes:
        digest: SHA-256 over everything staged: the name of the version.
        empty: Whether nothing was staged but the manifest, so that a box needs no kit.
        skills: By name; those of the workspace too.
        prompt_files: In the order in which a brain reads them; those of the workspace too.
        agents: Names of sub-agents.
        left_out: What was not staged, at most 200.
        omitted: How many more were not staged.
        prompt_texts: Name and redacted text of each prompt file that the agent itself asked for, in that order.
    """

    digest: str
    empty: bool
    skills: tuple[StagedSkill, ...]
    prompt_files: tuple[StagedPrompt, ...]
    agents: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    omitted: int
    prompt_texts: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Built):
    """The latest build, and what it was made of.

    Attributes:
        fingerprint: Of what it was made.
        boot: Since when the machine was running; what was written before may have been lost with its power.
    """

    fingerprint: str
    boot: str


def read_state(folder: Path) -> State | None:
    """The latest build of a folder; None when there was none, or it cannot be read: then everything is made anew."""
    try:
        with (folder / STATE).open("rb") as file:
            data = file.read(_MAX_BYTES)
        return _adapter().validate_json(data)
    except (OSError, ValueError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Remember a build; raises OSError."""
    replace_file(folder / STATE, _adapter().dump_json(state))


def forget_state(folder: Path) -> None:
    """Let the next build make everything anew."""
    with contextlib.suppress(OSError):
        (folder / STATE).unlink(missing_ok=True)


@cache
def boot() -> str:
    """What tells this run of the machine from those before; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@cache
def _adapter() -> TypeAdapter[State]:
    from pydantic import TypeAdapter

    return TypeAdapter(State)
