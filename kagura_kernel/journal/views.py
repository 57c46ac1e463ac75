"""Views of the rows: runs, approvals and costs, fast however long the journal is; and what crossed the wall.

They read projections that `append` keeps in the same transaction as the events. The events are the truth: `verify`
finds a projection that says something else, and `rebuild` makes the projections anew from them. Connections and
requests with leased credentials are read from the events themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, Row, Select, case, delete, exists, func, select, update

from kagura_kernel.domain.cost import Cost
from kagura_kernel.domain.errors import RunUnknown
from kagura_kernel.domain.identity import SESSION_PREFIX
from kagura_kernel.journal import schema
from kagura_kernel.journal.encoding import as_text, moment, stamp
from kagura_kernel.journal.moves import of_notebook
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.rows import (
    ApprovalRow,
    Conversation,
    CostRow,
    EgressRow,
    Here,
    LeaseUseRow,
    RunRow,
    made_of,
)
from kagura_kernel.journal.store import Journal

if TYPE_CHECKING:
    from kagura_kernel.domain.events import ApprovalRequested, EgressClosed, EgressDecided, Event

_CHUNK = 1000
_DECISION = schema.DECISION.split()
_DAY = timedelta(days=1)
_waits = exists().where(schema.approvals.c.run_id == schema.runs.c.run_id, schema.approvals.c.verdict.is_(None))
_STATUS = case(((schema.runs.c.status == "running") & _waits, "awaiting_approval"), else_=schema.runs.c.status).label(
    "status_now"
)

RUNS = select(schema.runs, _STATUS).order_by(schema.runs.c.first_seq.desc())
"""Runs, the newest first, with the status as it is now."""

APPROVALS = (
    select(schema.approvals, schema.runs.c.notebook, schema.runs.c.kernel_id, schema.runs.c.cell_id)
    .join(schema.runs, schema.runs.c.run_id == schema.approvals.c.run_id, isouter=True)
    .order_by(schema.approvals.c.requested_at.desc(), schema.approvals.c.id.desc())
)
"""Approvals, the newest first, with the place of the run that asks; a question may be here before its run."""


def runs(
    journal: Journal,
    *,
    limit: int = 100,
    session_id: str | None = None,
    run_ids: Sequence[str] | None = None,
    here: Here | None = None,
) -> list[RunRow]:
    """The latest runs, the newest first, of all processes, places and sessions or of one; or only these.

    What a person has begun somewhere does not include what such a run has handed on to others.
    """
    query = _begun(journal, RUNS.limit(limit), here)
    if run_ids is not None:
        query = query.where(schema.runs.c.run_id.in_(run_ids))
    if session_id is not None:
        query = query.where(schema.runs.c.session_id == session_id)
    return _run_rows(journal, query)


def run_of(journal: Journal, run_id: str) -> RunRow | None:
    """A run; None where the journal knows none of this id."""
    found = runs(journal, limit=1, run_ids=[run_id])
    return found[0] if found else None


def one_run(journal: Journal, run_id: str) -> RunRow:
    """The same.

    Raises:
        RunUnknown: there is no such run.
        JournalUnreadable: it cannot be read.
    """
    found = run_of(journal, run_id)
    if found is None:
        raise RunUnknown(run_id)
    return found


def going_on_from(journal: Journal, run_id: str) -> list[RunRow]:
    """The runs that were to go on from this one, the first one first, but for those that ended before they did."""
    found = _run_rows(journal, RUNS.where(schema.runs.c.resumes == run_id))
    begun = (row for row in found if row.live or journal.events(run_id=row.run_id, kinds=("run.resumed",), limit=1))
    return list(begun)[::-1]


def gone_on_with(journal: Journal, run_id: str, by: str = "") -> str:
    """Why nobody else may go on from a run: another one does, or has; half a sentence, empty for nothing.

    What that one did is not among this one's steps, and would be done a second time.

    Args:
        journal: Which journal.
        run_id: The run.
        by: The run that asks, which comes after those that began before it; empty for one that has no row yet.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    for row in going_on_from(journal, run_id):
        if row.run_id == by:
            return ""
        if row.live:
            return (
                f"{row.run_id} goes on from it. Follow that one in a notebook with `%kagura attach {row.run_id}`, or "
                "stop it first."
            )
        if row.status == "done" and row.verified is not False:
            return f"{row.run_id} went on from it and ended well. Write what comes next into a cell of its own."
        return f"{row.run_id} went on from it, and knows what it did. Resume that one."
    return ""


def runs_ending(journal: Journal, ending: str) -> list[str]:
    """The ids of the runs whose id ends like this, the newest first; none for an empty ending."""
    ids = schema.runs.c.run_id
    found = journal.read(
        select(ids).where(ids.endswith(ending, autoescape=True)).order_by(schema.runs.c.first_seq.desc())
    )
    # Some databases do not tell capital letters from small ones here.
    return [row.run_id for row in found if ending and row.run_id.endswith(ending)]


def latest_moment(journal: Journal) -> datetime | None:
    """The latest that a row bears by the clock, whatever was written after it; None where there is no row."""
    found = journal.read(select(func.max(schema.events.c.at).label("at")))
    return moment(found[0].at) if found and found[0].at else None


def server_moment(journal: Journal) -> datetime | None:
    """What time it is for the journal's server; None for a file, which has no clock of its own."""
    if not is_url(journal.where):
        return None
    told: datetime = journal.read(select(func.now()))[0][0]
    return told.astimezone(UTC)


def goes_on(row: RunRow) -> bool:
    """Whether a run goes on: its rows do not say that it is over, and its process may still be there."""
    return row.live and owner_alive(row.owner)


def unfinished(journal: Journal, *, here: Here | None = None) -> list[RunRow]:
    """The runs that have started and not finished, the newest first; the process of some may be gone."""
    return _run_rows(journal, _begun(journal, RUNS.where(schema.runs.c.status == "running"), here))


def running(journal: Journal) -> set[str]:
    """The ids of the runs that go on: those that hear an answer."""
    return {row.run_id for row in unfinished(journal) if goes_on(row)}


def busy_elsewhere(
    journal: Journal, session_id: str, owner: str, alive: Callable[[str], bool] = owner_alive, *, before: str = ""
) -> str:
    """The run of another process that goes on in a session; empty for none.

    With `before`, a run that has a row, only those count that began before that one.
    """
    ours = (schema.runs.c.status == "running") & (schema.runs.c.session_id == session_id)
    rows = _run_rows(journal, RUNS.where(ours))
    at = next((number for number, row in enumerate(rows) if row.run_id == before), -1)
    return next((row.run_id for row in rows[at + 1 :] if row.owner != owner and alive(row.owner)), "")


def _begun(journal: Journal, query: Select[Any], here: Here | None) -> Select[Any]:
    """Those of `RUNS` that a person has begun here: in a notebook or its kernel, elsewhere in a folder.

    A kernel that knows neither means its own, and the folder's as long as it has begun none: nbclient and the like run
    several notebooks of one folder at once.
    """
    if here is None:
        return query
    columns = schema.runs.c
    query = query.where(columns.lineage == "")
    if here.everywhere:
        return query
    of_kernel = (columns.kernel_id == as_text(here.kernel_id)) & (columns.kernel_id != "")
    if here.notebook:
        return query.where(of_notebook(journal, here.notebook) | of_kernel)
    if here.kernel_id:
        return query.where(of_kernel)
    in_folder, own = columns.project == as_text(here.project), schema.runs.alias()
    if not here.owner:
        return query.where(in_folder)
    none_of_its_own = ~exists().where(own.c.owner == here.owner, own.c.lineage == "")
    return query.where((columns.owner == here.owner) | in_folder & none_of_its_own)


def approvals(journal: Journal, *, limit: int = 100, pending_only: bool = False, ending: str = "") -> list[ApprovalRow]:
    """The latest approvals, the newest first, or those whose id ends like this."""
    query = APPROVALS.limit(limit)
    if ending:
        query = query.where(schema.approvals.c.id.endswith(ending, autoescape=True))
    if pending_only:
        query = query.where(schema.approvals.c.verdict.is_(None))
    return journal.readable(journal.read(query), approval_row)


Counted = Literal["runs", "sessions", "approvals", "pending"]
"""What can be counted; `pending` are the approvals that wait."""

_HOW_MANY: Mapping[Counted, Select[Any]] = {
    "runs": select(func.count()).select_from(schema.runs),
    "sessions": select(func.count(schema.runs.c.session_id.distinct())).where(schema.runs.c.lineage == ""),
    "approvals": select(func.count()).select_from(schema.approvals),
    "pending": select(func.count()).where(schema.approvals.c.verdict.is_(None)),
}


def how_many(journal: Journal, what: Counted) -> int:
    """How many there are in all."""
    return int(journal.read(_HOW_MANY[what])[0][0])


def costs(journal: Journal, *, limit: int = 1000, run_ids: Sequence[str] | None = None) -> list[CostRow]:
    """What the latest runs used, or only these, the newest first; of a run that goes on, what is counted so far."""
    query = RUNS.limit(limit)
    if run_ids is not None:
        query = query.where(schema.runs.c.run_id.in_(run_ids))
    return journal.readable(journal.read(query), cost_row)


def answered_as(journal: Journal, brain: str, *, limit: int = 200) -> dict[str, str]:
    """What a brain called the model that answered last, by the name it was asked for; the empty one is its own choice.

    Names that are a model's own are left out, as are those that none of the latest runs has asked for.
    """
    from kagura_kernel.domain.events import RunStarted

    rows = {row.run_id: row for row in runs(journal, limit=limit) if row.brain == brain}
    found: dict[str, str] = {}
    for event in islice(_newest(journal, "run.started", None, None), limit):
        row = rows.get(event.run_id)
        if isinstance(event, RunStarted) and row is not None and row.model not in ("", event.model):
            found.setdefault(event.model, row.model)
    return found


def egress(
    journal: Journal,
    *,
    run_id: str | None = None,
    since: datetime | None = None,
    refused_only: bool = False,
    limit: int = 1000,
) -> list[EgressRow]:
    """The latest connections that boxes asked for, the newest first, of all runs or of one.

    Without `run_id` all rows of the time are looked at, which takes a second or two for a million.

    Args:
        journal: Which journal.
        run_id: Only this run's.
        since: Only what was decided then or later.
        refused_only: Only what was refused.
        limit: How many at most.

    Raises:
        JournalUnreadable: they cannot be read, or one of them is no event.
    """
    found: list[EgressDecided] = []
    for decided in _newest(journal, "egress.decided", run_id, since):
        if not (refused_only and decided.allowed):
            found.append(decided)
        if len(found) == limit:
            break
    ends = {(end.run_id, end.connection_id): end for end in _closed(journal, [one for one in found if one.allowed])}
    return [_egress_row(one, ends.get((one.run_id, one.connection_id))) for one in found]


def lease_uses(
    journal: Journal, *, run_id: str | None = None, since: datetime | None = None, limit: int = 1000
) -> list[LeaseUseRow]:
    """The latest requests to which a leased credential was added, the newest first, of all runs or of one.

    Without `run_id` all rows of the time are looked at, as by `egress`.

    Args:
        journal: Which journal.
        run_id: Only this run's.
        since: Only what ended then or later.
        limit: How many at most.

    Raises:
        JournalUnreadable: they cannot be read, or one of them is no event.
    """
    return [made_of(LeaseUseRow, one) for one in islice(_newest(journal, "lease.used", run_id, since), limit)]


def _newest(journal: Journal, kind: str, run_id: str | None, since: datetime | None) -> Iterator[Any]:
    """Events of one kind, the newest first, read a part at a time."""
    columns = (schema.events.c[name] for name in ("seq", "kind", "run_id", "body"))
    query = select(*columns).where(schema.events.c.kind == kind)
    if run_id is not None:
        query = query.where(schema.events.c.run_id == run_id)
    if since is not None:
        query = query.where(schema.events.c.at >= stamp(since))
    query = query.order_by(schema.events.c.seq.desc()).limit(_CHUNK)
    rows = journal.read(query)
    while rows:
        yield from (event for _, event in journal.told(rows) if event.kind == kind)
        rows = journal.read(query.where(schema.events.c.seq < rows[-1].seq)) if len(rows) == _CHUNK else ()


def _closed(journal: Journal, decided: list[EgressDecided]) -> Iterator[EgressClosed]:
    """How these ended, those that have."""
    if not decided:
        return
    from kagura_kernel.domain.events import EgressClosed

    for run_id in dict.fromkeys(one.run_id for one in decided):
        for stored in journal.events(run_id=run_id, kinds=("egress.closed",)):
            if isinstance(stored.event, EgressClosed):
                yield stored.event


def _egress_row(decided: EgressDecided, end: EgressClosed | None) -> EgressRow:
    told = () if end is None else ("address", "bytes_out", "bytes_in", "times", "duration", "ended", "detail")
    return made_of(EgressRow, decided, **{name: getattr(end, name) for name in told})


def session_conversation(journal: Journal, session_id: str, *, brain: str = "") -> Conversation:
    """What a brain needs to go on in this session: of the newest of its runs that has such a word.

    With `brain`, only that brain's runs count: nobody can go on from another one's word.
    """
    ours = (schema.runs.c.session_id == session_id) & (schema.runs.c.brain_session != "")
    if brain:
        ours &= schema.runs.c.brain == brain
    columns = schema.runs.c
    newest = select(columns.brain_session, columns.run_id, columns.cell_id).where(ours)
    found = journal.read(newest.order_by(columns.first_seq.desc()).limit(1))
    return Conversation(*found[0]) if found else Conversation()


def known_cells(journal: Journal, run_id: str) -> Mapping[str, str] | None:
    """What was known of its notebook at the end of a run, cells' ids and digests; None where it was told nothing."""
    from kagura_kernel.domain.events import NotebookShown

    rows = journal.events(run_id=run_id, kinds=("notebook.shown",))
    return next((row.event.known for row in reversed(rows) if isinstance(row.event, NotebookShown)), None)


def notebook_session(journal: Journal, notebook: str) -> str:
    """The session of a notebook's newest run; empty for none, and where one of its runs goes on in another kernel.

    Sessions that a person has named are no notebook's own.
    """
    columns = schema.runs.c
    if not notebook:
        return ""
    ours = of_notebook(journal, notebook) & (columns.lineage == "") & columns.session_id.startswith(SESSION_PREFIX)
    newest = select(columns.session_id).where(ours).order_by(columns.first_seq.desc()).limit(1)
    found = journal.read(newest)
    going = {row.session_id for row in unfinished(journal)} if found else ()
    return found[0].session_id if found and found[0].session_id not in going else ""


def conversation_now(journal: Journal, word: str, *, brain: str) -> str:
    """The newest word of the conversation that a brain's word belongs to; the word itself where there is no newer one.

    What follows a `$` is what the conversation had cost by then: with an old word, later runs' costs count twice.
    """
    conversation, mark, _ = word.partition("$")
    if not mark:
        return word
    ours = (schema.runs.c.brain == brain) & schema.runs.c.brain_session.startswith(f"{conversation}$", autoescape=True)
    newest = select(schema.runs.c.brain_session).where(ours).order_by(schema.runs.c.first_seq.desc()).limit(1)
    found = journal.read(newest)
    return found[0].brain_session if found else word


def rebuild(journal: Journal) -> int:
    """Make runs and approvals anew from the events, in one transaction; how many events there were.

    Decisions that lie in the mailbox, and that no event has stored yet, are kept while their run goes on. Nobody can
    write meanwhile (five seconds for a hundred thousand rows in a file), so this is for a time when no run is going.

    Raises:
        JournalUnreadable: a row is no event; nothing was changed.
    """
    from kagura_kernel.domain.events import ApprovalDecided, ApprovalRequested
    from kagura_kernel.journal.projection import project

    shared = journal.shared
    done = 0
    asked: dict[str, str] = {}
    decided: set[str] = set()
    with journal.writing() as writing:
        connection = writing.connection
        connection.execute(delete(schema.runs))
        while True:
            after = schema.events.c.seq > done
            rows = connection.execute(select(schema.events).where(after).order_by(schema.events.c.seq).limit(_CHUNK))
            chunk = rows.fetchall()
            for row, event in journal.told(chunk):
                if shared and not _fits(event):
                    continue
                if isinstance(event, ApprovalDecided):
                    # One that does not answer this run's question would change the row that is still the old one.
                    if asked.get(event.approval_id) != event.run_id:
                        continue
                    decided.add(event.approval_id)
                if isinstance(event, ApprovalRequested) and event.approval_id not in asked:
                    asked[event.approval_id] = event.run_id
                    _renew_question(connection, row.seq, event)
                else:
                    project(connection, partial(int, row.seq), event)
            done = chunk[-1].seq if chunk else done
            if len(chunk) < _CHUNK:
                _clear_approvals(connection, asked, decided)
                return done


def _fits(event: Event) -> bool:
    """Whether the tables can hold it; `verify` names those rows that they cannot."""
    from kagura_kernel.journal.projection import check_values

    try:
        check_values(event)
    except ValueError:
        return False
    return True


def _clear_approvals(connection: Connection, asked: Collection[str], decided: set[str]) -> None:
    """Take out what `verify` would not accept: see `Recount.may_hold_a_decision`."""
    status = {row.run_id: row.status for row in connection.execute(select(schema.runs.c.run_id, schema.runs.c.status))}
    columns = (schema.approvals.c.id, schema.approvals.c.run_id, schema.approvals.c.verdict)
    for row in connection.execute(select(*columns)).fetchall():
        this = schema.approvals.c.id == row.id
        if row.id not in asked:
            if status.get(row.run_id) != "running":
                connection.execute(delete(schema.approvals).where(this))
        elif row.id not in decided and row.verdict is not None and status.get(row.run_id) not in {"running", "lost"}:
            connection.execute(update(schema.approvals).where(this).values(dict.fromkeys(_DECISION)))


def _renew_question(connection: Connection, seq: int, event: ApprovalRequested) -> None:
    from kagura_kernel.journal.projection import project

    this = schema.approvals.c.id == event.approval_id
    left = connection.execute(select(*(schema.approvals.c[name] for name in _DECISION)).where(this)).first()
    connection.execute(delete(schema.approvals).where(this))
    project(connection, lambda: seq, event)
    if left is not None:
        connection.execute(update(schema.approvals).where(this).values(dict(zip(_DECISION, left, strict=True))))


def _run_rows(journal: Journal, query: Select[Any]) -> list[RunRow]:
    return journal.readable(journal.read(query), run_row)


# ------------------------- how a row of the tables becomes a value that anybody may hold


def run_row(row: Row[Any]) -> RunRow:
    """A row of `RUNS`."""
    return made_of(
        RunRow,
        row,
        status=row.status_now,
        started_at=_began(row),
        cost_usd=Cost(row.reported_usd, row.computed_usd).usd,
        user=row.user_name,
        lineage=tuple(row.lineage.split()),
        verified=None if row.verified is None else bool(row.verified),
        untrusted=bool(row.untrusted),
    )


def _began(row: Row[Any]) -> datetime:
    """When a run began; raises `ValueError` or `OverflowError` where a day around it, or its end, is no time."""
    began = moment(row.started_at)
    _ = began - _DAY, began + timedelta(seconds=row.duration or 0.0) + _DAY
    return began


def approval_row(row: Row[Any]) -> ApprovalRow:
    """A row of `APPROVALS`."""
    return made_of(
        ApprovalRow,
        row,
        detail=as_text(json.loads(row.detail)),
        requested_at=moment(row.requested_at),
        deadline_at=moment(row.deadline_at),
        by=row.decided_by or "",
        via=row.via or "",
        decided_at=moment(row.decided_at) if row.decided_at else None,
        answer=row.answer or "",
        arguments=json.loads(row.arguments),
        options=tuple(as_text(option) for option in json.loads(row.options)),
        notebook=row.notebook or "",
        kernel_id=row.kernel_id or "",
        cell_id=row.cell_id or "",
        lineage=tuple(json.loads(row.lineage)),
    )


def cost_row(row: Row[Any]) -> CostRow:
    """What a row of `RUNS` says about money."""
    return made_of(
        CostRow,
        row,
        at=_began(row),
        source=row.cost_source,
        status=row.status_now,
        seconds=row.duration,
        verified=None if row.verified is None else bool(row.verified),
    )
