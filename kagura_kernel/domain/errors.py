"""Every error this package raises on purpose, as one tree.

::

    KaguraError                          ERR_KAGURA
    ├── UsageError                       ERR_USAGE
    │   ├── UnknownName                  ERR_UNKNOWN_NAME
    │   └── NotThisTime                  ERR_UNSUPPORTED
    ├── ConfigurationError               ERR_CONFIGURATION
    ├── SessionBusy                      ERR_SESSION_BUSY
    ├── BudgetExhausted                  ERR_BUDGET_EXHAUSTED
    ├── ApprovalError
    │   ├── ApprovalRequired             ERR_APPROVAL_REQUIRED
    │   ├── ApprovalDenied               ERR_APPROVAL_DENIED
    │   ├── ApprovalAborted              ERR_APPROVAL_ABORTED
    │   ├── ApprovalUnknown              ERR_APPROVAL_UNKNOWN
    │   └── ApprovalAlreadyDecided       ERR_APPROVAL_DECIDED
    ├── CredentialError                  ERR_CREDENTIAL
    │   ├── GrantMissing                 ERR_GRANT_MISSING
    │   ├── SecretUnavailable            ERR_SECRET_UNAVAILABLE
    │   ├── LeaseRefused                 ERR_LEASE_REFUSED
    │   ├── LeaseUnavailable             ERR_LEASE_UNAVAILABLE
    │   └── LeaseEnded                   ERR_LEASE_ENDED
    ├── SandboxError
    │   ├── SandboxUnsupported           ERR_SANDBOX_UNSUPPORTED
    │   ├── SandboxUnavailable           ERR_SANDBOX_UNAVAILABLE
    │   │   └── SandboxDied              ERR_SANDBOX_DIED
    │   ├── SandboxProtocolError         ERR_SANDBOX_PROTOCOL
    │   ├── IsolationTooWeak             ERR_ISOLATION_TOO_WEAK
    │   ├── SandboxCommandTimeout        ERR_SANDBOX_COMMAND_TIMEOUT
    │   ├── SandboxIdleTimeout           ERR_SANDBOX_IDLE_TIMEOUT
    │   └── BoxFileError                 ERR_BOX_FILE
    ├── HostError
    │   ├── HostCommandTimeout           ERR_HOST_COMMAND_TIMEOUT
    │   └── HostIdleTimeout              ERR_HOST_IDLE_TIMEOUT
    ├── WorkspaceError
    │   ├── WorkspaceUnreadable          ERR_WORKSPACE_UNREADABLE
    │   ├── WorkspaceRefused             ERR_WORKSPACE_REFUSED
    │   ├── WorkspaceTooLarge            ERR_WORKSPACE_TOO_LARGE
    │   └── ChangeConflict               ERR_CHANGE_CONFLICT
    ├── BrainError
    │   ├── BrainNotConfigured           ERR_BRAIN_NOT_CONFIGURED
    │   ├── BrainRefused                 ERR_BRAIN_REFUSED
    │   ├── BrainLost                    ERR_BRAIN_LOST
    │   ├── CassetteMissing              ERR_CASSETTE_MISSING
    │   └── CassetteBroken               ERR_CASSETTE_BROKEN
    ├── JournalError
    │   ├── JournalUnwritable            ERR_JOURNAL_UNWRITABLE
    │   ├── JournalUnreadable            ERR_JOURNAL_UNREADABLE
    │   ├── JournalTooNew                ERR_JOURNAL_TOO_NEW
    │   └── JournalTampered              ERR_JOURNAL_TAMPERED
    └── RunError
        ├── CellFailed                   ERR_CELL_FAILED
        ├── TurnsExhausted               ERR_TURNS_EXHAUSTED
        ├── RunUnknown                   ERR_RUN_UNKNOWN
        ├── RunOver                      ERR_RUN_OVER
        ├── RunFailed                    ERR_RUN_FAILED
        ├── RunKilled                    ERR_RUN_KILLED
        └── RunLost                      ERR_RUN_LOST

A message says what happened, to what, and what to do next. It never holds a secret and never needs a
stack trace beside it. The data a program might want stands on attributes, so that nobody matches text.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import ClassVar


class KaguraError(Exception):
    """Base of all errors raised on purpose; `code` is stable across releases."""

    code: ClassVar[str] = "ERR_KAGURA"

    @property
    def message(self) -> str:
        """The text for the reader, without the code."""
        return str(self.args[0]) if self.args else self.__class__.__name__


class UsageError(KaguraError):
    """The person asked for something in a way that cannot be understood."""

    code = "ERR_USAGE"


class UnknownName(UsageError):
    """A name (brain, box, option, command) is not one of those that exist."""

    code = "ERR_UNKNOWN_NAME"

    def __init__(self, what: str, name: str, known: Sequence[str]) -> None:
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {what} {name!r}.{hint} Known: {', '.join(known) or 'none'}.")
        self.what = what
        self.name = name
        self.known = tuple(known)


class NotThisTime(UsageError):
    """The request is understood, and cannot be met in this setting."""

    code = "ERR_UNSUPPORTED"


class ConfigurationError(KaguraError):
    """Settings are wrong; `problems` holds all of them, each a line."""

    code = "ERR_CONFIGURATION"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{source} cannot be used:\n{listed}")
        self.source = source
        self.problems = tuple(problems)


class SessionBusy(KaguraError):
    """A session runs one run at a time, and one is running."""

    code = "ERR_SESSION_BUSY"

    def __init__(self, session: str, run_id: str) -> None:
        super().__init__(
            f"Session {session!r} is busy with {run_id}. Wait for it, stop it with "
            f"`%kagura kill {run_id}`, or start another thread of work with `--new`."
        )
        self.session = session
        self.run_id = run_id


class BudgetExhausted(KaguraError):
    """The run has spent what it was given."""

    code = "ERR_BUDGET_EXHAUSTED"

    def __init__(self, spent_usd: float, budget_usd: float) -> None:
        super().__init__(
            f"The run spent ${spent_usd:.4f} of its budget of ${budget_usd:.4f} and was stopped. "
            "Give it more with `--budget USD` and run the cell again."
        )
        self.spent_usd = spent_usd
        self.budget_usd = budget_usd


# ------------------------------------------------------------------ approvals


class ApprovalError(KaguraError):
    """Something needs a person's word."""

    code = "ERR_APPROVAL"


class ApprovalRequired(ApprovalError):
    """An approval is needed and nobody is there who could give it."""

    code = "ERR_APPROVAL_REQUIRED"

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} needs an approval: {reason}.")
        self.subject = subject
        self.reason = reason


class ApprovalDenied(ApprovalError):
    """A person, a policy or the deadline said no."""

    code = "ERR_APPROVAL_DENIED"

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"{subject} was not approved: {why}.")
        self.subject = subject
        self.why = why


class ApprovalAborted(ApprovalError):
    """The person called the whole thing off while being asked."""

    code = "ERR_APPROVAL_ABORTED"

    def __init__(self, subject: str) -> None:
        super().__init__(f"The approval of {subject} was called off, and the run with it.")
        self.subject = subject


class ApprovalUnknown(ApprovalError):
    """No approval bears this id."""

    code = "ERR_APPROVAL_UNKNOWN"

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"There is no approval {approval_id!r}. `%kagura approvals` lists them.")
        self.approval_id = approval_id


class ApprovalAlreadyDecided(ApprovalError):
    """Somebody was faster; the first decision stands."""

    code = "ERR_APPROVAL_DECIDED"

    def __init__(self, approval_id: str, verdict: str, by: str) -> None:
        super().__init__(f"Approval {approval_id} was already decided: {verdict} by {by}.")
        self.approval_id = approval_id
        self.verdict = verdict
        self.by = by


# ---------------------------------------------------------------- credentials


class CredentialError(KaguraError):
    """A credential cannot be had, held, or given back."""

    code = "ERR_CREDENTIAL"


class GrantMissing(CredentialError):
    """Nobody granted this credential to this run; nothing is granted by default."""

    code = "ERR_GRANT_MISSING"

    def __init__(self, provider: str, scope: str) -> None:
        super().__init__(
            f"{provider}:{scope} is not granted to this run. Grant exactly this with `--grant {provider}:{scope}`."
        )
        self.provider = provider
        self.scope = scope


class SecretUnavailable(CredentialError):
    """A secret that the configuration refers to cannot be read; neither it nor its place is repeated."""

    code = "ERR_SECRET_UNAVAILABLE"

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"The secret behind {setting} cannot be read: {why}.")
        self.setting = setting
        self.why = why


class LeaseRefused(CredentialError):
    """The provider said no, and will say so again: a wrong key, a missing right, an unknown scope."""

    code = "ERR_LEASE_REFUSED"

    def __init__(self, provider: str, why: str) -> None:
        super().__init__(
            f"{provider} gave no credential: {why}. Check its key and its rights in the providers' configuration."
        )
        self.provider = provider
        self.why = why


class LeaseUnavailable(CredentialError):
    """The provider could not be asked, or did not answer sensibly; later it may.

    `uncertain` says that it may have made a credential all the same, `retry_after` when it wants to be asked again.
    """

    code = "ERR_LEASE_UNAVAILABLE"

    def __init__(self, provider: str, why: str, *, uncertain: bool = False, retry_after: float | None = None) -> None:
        super().__init__(f"{provider} cannot give a credential now: {why}. Try again later.")
        self.provider = provider
        self.why = why
        self.uncertain = uncertain
        self.retry_after = retry_after


class LeaseEnded(CredentialError):
    """The lease is over, or on hold; its credential is not given out."""

    code = "ERR_LEASE_ENDED"

    def __init__(self, provider: str, scope: str, why: str) -> None:
        super().__init__(f"The lease of {provider}:{scope} is over: {why}. Ask for it again.")
        self.provider = provider
        self.scope = scope
        self.why = why


# -------------------------------------------------------------------- sandbox


class SandboxError(KaguraError):
    """A box could not do what was asked."""

    code = "ERR_SANDBOX"


class SandboxUnsupported(SandboxError):
    """This back-end cannot do that at all."""

    code = "ERR_SANDBOX_UNSUPPORTED"

    def __init__(self, backend: str, what: str) -> None:
        super().__init__(f"The {backend} back-end does not support {what}.")
        self.backend = backend
        self.what = what


class SandboxUnavailable(SandboxError):
    """No box can be had, or the one there was is gone. Never shown to a model as output."""

    code = "ERR_SANDBOX_UNAVAILABLE"

    def __init__(self, reason: str, install: str | None = None) -> None:
        super().__init__(f"No sandbox is available: {reason}." + (f" {install}" if install else ""))
        self.reason = reason
        self.install = install


class SandboxDied(SandboxUnavailable):
    """A running box ended although nobody closed it."""

    code = "ERR_SANDBOX_DIED"

    def __init__(self, box_id: str, why: str) -> None:
        KaguraError.__init__(self, f"Box {box_id} died: {why}. Its commands were stopped with it.")
        self.reason = why
        self.install = None
        self.box_id = box_id


class SandboxProtocolError(SandboxError):
    """What came out of the box is not the protocol; the box was closed."""

    code = "ERR_SANDBOX_PROTOCOL"

    def __init__(self, box_id: str, why: str) -> None:
        super().__init__(f"Box {box_id} broke the protocol and was closed: {why}.")
        self.box_id = box_id
        self.why = why


class IsolationTooWeak(SandboxError):
    """A shared deployment asks for stronger walls than this back-end has."""

    code = "ERR_ISOLATION_TOO_WEAK"

    def __init__(self, backend: str, has: str, needs: str) -> None:
        super().__init__(
            f"This deployment is shared, so boxes need {needs} isolation; {backend} gives {has}. "
            "Choose a back-end of that class, or unset the shared deployment setting on a machine of your own."
        )
        self.backend = backend
        self.has = has
        self.needs = needs


class CommandTimeout(SandboxError):
    """Shared text of the four limits; never raised itself."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} {self.what_happened(seconds)} and was stopped with all its children.")
        self.command = command
        self.seconds = seconds

    def what_happened(self, seconds: float) -> str:
        """The middle of the message."""
        return f"ran longer than {seconds:g} s"


class SandboxCommandTimeout(CommandTimeout):
    """A command in a box ran longer than its limit; its whole process group is gone."""

    code = "ERR_SANDBOX_COMMAND_TIMEOUT"


class SandboxIdleTimeout(CommandTimeout):
    """A command in a box printed nothing for longer than the idle limit."""

    code = "ERR_SANDBOX_IDLE_TIMEOUT"

    def what_happened(self, seconds: float) -> str:
        """The middle of the message."""
        return f"printed nothing for {seconds:g} s"


class BoxFileError(SandboxError):
    """A file in a box could not be read or written; `reason` is the system's word (`ENOENT`, …)."""

    code = "ERR_BOX_FILE"

    def __init__(self, path: str, reason: str, text: str) -> None:
        super().__init__(f"{path}: {text} ({reason}).")
        self.path = path
        self.reason = reason


# ----------------------------------------------------------------------- host


class HostError(KaguraError):
    """A command on the host, approved by a person, went wrong."""

    code = "ERR_HOST"


class HostCommandTimeout(HostError):
    """A host command ran longer than its limit; its whole process group is gone."""

    code = "ERR_HOST_COMMAND_TIMEOUT"

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} ran longer than {seconds:g} s and was stopped with all its children.")
        self.command = command
        self.seconds = seconds


class HostIdleTimeout(HostError):
    """A host command printed nothing for longer than the idle limit."""

    code = "ERR_HOST_IDLE_TIMEOUT"

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"{shorten(command)} printed nothing for {seconds:g} s and was stopped with all its children.")
        self.command = command
        self.seconds = seconds


# ------------------------------------------------------------------ workspace


class WorkspaceError(KaguraError):
    """The project cannot be shown to a box, or changed from one."""

    code = "ERR_WORKSPACE"


class WorkspaceUnreadable(WorkspaceError):
    """The project root is missing, is no directory, or may not be read."""

    code = "ERR_WORKSPACE_UNREADABLE"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"The project {path} cannot be used: {why}.")
        self.path = path
        self.why = why


class WorkspaceRefused(WorkspaceError):
    """The project root is a place that is never shown to a box."""

    code = "ERR_WORKSPACE_REFUSED"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"The project {path} is not shown to a box: {why}. Start the kernel in the project's own folder."
        )
        self.path = path
        self.why = why


class WorkspaceTooLarge(WorkspaceError):
    """The project does not fit into this back-end's workspace."""

    code = "ERR_WORKSPACE_TOO_LARGE"

    def __init__(self, path: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{path} is more than the {limit_bytes / 2**20:.0f} MiB that this back-end copies for a run. "
            "Use `--box bubblewrap`, which copies nothing of the project, or start from a smaller folder."
        )
        self.path = path
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ChangeConflict(WorkspaceError):
    """Files of the project changed while the run went on; nothing of theirs was overwritten."""

    code = "ERR_CHANGE_CONFLICT"

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"{len(paths)} file(s) changed in the project since the run began and were left alone: {', '.join(paths)}. "
            "Look at the diff and apply by hand, or run the cell again."
        )
        self.paths = tuple(paths)


# ---------------------------------------------------------------------- brain


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


# -------------------------------------------------------------------- journal


class JournalError(KaguraError):
    """The journal cannot be kept; without it nothing is executed."""

    code = "ERR_JOURNAL"


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
            else f"The journal {where} does not verify at row {seq}: {why}."
        )
        self.where = where
        self.seq = seq
        self.why = why
        self.table = table
        self.key = key


# ------------------------------------------------------------------------ run


class RunError(KaguraError):
    """A run did not end as it was meant to."""

    code = "ERR_RUN"


class CellFailed(RunError):
    """The program of a `%%sandbox` cell returned a failure."""

    code = "ERR_CELL_FAILED"

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"The cell's program ended with exit code {exit_code}; its output says why.")
        self.exit_code = exit_code


class TurnsExhausted(RunError):
    """The brain went round its loop as often as it was allowed to."""

    code = "ERR_TURNS_EXHAUSTED"

    def __init__(self, turns: int) -> None:
        super().__init__(
            f"The brain used all of its {turns} turns and was stopped. Give it more with `--max-turns`, "
            "or run the cell again: the session goes on from here."
        )
        self.turns = turns


class RunUnknown(RunError):
    """No run bears this id."""

    code = "ERR_RUN_UNKNOWN"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id!r}. `%kagura runs` lists them.")
        self.run_id = run_id


class RunOver(RunError):
    """The run has already ended; there is nothing to stop."""

    code = "ERR_RUN_OVER"

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"{run_id} has already ended: {status}.")
        self.run_id = run_id
        self.status = status


class RunFailed(RunError):
    """The run ended with an error of its own; `cause_code` says which."""

    code = "ERR_RUN_FAILED"

    def __init__(self, run_id: str, cause_code: str, why: str) -> None:
        super().__init__(f"{run_id} failed ({cause_code}): {why}")
        self.run_id = run_id
        self.cause_code = cause_code


class RunKilled(RunError):
    """Somebody stopped the run."""

    code = "ERR_RUN_KILLED"

    def __init__(self, run_id: str, by: str) -> None:
        super().__init__(f"{run_id} was stopped by {by}. Changes it had not handed over are in its change card.")
        self.run_id = run_id
        self.by = by


class RunLost(RunError):
    """The process that ran it is gone, and the run with it."""

    code = "ERR_RUN_LOST"

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"{run_id} was lost: {why}.")
        self.run_id = run_id
        self.why = why


def _journal_cure(where: str, for_a_file: str) -> str:
    return "Mend the database server, or the address in KAGURA_JOURNAL_URL." if "://" in where else for_a_file


def shorten(text: str, limit: int = 80) -> str:
    """Quote a command for a message: one line, at most `limit` characters."""
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else line[: limit - 1] + "…")
