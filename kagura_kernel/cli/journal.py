"""`kagura-kernel journal`: check that nobody has touched the journal, mend its tables, copy it, say where it lies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json
from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.place import shown

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification
    from kagura_kernel.journal.store import Journal


def run(arguments: SimpleNamespace) -> int:
    """Do it; 0 when the journal holds, 2 when it does not; 1 when a copy was made of one that does not.

    Raises:
        UsageError: there is no journal, or there is one where a copy shall go.
        JournalError: it does not hold, or cannot be used.
    """
    place = place_of(arguments)
    if arguments.action == "path":
        print(as_json({"journal": shown(place)}) if arguments.json else shown(place))
        return 0
    if arguments.action == "backup":
        return _back_up(place, arguments)
    try:
        with open_journal(place) as journal:
            checked = _rebuild(journal) if arguments.action == "rebuild" else journal.verify()
    except JournalTampered as error:
        if arguments.json:
            print(json.dumps({"ok": False, **_broken(error)}, ensure_ascii=False))
            return 2
        raise
    if arguments.json:
        found = {"ok": True, "where": checked.where, "rows": checked.rows, "last_hash": checked.last_hash}
        print(json.dumps(found, ensure_ascii=False))
    else:
        if arguments.action == "rebuild":
            print(f"{checked.where}: its tables were made anew from its rows.")
        print(f"{checked.where}: {checked.rows} rows, all as they were written.")
        print(f"Last hash {checked.last_hash}")
    return 0


def _back_up(place: str | Path, arguments: SimpleNamespace) -> int:
    from kagura_kernel.journal.backup import back_up, verify_copy

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
    from kagura_kernel.journal.views import rebuild

    # Rows that somebody has changed must not make tables that look right.
    journal.verify(tables=False)
    rebuild(journal)
    return journal.verify()
