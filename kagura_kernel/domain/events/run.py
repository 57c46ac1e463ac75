"""From the first fact of a run to its last."""

from __future__ import annotations

from typing import Literal

from kagura_kernel.domain.events.base import Event


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
