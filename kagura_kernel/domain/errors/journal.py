"""The record cannot be written, read or believed."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


class JournalError(KaguraError):
    """The journal cannot be kept; without it nothing is executed."""

    code = "ERR_JOURNAL"


class JournalMissing(JournalError):
    """There is no journal yet."""

    code = "ERR_JOURNAL_MISSING"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class JournalUnwritable(JournalError):
    """A row could not be written (disk full, read-only, no such server)."""

    code = "ERR_JOURNAL_UNWRITABLE"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"The journal {where} cannot be written: {why}. Nothing is executed without a journal. "
            + _journal_cure(where, "Free space or mend the permissions, or set KAGURA_HOME to another directory.")
        )
        self.where = where
        self.why = why


class JournalUnreadable(JournalError):
    """The journal's file or server cannot be read, or is no journal."""

    code = "ERR_JOURNAL_UNREADABLE"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"The journal {where} cannot be read: {why}. "
            + _journal_cure(where, "Move it away to start a new one, or set KAGURA_HOME to another directory.")
        )
        self.where = where
        self.why = why


class JournalTooNew(JournalError):
    """A newer kagura-kernel wrote this journal."""

    code = "ERR_JOURNAL_TOO_NEW"

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"The journal {where} has schema version {found}; this kagura-kernel knows {known}. "
            "Upgrade kagura-kernel, or set KAGURA_HOME to another directory."
        )
        self.where = where
        self.found = found
        self.known = known


class JournalTampered(JournalError):
    """The hash chain does not hold: a row was changed, or is missing; or a table made from the rows disagrees.

    `seq` is the row where it shows. `table` and `key` name the entry of the table; both are empty when it is the chain.
    """

    code = "ERR_JOURNAL_TAMPERED"

    def __init__(self, where: str, seq: int, why: str, *, table: str = "", key: str = "") -> None:
        super().__init__(
            f"The journal {where} does not verify in {table} at {key}: {why}. The events are sound; "
            "`kagura-kernel journal rebuild` makes the tables anew from them."
            if table
            else f"The journal {where} does not verify at row {seq}: {why}. Keep it as it is with "
            "`kagura-kernel journal backup DIRECTORY`, then put your last copy in its place, or move it away."
        )
        self.where = where
        self.seq = seq
        self.why = why
        self.table = table
        self.key = key


def _journal_cure(where: str, for_a_file: str) -> str:
    return "Mend the database server, or the address in KAGURA_JOURNAL_URL." if "://" in where else for_a_file
