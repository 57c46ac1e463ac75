"""What a run was shown of the memory and left in it, and what a person did to memories.

None of these rows holds what is remembered: a memory can be erased, and a journal only grows. Live displays are told
the words by events that are not stored.
"""

from __future__ import annotations

from typing import Literal

from kagura_kernel.domain.events.base import Event, Streamed
from kagura_kernel.domain.memory import SeenMemory, ShownMemory
from kagura_kernel.domain.patterns import Estimate

TrustChange = Literal["succeeded", "failed", "proposed", "granted", "refused", "demoted", "applied"]
TrustSignal = Literal["exit-code", "verification", "human", ""]


class RunPlanned(Event):
    """What a run was expected to need, told before anything was spent; where a person is asked, again with the answer.

    Attributes:
        estimate: From similar runs; None where there are none.
        similar: Those runs.
        lessons: Memories that warn of what went wrong in such tasks.
        budget_usd: The budget that was proposed; None for none.
        wanted: Whether its cell wanted to see it.
        asked: Whether a person was asked.
        agreed_usd: The budget that the run got; None for none.
        by: Who agreed; empty where nobody was asked.
    """

    kind: Literal["run.planned"] = "run.planned"
    estimate: Estimate | None = None
    similar: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    budget_usd: float | None = None
    wanted: bool = False
    asked: bool = False
    agreed_usd: float | None = None
    by: str = ""


class RunVerified(Event):
    """A run's finished workspace was tried out in a fresh box that its agent never touched.

    Attributes:
        command: What was run there.
        passed: Whether it ended with 0.
        exit_code: Of the command; None where it did not end by itself.
        text: The end of what it printed.
        duration: Seconds.
        box_id: The fresh box; empty where there was none.
        why: Why it could not be run; empty when it was.
    """

    kind: Literal["run.verified"] = "run.verified"
    command: str
    passed: bool
    exit_code: int | None = None
    text: str = ""
    duration: float = 0.0
    box_id: str = ""
    why: str = ""


class RunCheckpointed(Event):
    """Where a run stands was stored, so that another one can go on from there.

    Attributes:
        step: How many steps were finished, from 0.
        pending: How many steps of its plan are left; None where it has no plan.
        changed_files: How many files its workspace holds that the project does not.
        usd: What it had cost; None when unknown.
        interrupted: Whether it was stored because the run was stopped.
        digest: SHA-256 of what was stored without its conversation, and then that of the conversation: by these it is
            known again. The journal holds nothing else of it.
    """

    kind: Literal["run.checkpointed"] = "run.checkpointed"
    step: int
    pending: int | None = None
    changed_files: int = 0
    usd: float | None = None
    interrupted: bool = False
    digest: str = ""


class RunResumed(Event):
    """This run goes on from where another one stood.

    Attributes:
        resumes: That run.
        step: How many of its steps were finished.
        doubtful: Calls that had begun and of which nobody knows whether they ended, each as `tool`.
        restored_files: How many files were laid into the fresh box.
        asks: What its budget does not cover any more, a clause each; a person was asked.
    """

    kind: Literal["run.resumed"] = "run.resumed"
    resumes: str
    step: int = 0
    doubtful: tuple[str, ...] = ()
    restored_files: int = 0
    asks: tuple[str, ...] = ()


class TrustChanged(Event):
    """Trust in a category of deeds was earned, proposed, given, used or lost.

    Attributes:
        category: Which, as `domain.categories.CATEGORIES` names them.
        change: What happened.
        signal: What proves it; nothing that an agent can forge.
        task: SHA-256 of the task's words, by which tasks are told apart; empty where it is about none.
        names: To whom the deeds went that show it: names that were looked up, servers, packages.
        by: Who decided; empty where nobody had to.
        via: Where.
        why: Half a sentence.
    """

    kind: Literal["trust.changed"] = "trust.changed"
    category: str
    change: TrustChange
    signal: TrustSignal = ""
    task: str = ""
    names: tuple[str, ...] = ()
    by: str = ""
    via: str = ""
    why: str = ""


class ChildStarted(Event):
    """A run handed a part of its work on.

    Attributes:
        child: The new run.
        call_id: The tool call that asked; empty where a person's program did.
        memory_id: The memory that it was handed.
        agent: Who does it; empty for the parent's own.
        budget_usd: Its share; None is none.
        depth: How far below the first run, from 1.
        worker: Where it runs; empty in this process.
    """

    kind: Literal["child.started"] = "child.started"
    child: str
    call_id: str = ""
    memory_id: str = ""
    agent: str = ""
    budget_usd: float | None = None
    depth: int = 1
    worker: str = ""


class ChildEnded(Event):
    """A part that was handed on is over.

    Attributes:
        child: Which run.
        status: How it ended; `lost` where its worker is gone.
        memories: What it left for its parent.
        usd: What it cost with what it handed on itself; None when unknown.
        error_code: Why it did not end well.
        again: The run that does it once more; empty where none does.
    """

    kind: Literal["child.ended"] = "child.ended"
    child: str
    status: str
    memories: tuple[str, ...] = ()
    usd: float | None = None
    error_code: str = ""
    again: str = ""


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
    """Memories are about to be shown to a run's brain.

    Attributes:
        how: Why.
        call_id: The tool call that asked; empty where none did.
        memories: Which, in the order in which they are shown.
        untrusted: Whether one of them is in quarantine: from here on the run is marked.
    """

    kind: Literal["memory.seen"] = "memory.seen"
    how: Shown
    call_id: str = ""
    memories: tuple[SeenMemory, ...] = ()
    untrusted: bool = False


class MemoriesShown(Streamed):
    """The same with the first line of each, for live displays."""

    kind: Literal["memory.shown"] = "memory.shown"
    how: Shown
    call_id: str = ""
    memories: tuple[ShownMemory, ...] = ()


class MemoryWritten(Event):
    """A run left a memory.

    Attributes:
        memory_id: Which.
        type: Its type, as `known_type` says it.
        tier: How far it is trusted.
        author: Who said it.
        how: Why it was made.
        call_id: The tool call that asked; empty where none did.
    """

    kind: Literal["memory.written"] = "memory.written"
    memory_id: str
    type: str
    tier: str
    author: str
    how: Written
    call_id: str = ""


class MemoryChanged(Event):
    """Somebody changed a memory; outside of runs the run's id is empty.

    Attributes:
        memory_id: Which; the first one where there are several.
        change: What was done.
        by: Who.
        via: Where: `command`, `sidebar`, `terminal`, `table`, `verification`.
        memories: How many in all.
        edges: How many edges went with them.
        checkpoints: How many checkpoints went with them.
        runs: Runs whose checkpoints or summaries went.
    """

    kind: Literal["memory.changed"] = "memory.changed"
    memory_id: str
    change: MemoryAct
    by: str = ""
    via: str = ""
    memories: int = 1
    edges: int = 0
    checkpoints: int = 0
    runs: tuple[str, ...] = ()
