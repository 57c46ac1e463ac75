"""What a run is made of: the order that was given, and the parts that carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.notebook import ContextTerms
from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.domain.patterns import Checkpoint, DelegationTerms, Handoff, PlanTerms, TrustTerms
from kagura_kernel.domain.policy import CommandLimits, WriteMode
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.rows import Conversation
from kagura_kernel.journal.spending import DayBudget
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.definitions.toolsets import Toolset
from kagura_kernel.kit.packages.hosts import ToolHosts
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.staging.planned import KitPlaces
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.grant import MembraneParts, RunGrant, SessionPowers
from kagura_kernel.membrane.protection import GitRules
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.plugins.calls import CallLimits, PluginAccess
from kagura_kernel.runs.kept_boxes import KeptBoxes
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runtime.routing import Routing
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.selection import StartBox
from kagura_kernel.tools.extension_tools import ToolMaker

Price = Callable[[Usage, str, datetime], tuple[float | None, str]]
"""Tokens, model and time to USD (None when unknown) and the price list's name and version."""


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """Who carries a run out."""

    agent: ResolvedAgent  # Its definition, with those of its sub-agents
    reference: str = ""  # As it was asked for; empty for the usual one
    # What is started for it: its own, and those of a configuration that was named for this run
    toolsets: tuple[Toolset, ...] = ()
    asks: bool = True  # Whether a person's word is needed for the hosts that its toolsets are installed from


@dataclass(frozen=True, slots=True)
class KitParts:
    """What kits are staged with."""

    root: Path  # The folder of kits
    kit_places: Callable[[Path], KitPlaces]  # The places of the host that a project's kits are made from
    # Where toolsets are installed from; blocks. Raises `ToolHostsUnresolved`.
    find_hosts: Callable[[Sequence[Toolset]], ToolHosts]


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """A part of a run's work, to be handed on."""

    task: str  # What to do
    handoff: Handoff  # What it is given
    parent: str  # The run that hands it on
    session_id: str  # The session of the child, its own
    project: Path  # The project root
    agent: str = ""  # Who does it, a reference; empty for the usual one
    brain: str = ""  # Name of its brain; empty for the agent's own choice
    model: str = ""  # Model for it; empty for the usual one
    verify: str = ""  # The command that says whether its work is good; empty for none
    workers: str = ""  # Where it runs: empty for this process
    box: str = ""  # Name of its back-end; empty for the usual one
    image: str = ""  # Image asked for; empty for the usual one
    headless: bool = False  # Whether nobody can be asked
    origin: str = "api"  # Where it was asked for
    place: CellPlace = field(default_factory=CellPlace)  # The cell that it goes back to
    # What its workspace begins with beside the project; their contents wait in the blob store
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
    """One run as it was asked for, with every choice made."""

    run_id: str
    session_id: str  # The session it belongs to
    task: str  # The prompt, or a cell's own code
    project: Path  # The project root, checked
    spec: BoxSpec  # The box it gets
    grant: RunGrant = field(default_factory=RunGrant)  # What crosses the wall of that box
    request: RunRequest = field(default_factory=RunRequest)
    box: str = "auto"  # Name of the back-end, or `auto`
    keep_seconds: float = 0.0  # How long its box waits for the next run of its session; 0 for one that ends with it
    brain: BrainProvider | None = None  # Who thinks; None for a `%%sandbox` cell
    brain_reason: str = ""  # Why this one
    agent: AgentOrder | None = None  # Who carries it out; None for a `%%sandbox` cell
    model: str = ""  # Model asked for
    write_mode: WriteMode = WriteMode.ASK  # How changes reach the project
    plans_only: bool = False  # Whether it changes nothing until a person lets it carry its plan out
    budget_usd: float | None = None  # Limit in USD
    most_usd: float | None = None  # What nobody may raise that to on the way; None where a person may
    max_turns: int | None = None  # Limit of rounds
    limits: CommandLimits = field(default_factory=CommandLimits)  # Limits of each command
    most_limits: CommandLimits = CommandLimits(None, None)  # What the brain may not raise them to; None where it may
    resume: str = ""  # What the brain needs to go on from the session's last run
    follows: Conversation = field(default_factory=Conversation)  # That run
    left: str = ""  # The session that was left for this one, and can be gone back to; empty for none
    routing: Routing = field(default_factory=Routing)  # Where commands run
    falls_back: bool = False  # Whether its commands go to the host, each after an approval, where no box can be had
    cannot_fall_back: str = ""  # Why they do not, where the settings want it, a sentence; empty otherwise
    user: str = ""  # Login name
    owner: str = ""  # The process that runs it
    room: int = DEFAULTS.variables_mib * 2**20  # Bytes that may be brought back
    place: CellPlace = field(default_factory=CellPlace)  # The cell that asked
    context: ContextTerms = field(default_factory=ContextTerms)  # What it is shown of the notebook that asked
    verify: str = ""  # A command that says whether the work is good; empty for none
    plan: PlanTerms = field(default_factory=PlanTerms)  # When its plan is shown, and asked about
    recall: int = DEFAULTS.recall  # How many memories it starts with at most, beside pinned ones
    resumes: Checkpoint | None = None  # Where the run stood that this one goes on from; None for a fresh one
    handoff: Handoff = field(default_factory=Handoff)  # What it was given by the run that it works for
    delegation: DelegationTerms = field(default_factory=DelegationTerms)  # How much of its work it may hand on
    trust: TrustTerms = field(default_factory=TrustTerms)  # What has to be shown before a power is proposed
    pictures: tuple[Image, ...] = ()  # What it is shown with the task, read and without metadata
    leaves: bool = True  # Whether it leaves what later runs learn from: a summary of its outcome, and lessons
    git: GitRules | None = None  # What git reads and runs of the project; None where nobody asked it


@dataclass(frozen=True, slots=True)
class RunParts:
    """What carries a run out."""

    journal: Journal  # Where every fact goes before anything follows from it
    clock: Clock  # The time
    approver: Approver  # Who is asked for more power
    blobs: BlobStore  # Where new file contents wait
    start_box: StartBox  # Where boxes come from
    spill_root: Path  # Directory below which each run keeps the full text of long outputs
    price: Price  # What tokens cost
    membrane: MembraneParts  # What its membrane is made of
    redactor: Redactor  # Takes secrets out of whatever is shown, stored or told to a brain
    kept: KeptBoxes | None = None  # Boxes that were left in place; None where none can be
    powers: SessionPowers = field(default_factory=SessionPowers)  # What a person has allowed for its whole session
    plugins: PluginAccess | None = None  # The plugins of sessions; None where there are none
    call_limits: CallLimits = field(default_factory=CallLimits)  # On what its box asks of them
    kits: KitParts | None = None  # What kits are staged with; None where agents have none
    # Opens what is remembered, or gives what is open already; blocks. None where there is no memory.
    memory: Callable[[], MemoryStore] | None = None
    children: Children | None = None  # Runs what is handed on; None where nothing can be
    # Tells the memory's server what a run has cost; blocks. None where there is none to tell.
    push_cost: Callable[[str, Mapping[str, Any]], None] | None = None
    push_task: Callable[[str, Mapping[str, Any]], None] | None = None  # Likewise, how its task stands
    # What limits the costs of all runs of its person in a day; None where nothing does
    day: DayBudget | None = None
    tools: Sequence[ToolMaker] = ()  # What makes the tools that other packages bring and the settings name
