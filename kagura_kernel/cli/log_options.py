"""What every log of the terminal takes: whose, since when, how many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.cli.opening import read_journal
from kagura_kernel.cockpit.naming import here_of, named_run, read_time

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

Row = TypeVar("Row")


def read_log(
    arguments: SimpleNamespace, view: Callable[[Journal, str | None, datetime | None, int], list[Row]]
) -> list[Row]:
    """The rows that these options ask for.

    Args:
        arguments: With `run`, `since`, `limit`, and where the journal lies.
        view: Journal, run or None, earliest time or None, and how many, to rows.

    Raises:
        UsageError: there is no journal where one was named, or a time makes no sense.
        RunUnknown: there is no such run.
        JournalError: the journal cannot be read.
    """
    since = read_time(arguments.since, datetime.now(UTC)) if arguments.since else None
    with read_journal(arguments) as journal:
        run_id = named_run(journal, arguments.run, here_of()) if arguments.run is not None else None
        return view(journal, run_id, since, arguments.limit)
