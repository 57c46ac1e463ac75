"""What a run is made of: the order that was given, and the parts that carry it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.patterns import Checkpoint, DelegationTerms, Handoff, PlanTerms, TrustTerms
from kagura_kernel.domain.policy import CommandLimits, PermissionMode, WriteMode
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.definitions.toolsets import Toolset
from kagura_kernel.kit.packages.hosts import ToolHosts
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.staging.surroundings import Surroundings
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.grant import MembraneParts, RunGrant, SessionPowers
from kagura_kernel.membrane.protection import GitRules
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.plugins.call_limits import CallLimits
from kagura_kernel.plugins.calling import PluginAccess
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.tools.own import ToolMaker

Price = Callable[[Usage, str, datetime], tuple[float | None, str]]
"""Tokens, model and time to USD (None when unknown) and the price list's name and version."""


@dataclass(frozen=True, slots=True)
class LaunchedBox:
    """A box and why it is of this kind."""

    box: Box
    reason: str


StartBox = Callable[[str, BoxSpec], Awaitable[LaunchedBox]]
"""Choose a back-end by name, or by itself for `auto`, and start a box; raises `SandboxError` or `WorkspaceError`."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The settings that decide where commands run."""

    mode: PermissionMode = PermissionMode.DEFAULT
    strict: bool = False
    preapproved: tuple[str, ...] = ()
    approval_deadline: float = DEFAULTS.approval_deadline


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """Who carries a run out.

    Attributes:
        agent: Its definition, with those of its sub-agents.
        reference: As it was asked for; empty for the usual one.
        toolsets: What is started for it: its own, and those of a configuration that was named for this run.
        asks: Whether a person's word is needed for the hosts that its toolsets are installed from.
    """

    agent: ResolvedAgent
    reference: str = ""
    toolsets: tuple[Toolset, ...] = ()
    asks: bool = True


@dataclass(frozen=True, slots=True)
class KitParts:
    """What kits are staged with.

    Attributes:
        root: The folder of kits.
        surroundings: The places of the host that a project's kits are made from.
        find_hosts: Where toolsets are installed from; blocks. Raises `ToolHostsUnresolved`.
    """

    root: Path
    surroundings: Callable[[Path], Surroundings]
    find_hosts: Callable[[Sequence[Toolset]], ToolHosts]


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """A part of a run's work, to be handed on.

    Attributes:
        task: What to do.
        handoff: What it is given.
        parent: The run that hands it on.
        session_id: The session of the child, its own.
        project: The project root.
        agent: Who does it, a reference; empty for the usual one.
        brain: Name of its brain; empty for the agent's own choice.
        model: Model for it; empty for the usual one.
        verify: The command that says whether its work is good; empty for none.
        workers: Where it runs: empty for this process.
        box: Name of its back-end; empty for the usual one.
        image: Image asked for; empty for the usual one.
        headless: Whether nobody can be asked.
        origin: Where it was asked for.
        place: The cell that it goes back to.
        changes: What its workspace begins with beside the project; their contents wait in the blob store.
    """

    task: str
    handoff: Handoff
    parent: str
    session_id: str
    project: Path
    agent: str = ""
    brain: str = ""
    model: str = ""
    verify: str = ""
    workers: str = ""
    box: str = ""
    image: str = ""
    headless: bool = False
    origin: str = "api"
    place: CellPlace = field(default_factory=CellPlace)
    changes: tuple[FileChange, ...] = ()


class Children(Protocol):
    """Runs parts of a run's work, here or elsewhere. Used on the engine's loop."""

    async def run(self, order: ChildOrder, started: Callable[[str, str], None]) -> RunOutcome:
        """Do it; `started` is told the child's run id and its worker. Cancelling ends the child and frees all it has.

        Raises:
            KaguraError: it could not be started.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunOrder:
    """One run as it was asked for, with every choice made.

    Attributes:
        run_id: `run-…`.
        session_id: The session it belongs to.
        task: The prompt, or a cell's own code.
        project: The project root, checked.
        spec: The box it gets.
        grant: What crosses the wall of that box.
        box: Name of the back-end, or `auto`.
        brain: Who thinks; None for a `%%sandbox` cell.
        brain_reason: Why this one.
        agent: Who carries it out; None for a `%%sandbox` cell.
        model: Model asked for.
        write_mode: How changes reach the project.
        budget_usd: Limit in USD.
        max_turns: Limit of rounds.
        limits: Limits of each command.
        resume: What the brain needs to go on from the session's last run.
        routing: Where commands run.
        user: Login name.
        owner: The process that runs it.
        room: Bytes that may be brought back.
        place: The cell that asked.
        verify: A command that says whether the work is good; empty for none.
        plan: When its plan is shown, and asked about.
        recall: How many memories it starts with at most, beside pinned ones.
        resumes: Where the run stood that this one goes on from; None for a fresh one.
        handoff: What it was given by the run that it works for.
        delegation: How much of its work it may hand on.
        trust: What has to be shown before a power is proposed.
        leaves: Whether it leaves what later runs learn from: a summary of its outcome, and lessons.
        git: What git reads and runs of the project; None where nobody asked it.
    """

    run_id: str
    session_id: str
    task: str
    project: Path
    spec: BoxSpec
    grant: RunGrant = field(default_factory=RunGrant)
    request: RunRequest = field(default_factory=RunRequest)
    box: str = "auto"
    brain: BrainProvider | None = None
    brain_reason: str = ""
    agent: AgentOrder | None = None
    model: str = ""
    write_mode: WriteMode = WriteMode.ASK
    budget_usd: float | None = None
    max_turns: int | None = None
    limits: CommandLimits = field(default_factory=CommandLimits)
    resume: str = ""
    routing: Routing = field(default_factory=Routing)
    user: str = ""
    owner: str = ""
    room: int = DEFAULTS.variables_mib * 2**20
    place: CellPlace = field(default_factory=CellPlace)
    verify: str = ""
    plan: PlanTerms = field(default_factory=PlanTerms)
    recall: int = DEFAULTS.recall
    resumes: Checkpoint | None = None
    handoff: Handoff = field(default_factory=Handoff)
    delegation: DelegationTerms = field(default_factory=DelegationTerms)
    trust: TrustTerms = field(default_factory=TrustTerms)
    leaves: bool = True
    git: GitRules | None = None


@dataclass(frozen=True, slots=True)
class RunParts:
    """What carries a run out.

    Attributes:
        journal: Where every fact goes before anything follows from it.
        clock: The time.
        approver: Who is asked for more power.
        blobs: Where new file contents wait.
        start_box: Where boxes come from.
        spill_root: Directory below which each run keeps the full text of long outputs.
        price: What tokens cost.
        membrane: What its membrane is made of.
        powers: What a person has allowed for its whole session.
        plugins: The plugins of sessions; None where there are none.
        call_limits: On what its box asks of them.
        kits: What kits are staged with; None where agents have none.
        redactor: Takes secrets out of whatever is shown, stored or told to a brain; None leaves them in.
        memory: Opens what is remembered, or gives what is open already; blocks. None where there is no memory.
        children: Runs what is handed on; None where nothing can be.
        push_cost: Tells the memory's server what a run has cost; blocks. None where there is none to tell.
        tools: What makes the tools that other packages bring and the settings name.
    """

    journal: Journal
    clock: Clock
    approver: Approver
    blobs: BlobStore
    start_box: StartBox
    spill_root: Path
    price: Price
    membrane: MembraneParts
    powers: SessionPowers = field(default_factory=SessionPowers)
    plugins: PluginAccess | None = None
    call_limits: CallLimits = field(default_factory=CallLimits)
    kits: KitParts | None = None
    redactor: Redactor | None = None
    memory: Callable[[], MemoryStore] | None = None
    children: Children | None = None
    push_cost: Callable[[str, Mapping[str, Any]], None] | None = None
    tools: Sequence[ToolMaker] = ()
