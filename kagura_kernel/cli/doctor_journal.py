"""What `kagura-kernel doctor` says of a journal that cannot be used, and the one step that mends it."""

from __future__ import annotations

from kagura_kernel.cli.doctor_rows import FAIL, Finding
from kagura_kernel.domain.errors import (
    JournalError,
    JournalTampered,
    JournalTooNew,
    JournalUnreadable,
    JournalUnwritable,
)

_REBUILD = "`kagura-kernel journal rebuild` makes its tables anew from its rows"
_EVIDENCE = (
    "`kagura-kernel journal backup DIRECTORY` keeps it as it is; then put your last copy in its place, or move it away"
)
_NO_JOURNAL = "put your last copy in its place, or move it away: the next run makes a new one"
_ROOM = "free some space where it lies, or make it writable"
_SERVER = "mend the database server, or `journal_url` in the settings"
_NEWER = "`pip install --upgrade kagura-kernel`"


def unusable(error: JournalError) -> Finding:
    """The finding for a journal that does not open, or does not hold."""
    return Finding("journal", FAIL, error.message, _mends(error))


def only_read(where: str, why: str) -> Finding:
    """The finding for a journal that can be read and not written: nothing runs with it."""
    return Finding("journal", FAIL, f"{where}: it cannot be written, so nothing can run: {why}", _ROOM)


def _mends(error: JournalError) -> str:
    match error:
        case JournalTampered():
            return _REBUILD if error.table else _EVIDENCE
        case JournalUnwritable() | JournalUnreadable() if "://" in error.where:
            return _SERVER
        case JournalUnwritable():
            return _ROOM
        case JournalTooNew():
            return _NEWER
        case _:
            return _NO_JOURNAL
