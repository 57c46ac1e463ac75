"""`kagura-kernel journal`: check that nobody has touched the journal, mend its tables, or say where it lies."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.place import data_home, shown

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification
    from kagura_kernel.journal.store import Journal


def add_arguments(parser: ArgumentParser) -> None:
    """`verify`, `rebuild` and `path`, each for the journal of the settings or for a named one."""
    parts = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verify = parts.add_parser("verify", help="check every row and every table; exit code 2 if one does not fit")
    rebuild = parts.add_parser(
        "rebuild", help="make the tables of the views anew from the rows, if the chain holds; for when no run is going"
    )
    for action in (verify, rebuild):
        action.add_argument("--json", action="store_true", help="print one JSON object")
    path = parts.add_parser("path", help="print where the journal lies")
    for action in (verify, rebuild, path):
        place = action.add_mutually_exclusive_group()
        place.add_argument("--dir", type=Path, help="the directory of a journal, instead of the one in use")
        place.add_argument("--url", help="a PostgreSQL journal, postgresql://user@host/database")


def run(arguments: Namespace) -> int:
    """Do it; 0 when the journal holds, 2 when it does not."""
    place = arguments.url or arguments.dir or _place_in_use()
    if arguments.action == "path":
        print(shown(place))
        return 0
    try:
        checked = _with_journal(place, _rebuild if arguments.action == "rebuild" else _verify)
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


def _place_in_use() -> str | Path:
    from kagura_kernel.assembly import load_settings

    return load_settings(os.environ).journal_url or data_home(os.environ)


def _with_journal(place: str | Path, work: Callable[[Journal], Verification]) -> Verification:
    from kagura_kernel.journal.store import Journal

    journal = Journal.open(place, create=False)
    try:
        return work(journal)
    finally:
        journal.close()


def _verify(journal: Journal) -> Verification:
    return journal.verify()


def _rebuild(journal: Journal) -> Verification:
    from kagura_kernel.journal.views import rebuild

    # Rows that somebody has changed must not make tables that look right.
    journal.verify(tables=False)
    rebuild(journal)
    return journal.verify()
