"""The doctor's rows about the journal: whether it holds and what it tells; and whether the clock can be right."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cli.doctor_rows import FAIL, OK, WARN, Finding
from kagura_kernel.cli.journal_access import open_journal
from kagura_kernel.domain import errors
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.noted_rows import is_another, note_row, noted_row
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.place import data_home, is_url, shown
from kagura_kernel.journal.rows import NOTHING
from kagura_kernel.journal.sharing import audits
from kagura_kernel.journal.verification import ANOTHER
from kagura_kernel.render.figures import counted

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


_REBUILD = "`kagura-kernel journal rebuild` makes its tables anew from its rows"
_EVIDENCE = (
    "`kagura-kernel journal backup DIRECTORY` keeps it as it is; then put your last copy in its place, or move it "
    "away; `kagura-kernel journal verify` goes on from the one that is there then"
)
_NO_JOURNAL = "put your last copy in its place, or move it away: the next run makes a new one"
_NO_JOURNAL_ANY_MORE = (
    "put your last copy in its place; where you moved it away, the next run makes a new one, and then "
    "`kagura-kernel journal verify` goes on from that"
)
_ROOM = "free some space where it lies, or make it writable"
_DUMP = "`pg_dump` keeps it as it is; then put your last copy in its place, or name another database"
_SERVER = "mend the database server, or `journal_url` in the settings"
_AUDITOR = "to run anything, sign in with another role, a user's"
_NEWER = "install the version that wrote it, or a newer one"


def unusable(error: errors.JournalError) -> Finding:
    """The finding for a journal that does not open, or does not hold."""
    return Finding("journal", FAIL, error.message, _mends(error))


def only_read(where: str, why: str) -> Finding:
    """The finding for a journal that can be read and not written: nothing runs with it."""
    said = f"{where}: it cannot be written, so nothing can run: {why}"
    return Finding("journal", FAIL, said, _SERVER if is_url(where) else _ROOM)


def _mends(error: errors.JournalError) -> str:
    match error:
        case errors.JournalTampered():
            return _REBUILD if error.table else _DUMP if "://" in error.where else _EVIDENCE
        case errors.JournalUnwritable() | errors.JournalUnreadable() if "://" in error.where:
            return _SERVER
        case errors.JournalUnwritable():
            return _ROOM
        case errors.JournalTooNew():
            return _NEWER
        case _:
            return _NO_JOURNAL


AHEAD = timedelta(minutes=5)
"""How far the journal's newest row may lie ahead of the clock, and a server's clock beside it."""

MANY_REFUSALS = 20
"""Refused connections of one run from which on somebody should look at it: something in the box tries doors."""
MANY_DENIALS = 3
"""Denials by a person from which on somebody should look at what is being asked for."""
_LATEST = 10_000
_NAMED = 3


def clock(place: Path | str) -> Finding:
    """Whether the clock can be right: what was written before does not lie in its future, and a server agrees."""
    now = datetime.now(UTC)
    built = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    newest, server = _moments(place)
    then = "set it: `timedatectl set-ntp true`"
    if server is not None and abs(server - now) > AHEAD:
        said = f"{now:%Y-%m-%d %H:%M:%SZ} here, {server:%Y-%m-%d %H:%M:%SZ} on the journal's server"
        then = f"{then}, here or there, whichever is wrong"
        return Finding("clock", FAIL, f"{said}: each side has other deadlines for the same question", then)
    if newest is not None and newest > now + AHEAD:
        said = f"{now:%Y-%m-%d %H:%M:%SZ} is before a row of the journal, {newest:%Y-%m-%d %H:%M:%SZ}"
        return Finding("clock", FAIL, f"{said}: deadlines and leases cannot be kept", then)
    if built > now + timedelta(days=1):
        said = f"{now:%Y-%m-%d %H:%M:%SZ} is before this program was installed, {built:%Y-%m-%d}"
        return Finding("clock", FAIL, f"{said}: deadlines and leases cannot be kept", then)
    return Finding("clock", OK, f"{now:%Y-%m-%d %H:%M:%SZ}")


def _moments(place: Path | str) -> tuple[datetime | None, datetime | None]:
    """That of the newest row, and that of the journal's server."""
    try:
        with open_journal(place) as journal:
            return views.latest_moment(journal), views.server_moment(journal)
    except errors.KaguraError:
        # Whether there is one, and what is wrong with it, has a row of its own.
        return None, None


def books(place: Path | str, since: datetime, *, full: bool) -> Iterator[Finding]:
    """What the journal tells; one row where there is none, or it does not open.

    Args:
        place: Where it lies.
        since: From when on refusals and denials are counted.
        full: Whether all of it is verified, and not only what was written since it last held.
    """
    try:
        with open_journal(place) as journal:
            yield _chain(journal, full=full)
            yield _runs(journal)
            yield _leases(journal)
            yield from _approvals(journal, since)
            yield _refusals(journal, since)
    except errors.UsageError:
        noted = noted_row(data_home(os.environ), shown(place))
        if noted.seq:
            said = f"{shown(place)} is not there any more; it had {noted.seq} rows on {noted.at[:10]}"
            yield Finding("journal", FAIL, said, _NO_JOURNAL_ANY_MORE)
        else:
            yield Finding("journal", OK, f"none yet at {shown(place)}")
    except errors.JournalError as error:
        yield unusable(error)


def _chain(journal: Journal, *, full: bool) -> Finding:
    home = data_home(os.environ)
    noted = noted_row(home, journal.where)
    checked = journal.verify(noted=NOTHING if full else noted)
    if is_another(journal, noted):
        # Its own rows fit each other: an older copy, or one that was made anew.
        raise errors.JournalTampered(journal.where, noted.seq, ANOTHER)
    with journal.snapshot() as connection:
        is_auditor = audits(connection)
    if not is_auditor and (why := journal.unwritable or _refuses(journal)):
        return only_read(checked.where, why)
    note_row(home, checked, datetime.now(UTC))
    rows = f"{checked.rows} rows" if checked.seen is None else f"your rows up to row {checked.rows}"
    said = f"{checked.where}: {rows}, last hash {checked.last_hash}"
    if checked.since:
        said = f"{said}; the first {noted.seq} were checked on {noted.at[:10]} (`--full` checks all)"
    if is_auditor:
        return Finding("journal", WARN, f"{said}. An auditor's role reads it: no run starts with it", _AUDITOR)
    return Finding("journal", OK, said)


def _refuses(journal: Journal) -> str:
    """Why a server lets nothing be written; a file has said so when it was opened."""
    if is_url(journal.where):
        try:
            journal.check_writable()
        except errors.JournalUnwritable as error:
            return error.why
    return ""


def _runs(journal: Journal) -> Finding:
    rows = views.unfinished(journal)
    lost = [row.run_id for row in rows if not owner_alive(row.owner)]
    if lost:
        more = ", and the next run that starts marks all" if len(lost) > _NAMED else ""
        then = f"`kagura-kernel kill {' '.join(lost[:_NAMED])}` marks them as lost{more}"
        then = f"whose it is, and no auditor: {then}" if journal.audited else then
        return Finding("runs", FAIL, f"{len(lost)} whose process is gone: {_some(lost)}", then)
    return Finding("runs", OK, f"{len(rows)} going on")


def _leases(journal: Journal) -> Finding:
    rows = LeaseLedger(journal).open_rows()
    # What a live process owes, and has not failed to give back, is on its way.
    owed = [row for row in rows if (row.state == "owed" and row.attempts) or not owner_alive(row.owner)]
    if owed:
        named = _some([f"{row.provider}:{row.scope} of {row.run_id}" for row in owed])
        return Finding("leases", FAIL, f"{len(owed)} to be given back: {named}", "`kagura-kernel leases sweep`")
    return Finding("leases", OK, f"{len(rows)} out, all of processes that live")


def _approvals(journal: Journal, since: datetime) -> Iterator[Finding]:
    # Nobody hears an answer to what a lost run had asked; the row of runs says what to do with it.
    gone = {row.run_id for row in views.unfinished(journal) if not views.goes_on(row)}
    asked = views.approvals(journal, pending_only=True, limit=_LATEST)
    if waiting := [row for row in asked if row.run_id not in gone]:
        said = f"{len(waiting)} waiting: {_some([f'{row.id} ({row.title})' for row in waiting])}"
        yield Finding("approvals", WARN, said, "answer in the notebook that asks, or with `kagura-kernel approve`")
    else:
        yield Finding("approvals", OK, "none waiting")
    denied = [
        f"{row.title} (of {row.run_id})"
        for row in views.approvals(journal, limit=_LATEST)
        if row.verdict == "deny" and row.by != "policy" and row.decided_at and row.decided_at >= since
    ]
    many = len(denied) >= MANY_DENIALS
    said = f"{len(denied)} denied by a person" + (f": {_some(denied)}" if denied else "")
    yield Finding(
        "denials", FAIL if many else OK, said, "`kagura-kernel approvals` says whose they were" if many else ""
    )


def _refusals(journal: Journal, since: datetime) -> Finding:
    # The same refusal is recorded the 1st, 2nd, 4th … time, each with its count.
    counts: Counter[tuple[str, str, int, str]] = Counter()
    for row in views.egress(journal, since=since, refused_only=True, limit=_LATEST):
        key = (row.run_id, row.host, row.port, row.reason)
        counts[key] = max(counts[key], row.times)
    by_run: Counter[str] = Counter()
    for (run_id, *_), times in counts.items():
        by_run[run_id] += times
    worst, most = max(by_run.items(), key=lambda item: item[1], default=("", 0))
    said = f"{counted(by_run.total(), 'connection')} refused, of {counted(len(by_run), 'run')}"
    if most < MANY_REFUSALS:
        return Finding("egress", OK, said)
    return Finding("egress", FAIL, f"{said}; {most} of {worst}", f"`kagura-kernel egress log --refused --run {worst}`")


def _some(names: Sequence[str], count: int = _NAMED) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
