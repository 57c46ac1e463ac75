"""What the journal gives back: rows and views as plain frozen values, without any database behind them.

Importing this file costs nothing, so displays and annotations may name these types freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.events import Event

RunStatus = Literal["running", "awaiting_approval", "done", "failed", "stopped", "killed", "denied", "lost"]
Word = Literal["kill", "leases"]
"""What can be left for a run: stop; or look at the ledger, for somebody has taken a lease back."""


@dataclass(frozen=True, slots=True)
class Here:
    """Where a person is, who speaks of the last run: a notebook, or where there is none a folder.

    Attributes:
        project: The folder, as runs name their project.
        notebook: The notebook, as its server names it; empty elsewhere, and where nobody told its kernel.
        kernel_id: Its kernel's id, which stays when the notebook is renamed; empty elsewhere.
    """

    project: str
    notebook: str = ""
    kernel_id: str = ""

    def __str__(self) -> str:
        return "this notebook" if self.notebook or self.kernel_id else f"this folder ({self.project})"


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row of the journal.

    Attributes:
        seq: Its number, from 1, without gaps.
        event: The fact. A kind that this version does not know comes back as a plain `Event`.
        hash: SHA-256 of the row and of the one before it, hexadecimal.
    """

    seq: int
    event: Event
    hash: str


@dataclass(frozen=True, slots=True)
class Verification:
    """A journal whose chain holds.

    Attributes:
        where: Which journal; no password in it.
        rows: How many rows were checked: all of them.
        last_hash: Hash of the newest row. Noted elsewhere, it proves later that the whole chain was not rewritten.
    """

    where: str
    rows: int
    last_hash: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as far as the journal knows it.

    Attributes:
        run_id: `run-…`.
        session_id: Its session.
        flavour: `agent`, `sandbox` or `audit`.
        status: `awaiting_approval` is a running one that waits for a person.
        task: What was asked, its first 500 characters; the whole stands in the `run.started` event.
        brain: Name of the brain; empty for a cell's own code.
        model: The model that answered, or the one asked for while none has.
        box: The back-end of its box; empty before there is one.
        started_at: UTC.
        duration: Seconds; None while it goes on.
        tool_calls: How many so far.
        cost_usd: Reported beats computed; None when neither is known.
        changed_files: How many files it changed.
        error_code: Why it did not end well; empty otherwise.
        user: Who asked: a login name; as a chat knows the person, `slack:U012ABCDEF`, where it was one.
        owner: The process that runs it.
        project: The project root on the host.
        notebook: The notebook that asked, as its server names it; empty elsewhere.
        kernel_id: Its kernel's id; empty elsewhere.
        cell_id: Its cell's id; empty where cells have none.
        budget_usd: Its limit; None is none.
        lineage: The runs that it works for, the first one first; empty for a person's own.
        resumes: The run that it goes on from; empty for a fresh one.
        verified: Whether its work passed its verification; None where there was none, or not yet.
        untrusted: Whether it was shown memories that are not trusted.
    """

    run_id: str
    session_id: str
    flavour: str
    status: RunStatus
    task: str
    brain: str
    model: str
    box: str
    started_at: datetime
    duration: float | None
    tool_calls: int
    cost_usd: float | None
    changed_files: int
    error_code: str
    user: str
    owner: str
    project: str
    notebook: str = ""
    kernel_id: str = ""
    cell_id: str = ""
    budget_usd: float | None = None
    lineage: tuple[str, ...] = ()
    resumes: str = ""
    verified: bool | None = None
    untrusted: bool = False

    @property
    def parent(self) -> str:
        """The run that handed it on; empty for a person's own."""
        return self.lineage[-1] if self.lineage else ""

    @property
    def live(self) -> bool:
        """Whether it goes on."""
        return self.status in {"running", "awaiting_approval"}


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """One approval, decided or waiting.

    Attributes:
        id: `app-…`.
        run_id: The run that asked.
        session_id: Its session.
        kind: An `ApprovalKind`.
        title: One line.
        detail: In full.
        reason: Why, in the asker's words.
        content_hash: What exactly was asked for.
        requested_at: UTC.
        deadline_at: When no answer becomes a denial, UTC.
        verdict: `allow`, `deny`, `timeout`, `aborted`; None while it waits.
        by: Who decided; empty while it waits.
        via: Where; empty while it waits.
        decided_at: UTC; None while it waits.
        answer: Answer to a question, or a remark.
        arguments: The exact arguments that would be used.
        options: For a question: the answers offered; empty means free text.
        notebook: The notebook that the asking run came from; empty elsewhere.
        kernel_id: Its kernel's id; empty elsewhere.
        cell_id: Its cell's id; empty where cells have none.
        lineage: The runs that the asking one works for, the first one first; empty for a person's own.
    """

    id: str
    run_id: str
    session_id: str
    kind: str
    title: str
    detail: str
    reason: str
    content_hash: str
    requested_at: datetime
    deadline_at: datetime
    verdict: str | None
    by: str
    via: str
    decided_at: datetime | None
    answer: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    notebook: str = ""
    kernel_id: str = ""
    cell_id: str = ""
    lineage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one run used. Money that is not known is None, never 0.

    Attributes:
        run_id: `run-…`.
        session_id: Its session.
        at: When the run started, UTC.
        brain: Name of the brain.
        model: Model that answered.
        input_tokens: All tokens read, cache included.
        output_tokens: Tokens written.
        cache_read_tokens: Of the input, read from a cache.
        cache_write_tokens: Of the input, written to a cache.
        reported_usd: What the brain said it cost.
        computed_usd: What the price list gives.
        source: Price list and version behind `computed_usd`.
        status: The run's status.
        seconds: How long it took; None while it goes on.
        estimated_usd: What it was expected to cost; None where nobody knew.
        estimated_seconds: How long it was expected to take, likewise.
        verified: Whether its work passed its verification; None where there was none.
        children: How many runs worked for it, if that was looked up; their rows stand for themselves.
        children_usd: What these cost together; None when that of one is unknown.
        waited_seconds: How much of its time it waited for a person's answer, if that was looked up.
    """

    run_id: str
    session_id: str
    at: datetime
    brain: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reported_usd: float | None
    computed_usd: float | None
    source: str
    status: RunStatus
    seconds: float | None = None
    estimated_usd: float | None = None
    estimated_seconds: float | None = None
    verified: bool | None = None
    children: int = 0
    children_usd: float | None = 0.0
    waited_seconds: float = 0.0

    @property
    def usd(self) -> float | None:
        """The figure to show, as `Cost.usd` has it; without its children."""
        return Cost(self.reported_usd, self.computed_usd).usd

    @property
    def total_usd(self) -> float | None:
        """What it cost with its children; None when a part is unknown. Sums of rows are sums of `usd`."""
        return None if self.usd is None or self.children_usd is None else self.usd + self.children_usd

    @property
    def worked_seconds(self) -> float | None:
        """How long it took without the time in which it waited for a person."""
        return None if self.seconds is None else max(0.0, self.seconds - self.waited_seconds)


@dataclass(frozen=True, slots=True)
class EgressRow:
    """One connection that a box asked for: the decision, and how it ended.

    Attributes:
        run_id: The run whose box asked.
        session_id: Its session.
        connection_id: Unique in the run.
        at: When it was decided, UTC.
        host: Normalised name or address, or what was asked for, escaped.
        port: TCP port.
        allowed: Whether it might be made.
        rule: The grant that allowed it; empty when nothing did.
        reason: One sentence.
        times: How often the run had got this very refusal by then; or how many connections this row stands for.
        address: What was dialled; empty when nothing answered, or it goes on.
        bytes_out: Bytes that left the box.
        bytes_in: Bytes that came for it.
        duration: Seconds; None for a refusal, and while it goes on.
        ended: How it ended; empty for a refusal, and while it goes on.
        detail: More about an end that is not `done`.
    """

    run_id: str
    session_id: str
    connection_id: str
    at: datetime
    host: str
    port: int
    allowed: bool
    rule: str
    reason: str
    times: int
    address: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    duration: float | None = None
    ended: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LeaseUseRow:
    """One request of a box to which the membrane added a leased credential.

    Attributes:
        run_id: The run whose box asked.
        session_id: Its session.
        at: When it was over, UTC.
        lease_id: The lease.
        provider: Name of the provider.
        scope: What it is good for.
        method: HTTP method.
        host: The upstream, with its port.
        path: Without its query, which may hold anything.
        status: What the upstream answered; 0 when nothing came, or it was refused here.
        bytes_out: Of the request's body.
        bytes_in: Of the answer's body.
        duration: Seconds.
        why: Why it was refused or broke off, one clause; empty otherwise.
        times: How many requests this row stands for.
    """

    run_id: str
    session_id: str
    at: datetime
    lease_id: str
    provider: str
    scope: str
    method: str
    host: str
    path: str
    status: int
    bytes_out: int
    bytes_in: int
    duration: float
    why: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """A word that another process left for a run.

    Attributes:
        run_id: For which run.
        word: What to do.
        by: Who left it.
        at: When, UTC.
    """

    run_id: str
    word: Word
    by: str
    at: datetime
