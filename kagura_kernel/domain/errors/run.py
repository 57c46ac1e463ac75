"""A run ended early, or is not there."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


class BrainError(KaguraError):
    """The brain could not think."""

    code = "ERR_BRAIN"


class BrainNotConfigured(BrainError):
    """No brain can be had; the text names the ways to get one."""

    code = "ERR_BRAIN_NOT_CONFIGURED"


class BrainRefused(BrainError):
    """The brain's service said no: a wrong key, an unknown model, a limit."""

    code = "ERR_BRAIN_REFUSED"

    def __init__(self, brain: str, why: str, status: int | None = None) -> None:
        super().__init__(f"The {brain} brain was refused: {why}")
        self.brain = brain
        self.why = why
        self.status = status


class BrainForgot(BrainRefused):
    """The brain does not remember the conversation that it was to go on with."""

    code = "ERR_BRAIN_FORGOT"

    def __init__(self, brain: str) -> None:
        super().__init__(brain, "it does not remember the session to resume. Start afresh with `--new`.")


class BrainLost(BrainError):
    """The brain's program ended or fell silent in the middle of a turn."""

    code = "ERR_BRAIN_LOST"

    def __init__(self, brain: str, why: str) -> None:
        super().__init__(f"The {brain} brain was lost: {why}. The run was stopped; run the cell again.")
        self.brain = brain
        self.why = why


class CassetteMissing(BrainError):
    """There is no recorded run at this path."""

    code = "ERR_CASSETTE_MISSING"

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no cassette {path}. Record one with `%%kagura --record {path}`.")
        self.path = path


class CassetteBroken(BrainError):
    """A cassette cannot be read, or does not fit this run.

    `foreign` says that the file is something else, which nobody should be told to record over.
    """

    code = "ERR_CASSETTE_BROKEN"

    def __init__(self, path: str, line: int, why: str, *, foreign: bool = False) -> None:
        advice = (
            "It is no cassette; nothing was changed."
            if foreign
            else f"Record it again with `%%kagura --record {path}`."
        )
        super().__init__(f"Cassette {path}, line {line}: {why}. {advice}")
        self.path = path
        self.line = line
        self.why = why
        self.foreign = foreign


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
        # A server that does not answer cannot be read either.
        super().__init__(
            f"The journal {where} cannot be {'used' if '://' in where else 'written'}: {why}. "
            "Nothing is executed without a journal. "
            + _journal_cure(where, "Free space or mend the permissions, or set KAGURA_HOME to another directory.")
        )
        self.where = where
        self.why = why


class JournalLocked(JournalUnwritable):
    """Another process writes, for longer than anybody waits."""

    code = "ERR_JOURNAL_LOCKED"

    def __init__(self, where: str, why: str) -> None:
        JournalError.__init__(
            self,
            f"The journal {where} is locked: {why}. Nothing was stored, and nothing is executed without a journal. Try "
            "again in a moment; if it stays so, end the process that holds it.",
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
        on_server = "://" in where
        elsewhere = (
            "name another one in `journal_url` of the settings" if on_server else "set KAGURA_HOME to another directory"
        )
        super().__init__(
            f"The journal {where} has schema version {found}; this kagura-kernel knows {known}. "
            f"Upgrade kagura-kernel and restart what ran meanwhile, or {elsewhere}."
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
        copies = "`pg_dump`" if "://" in where else "`kagura-kernel journal backup DIRECTORY`"
        super().__init__(
            f"The journal {where} does not verify in {table} at {key}: {why}. The events are sound; "
            "`kagura-kernel journal rebuild` makes the tables anew from them."
            if table
            else f"The journal {where} does not verify at row {seq}: {why}. Keep it as it is with "
            f"{copies}, then put your last copy in its place, or move it away."
        )
        self.where = where
        self.seq = seq
        self.why = why
        self.table = table
        self.key = key


def _journal_cure(where: str, for_a_file: str) -> str:
    return "Mend the database server, or `journal_url` in the settings." if "://" in where else for_a_file


class RunError(KaguraError):
    """A run did not end as it was meant to."""

    code = "ERR_RUN"


class CellFailed(RunError):
    """The program of a `%%sandbox` cell returned a failure."""

    code = "ERR_CELL_FAILED"

    def __init__(self, exit_code: int, message: str = "", *, silent: bool = False) -> None:
        said = " and printed nothing" if silent else "; its output says why"
        super().__init__(message or f"The cell's program ended with exit code {exit_code}{said}.")
        self.exit_code = exit_code


class TurnsExhausted(RunError):
    """The brain went round its loop as often as it was allowed to."""

    code = "ERR_TURNS_EXHAUSTED"

    def __init__(self, turns: int) -> None:
        used = "its one turn" if turns == 1 else f"all of its {turns} turns"
        super().__init__(
            f"The brain used {used} and was stopped. Give it more with `--max-turns N` and go on from there."
        )
        self.turns = turns


class RunUnknown(RunError):
    """No run bears this id."""

    code = "ERR_RUN_UNKNOWN"

    def __init__(self, run_id: str, why: str = "") -> None:
        super().__init__(f"{why or f'There is no run {run_id!r}.'} `%kagura runs` lists them.")
        self.run_id = run_id


class NotHeard(RunError):
    """The run goes on, and its brain takes nothing while it works."""

    code = "ERR_NOT_HEARD"

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(
            f"{run_id} was not told: {why}. `say --instead` stops it and goes on in the same conversation with this."
        )
        self.run_id = run_id
        self.why = why


class RunOver(RunError):
    """The run has already ended; there is nothing to stop, and nobody to tell anything."""

    code = "ERR_RUN_OVER"

    def __init__(self, run_id: str, status: str, what_now: str = "") -> None:
        super().__init__(f"{run_id} has already ended: {status}.{what_now and f' {what_now}'}")
        self.run_id = run_id
        self.status = status


class RunDenied(RunError):
    """The run was not allowed to start; `cause_code` says whether somebody said no or nobody could be asked."""

    code = "ERR_RUN_DENIED"

    def __init__(self, run_id: str, cause_code: str, why: str) -> None:
        super().__init__(f"{run_id} was denied ({cause_code}): {why}")
        self.run_id = run_id
        self.cause_code = cause_code


class RunFailed(RunError):
    """The run ended with an error of its own; `cause_code` says which."""

    code = "ERR_RUN_FAILED"

    def __init__(self, run_id: str, cause_code: str, why: str) -> None:
        super().__init__(f"{run_id} failed ({cause_code}): {why}")
        self.run_id = run_id
        self.cause_code = cause_code


class RunKilled(RunError):
    """Somebody stopped the run; `told` is what its record says of that, where there is one."""

    code = "ERR_RUN_KILLED"

    def __init__(self, run_id: str, by: str, told: str = "") -> None:
        super().__init__(told or f"{run_id} was stopped by {by}.")
        self.run_id = run_id
        self.by = by


class RunLost(RunError):
    """The process that ran it is gone, and the run with it."""

    code = "ERR_RUN_LOST"

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"{run_id} was lost: {why}.")
        self.run_id = run_id
        self.why = why


class WorkNotVerified(RunError):
    """The run came to its end, and its work did not pass its verification."""

    code = "ERR_NOT_VERIFIED"

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"{run_id} is done, but its work did not pass its verification. `%kagura changes {run_id}` shows what it "
            "changed."
        )
        self.run_id = run_id


class ResumeRefused(RunError):
    """A run cannot be gone on with; the message says why, and what can be done instead."""

    code = "ERR_RESUME_REFUSED"

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"{run_id} cannot be resumed: {why}")
        self.run_id = run_id


class WorkersUnavailable(RunError):
    """Work cannot be handed to the workers that were named, or what they say cannot be used."""

    code = "ERR_WORKERS"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"The workers at {address} cannot be used: {why}")
        self.address = address
        self.why = why
