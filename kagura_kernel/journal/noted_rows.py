"""Up to which row a journal was found to hold, so that looking again costs what was written since.

A file in the data directory. Whoever can write the journal may write it too, so it proves nothing that the chain does
not; it saves time, and a journal that was put in another's place is told at once.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.rows import NOTHING, NotedRow, Verification
from kagura_kernel.journal.schema import events
from kagura_kernel.journal.settings_text import replace_file

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

FILE = "checked.json"
_MOST = 2**63 - 1


def noted_row(home: Path, where: str) -> NotedRow:
    """The newest row of this journal when it last held; `NOTHING` where that is not known, or cannot be read."""
    found = _read(home / FILE).get(where)
    match found:
        case {"seq": int(seq), "hash": str(digest), "at": str(at)} if 0 < seq <= _MOST:
            return NotedRow(seq, digest, at)
        case _:
            return NOTHING


def is_another(journal: Journal, noted: NotedRow) -> bool:
    """Whether a journal, however well it holds, is not the one in which this row was noted.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    if not noted.seq:
        return False
    found = journal.read(select(events.c.hash).where(events.c.seq == noted.seq))
    return [row.hash for row in found] != [noted.hash]


def note_row(home: Path, checked: Verification, now: datetime) -> None:
    """Note that a journal holds. Where that cannot be written, the next look takes longer, no more."""
    if not checked.rows:
        return
    noted = {"seq": checked.rows, "hash": checked.last_hash, "at": stamp(now)}
    try:
        replace_file(home / FILE, json.dumps(_read(home / FILE) | {checked.where: noted}).encode())
    except OSError:
        return


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
