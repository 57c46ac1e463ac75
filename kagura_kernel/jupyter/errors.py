"""Errors as a notebook shows them: one calm line, no traceback; Run All still stops there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kagura_kernel.domain.errors import CellFailed, KaguraError, RunDenied, RunFailed, RunKilled, RunLost
from kagura_kernel.domain.outcome import RunOutcome

KERNEL = "kagura"
"""What our own kernel says that it is."""

# Red would be hard to read on the red ground that JupyterLab gives an error.
_BOLD = "\x1b[1m"
_PLAIN = "\x1b[0m"


@contextmanager
def calm() -> Iterator[None]:
    """Whatever `KaguraError` leaves the block is shown as one line. Errors that are not ours keep their traceback."""
    try:
        yield
    except KaguraError as error:
        shown_as(error, *calm_lines(error))
        raise


def shown_as(error: BaseException, *lines: str) -> None:
    """Have an error shown as these lines, without a traceback."""
    # IPython asks the exception itself how it wants to be shown.
    error.__dict__["_render_traceback_"] = lambda: list(lines)


def calm_lines(error: KaguraError) -> list[str]:
    """The lines that stand below the cell. That somebody stopped a run is no fault, and has neither colour nor code."""
    from kagura_kernel.domain.visible import visible

    message = visible(_as_typed(error.message))
    return [message if isinstance(error, RunKilled) else f"{_BOLD}{error.code}{_PLAIN}  {message}"]


def _as_typed(text: str) -> str:
    """A message with its commands as they are typed here: in a `kagura` kernel `%kagura runs` is `/runs`."""
    from IPython.core.getipython import get_ipython

    from kagura_kernel.cockpit.lines.parser import as_typed
    from kagura_kernel.domain.grammar import Surface

    if getattr(getattr(get_ipython(), "kernel", None), "implementation", "") != KERNEL:
        return text
    return as_typed(text, Surface.NOTEBOOK, "/")


def check(outcome: RunOutcome) -> RunOutcome:
    """The outcome, unless the run did not get as far as an answer.

    A run that is done, that was refused something on its way, or that reached its budget has done part of its work and
    returns it. One that failed, that was not allowed to start, was killed or was lost stops Run All.

    Raises:
        CellFailed: a `%%sandbox` program returned a failure.
        RunDenied: it was not allowed to start.
        RunFailed: an error ended the run.
        RunKilled: somebody stopped it.
        RunLost: its process is gone.
    """
    match outcome.status:
        case "failed" if outcome.exit_code:
            raise CellFailed(outcome.exit_code, outcome.error)
        case "failed":
            raise RunFailed(outcome.run_id, outcome.error_code, outcome.error)
        case "denied":
            raise RunDenied(outcome.run_id, outcome.error_code, outcome.error)
        case "killed":
            raise RunKilled(outcome.run_id, "a person", outcome.error)
        case "lost":
            raise RunLost(outcome.run_id, outcome.error)
        case _:
            return outcome
