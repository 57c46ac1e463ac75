"""`kagura-kernel journal`: check that nobody has touched the journal, or say where it lies."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalTampered
from kagura_kernel.journal.place import data_home, shown

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import Verification


def add_arguments(parser: ArgumentParser) -> None:
    """`verify` and `path`, each for the journal of the settings or for a named one."""
    parts = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    verify = parts.add_parser("verify", help="check every row against the hash chain; exit code 2 if one does not fit")
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    path = parts.add_parser("path", help="print where the journal lies")
    for action in (verify, path):
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
        checked = _verify(place)
    except JournalTampered as error:
        if arguments.json:
            found = {"ok": False, "where": error.where, "seq": error.seq, "why": error.why, "code": error.code}
            print(json.dumps(found, ensure_ascii=False))
            return 2
        raise
    if arguments.json:
        found = {"ok": True, "where": checked.where, "rows": checked.rows, "last_hash": checked.last_hash}
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(f"{checked.where}: {checked.rows} rows, all as they were written.")
        print(f"Last hash {checked.last_hash}")
    return 0


def _place_in_use() -> str | Path:
    from kagura_kernel.assembly import load_settings

    return load_settings(os.environ).journal_url or data_home(os.environ)


def _verify(place: str | Path) -> Verification:
    from kagura_kernel.journal.store import Journal

    journal = Journal.open(place, create=False)
    try:
        return journal.verify()
    finally:
        journal.close()
