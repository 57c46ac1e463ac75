"""What a run was shown of the memory and left in it, and what a person did to memories.

None of these rows holds what is remembered: a memory can be erased, and a journal only grows. Live displays are told
the words by events that are not stored.
"""

from __future__ import annotations

from typing import Literal

from kagura_kernel.domain.events.base import Event, Streamed
from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.memory import SeenMemory, ShownMemory
from kagura_kernel.domain.patterns import Estimate

TrustChange = Literal["succeeded", "failed", "proposed", "granted", "refused", "demoted", "applied"]
TrustSignal = Literal["exit-code", "verification", "human", ""]


class RunPlanned(Event):
    """What a run was expected to need, told before anything was spent; again with the answer if a person is asked."""

    kind: Literal["run.planned"] = "run.planned"
    estimate: Estimate | None = None  # From similar runs; None where there are none
    similar: tuple[Exact, ...] = ()  # Those runs
    lessons: tuple[Exact, ...] = ()  # Memories that warn of what went wrong in such tasks
    budget_usd: float | None = None  # The budget that was proposed; None for none
    wanted: bool = False  # Whether its cell wanted to see it
    asked: bool = False  # Whether a person was asked
    agreed_usd: float | None = None  # The budget that the run got; None for none
    by: str = ""  # Who agreed; empty where nobody was asked


class RunVerified(Event):
    """A run's finished workspace was tried out in a fresh box that its agent never touched."""

    kind: Literal["run.verified"] = "run.verified"
    command: str  # What was run there
    passed: bool  # Whether it ended with 0
    exit_code: int | None = None  # Of the command; None where it did not end by itself
    text: str = ""  # The end of what it printed
    duration: float = 0.0  # Seconds
    box_id: Exact = ""  # The fresh box; empty where there was none
    why: str = ""  # Why it could not be run; empty when it was


class RunCheckpointed(Event):
    """Where a run stands was stored, so that another one can go on from there."""

    kind: Literal["run.checkpointed"] = "run.checkpointed"
    step: int  # How many steps were finished, from 0
    pending: int | None = None  # How many steps of its plan are left; None where it has no plan
    changed_files: int = 0  # How many files its workspace holds that the project does not
    usd: float | None = None  # What it had cost; None when unknown
    interrupted: bool = False  # Whether it was stored because the run was stopped
    # SHA-256 of what was stored without its conversation, and then that of the conversation: by these it is known
    # again. The journal holds nothing else of it.
    digest: Exact = ""


class RunResumed(Event):
    """This run goes on from where another one stood."""

    kind: Literal["run.resumed"] = "run.resumed"
    resumes: str
    step: int = 0  # How many of its steps were finished
    doubtful: tuple[str, ...] = ()  # Calls that had begun and of which nobody knows whether they ended, each as `tool`
    restored_files: int = 0  # How many files were laid into the fresh box
    asks: tuple[str, ...] = ()  # What its budget does not cover any more, a clause each; a person was asked


class TrustChanged(Event):
    """Trust in a category of deeds was earned, proposed, given, used or lost."""

    kind: Literal["trust.changed"] = "trust.changed"
    category: Exact  # Which, as `domain.categories.CATEGORIES` names them
    change: TrustChange  # What happened
    signal: TrustSignal = ""  # What proves it; nothing that an agent can forge
    task: Exact = ""  # SHA-256 of the task's words, by which tasks are told apart; empty where it is about none
    names: tuple[str, ...] = ()  # To whom the deeds went that show it: names that were looked up, servers, packages
    by: str = ""  # Who decided; empty where nobody had to
    via: Exact = ""  # Where
    why: str = ""  # Half a sentence


class ChildStarted(Event):
    """A run handed a part of its work on."""

    kind: Literal["child.started"] = "child.started"
    child: Exact  # The new run
    call_id: Exact = ""  # The tool call that asked; empty where a person's program did
    memory_id: Exact = ""  # The memory that it was handed
    agent: Exact = ""  # Who does it; empty for the parent's own
    budget_usd: float | None = None  # Its share; None is none
    depth: int = 1  # How far below the first run, from 1
    worker: str = ""  # Where it runs; empty in this process


class ChildEnded(Event):
    """A part that was handed on is over."""

    kind: Literal["child.ended"] = "child.ended"
    child: Exact  # Which run
    status: Exact  # How it ended; `lost` where its worker is gone
    memories: tuple[Exact, ...] = ()  # What it left for its parent
    usd: float | None = None  # What it cost with what it handed on itself; None when unknown
    error_code: Exact = ""  # Why it did not end well
    again: Exact = ""  # The run that does it once more; empty where none does


Shown = Literal["pinned", "recalled", "lesson", "handoff", "state", "asked"]
"""Why a brain is shown a memory: it is pinned, it fits the task, it warns, a parent hands it on, it is what the session
left open, or the brain has asked for it."""

Written = Literal["asked", "outcome", "lesson", "handoff", "result"]
"""Why a memory was made: the brain asked for it, a run ended, something failed, a child gets it, or it is a child's
result."""

MemoryAct = Literal[
    "promoted",
    "demoted",
    "pinned",
    "unpinned",
    "forgotten",
    "restored",
    "erased",
    "imported",
    "helped",
    "misled",
    "written",
]


class MemoriesSeen(Event):
    """Memories are about to be shown to a run's brain."""

    kind: Literal["memory.seen"] = "memory.seen"
    how: Shown  # Why
    call_id: Exact = ""  # The tool call that asked; empty where none did
    memories: tuple[SeenMemory, ...] = ()  # Which, in the order in which they are shown
    untrusted: bool = False  # Whether one of them is in quarantine: from here on the run is marked


class MemoriesShown(Streamed):
    """The same with the first line of each, for live displays."""

    kind: Literal["memory.shown"] = "memory.shown"
    how: Shown
    call_id: Exact = ""
    memories: tuple[ShownMemory, ...] = ()


class MemoryWritten(Event):
    """A run left a memory."""

    kind: Literal["memory.written"] = "memory.written"
    memory_id: Exact
    type: str  # Its type, as `known_type` says it
    tier: str  # How far it is trusted
    author: str  # Who said it
    how: Written  # Why it was made
    call_id: Exact = ""  # The tool call that asked; empty where none did


class MemoryChanged(Event):
    """Somebody changed a memory; outside of runs the run's id is empty."""

    kind: Literal["memory.changed"] = "memory.changed"
    memory_id: Exact  # Which; the first one where there are several
    change: MemoryAct  # What was done
    by: str = ""  # Who
    via: Exact = ""  # Where: `command`, `sidebar`, `terminal`, `table`, `verification`, `approval`
    memories: int = 1  # How many in all
    edges: int = 0  # How many edges went with them
    checkpoints: int = 0  # How many checkpoints went with them
    runs: tuple[Exact, ...] = ()  # Runs whose checkpoints or summaries went
