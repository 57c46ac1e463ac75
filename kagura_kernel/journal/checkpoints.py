"""Where runs stood: checkpoints in a table of their own, since what grew from a memory is erased with it.

No event holds what stands here, but the row that tells of a checkpoint has its digest: these rows are chained to each
other, and what is stored here is not. A checkpoint has reached the disk when `store` returns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Delete, Row, Update, and_, delete, func, insert, literal, or_, select, update

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.domain.patterns import Checkpoint, LeftBudget, Step
from kagura_kernel.journal.encoding import moment, stamp
from kagura_kernel.journal.schema import checkpoints, events, runs
from kagura_kernel.journal.store import Journal

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event
    from kagura_kernel.domain.outcome import FileChange

KEPT_DAYS = 30.0
"""How long a run that did not end well can be resumed."""

KEPT_LAST = 20
"""The newest checkpoints of a run, all of which are kept."""

KEPT_EVERY = 10
"""Of those before, every so manieth step's is kept, …"""

KEPT_FARTHEST = 200
"""… as long as it is no more steps behind."""

MOST_BODY = 128 << 20
"""Characters of one: far more than any run stores."""

_CHUNK = 100
_SHORT = func.length(checkpoints.c.body) <= MOST_BODY
_DIGEST = hashlib.sha256().digest_size * 2
_FIELDS = {one.name for one in fields(Checkpoint)}
_STEP = {one.name for one in fields(Step)}


def store(journal: Journal, checkpoint: Checkpoint, told: Event | None = None) -> None:
    """Store one, in the place of what stood at the same step of its run; blocks until it is on the disk.

    Of the older ones of its run some are dropped: `KEPT_LAST`, `KEPT_EVERY` and `KEPT_FARTHEST` say which.

    Args:
        journal: Where.
        checkpoint: It.
        told: The row that tells of it, stored with it or not at all.

    Raises:
        JournalUnwritable: it was not stored, not even in part.
    """
    ours, step = checkpoints.c.run_id == checkpoint.run_id, checkpoints.c.step
    between = and_(step <= checkpoint.step - KEPT_LAST, step % KEPT_EVERY != 0)
    old = or_(step == checkpoint.step, between, step <= checkpoint.step - KEPT_FARTHEST)
    with journal.writing(flush=True) as writing:
        writing.connection.execute(delete(checkpoints).where(ours, old))
        writing.connection.execute(insert(checkpoints), _row(checkpoint))
        if told is not None:
            writing.append(told)


def digest_of(checkpoint: Checkpoint) -> str:
    """What the row that tells of it says, so that it is known again; see `RunCheckpointed.digest`.

    The conversation has a digest of its own, since it goes when something that it had read is erased.
    """
    body = json.dumps(
        _body(checkpoint) | {"brain_session": "", "at": stamp(checkpoint.at)}, sort_keys=True, default=str
    )
    return _sha256(body) + _sha256(checkpoint.brain_session)


def is_as_stored(journal: Journal, run_id: str, checkpoint: Checkpoint) -> bool:
    """Whether a run has stored it so, by the journal's rows; its conversation may be gone.

    Raises:
        JournalUnreadable: they cannot be read.
    """
    from kagura_kernel.domain.events.memory import RunCheckpointed

    found = digest_of(checkpoint)
    rows = journal.events(run_id=run_id, kinds=("run.checkpointed",))
    told = {row.event.digest for row in rows if isinstance(row.event, RunCheckpointed)}
    if not checkpoint.brain_session:
        return found[:_DIGEST] in {digest[:_DIGEST] for digest in told}
    return found in told


def latest(journal: Journal, run_id: str) -> Checkpoint | None:
    """Where a run stood last; None for one that has no checkpoint.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    steps = select(checkpoints.c.run_id, checkpoints.c.step, _SHORT.label("short"))
    newest = steps.where(checkpoints.c.run_id == run_id).order_by(checkpoints.c.step.desc())
    for row in journal.read(newest.limit(1)):
        if not row.short:
            raise JournalUnreadable(journal.where, f"the checkpoint of {row.run_id} at step {row.step} is too large")
        here = and_(checkpoints.c.run_id == row.run_id, checkpoints.c.step == row.step)
        return next((_checkpoint(journal, one) for one in journal.read(select(checkpoints).where(here))), None)
    return None


def history(journal: Journal, run_id: str) -> list[Checkpoint]:
    """What is kept of a run's checkpoints, the first one first; raises as `latest`."""
    query = select(checkpoints).where(checkpoints.c.run_id == run_id).order_by(checkpoints.c.step)
    return [_checkpoint(journal, row) for row in journal.read(query)]


def naming(journal: Journal, memory_ids: Sequence[str]) -> list[Checkpoint]:
    """What is kept of checkpoints that grew from one of these memories, but for what nobody can read.

    Raises:
        JournalUnreadable: the journal cannot be read.
    """
    found: list[Checkpoint] = []
    for begin in range(0, len(memory_ids), _CHUNK):
        named = or_(*(_names(one) for one in memory_ids[begin : begin + _CHUNK]))
        found += _readable(journal, journal.read(select(checkpoints).where(named, _SHORT)))
    return list({(one.run_id, one.step): one for one in found}.values())


def forget_checkpoints(journal: Journal, memory_ids: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Erase every checkpoint that grew from one of these memories: how many went, and of which runs.

    Earlier checkpoints of these runs stay, without what their brains remember of the whole conversation.

    Raises:
        JournalUnwritable: nothing was erased.
    """
    gone, affected = 0, dict[str, None]()
    with journal.writing(flush=True) as writing:
        connection = writing.connection
        for begin in range(0, len(memory_ids), _CHUNK):
            named = or_(*(_names(one) for one in memory_ids[begin : begin + _CHUNK]))
            found = connection.execute(select(checkpoints.c.run_id, checkpoints.c.step).where(named)).fetchall()
            affected |= dict.fromkeys(row.run_id for row in found)
            gone += len(found)
            connection.execute(delete(checkpoints).where(named))
        for run_id in affected:
            left = connection.execute(select(checkpoints).where(checkpoints.c.run_id == run_id)).fetchall()
            for row in left:
                here = and_(checkpoints.c.run_id == run_id, checkpoints.c.step == row.step)
                # What cannot be read is of no use to anybody, and may hold what is to be gone.
                change: Delete | Update = delete(checkpoints)
                for one in _readable(journal, [row]):
                    change = update(checkpoints).values(body=_row(replace(one, brain_session=""))["body"])
                connection.execute(change.where(here))
    return gone, tuple(affected)


def drop_old(journal: Journal) -> int:
    """Drop what nobody resumes any more: checkpoints of runs that ended well, and old ones; how many went.

    Raises:
        JournalError: it could not be looked at, or nothing was dropped.
    """
    well = and_(runs.c.status == "done", or_(runs.c.verified.is_(None), runs.c.verified == 1))
    over = checkpoints.c.run_id.in_(select(runs.c.run_id).where(well))
    old = checkpoints.c.at < stamp(journal.clock.now() - timedelta(days=KEPT_DAYS))
    if not journal.read(select(checkpoints.c.step).where(or_(over, old)).limit(1)):
        # Every kernel looks when it starts, and only one that has something to do waits for the others.
        return 0
    with journal.writing() as writing:
        return writing.connection.execute(delete(checkpoints).where(or_(over, old))).rowcount


def named_contents(journal: Journal) -> frozenset[str]:
    """Hashes of the contents that some checkpoint needs.

    Raises:
        JournalUnreadable: they cannot be read.
    """
    # One that is broken is of use to nobody, and so is what it names.
    whole = _readable(journal, journal.read(select(checkpoints).where(_SHORT)))
    return frozenset(sha256 for one in whole for sha256 in _named_by(one))


def _named_by(checkpoint: Checkpoint) -> Iterator[str]:
    for change in checkpoint.changes:
        if isinstance(sha256 := change.get("new_sha256"), str) and sha256:
            yield sha256


def _names(memory_id: str) -> ColumnElement[bool]:
    padded = literal(" ") + checkpoints.c.memories + literal(" ")
    return padded.contains(f" {memory_id} ", autoescape=True)


def _readable(journal: Journal, rows: Iterable[Row[Any]]) -> Iterator[Checkpoint]:
    for row in rows:
        with suppress(JournalUnreadable):
            yield _checkpoint(journal, row)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _row(checkpoint: Checkpoint) -> dict[str, Any]:
    at = stamp(checkpoint.at)
    return {
        "run_id": checkpoint.run_id,
        "step": checkpoint.step,
        "session_id": checkpoint.session_id,
        "at": at,
        # In ASCII, since a path may hold bytes that are no text.
        "body": json.dumps(_body(checkpoint) | {"at": at}, default=str),
        "memories": " ".join(checkpoint.memories),
    }


def _body(checkpoint: Checkpoint) -> dict[str, Any]:
    # Not as a whole by `asdict`, which copies thousands of changes that nobody changes.
    told = {name: getattr(checkpoint, name) for name in _FIELDS}
    return told | {name: tuple(map(asdict, told[name])) for name in ("done", "begun", "budgets")}


def _checkpoint(journal: Journal, row: Row[Any]) -> Checkpoint:
    try:
        return _read(json.loads(row.body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        message = f"the checkpoint of {row.run_id} at step {row.step} is none"
        raise JournalUnreadable(journal.where, message) from error


def _read(body: Mapping[str, Any]) -> Checkpoint:
    # What a newer version has added is left out.
    told = {name: value for name, value in body.items() if name in _FIELDS}
    texts = {name: tuple(map(str, told.get(name, ()))) for name in ("pending", "plan", "grants", "memories")}
    return Checkpoint(
        **told
        | texts
        | {
            "at": moment(told["at"]),
            "done": _steps(told.get("done", ())),
            "begun": _steps(told.get("begun", ())),
            "changes": tuple(told.get("changes", ())),
            "budgets": tuple(LeftBudget(**one) for one in told.get("budgets", ())),
        }
    )


def _steps(told: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    return tuple(Step(**{name: value for name, value in one.items() if name in _STEP}) for one in told)


FOLDER = "blobs"
"""Where contents lie in our data directory."""


def needed(journal: Journal, hashes: Collection[str]) -> frozenset[str]:
    """Which of these contents are still needed.

    Raises:
        JournalUnreadable: it cannot be told.
    """
    asked = list(dict.fromkeys(hashes))
    if not asked:
        return frozenset()
    collected = select(events.c.run_id).where(events.c.kind == "changes.collected")
    found: set[str] = set()
    # A database takes so many at once, and a run may have changed thousands of files.
    for begin in range(0, len(asked), _CHUNK):
        named = or_(*(events.c.body.contains(sha256, autoescape=True) for sha256 in asked[begin : begin + _CHUNK]))
        found.update(row.run_id for row in journal.read(collected.where(named)))
    waiting = set[str]().union(*(_undecided(journal, run_id) for run_id in found))
    return (named_contents(journal) | waiting).intersection(asked)


def _undecided(journal: Journal, run_id: str) -> set[str]:
    """Contents of a run's changes that were neither applied nor discarded, and those that they are compared with."""
    from kagura_kernel.domain.events.run import changes_after

    changes: Mapping[str, FileChange] = {}
    for row in journal.events(run_id=run_id, kinds=("changes.collected", "changes.settled", "commits.told")):
        changes = changes_after(changes, row.event)
    left = [one for one in changes.values() if one.state not in ("applied", "discarded")]
    return {sha256 for one in left for sha256 in (one.new_sha256, one.old_sha256) if sha256}
