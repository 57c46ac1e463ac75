"""`kagura-kernel journal`: check that nobody has touched it, mend its tables, share, copy and export it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.journal_access import open_journal, place_of
from kagura_kernel.cli.output import tell
from kagura_kernel.cockpit.run_names import here_of, named_run
from kagura_kernel.domain.clock import read_time
from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.export import ExportPart, back_up, export_lines, verify_copy
from kagura_kernel.journal.noted_rows import is_another, note_row, noted_row
from kagura_kernel.journal.place import data_home, is_url, shown
from kagura_kernel.journal.sharing import share
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import rebuild

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification


def journal_path(arguments: SimpleNamespace) -> int:
    """Say where it lies; 0."""
    place = shown(place_of(arguments))
    return tell(arguments, {"journal": place}, place)


def journal_share(arguments: SimpleNamespace) -> int:
    """Share it, or bring the rights of one that is shared up to date; 0.

    Raises:
        UsageError: it is a file, or somebody has to do something first.
        JournalError: it cannot be used.
    """
    place = place_of(arguments)
    # A new one on a server is shared before anybody uses it.
    with closing(Journal.open(place, create=is_url(place))) as journal, journal.writing(flush=True) as writing:
        found = share(writing.connection, journal.where, arguments.users, arguments.auditors)
    said = (
        f"{journal.where} is shared.\n"
        f"Members of the role {found.users} keep their runs in it, and each sees her own.\n"
        f"Members of the role {found.auditors} see everything and change nothing."
    )
    return tell(arguments, {"journal": journal.where, "users": found.users, "auditors": found.auditors}, said)


def journal_verify(arguments: SimpleNamespace) -> int:
    """Check it; see `_check`."""
    return _check(arguments, rebuilt=False)


def journal_rebuild(arguments: SimpleNamespace) -> int:
    """Make its tables anew, and check it; see `_check`."""
    return _check(arguments, rebuilt=True)


def _check(arguments: SimpleNamespace, *, rebuilt: bool) -> int:
    """0 when the journal holds, 2 when it does not.

    Raises:
        UsageError: there is no journal.
        JournalError: it does not hold, or cannot be used.
    """
    try:
        with open_journal(place_of(arguments)) as journal:
            checked = _rebuild(journal) if rebuilt else journal.verify()
            before = noted_row(data_home(os.environ), journal.where)
            another = is_another(journal, before)
            note_row(data_home(os.environ), checked, datetime.now(UTC))
    except JournalTampered as error:
        if arguments.json:
            print(json.dumps({"ok": False, **_broken(error)}, ensure_ascii=False))
            return 2
        raise
    if arguments.json:
        found = {"ok": True, "where": checked.where, "rows": checked.rows, "last_hash": checked.last_hash}
        part: dict[str, object] = {} if checked.seen is None else {"seen": checked.seen}
        if another:
            part["not_the_one_with"] = {"row": before.seq, "hash": before.hash, "checked": before.at}
        print(json.dumps(found | part | ({"odd": checked.odd} if checked.odd else {}), ensure_ascii=False))
    else:
        if rebuilt:
            print(f"{checked.where}: its tables were made anew from its rows.")
        print(_held(checked))
        if another:
            when = before.at[:10]
            print(f"It is not the journal that was checked on {when}: row {before.seq} is another one, or missing.")
        print(f"Last hash {checked.last_hash}")
    return 0


def _held(checked: Verification) -> str:
    said = f"{checked.where}: {checked.rows} rows, all as they were written."
    if checked.seen is not None:
        said = (
            f"{checked.where}: your {checked.seen} rows up to row {checked.rows}, all as they were written. Those of "
            "others are not seen; an auditor can check the whole chain."
        )
    if checked.odd:
        # One of its users has written what no version of this program does.
        said += f" {len(checked.odd)} of them are no event, the first is row {checked.odd[0]}."
    return said


def journal_backup(arguments: SimpleNamespace) -> int:
    """Copy it, and check the copy; 1 when it does not hold, otherwise 0.

    Raises:
        UsageError: there is no journal, or there is one where the copy shall go.
        JournalError: it cannot be used.
    """
    place = place_of(arguments)
    copy = back_up(place, arguments.to)
    made = {"copy": str(copy), "of": shown(place)}
    try:
        checked = verify_copy(copy)
    except JournalTampered as error:
        # What was touched is worth keeping as well, as it is.
        if arguments.json:
            print(json.dumps({"ok": False, **made, **_broken(error)}, ensure_ascii=False))
        else:
            print(f"{copy}: a copy of {shown(place)}, which does not hold.")
            print(f"{error.code}: {error.message}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps({"ok": True, **made, "rows": checked.rows, "last_hash": checked.last_hash}))
    else:
        print(f"{copy}: a copy of {shown(place)}, {checked.rows} rows, all as they were written.")
    return 0


def _broken(error: JournalTampered) -> dict[str, object]:
    """Where a journal does not hold, and why."""
    found = {"where": error.where, "seq": error.seq, "why": error.why, "code": error.code}
    return found | {"table": error.table, "id": error.key}


def _rebuild(journal: Journal) -> Verification:
    # Rows that somebody has changed must not make tables that look right.
    journal.verify(tables=False)
    rebuild(journal)
    return journal.verify()


PRINTED = "-"
"""In place of a file's name: what is exported is printed."""


def journal_export(arguments: SimpleNamespace) -> int:
    """Write it; 0.

    Raises:
        UsageError: there is no journal, a time makes no sense, no row is of that time, or the file cannot be made.
        RunUnknown: there is no such run.
        JournalError: the journal does not hold, or cannot be read; then no file is left.
    """
    with open_journal(place_of(arguments)) as journal:
        lines = _lines(journal, arguments)
        if arguments.file in (None, Path(PRINTED)):
            for line in lines:
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            return 0
        from kagura_kernel.cockpit.memory import write_file

        count = write_file(Path(arguments.file), lines)
    print(f"{arguments.file}: {count:,} lines, the first and the last of which say where the part lies in the chain.")
    return 0


def _lines(journal: Journal, arguments: SimpleNamespace) -> Iterator[str]:
    now = datetime.now(UTC)
    part = ExportPart(
        since=read_time(arguments.since, now) if arguments.since else None,
        until=read_time(arguments.until, now, "--until") if arguments.until else None,
        run_id=named_run(journal, arguments.run, here_of()) if arguments.run is not None else None,
    )
    return export_lines(journal, part)
