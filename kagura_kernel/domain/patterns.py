"""What is said about plans, checkpoints, earned trust and work that is handed on. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from kagura_kernel.domain.settings import DEFAULTS

HANDOFF: Final = "handoff"
"""The type of the memory that a child is handed."""

HANDOFF_KEPT = timedelta(hours=24)
"""How long that one is kept; what a run leaves for others it remembers by itself."""

BUFFER = 0.3
"""How much is added to what similar runs cost, as a fraction."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to need, from runs of similar tasks.

    Attributes:
        runs: How many runs it rests on.
        usd: Median cost; None where too few of them have a known one.
        usd_low, usd_high: The range of their costs.
        seconds: Median duration.
        seconds_low, seconds_high: The range.
        retries: Median number of failed tries before one that went well.
        failed: How many of them did not end well.
    """

    runs: int
    usd: float | None = None
    usd_low: float | None = None
    usd_high: float | None = None
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    retries: float = 0.0
    failed: int = 0

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
    """One thing that a run has done, or has begun.

    Attributes:
        call_id: The tool call.
        tool: Its tool.
        arguments: With what, redacted; what is remembered or handed on stands there by its id alone.
        result: What its brain read, bounded and redacted; empty while it goes on.
        is_error: Whether it failed.
        effects: Whether doing it again could change something: everything but tools that only look.
        outside: Whether it may have changed something outside of its box.
        run_id: The run that did it; empty for the checkpoint's own.
        number: The how manieth finished step of its run it is, from 1; 0 while it goes on.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    result: str = ""
    is_error: bool = False
    effects: bool = True
    outside: bool = False
    run_id: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class LeftBudget:
    """What was left of what a person had allowed; never what it opens.

    Attributes:
        scope: `provider:scope`.
        seconds: How long it might still be held.
        renewals: How often it might still be renewed.
    """

    scope: str
    seconds: float
    renewals: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run stands.

    Attributes:
        run_id: Whose.
        session_id: Its session.
        step: How many steps are finished.
        at: When, aware, UTC.
        task: What was asked.
        done: The finished steps, the oldest first.
        begun: Steps that had begun and had not ended.
        pending: What is left of its plan, in the brain's words.
        plan: All of its plan, likewise; empty for none.
        changes: Changes of its workspace, each as the fields of a `FileChange`; their contents wait in the blob store.
        collected: How many steps were finished when these changes were collected.
        budget_usd: Its limit; None is none.
        spent_usd: What it had cost; None when unknown.
        budgets: What was left of the credentials' budgets.
        grants: The words of its grant: hosts and credentials.
        memories: Ids of memories that it had been shown or had written.
        brain: Name of its brain.
        brain_session: What the brain needs to go on; empty where it cannot.
        untrusted: Whether it had been shown memories that are not trusted.
        options: What the run was started with, for its successor: agent, model, box, write mode, verification.
    """

    run_id: str
    session_id: str
    step: int
    at: datetime
    task: str
    done: tuple[Step, ...] = ()
    begun: tuple[Step, ...] = ()
    pending: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    changes: tuple[Mapping[str, object], ...] = ()
    collected: int = 0
    budget_usd: float | None = None
    spent_usd: float | None = None
    budgets: tuple[LeftBudget, ...] = ()
    grants: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    brain: str = ""
    brain_session: str = ""
    untrusted: bool = False
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handoff:
    """What a child is given: an id, a share, and a place in a line. A value that may travel; it opens nothing.

    Attributes:
        memory_id: The memory that holds its context; empty for none.
        lineage: The runs above it, the first one first.
        budget_usd: Its share; None is none.
        net: The most that it may reach: words of its parent's grant.
        credentials: The most that it may lease, each as `provider:scope`.
        write_mode: The most that it may do with the project: `through` only below `through`.
        untrusted: Whether its parent was marked.
        run_id: The id that it bears; empty makes one.
        agents: Which sub-agent of its agent does it: names, the outermost first; empty for the agent itself.
        agent_digest: What its agent has to say, as SHA-256; empty where that need not be looked at.
        full_control: Whether commands of its parent run on the host without asking.
        strict: Whether its parent asks for everything that is not on the safe list.
        preapproved: Host commands of its parent that need no asking.
        delegation: How much of its own work it may hand on; None leaves that to the settings.
    """

    memory_id: str = ""
    lineage: tuple[str, ...] = ()
    budget_usd: float | None = None
    net: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    write_mode: str = "ask"
    untrusted: bool = False
    run_id: str = ""
    agents: tuple[str, ...] = ()
    agent_digest: str = ""
    full_control: bool = False
    strict: bool = False
    preapproved: tuple[str, ...] = ()
    delegation: DelegationTerms | None = None

    @property
    def depth(self) -> int:
        """How far below the first run."""
        return len(self.lineage)


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """When a run shows its plan and asks.

    Attributes:
        asked: Whether its cell wants to see it.
        above_usd: Ask when it is expected to cost more; None for never.
        above_seconds: Ask when it is expected to take longer, likewise.
        budget_given: Whether its cell names a budget: then nobody has to be asked about less.
    """

    asked: bool = False
    above_usd: float | None = None
    above_seconds: float | None = None
    budget_given: bool = False


@dataclass(frozen=True, slots=True)
class DelegationTerms:
    """How much of its work a run may hand on.

    Attributes:
        depth: How deep below the first run; 0 for not at all.
        children: How many children one run may have in all.
        at_once: How many of them at once.
        workers: Where they run: empty for this process, otherwise a Dask scheduler's address.
    """

    depth: int = DEFAULTS.delegate_depth
    children: int = DEFAULTS.delegate_children
    at_once: int = DEFAULTS.delegate_at_once
    workers: str = ""


@dataclass(frozen=True, slots=True)
class TrustTerms:
    """What has to be shown before a power is proposed.

    Attributes:
        successes: How many verified successes.
        tasks: From how many different tasks.
        days: Over how many days they are spread, and how long it takes after a failure.
    """

    successes: int = DEFAULTS.trust_successes
    tasks: int = DEFAULTS.trust_tasks
    days: float = DEFAULTS.trust_days
