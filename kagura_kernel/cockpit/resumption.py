"""Which run is to be gone on with, whether it can be, and what its successor is started with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.run_names import LAST, meant_here, named_run, no_last_run
from kagura_kernel.domain.errors import ResumeRefused, WorkspaceError
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.journal import views
from kagura_kernel.journal.checkpoints import is_as_stored, latest
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.runs.request import RunRequest

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Here, RunRow
    from kagura_kernel.journal.store import Journal

_LOOKED_AT = 200
"""Runs among which `last` looks."""

_CHANGED = (
    "what is kept of where it stood is not what it had stored: somebody else has changed it, so that nothing of it is "
    "believed. `kagura-kernel journal verify` looks at the rest; run its cell again."
)


def checkpoint_of(journal: Journal, word: str, here: Here, *, check_project: Callable[[Path], Path]) -> Checkpoint:
    """Where the run stood that a person names: an id, the end of one, or `last` for the newest of here that can be.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do.
        ResumeRefused: it cannot be gone on with; the message says what can be done instead.
        JournalError: the journal cannot be read.
    """
    # A run whose process is gone goes on nowhere, whichever kernel looks first.
    mark_lost(journal, journal.clock)
    word, here = meant_here(word, here)
    if word == LAST:
        rows = views.runs(journal, limit=_LOOKED_AT, here=here)
        row = _newest(journal, rows, here, lambda one: latest(journal, one) is not None)
    else:
        row = views.one_run(journal, named_run(journal, word, here))
    if why := _why_not(row) or views.gone_on_with(journal, row.run_id):
        raise ResumeRefused(row.run_id, why)
    checkpoint = latest(journal, row.run_id)
    if checkpoint is None:
        raise ResumeRefused(row.run_id, _without_checkpoint(row))
    if not is_as_stored(journal, row.run_id, checkpoint):
        raise ResumeRefused(row.run_id, _CHANGED)
    _check_place(checkpoint, check_project)
    # Later runs of its session may have gone on with its conversation, and have paid for that.
    conversation = views.conversation_now(journal, checkpoint.brain_session, brain=checkpoint.brain)
    mode = planning_mode(journal, row.run_id)
    options = {**checkpoint.options, **({"mode": mode} if mode else {})}
    return replace(checkpoint, spent_usd=_spent(journal, row, checkpoint), brain_session=conversation, options=options)


def planning_mode(journal: Journal, run_id: str) -> str | None:
    """`plan` for a run that has only planned, since nobody has let it carry its plan out; None for every other one."""
    from kagura_kernel.domain.events import RunStarted

    told = [row.event for row in journal.events(run_id=run_id, kinds=("run.started", "plan.left"))]
    plans = any(isinstance(one, RunStarted) and one.plans_only for one in told)
    return "plan" if plans and not any(one.kind == "plan.left" for one in told) else None


def may_be_resumed(row: RunRow) -> bool:
    """Whether a run looks as if it could be gone on with; where it stood, and who went on from it, is not looked up."""
    gone = row.live and not views.goes_on(row)
    return not _why_not(replace(row, status="lost") if gone else row)


def can_be_resumed(journal: Journal, row: RunRow) -> bool:
    """Whether it can be gone on with by all that the journal knows."""
    is_open = may_be_resumed(row) and not views.gone_on_with(journal, row.run_id)
    return is_open and latest(journal, row.run_id) is not None


def brain_session(stood: Checkpoint, brain: str) -> str:
    """What a brain needs to go on with the other run's conversation; empty where it is another brain."""
    return stood.brain_session if stood.brain == brain else ""


def left_budget(usual: float | None, intent: RunRequest, stood: Checkpoint | None) -> float | None:
    """What may be spent, USD: what the cell names, else what is left of the other run's, else the usual.

    Where nothing is left, or nobody knows what was spent, it is 0, and a person is asked before anything starts.
    """
    from kagura_kernel.patterns.steps import left_usd

    if stood is None or intent.budget_usd is not None or stood.budget_usd is None:
        return usual
    return left_usd(stood.budget_usd, stood.spent_usd)


def continued(intent: RunRequest, stood: Checkpoint) -> RunRequest:
    """The intent with everything that its cell leaves open as the other run had it.

    What that run's agent had asked for beyond what a person gave is not in it: it is asked about anew.
    """
    was = stood.options
    added = intent.task.strip()
    return intent._replace(
        task="\n\n".join(filter(None, (stood.task, added))),
        brain=intent.brain or stood.brain or None,
        agent=intent.agent if intent.agent is not None else _text(was.get("agent")),
        model=intent.model if intent.model is not None else _text(was.get("model")),
        box=intent.box or _text(was.get("box")),
        image=intent.image or (None if intent.box else _text(was.get("image"))),
        net=intent.net or _texts(was.get("net")),
        grants=intent.grants or _texts(was.get("credentials")),
        policy=intent.policy or _text(was.get("policy")),
        writable_root=intent.writable_root or was.get("writable_root") is True,
        write_mode=intent.write_mode or _write_mode(was.get("write_mode")),
        mode=intent.mode or _text(was.get("mode")),
        context=intent.context or _text(was.get("context")),
        command_timeout=_either(intent.command_timeout, was.get("command_timeout")),
        idle_timeout=_either(intent.idle_timeout, was.get("idle_timeout")),
        max_turns=_either(intent.max_turns, was.get("max_turns")),
        outputs=intent.outputs or _texts(was.get("outputs")),
        verify=intent.verify if intent.verify is not None else _text(was.get("verify")),
        workers=intent.workers if intent.workers is not None else _text(was.get("workers")),
        project=intent.project or Path(str(was.get("project"))),
    )


def _newest(journal: Journal, rows: list[RunRow], here: Here, has_checkpoint: Callable[[str], bool]) -> RunRow:
    brains = [row for row in rows if row.brain]
    for row in brains:
        if not _why_not(row) and has_checkpoint(row.run_id) and not views.gone_on_with(journal, row.run_id):
            return row
    if brains:
        newest = brains[0]
        why = _why_not(newest) or views.gone_on_with(journal, newest.run_id) or _without_checkpoint(newest)
        raise ResumeRefused(newest.run_id, why)
    raise no_last_run(journal, here)


def _why_not(row: RunRow) -> str:
    if not row.brain:
        return "it was a cell's own code, which has no steps. Run its cell again."
    if row.brain == "replay":
        return "it played a cassette. Run its cell again."
    if row.live:
        follow = f"Follow it in a notebook with `%kagura attach {row.run_id}`"
        return f"it still goes on ({row.status}). {follow}, or stop it first."
    if row.lineage:
        return f"it worked for {row.lineage[0]}. Resume that one."
    if row.status == "done" and row.verified is not False:
        return "it ended well, and nothing is left to do. Write what comes next into a cell of its own."
    return ""


def _without_checkpoint(row: RunRow) -> str:
    if row.status == "denied":
        return "it was denied before it had begun. Run its cell again."
    return (
        "nothing of where it stood is kept: it ended before its box was ready, it is too old, or what it had grown "
        f"from was erased. In a notebook `%kagura attach {row.run_id}` tells what it did; run its cell again."
    )


def _spent(journal: Journal, row: RunRow, stood: Checkpoint) -> float | None:
    """What a run has cost, what was counted after its last step too; None when unknown."""
    if row.cost_usd is not None and stood.spent_usd is not None:
        return max(row.cost_usd, stood.spent_usd)
    counted = journal.events(run_id=row.run_id, kinds=("turn.counted",), limit=1)
    return None if counted else 0.0


def _check_place(stood: Checkpoint, check_project: Callable[[Path], Path]) -> None:
    project = Path(str(stood.options.get("project", "")))
    try:
        check_project(project)
    except WorkspaceError as error:
        raise ResumeRefused(stood.run_id, f"its project {project} cannot be used any more. {error.message}") from error


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _either(given: Any, was: Any) -> Any:
    return given if given is not None else was


def _write_mode(value: Any) -> WriteMode | None:
    return WriteMode(value) if value in set(WriteMode) else None
