"""What the journal gives back: rows and views as plain frozen values, without any database behind them.

Importing this file costs nothing, so displays and annotations may name these types freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.late_dataclass import dataclass, field, fields

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event
    from kagura_kernel.domain.outcome import RunStatus

Word = Literal["kill", "leases"]
"""What can be left for a run: stop; or look at the ledger, for somebody has taken a lease back."""

StoredRow = tuple[Any, ...]
"""A row of `journal_events` as `Statement.stored` gives it."""

CALLED = b"tool.called"
COUNTED = b"turn.counted"
COUNTED_KINDS = frozenset(
    {
        b"run.started",
        b"run.planned",
        b"run.finished",
        b"box.started",
        b"changes.collected",
        COUNTED,
        b"approval.requested",
        b"approval.decided",
    }
)
"""Kinds of events that the tables of the views show, as they are stored; of a call they show only that it was."""

Kind = TypeVar("Kind")


def made_of(kind: type[Kind], source: Any, /, **other: Any) -> Kind:
    """A value of a dataclass whose fields are what `source` has under their names, but for the `other` ones."""
    names = (one.name for one in fields(kind))  # type: ignore[arg-type] # which is a dataclass
    same = {name: getattr(source, name) for name in names if name not in other and hasattr(source, name)}
    return kind(**same, **other)


@dataclass(frozen=True, slots=True)
class Here:
    """Where a person is, who speaks of the last run: a notebook, or where there is none a folder."""

    project: str  # The folder, as runs name their project
    notebook: str = ""  # The notebook, as its server names it; empty elsewhere, and where nobody told its kernel
    kernel_id: str = ""  # Its kernel's id, which stays when the notebook is renamed; empty elsewhere
    owner: str = ""  # The process, where nobody told a kernel which notebook is its own; empty elsewhere
    everywhere: bool = False  # Whether all places are meant

    def __str__(self) -> str:
        if self.everywhere:
            return "this journal"
        return "this notebook" if self.notebook or self.kernel_id else f"this folder ({self.project})"


class Conversation(NamedTuple):
    """What a brain goes on from."""

    word: str = ""  # What the brain needs for that; empty for nothing
    run_id: str = ""  # The run that it was said in
    cell_id: str = ""  # That run's cell


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row of the journal."""

    seq: int  # Its number, from 1, without gaps
    event: Event  # The fact. A kind that this version does not know comes back as a plain `Event`.
    hash: str  # SHA-256 of the row and of the one before it, hexadecimal


@dataclass(frozen=True, slots=True)
class NotedRow:
    """The newest row of a journal when it was found to hold."""

    seq: int  # Its number; 0 where none was noted
    hash: str  # Its hash
    at: str = ""  # When it was noted, as the journal writes a moment


NOTHING = NotedRow(0, "")


@dataclass(frozen=True, slots=True)
class Verification:
    """A journal whose chain holds."""

    where: str  # Which journal; no password in it
    rows: int  # How many rows there are; where not all are seen, the number of the newest that is
    last_hash: str  # Hash of the newest row. Noted elsewhere, it proves later that the whole chain was not rewritten.
    since: int = 0  # The row after which it was checked; 0 where all of it was
    # How many rows were checked where a journal is shared and the others are not seen; None where all are
    seen: int | None = None
    # Rows of a journal that is shared which are no event: one of its users has written what this program does not
    odd: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as far as the journal knows it."""

    run_id: str
    session_id: str
    flavour: str  # `agent`, `sandbox`, `audit` or `classification`
    status: RunStatus
    task: str  # What was asked, its first 500 characters; the whole stands in the `run.started` event
    brain: str  # Name of the brain; empty for a cell's own code
    model: str  # The model that answered, or the one asked for while none has
    box: str  # The back-end of its box; empty before there is one
    started_at: datetime  # UTC
    duration: float | None  # Seconds; None while it goes on
    tool_calls: int  # How many so far
    cost_usd: float | None  # Reported beats computed; None when neither is known
    changed_files: int  # How many files it changed
    error_code: str  # Why it did not end well; empty otherwise
    user: str  # Who asked: a login name; as a chat knows the person, `slack:U012ABCDEF`, where it was one
    owner: str  # The process that runs it
    project: str  # The project root on the host
    notebook: str = ""  # The notebook that asked, as its server names it; empty elsewhere
    kernel_id: str = ""  # Its kernel's id; empty elsewhere
    cell_id: str = ""  # Its cell's id; empty where cells have none
    budget_usd: float | None = None  # Its limit; None is none
    lineage: tuple[str, ...] = ()  # The runs that it works for, the first one first; empty for a person's own
    resumes: str = ""  # The run that it goes on from; empty for a fresh one
    verified: bool | None = None  # Whether its work passed its verification; None where there was none, or not yet
    untrusted: bool = False  # Whether it was shown memories that are not trusted

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
    """One approval, decided or waiting."""

    id: str  # `app-…`
    run_id: str  # The run that asked
    session_id: str
    kind: str  # An `ApprovalKind`
    title: str  # One line
    detail: str  # In full
    reason: str  # Why, in the asker's words
    content_hash: str  # What exactly was asked for
    requested_at: datetime  # UTC
    deadline_at: datetime  # When no answer becomes a denial, UTC
    verdict: str | None  # `allow`, `deny`, `timeout`, `aborted`; None while it waits
    by: str  # Who decided; empty while it waits
    via: str  # Where; empty while it waits
    decided_at: datetime | None  # UTC; None while it waits
    answer: str  # Answer to a question, or a remark
    arguments: Mapping[str, Any] = field(default_factory=dict)  # The exact arguments that would be used
    options: tuple[str, ...] = ()  # For a question: the answers offered; empty means free text
    notebook: str = ""  # The notebook that the asking run came from; empty elsewhere
    kernel_id: str = ""  # Its kernel's id; empty elsewhere
    cell_id: str = ""  # Its cell's id; empty where cells have none
    # The runs that the asking one works for, the first one first; empty for a person's own
    lineage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one run used. Money that is not known is None, never 0."""

    run_id: str
    session_id: str
    at: datetime  # When the run started, UTC
    brain: str  # Name of the brain
    model: str  # Model that answered
    input_tokens: int  # All tokens read, cache included
    output_tokens: int  # Tokens written
    cache_read_tokens: int  # Of the input, read from a cache
    cache_write_tokens: int  # Of the input, written to a cache
    reported_usd: float | None  # What the brain said it cost
    computed_usd: float | None  # What the price list gives
    source: str  # Price list and version behind `computed_usd`
    status: RunStatus  # The run's status
    seconds: float | None = None  # How long it took; None while it goes on
    estimated_usd: float | None = None  # What it was expected to cost; None where nobody knew
    estimated_seconds: float | None = None  # How long it was expected to take, likewise
    verified: bool | None = None  # Whether its work passed its verification; None where there was none
    children: int = 0  # How many runs worked for it, if that was looked up; their rows stand for themselves
    children_usd: float | None = 0.0  # What these cost together; None when that of one is unknown
    waited_seconds: float = 0.0  # How much of its time it waited for a person's answer, if that was looked up

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
    """One connection that a box asked for: the decision, and how it ended."""

    run_id: str  # The run whose box asked
    session_id: str
    connection_id: str  # Unique in the run
    at: datetime  # When it was decided, UTC
    host: str  # Normalised name or address, or what was asked for, escaped
    port: int  # TCP port
    allowed: bool  # Whether it might be made
    rule: str  # The grant that allowed it; empty when nothing did
    reason: str  # One sentence
    times: int  # How often the run had got this very refusal by then; or how many connections this row stands for
    address: str = ""  # What was dialled; empty when nothing answered, or it goes on
    bytes_out: int = 0  # Bytes that left the box
    bytes_in: int = 0  # Bytes that came for it
    duration: float | None = None  # Seconds; None for a refusal, and while it goes on
    ended: str = ""  # How it ended; empty for a refusal, and while it goes on
    detail: str = ""  # More about an end that is not `done`


@dataclass(frozen=True, slots=True)
class LeaseUseRow:
    """One request of a box to which the membrane added a leased credential."""

    run_id: str  # The run whose box asked
    session_id: str
    at: datetime  # When it was over, UTC
    lease_id: str
    provider: str  # Name of the provider
    scope: str  # What it is good for
    method: str  # HTTP method
    host: str  # The upstream, with its port
    path: str  # Without its query, which may hold anything
    status: int  # What the upstream answered; 0 when nothing came, or it was refused here
    bytes_out: int  # Of the request's body
    bytes_in: int  # Of the answer's body
    duration: float  # Seconds
    why: str  # Why it was refused or broke off, one clause; empty otherwise
    times: int = 1  # How many requests this row stands for


@dataclass(frozen=True, slots=True)
class Message:
    """A word that another process left for a run."""

    run_id: str
    word: Word  # What to do
    by: str  # Who left it
    at: datetime  # When, UTC
