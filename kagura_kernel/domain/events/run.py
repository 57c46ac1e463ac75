"""From the first fact of a run to its last."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kagura_kernel.domain.changes import ChangeState, ChangeStatus
from kagura_kernel.domain.events.base import Event, Streamed
from kagura_kernel.domain.settings import DEFAULTS


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
        offered: Whether the run offers a tool of that name; where not, the name is somebody's invention.
    """

    kind: Literal["tool.called"] = "tool.called"
    call_id: str
    tool: str
    offered: bool = False
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
        offered: As of its call.
    """

    kind: Literal["tool.finished"] = "tool.finished"
    call_id: str
    tool: str
    offered: bool = False
    text: str
    is_error: bool = False
    exit_code: int | None = None
    route: str = ""
    duration: float = 0.0
    spill: str | None = None


class ResultShown(Event):
    """Something that a program in the box wants to be looked at: an image, a table, formatted text.

    It is the box's word: whoever shows it sanitises it first.

    Attributes:
        call_id: The tool call, or `cell`, whose program made it.
        mime: `text/html`, `text/markdown`, `text/plain`, `image/svg+xml`, `image/png`, `image/jpeg`, `image/gif` or
            `image/webp`.
        data: Text as it is; of raster images the bytes in base64; empty where it was too large.
        bytes: How large it was in the box.
        text: A plain form for readers that cannot show the other one; may be empty.
        note: Why it is not here whole; empty when it is.
    """

    kind: Literal["result.shown"] = "result.shown"
    call_id: str
    mime: str
    data: str = ""
    bytes: int = 0
    text: str = ""
    note: str = ""


class VariableCrossed(Event):
    """A variable was copied into the box, or out of it.

    Attributes:
        name: Its name, on both sides.
        direction: `in` or `out`.
        form: How it travelled: `frame`, `series`, `array`, `json`, `image`, `text` or `file`; empty where it could not.
        summary: What it is, for reading: a type, its shape, its columns.
        bytes: How much travelled.
        error: Why it could not cross; empty when it did.
    """

    kind: Literal["variable.crossed"] = "variable.crossed"
    name: str
    direction: Literal["in", "out"]
    form: str = ""
    summary: str = ""
    bytes: int = 0
    error: str = ""


class ChangeRow(BaseModel):
    """One changed file; the fields are those of `domain.changes.FileChange`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

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
    reason: str = ""
    runs: str = ""


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
    deadline: float = DEFAULTS.approval_deadline
    options: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
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


class MessageRefused(Event):
    """Something that came over a chat and was not done. `run_id` is empty where it was about no run.

    Attributes:
        transport: Which chat.
        operator: Whoever sent it, as the chat names them.
        message_id: Which message, or which click.
        why: Why not, one clause.
        approval_id: The approval that it was about; empty for none.
        times: How often this operator was refused this for this reason, as far as this process remembers.
        left_out: Refusals of whatever kind that had no row since the last one of this chat.
    """

    kind: Literal["message.refused"] = "message.refused"
    transport: str
    operator: str
    message_id: str
    why: str
    approval_id: str = ""
    times: int = 1
    left_out: int = 0


class RunStarted(Event):
    """A run has been let in: who asked for what, with which means.

    Attributes:
        task: The prompt, or the code of a `%%sandbox` cell.
        flavour: `agent` for a brain's run, `sandbox` for a cell's own code, `audit` for the examination of a plugin.
        brain: Name of the brain; empty for `sandbox`.
        brain_reason: Why this one.
        model: Model asked for; empty is the brain's own choice.
        project: The project root on the host.
        write_mode: `ask`, `through` or `none`.
        budget_usd: Limit in USD; None is none.
        origin: Where it was asked for: `notebook`, `terminal`, `api`, …
        started_by: Who asked there, as that place has made sure, `slack:U123`; empty for the login's own person.
        user: Login name of the person.
        owner: Identifies the process that runs it, as `host:pid:starttime`, so that a later one can tell it is gone.
        headless: Whether nobody can be asked.
        protected: Subpaths of the project that nothing of this run may ever change.
        notebook: The notebook that asked, as its server names it; empty elsewhere.
        kernel_id: Its kernel's id; empty elsewhere.
        cell_id: Its cell's id; empty where cells have none.
        lineage: The runs that it works for, the first one first; empty for a person's own.
        resumes: The run that it goes on from; empty for a fresh one.
        verify: The command that says whether its work is good; empty for none.
    """

    kind: Literal["run.started"] = "run.started"
    task: str
    flavour: Literal["agent", "sandbox", "audit"] = "agent"
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
    protected: tuple[str, ...] = (".git", ".kagura")
    notebook: str = ""
    kernel_id: str = ""
    cell_id: str = ""
    lineage: tuple[str, ...] = ()
    resumes: str = ""
    verify: str = ""
    started_by: str = ""


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
        estimated_usd: What it was expected to cost, without the buffer; None where nobody knew.
        estimated_seconds: How long it was expected to take, likewise.
        verified: Whether its work passed its verification; None where there was none.
        untrusted: Whether it was shown memories that are not trusted.
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
    estimated_usd: float | None = None
    estimated_seconds: float | None = None
    verified: bool | None = None
    untrusted: bool = False
