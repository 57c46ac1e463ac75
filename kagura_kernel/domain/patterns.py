"""What is said about plans, checkpoints, earned trust and work that is handed on. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.settings import DEFAULTS

HANDOFF: Final = "handoff"
"""The type of the memory that a child is handed."""

HANDOFF_KEPT = timedelta(hours=24)
"""How long that one is kept; what a run leaves for others it remembers by itself."""

BUFFER = 0.3
"""How much is added to what similar runs cost, as a fraction."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to need, from runs of similar tasks."""

    runs: int  # How many runs it rests on
    usd: float | None = None  # Median cost; None where too few of them have a known one
    usd_low: float | None = None  # The range of their costs
    usd_high: float | None = None
    seconds: float | None = None  # Median duration
    seconds_low: float | None = None  # The range
    seconds_high: float | None = None
    retries: float = 0.0  # Median number of failed tries before one that went well
    failed: int = 0  # How many of them did not end well

    @property
    def buffered_usd(self) -> float | None:
        """The median with the buffer on top."""
        return None if self.usd is None else self.usd * (1 + BUFFER)

    @property
    def buffered_seconds(self) -> float | None:
        """Likewise."""
        return None if self.seconds is None else self.seconds * (1 + BUFFER)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a run has done, or has begun."""

    call_id: str  # The tool call
    tool: str
    # With what, redacted; what is remembered or handed on stands there by its id alone
    arguments: Mapping[str, object] = field(default_factory=dict)
    result: str = ""  # What its brain read, bounded and redacted; empty while it goes on
    is_error: bool = False  # Whether it failed
    effects: bool = True  # Whether doing it again could change something: everything but tools that only look
    outside: bool = False  # Whether it may have changed something outside of its box
    run_id: str = ""  # The run that did it; empty for the checkpoint's own
    number: int = 0  # The how manieth finished step of its run it is, from 1; 0 while it goes on


@dataclass(frozen=True, slots=True)
class LeftBudget:
    """What was left of what a person had allowed; never what it opens."""

    scope: str  # `provider:scope`
    seconds: float  # How long it might still be held
    renewals: int  # How often it might still be renewed


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run stands."""

    run_id: str  # Whose
    session_id: str
    step: int  # How many steps are finished
    at: datetime  # When, aware, UTC
    task: str  # What was asked
    done: tuple[Step, ...] = ()  # The finished steps, the oldest first
    begun: tuple[Step, ...] = ()  # Steps that had begun and had not ended
    pending: tuple[str, ...] = ()  # What is left of its plan, in the brain's words
    plan: tuple[str, ...] = ()  # All of its plan, likewise; empty for none
    # Changes of its workspace, each as the fields of a `FileChange`; their contents wait in the blob store
    changes: tuple[Mapping[str, object], ...] = ()
    collected: int = 0  # How many steps were finished when these changes were collected
    budget_usd: float | None = None  # Its limit; None is none
    spent_usd: float | None = None  # What it had cost; None when unknown
    budgets: tuple[LeftBudget, ...] = ()  # What was left of the credentials' budgets
    grants: tuple[str, ...] = ()  # The words of its grant: hosts and credentials
    memories: tuple[str, ...] = ()  # Ids of memories that it had been shown or had written
    brain: str = ""  # Name of its brain
    brain_session: str = ""  # What the brain needs to go on; empty where it cannot
    untrusted: bool = False  # Whether it had been shown memories that are not trusted
    # What the run was started with, for its successor: agent, model, box, write mode, verification
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handoff:
    """What a child is given: an id, a share, and a place in a line. A value that may travel; it opens nothing."""

    memory_id: str = ""  # The memory that holds its context; empty for none
    lineage: tuple[str, ...] = ()  # The runs above it, the first one first
    budget_usd: float | None = None  # Its share; None is none
    net: tuple[str, ...] = ()  # The most that it may reach: words of its parent's grant
    credentials: tuple[str, ...] = ()  # The most that it may lease, each as `provider:scope`
    write_mode: str = "ask"  # The most that it may do with the project: `through` only below `through`
    untrusted: bool = False  # Whether its parent was marked
    run_id: str = ""  # The id that it bears; empty makes one
    # Which sub-agent of its agent does it: names, the outermost first; empty for the agent itself
    agents: tuple[str, ...] = ()
    agent_digest: str = ""  # What its agent has to say, as SHA-256; empty where that need not be looked at
    full_control: bool = False  # Whether commands of its parent run on the host without asking
    strict: bool = False  # Whether its parent asks for everything that is not on the safe list
    preapproved: tuple[str, ...] = ()  # Host commands of its parent that need no asking
    safe: tuple[str, ...] = ()  # Programs that its parent's settings call safe
    policy: str = ""  # What its parent may do, a `SandboxPolicyType`; empty leaves that to the settings
    command_timeout: float | None = None  # Seconds for one command, 0 without a limit; None leaves that to the settings
    idle_timeout: float | None = None  # Likewise, how long one may print nothing
    plans_only: bool = False  # Whether its parent only planned when it handed the work on: then it only plans, too
    # How much of its own work it may hand on; None leaves that to the settings
    delegation: DelegationTerms | None = None

    @property
    def depth(self) -> int:
        """How far below the first run."""
        return len(self.lineage)


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """When a run shows its plan and asks."""

    asked: bool = False  # Whether its cell wants to see it
    above_usd: float | None = None  # Ask when it is expected to cost more; None for never
    above_seconds: float | None = None  # Ask when it is expected to take longer, likewise
    budget_given: bool = False  # Whether its cell names a budget: then nobody has to be asked about less


@dataclass(frozen=True, slots=True)
class DelegationTerms:
    """How much of its work a run may hand on."""

    depth: int = DEFAULTS.delegate_depth  # How deep below the first run; 0 for not at all
    children: int = DEFAULTS.delegate_children  # How many children one run may have in all
    at_once: int = DEFAULTS.delegate_at_once  # How many of them at once
    workers: str = ""  # Where they run: empty for this process, otherwise a Dask scheduler's address


@dataclass(frozen=True, slots=True)
class TrustTerms:
    """What has to be shown before a power is proposed."""

    successes: int = DEFAULTS.trust_successes  # How many verified successes
    tasks: int = DEFAULTS.trust_tasks  # From how many different tasks
    days: float = DEFAULTS.trust_days  # Over how many days they are spread, and how long it takes after a failure
