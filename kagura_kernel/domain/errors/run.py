"""A run ended early, or is not there."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


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

    def __init__(self, run_id: str, why: str = "") -> None:
        super().__init__(f"{why or f'There is no run {run_id!r}.'} `%kagura runs` lists them.")
        self.run_id = run_id


class RunOver(RunError):
    """The run has already ended; there is nothing to stop."""

    code = "ERR_RUN_OVER"

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"{run_id} has already ended: {status}.")
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
