"""The facts of a run. Each is yielded by the run, stored as a row of the journal, and shown by a view of the rows.

Events are frozen and carry plain data only. Adding a field with a default is compatible; renaming one is not: rows
live for years. `Streamed` events are for live displays alone: what they say is said again, whole, by a durable one.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from kagura_kernel.domain.changes import ChangeState, ChangeStatus

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Event(BaseModel):
    """What every fact has.

    Attributes:
        kind: Which fact; the discriminator.
        run_id: The run it belongs to, `run-…`.
        session_id: That run's session.
        at: When, aware, UTC.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    durable: ClassVar[bool] = True

    kind: str
    run_id: str
    session_id: str
    at: datetime


class Streamed(Event):
    """A fact for live displays; never stored."""

    durable: ClassVar[bool] = False


class RunStarted(Event):
    """A run has been let in: who asked for what, with which means.

    Attributes:
        task: The prompt, or the code of a `%%sandbox` cell.
        flavour: `agent` for a brain's run, `sandbox` for a cell's own code.
        brain: Name of the brain; empty for `sandbox`.
        brain_reason: Why this one.
        model: Model asked for; empty is the brain's own choice.
        project: The project root on the host.
        write_mode: `ask`, `through` or `none`.
        budget_usd: Limit in USD; None is none.
        origin: Where it was asked for: `notebook`, `terminal`, `api`, …
        user: Login name of the person.
        owner: Identifies the process that runs it, as `host:pid:starttime`, so that a later one can tell it is gone.
        headless: Whether nobody can be asked.
    """

    kind: Literal["run.started"] = "run.started"
    task: str
    flavour: Literal["agent", "sandbox"] = "agent"
    brain: str = ""
    brain_reason: str = ""
    model: str = ""
    project: str = ""
    write_mode: str = "ask"
    budget_usd: float | None = None
    origin: str = "notebook"
    user: str = ""
    owner: str = ""
    headless: bool = False


class BoxStarted(Event):
    """The run has its box.

    Attributes:
        box_id: `box-…`.
        backend: `bubblewrap`, `docker`, …
        isolation: `namespace`, `container`, `gvisor`, `microvm`.
        reason: Why this back-end.
        image: Image, where there is one.
        warm: Whether it came from the pool.
        ready_ms: Time until it took its first command, milliseconds.
        notes: What a reader should know (a limit that could not be set, folders left out).
    """

    kind: Literal["box.started"] = "box.started"
    box_id: str
    backend: str
    isolation: str
    reason: str
    image: str = ""
    warm: bool = False
    ready_ms: float = 0.0
    notes: tuple[str, ...] = ()


class BoxClosed(Event):
    """The box is gone. `why` is empty when the run closed it, otherwise what killed it."""

    kind: Literal["box.closed"] = "box.closed"
    box_id: str
    why: str = ""


class TextStreamed(Streamed):
    """A piece of the brain's answer, as it is written."""

    kind: Literal["text.streamed"] = "text.streamed"
    text: str


class TextWritten(Event):
    """One whole piece of the brain's answer, Markdown."""

    kind: Literal["text.written"] = "text.written"
    text: str


class ToolCalled(Event):
    """The brain asked for a tool; stored before the tool runs.

    Attributes:
        call_id: Unique in the run.
        tool: Name of the tool.
        arguments: As they will be used.
    """

    kind: Literal["tool.called"] = "tool.called"
    call_id: str
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class OutputStreamed(Streamed):
    """Bytes that a tool's command just printed, decoded for reading."""

    kind: Literal["output.streamed"] = "output.streamed"
    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str


class ToolFinished(Event):
    """A tool answered.

    Attributes:
        call_id: The call it answers.
        tool: Name of the tool.
        text: What the brain read.
        is_error: Whether it counts as a failure.
        exit_code: Of the command behind it, if any.
        route: `sandbox` or `host`; empty if nothing ran.
        duration: Seconds.
        spill: Name of the file with the full output, if it was cut.
    """

    kind: Literal["tool.finished"] = "tool.finished"
    call_id: str
    tool: str
    text: str
    is_error: bool = False
    exit_code: int | None = None
    route: str = ""
    duration: float = 0.0
    spill: str | None = None


class ApprovalRequested(Event):
    """The run waits for a person. The fields are those of `domain.approvals.ApprovalRequest`."""

    kind: Literal["approval.requested"] = "approval.requested"
    approval_id: str
    subject: str
    title: str
    detail: str
    reason: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    call_id: str = ""
    deadline: float = 300.0
    options: tuple[str, ...] = ()
    content_hash: str = ""


class ApprovalDecided(Event):
    """An approval ended, whoever or whatever ended it.

    Attributes:
        approval_id: Which.
        verdict: `allow`, `deny`, `timeout`, `aborted`.
        by: Who.
        via: Where.
        answer: Answer to a question, or a remark.
        content_hash: Hash of what was decided on.
        waited: Seconds.
    """

    kind: Literal["approval.decided"] = "approval.decided"
    approval_id: str
    verdict: str
    by: str
    via: str
    answer: str = ""
    content_hash: str = ""
    waited: float = 0.0


class TurnCounted(Event):
    """One turn of the brain: its tokens and its price.

    Attributes:
        model: The model that answered, as the brain names it.
        input_tokens: All tokens read, cache included.
        output_tokens: Tokens written.
        cache_read_tokens: Of the input, read from a cache.
        cache_write_tokens: Of the input, written to a cache.
        computed_usd: From the price list; None when the model is not on it.
        source: Price list and version.
    """

    kind: Literal["turn.counted"] = "turn.counted"
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    computed_usd: float | None = None
    source: str = ""


class ChangeRow(BaseModel):
    """One changed file; the fields are those of `domain.changes.FileChange`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str
    status: ChangeStatus
    kind: Literal["file", "link"] = "file"
    size: int = 0
    mode: int = 0o644
    old_sha256: str = ""
    new_sha256: str = ""
    diff: str = ""
    binary: bool = False
    state: ChangeState = "proposed"
    target: str = ""


class ChangesCollected(Event):
    """What the run would change in the project. Stored before anything is applied."""

    kind: Literal["changes.collected"] = "changes.collected"
    changes: tuple[ChangeRow, ...] = ()


class ChangesSettled(Event):
    """Some of the changes were applied, discarded, or found in conflict.

    Attributes:
        applied: Paths now in the project.
        discarded: Paths given up.
        conflicts: Paths that changed in the project meanwhile; left alone.
        by: Who decided.
    """

    kind: Literal["changes.settled"] = "changes.settled"
    applied: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    by: str = ""


class Noted(Event):
    """Something the reader should know and that changes nothing else (a fallback taken, a limit not set)."""

    kind: Literal["noted"] = "noted"
    text: str


class RunFinished(Event):
    """A run is over; its ledger row.

    Attributes:
        status: `done`, `failed`, `stopped` (budget, turns, time), `killed`, `denied` or `lost`.
        text: The brain's final answer, or a command's output.
        error_code: Code of the error that ended it; empty for `done`.
        error: That error's text.
        brain: Name of the brain.
        model: Model that answered.
        turns: How many.
        tool_calls: How many.
        input_tokens: All tokens read.
        output_tokens: Tokens written.
        cache_read_tokens: Of the input, read from a cache.
        cache_write_tokens: Of the input, written to a cache.
        reported_usd: What the brain said it cost; None if it did not.
        computed_usd: From the price list; None when unknown.
        cost_source: Price list and version behind the computed figure.
        duration: Seconds from start to end.
        exit_code: Of a `%%sandbox` cell's own program.
        brain_session: What the brain needs to go on from here.
        changed_files: How many files it changed, each counted once; None where nobody counted.
    """

    kind: Literal["run.finished"] = "run.finished"
    status: Literal["done", "failed", "stopped", "killed", "denied", "lost"]
    text: str = ""
    error_code: str = ""
    error: str = ""
    brain: str = ""
    model: str = ""
    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reported_usd: float | None = None
    computed_usd: float | None = None
    cost_source: str = ""
    duration: float = 0.0
    exit_code: int | None = None
    brain_session: str = ""
    changed_files: int | None = None


AnyEvent = Annotated[
    RunStarted
    | BoxStarted
    | BoxClosed
    | TextStreamed
    | TextWritten
    | ToolCalled
    | OutputStreamed
    | ToolFinished
    | ApprovalRequested
    | ApprovalDecided
    | TurnCounted
    | ChangesCollected
    | ChangesSettled
    | Noted
    | RunFinished,
    Field(discriminator="kind"),
]
"""One of all events, told apart by `kind`."""


@cache
def _adapter() -> TypeAdapter[AnyEvent]:
    # Building the validator of the union costs milliseconds; only a reader of old rows needs it.
    from pydantic import TypeAdapter

    return TypeAdapter(AnyEvent)


def parse_event(data: str | bytes) -> AnyEvent:
    """An event from its JSON.

    Raises:
        ValueError: the text is no event that this version knows.
    """
    try:
        return _adapter().validate_json(data)
    except ValueError:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        if "\\ud" not in text:
            raise
        # Bytes that are no text stand in JSON as escapes of lone surrogates, which only the tolerant parser takes.
        return _adapter().validate_python(json.loads(data))
