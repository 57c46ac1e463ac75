"""`kagura-kernel journal`: check that nobody has touched the journal, mend its tables, copy it, say where it lies."""

from __future__ import annotations

import json
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
    """Do it; 0 when the journal holds, 2 when it does not.

    Raises:
        UsageError: there is no journal, or there is one where a copy shall go.
        JournalError: it does not hold, or cannot be used.
    """
    place = place_of(arguments)
    if arguments.action == "path":
        print(as_json({"journal": shown(place)}) if arguments.json else shown(place))
        return 0
    if arguments.action == "backup":
        from kagura_kernel.journal.backup import back_up

        copy = back_up(place, arguments.to)
        if arguments.json:
            print(as_json({"copy": copy, "of": shown(place)}))
        else:
            print(f"{copy}: a copy of {shown(place)}. `kagura-kernel journal verify --dir {copy.parent}` checks it.")
        return 0
    try:
        with open_journal(place) as journal:
            checked = _rebuild(journal) if arguments.action == "rebuild" else journal.verify()
    except JournalTampered as error:
        if arguments.json:
            found = {"ok": False, "where": error.where, "seq": error.seq, "why": error.why, "code": error.code}
            found |= {"table": error.table, "id": error.key}
            print(json.dumps(found, ensure_ascii=False))
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


def _rebuild(journal: Journal) -> Verification:
    from kagura_kernel.journal.views import rebuild

    # Rows that somebody has changed must not make tables that look right.
    journal.verify(tables=False)
    rebuild(journal)
    return journal.verify()
