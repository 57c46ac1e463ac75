"""Up to which row a journal was found to hold, so that looking again costs what was written since.

A file in the data directory. Whoever can write the journal may write it too, so it proves nothing that the chain does
not; it saves time, and a journal that was put in another's place is told at once.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from kagura_kernel.journal.encoding import stamp
from kagura_kernel.journal.rows import NOTHING, NotedRow, Verification
from kagura_kernel.journal.settings_text import replace_file

FILE = "checked.json"


def noted_row(home: Path, where: str) -> NotedRow:
    """The newest row of this journal when it last held; `NOTHING` where that is not known, or cannot be read."""
    found = _read(home / FILE).get(where)
    match found:
        case {"seq": int(seq), "hash": str(digest), "at": str(at)} if seq > 0:
            return NotedRow(seq, digest, at)
        case _:
            return NOTHING


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
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
