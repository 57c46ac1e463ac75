"""From the first fact of a run to its last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from kagura_kernel.domain.commits import CommittedBranch
from kagura_kernel.domain.events.base import Event, Streamed
from kagura_kernel.domain.identity import Exact
from kagura_kernel.domain.outcome import ChangeState, EndStatus, FileChange, Hunks, Written
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
    """The brain asked for a tool; stored before the tool runs."""

    kind: Literal["tool.called"] = "tool.called"
    call_id: Exact  # Unique in the run
    tool: Exact  # Name of the tool
    offered: bool = False  # Whether the run offers a tool of that name; where not, the name is somebody's invention
    arguments: dict[str, Any] = Field(default_factory=dict)  # As they will be used


class BrainSigned(Streamed):
    """A brain that says nothing just now shows that it goes on."""

    kind: Literal["brain.signed"] = "brain.signed"
    what: Literal["thinking", "retrying"]
    text: str = ""  # A piece of what it thinks; or why its service is asked again
    attempt: int = 0  # Which one comes now
    attempts: int = 0
    seconds: float = 0.0  # Until then


class OutputStreamed(Streamed):
    """Bytes that a tool's command just printed, decoded for reading."""

    kind: Literal["output.streamed"] = "output.streamed"
    call_id: Exact
    stream: Literal["stdout", "stderr"]
    text: str


class ToolFinished(Event):
    """A tool answered."""

    kind: Literal["tool.finished"] = "tool.finished"
    call_id: Exact  # The call it answers
    tool: Exact  # Name of the tool
    offered: bool = False  # As of its call
    text: str  # What the brain read
    is_error: bool = False  # Whether it counts as a failure
    exit_code: int | None = None  # Of the command behind it, if any
    route: Exact = ""  # `sandbox` or `host`; empty if nothing ran
    duration: float = 0.0  # Seconds
    spill: Exact | None = None  # Name of the file with the full output, if it was cut


class ResultShown(Event):
    """Something that a program in the box wants to be looked at: an image, a table, formatted text.

    It is the box's word: whoever shows it sanitises it first.
    """

    kind: Literal["result.shown"] = "result.shown"
    call_id: Exact  # The tool call, or `cell`, whose program made it
    # `text/html`, `text/markdown`, `text/plain`, `image/svg+xml`, `image/png`, `image/jpeg`, `image/gif` or
    # `image/webp`
    mime: Exact
    data: str = ""  # Text as it is; of raster images the bytes in base64; empty where it was too large
    bytes: int = 0  # How large it was in the box
    text: str = ""  # A plain form for readers that cannot show the other one; may be empty
    note: str = ""  # Why it is not here whole; empty when it is


class PlanLeft(Event):
    """A run that only planned was let carry its plan out."""

    kind: Literal["plan.left"] = "plan.left"
    by: str  # Who
    plan: str  # What it will do, as the person has read it


class NotebookShown(Event):
    """The brain was told what stands in the notebook that asked for the run."""

    kind: Literal["notebook.shown"] = "notebook.shown"
    source: Literal["live", "file", "kernel"]  # Where it was read; see `domain.notebook.NotebookSource`
    text: str = ""  # All that the brain was told, as it was told
    sha256: Exact = ""  # The hash of that
    known: dict[Exact, Exact] = Field(default_factory=dict)  # What the conversation knows by now: ids and digests
    cells: int = 0  # How many it was shown
    unchanged: int = 0  # How many were not shown again, since it knew them
    left_out: int = 0  # How many there was no room for
    private: int = 0  # How many are never shown
    errors: int = 0
    names: int = 0  # How many names of variables


class NotebookMoved(Event):
    """A notebook, or a folder of notebooks, was renamed, moved or deleted; belongs to no run."""

    kind: Literal["notebook.moved"] = "notebook.moved"
    was: Exact  # What it was called, as its server names it
    now: Exact = ""  # What it is called since; empty where it was deleted
    kernels: tuple[Exact, ...] = ()  # The ids of kernels that went with it; they were told its name when they started


class ImageSent(Event):
    """An image was handed to the brain: a fact about bytes that the journal does not keep."""

    kind: Literal["image.sent"] = "image.sent"
    call_id: Exact  # The tool call whose result it belongs to, or `task` for one that came with the task
    name: str = ""  # What it is called: a file's path; empty for what a program has shown
    mime: Exact
    width: int  # Pixels
    height: int
    bytes: int  # How large it was when it was sent
    sha256: Exact  # Of these bytes
    tokens: int  # About how many it is read as


class VariableCrossed(Event):
    """A variable was copied into the box, or out of it."""

    kind: Literal["variable.crossed"] = "variable.crossed"
    name: Exact  # Its name, on both sides
    direction: Literal["in", "out"]  # `in` or `out`
    # How it travelled: `frame`, `series`, `array`, `json`, `image`, `text` or `file`; empty where it could not
    form: Exact = ""
    summary: str = ""  # What it is, for reading: a type, its shape, its columns
    bytes: int = 0  # How much travelled
    error: str = ""  # Why it could not cross; empty when it did


class ChangesCollected(Event):
    """What the run would change in the project. Stored before anything is applied."""

    kind: Literal["changes.collected"] = "changes.collected"
    changes: tuple[FileChange, ...] = ()


class ChangesSettled(Event):
    """Some of the changes were applied, discarded, or found in conflict."""

    kind: Literal["changes.settled"] = "changes.settled"
    applied: tuple[Exact, ...] = ()  # Paths now in the project
    discarded: tuple[Exact, ...] = ()  # Paths given up
    conflicts: tuple[Exact, ...] = ()  # Paths that changed in the project meanwhile; left alone
    undone: tuple[Exact, ...] = ()  # Paths at which the project has again what it had before the last write
    written: tuple[Written, ...] = ()  # What was written, with what it took the place of
    discarded_hunks: tuple[Hunks, ...] = ()  # Parts of differences that were given up
    by: str = ""  # Who decided


class CommitsTold(Event):
    """Which commits the run made in its box, or what became of some of them; the last word on a branch counts."""

    kind: Literal["commits.told"] = "commits.told"
    branches: tuple[CommittedBranch, ...] = ()
    # Files that it changed further after it had committed them: from what the project has of them by now
    changes: tuple[FileChange, ...] = ()
    by: str = ""  # Who decided; empty where the run tells of them


def changes_after(changes: Mapping[str, FileChange], event: Event) -> Mapping[str, FileChange]:
    """A run's changes by path after one more of its events; the very same object where it says nothing of them."""
    match event:
        case CommitsTold() if not event.changes:
            return changes
        case ChangesCollected() | CommitsTold():
            # They come in parts, and with `through` again after every call: the last word on a file counts.
            return {**changes, **{one.path: _told_again(changes.get(one.path), one) for one in event.changes}}
        case ChangesSettled() if event.written or event.undone or event.discarded_hunks:
            plain = event.model_copy(update={"written": (), "undone": (), "discarded_hunks": ()})
            return _in_parts(changes_after(changes, plain), event)
        case ChangesSettled():
            states: dict[str, ChangeState] = {
                **dict.fromkeys(event.applied, "applied"),
                **dict.fromkeys(event.discarded, "discarded"),
                **dict.fromkeys(event.conflicts, "conflict"),
            }
        case RunFinished(status=status, verified=verified) if status != "done" or verified is False:
            # Nobody takes over what such a child has done.
            states = {path: "discarded" for path, change in changes.items() if change.state == "handed"}
        case _:
            return changes
    found = {path: _decided(changes[path], state) for path, state in states.items() if path in changes}
    return {**changes, **found} if found else changes


def _told_again(before: FileChange | None, change: FileChange) -> FileChange:
    """A change that is told anew: what was written of it before is still what the project had."""
    if before is None or not before.written:
        return change
    written = tuple(replace(one, was="conflict", hunks=()) for one in before.written)
    return replace(change, written=written)


def _decided(change: FileChange, state: ChangeState) -> FileChange:
    if state == "discarded" and change.applied_hunks and change.state != "applied":
        # A part of it is in the project, and stays there.
        return _without(change, change.open_hunks)
    return replace(change, state=state)


def _without(change: FileChange, numbers: Iterable[int]) -> FileChange:
    """The change without these parts of it."""
    return _settled(replace(change, discarded_hunks=(*change.discarded_hunks, *numbers)))


def _settled(change: FileChange) -> FileChange:
    """The change, which is decided when each part of it is."""
    return change if change.open_hunks else replace(change, state="applied" if change.applied_hunks else "discarded")


def _in_parts(changes: Mapping[str, FileChange], event: ChangesSettled) -> Mapping[str, FileChange]:
    found = dict(changes)
    for path in event.undone:
        if (change := found.get(path)) is not None and change.written:
            last = change.written[-1]
            left = tuple(number for number in change.applied_hunks if number not in last.hunks)
            found[path] = replace(change, state=last.was, written=change.written[:-1], applied_hunks=left)
    for one in event.written:
        if (change := found.get(one.path)) is not None:
            there = (*change.applied_hunks, *one.hunks)
            change = replace(change, written=(*change.written, one), applied_hunks=there)
            found[one.path] = _settled(change) if one.hunks else change
    for those in event.discarded_hunks:
        if (change := found.get(those.path)) is not None:
            found[those.path] = _without(change, those.numbers)
    return found


class ApprovalRequested(Event):
    """The run waits for a person. The fields are those of `domain.approvals.ApprovalRequest`."""

    kind: Literal["approval.requested"] = "approval.requested"
    approval_id: Exact
    subject: Exact
    title: str
    detail: str
    reason: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    call_id: Exact = ""
    deadline: float = DEFAULTS.approval_deadline
    options: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    content_hash: Exact = ""


class ApprovalDecided(Event):
    """An approval ended, whoever or whatever ended it."""

    kind: Literal["approval.decided"] = "approval.decided"
    approval_id: Exact
    verdict: Exact  # `allow`, `deny`, `timeout`, `aborted`
    by: str  # Who
    via: Exact  # Where
    answer: str = ""  # Answer to a question, or a remark
    content_hash: Exact = ""  # Hash of what was decided on
    waited: float = 0.0  # Seconds


class PersonSaid(Event):
    """A person said something to the run while it went on; stored before its brain is told."""

    kind: Literal["person.said"] = "person.said"
    sentence_id: Exact
    text: str
    by: str = ""  # Who; empty where it was said when the cassette was recorded
    via: Exact = ""  # Where: `cell`, `command`, `terminal`, `sidebar`, a chat's name, or `cassette`
    refused: str = ""  # Why the brain is not told, one clause; empty when it is


class PersonHeard(Event):
    """The brain has taken up what a person said."""

    kind: Literal["person.heard"] = "person.heard"
    sentence_id: Exact


class MessageRefused(Event):
    """Something that came over a chat and was not done. `run_id` is empty where it was about no run."""

    kind: Literal["message.refused"] = "message.refused"
    transport: str  # Which chat
    operator: str  # Whoever sent it, as the chat names them
    message_id: str  # Which message, or which click
    why: str  # Why not, one clause
    approval_id: Exact = ""  # The approval that it was about; empty for none
    times: int = 1  # How often this operator was refused this for this reason, as far as this process remembers
    left_out: int = 0  # Refusals of whatever kind that had no row since the last one of this chat


class RunStarted(Event):
    """A run has been let in: who asked for what, with which means."""

    kind: Literal["run.started"] = "run.started"
    task: str  # The prompt, or the code of a `%%sandbox` cell
    # `agent` for a brain's run, `sandbox` for a cell's own code, `audit` for the examination of a plugin,
    # `classification` for what a chat's message means
    flavour: Literal["agent", "sandbox", "audit", "classification"] = "agent"
    brain: Exact = ""  # Name of the brain; empty for `sandbox`
    brain_reason: str = ""  # Why this one
    model: Exact = ""  # Model asked for; empty is the brain's own choice
    project: Exact = ""  # The project root on the host
    write_mode: Exact = "ask"  # `ask`, `through` or `none`
    budget_usd: float | None = None  # Limit in USD; None is none
    origin: Exact = "notebook"  # Where it was asked for: `notebook`, `terminal`, `api`, …
    user: Exact = ""  # Login name of the person
    # Identifies the process that runs it, as `host:pid:starttime`, so that a later one can tell it is gone
    owner: Exact = ""
    headless: bool = False  # Whether nobody can be asked
    # Subpaths of the project that nothing of this run may ever change
    protected: tuple[Exact, ...] = (".git", ".kagura")
    notebook: Exact = ""  # The notebook that asked, as its server names it; empty elsewhere
    kernel_id: Exact = ""  # Its kernel's id; empty elsewhere
    cell_id: Exact = ""  # Its cell's id; empty where cells have none
    lineage: tuple[str, ...] = ()  # The runs that it works for, the first one first; empty for a person's own
    resumes: str = ""  # The run that it goes on from; empty for a fresh one
    follows: Exact = ""  # The run whose conversation goes on with it; empty where one begins
    follows_count: int | None = None  # The execution count of that run's cell; None where nobody knows
    left: Exact = ""  # The session that was left for a new one, and can be gone back to; empty for none
    verify: str = ""  # The command that says whether its work is good; empty for none
    plans_only: bool = False  # Whether it changes nothing until a person lets it carry its plan out
    started_by: str = ""  # Who asked there, as that place has made sure, `slack:U123`; empty for the login's own person


class BoxStarted(Event):
    """The run has its box."""

    kind: Literal["box.started"] = "box.started"
    box_id: Exact
    backend: Exact  # `bubblewrap`, `docker`, …
    isolation: Exact  # `namespace`, `container`, `gvisor`, `microvm`
    reason: str  # Why this back-end
    image: Exact = ""  # Image, where there is one
    warm: bool = False  # Whether it came from the pool
    ready_ms: float = 0.0  # Time until it took its first command, milliseconds
    notes: tuple[str, ...] = ()  # What a reader should know (a limit that could not be set, folders left out)
    goes_on: Exact = ""  # The run that left this box in place; empty for a new one
    goes_on_count: int | None = None  # The execution count of that run's cell; None where nobody knows
    stays: bool = False  # Whether it is left in place for the next cell
    instead: str = ""  # Why it is not the one that the session had in place, one clause; empty where there was none
    fallback: str = ""  # Why there is no box, so that each command is asked for; empty where there is one


class BoxKept(Event):
    """The run has ended and left its box in place, paused, and without anything that the run was granted."""

    kind: Literal["box.kept"] = "box.kept"
    box_id: Exact
    seconds: float  # How long it waits for a run that goes on with it


class BoxClosed(Event):
    """The box is gone. `why` is empty when the run closed it, otherwise what ended it, a clause."""

    kind: Literal["box.closed"] = "box.closed"
    box_id: Exact
    why: str = ""


class TurnCounted(Event):
    """One turn of the brain: its tokens and its price."""

    kind: Literal["turn.counted"] = "turn.counted"
    model: Exact = ""  # The model that answered, as the brain names it
    input_tokens: int = 0  # All tokens read, cache included
    output_tokens: int = 0  # Tokens written
    cache_read_tokens: int = 0  # Of the input, read from a cache
    cache_write_tokens: int = 0  # Of the input, written to a cache
    computed_usd: float | None = None  # From the price list; None when the model is not on it
    source: Exact = ""  # Price list and version


class Noted(Event):
    """Something the reader should know and that changes nothing else (a fallback taken, a limit not set)."""

    kind: Literal["noted"] = "noted"
    text: str


class RunFinished(Event):
    """A run is over; its ledger row."""

    kind: Literal["run.finished"] = "run.finished"
    status: EndStatus
    text: str = ""  # The brain's final answer, or a command's output
    error_code: Exact = ""  # Code of the error that ended it; empty for `done`
    error: str = ""  # That error's text
    brain: Exact = ""  # Name of the brain
    model: Exact = ""  # Model that answered
    turns: int = 0  # How many
    tool_calls: int = 0  # How many
    input_tokens: int = 0  # All tokens read
    output_tokens: int = 0  # Tokens written
    cache_read_tokens: int = 0  # Of the input, read from a cache
    cache_write_tokens: int = 0  # Of the input, written to a cache
    reported_usd: float | None = None  # What the brain said it cost; None if it did not
    computed_usd: float | None = None  # From the price list; None when unknown
    cost_source: Exact = ""  # Price list and version behind the computed figure
    duration: float = 0.0  # Seconds from start to end
    exit_code: int | None = None  # Of a `%%sandbox` cell's own program
    brain_session: Exact = ""  # What the brain needs to go on from here
    changed_files: int | None = None  # How many files it changed, each counted once; None where nobody counted
    estimated_usd: float | None = None  # What it was expected to cost, without the buffer; None where nobody knew
    estimated_seconds: float | None = None  # How long it was expected to take, likewise
    verified: bool | None = None  # Whether its work passed its verification; None where there was none
    untrusted: bool = False  # Whether it was shown memories that are not trusted
