"""What a person can ask for, as values: every front door hands over one of these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.variables import CellPlace, PackedVariable


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlugin:
    """Examine a plugin.

    Attributes:
        name: The plugin.
        session: Name of the session that this is about; None is the front door's own.
        project: The project root; None is the working directory.
        brain: Who reads the source: a brain's name, or `auto`.
        model: Model for it.
        budget_usd: Limit in USD.
        replay: Play this cassette instead of asking a brain.
        record: Write a cassette here.
        static: Whether no brain is asked.
        headless: Whether nobody can be asked.
        origin: Which front door.
        place: The cell that asks.
        by: Who asks.
        via: Where: `cell`, `command`, `terminal`, `sidebar`.
    """

    name: str
    session: str | None = None
    project: Path | None = None
    brain: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    replay: Path | None = None
    record: Path | None = None
    static: bool = False
    headless: bool = False
    origin: str = "notebook"
    place: CellPlace = field(default_factory=CellPlace)
    by: str = "user"
    via: str = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePlugin(AuditPlugin):
    """Let a session's boxes call a plugin.

    Attributes:
        words: Configuration, each `field=value`.
        accept: The highest risk at which nobody needs to be asked; None asks always.
        seen: Hash of the files whose audit a person has seen elsewhere, where they said yes; empty for nobody.
    """

    words: tuple[str, ...] = ()
    accept: Risk | None = None
    seen: str = ""


def as_typed(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Configuration as it was typed, from the pairs that a command's words were read as."""
    return tuple(f"{name}={value}" for name, value in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What every run can be told; None leaves a choice to the settings.

    Attributes:
        session: Name of the session; None is the front door's own (a notebook's).
        new_session: Start a fresh session instead.
        box: Back-end's name, or `auto`.
        image: Image, for back-ends that have images.
        command_timeout: Seconds each command may take; 0 lifts the limit.
        idle_timeout: Seconds each command may be silent; 0 lifts the limit.
        write_mode: How changes reach the project.
        project: The project root; None is the working directory.
        net: Words that open hosts beside the settings': a host, a set of hosts, `ask`, or `none`.
        grants: Credentials that may be leased, each as `PROVIDER:SCOPE`.
        writable_root: Whether commands may change the box's whole system.
        inputs: Variables that are copied into the box.
        outputs: Names of variables that are brought back from it.
        headless: Whether nobody can be asked.
        origin: Which front door.
        started_by: Who asks, as that front door has made sure, `slack:U123`; empty where it is the login's own person.
        run_id: The run's id, for those who have to know it before it begins; empty for a new one.
        place: The cell that asks.
    """

    session: str | None = None
    new_session: bool = False
    box: str | None = None
    image: str | None = None
    command_timeout: float | None = None
    idle_timeout: float | None = None
    write_mode: WriteMode | None = None
    project: Path | None = None
    net: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    writable_root: bool = False
    inputs: tuple[PackedVariable, ...] = ()
    outputs: tuple[str, ...] = ()
    headless: bool = False
    origin: str = "notebook"
    started_by: str = ""
    run_id: str = ""
    place: CellPlace = field(default_factory=CellPlace)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRun(Launch):
    """Send a task to a brain.

    Attributes:
        task: The prompt.
        brain: Brain's name, or `auto`.
        seal: Whether the Claude program thinks in the box itself; the same as the brain `sealed`.
        model: Model for it.
        budget_usd: Limit in USD.
        max_turns: Limit of rounds.
        record: Write a cassette here.
        replay: Play this cassette instead of asking a brain.
        remember: Whether a replay leaves what every other run leaves: a summary of its outcome, and lessons.
        agent: Who does it, a reference; None is the settings', and then `default`.
        mcp_config: A file of further MCP servers, which take the place of the agent's own of the same name.
        strict_mcp: Whether the agent's own MCP servers are left out.
        plan: Whether its plan is shown, and waits for a word.
        verify: A command that says whether the work is good.
        resume: The run that it goes on from: an id, the end of one, or `last`.
        workers: Where what it hands on runs: a Dask scheduler's address.
        handoff: What it was given by the run that it works for; None for a person's own.
        changes: What its workspace begins with beside the project; their contents wait in the blob store.
    """

    task: str
    brain: str | None = None
    seal: bool = False
    model: str | None = None
    budget_usd: float | None = None
    max_turns: int | None = None
    record: Path | None = None
    replay: Path | None = None
    remember: bool = False
    agent: str | None = None
    mcp_config: Path | None = None
    strict_mcp: bool = False
    plan: bool = False
    verify: str | None = None
    resume: str | None = None
    workers: str | None = None
    handoff: Handoff | None = None
    changes: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCell(Launch):
    """Run a cell's own code in a box, without any model."""

    code: str
    language: Literal["python", "bash"] = "python"
