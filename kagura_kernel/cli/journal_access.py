"""Which journal a command is about: the one of the settings, or one that is named; opened, read and closed again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

from kagura_kernel.domain.clock import read_time
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.journal.place import data_home, is_url, place_in_use

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


def place_of(arguments: SimpleNamespace) -> str | Path:
    """The journal that `--dir` or `--url` names, or the one in use.

    Raises:
        ConfigurationError: none is named, and the settings are wrong.
        UsageError: what is named as a URL is none.
    """
    if arguments.url and not is_url(arguments.url):
        # Not repeated: it may be one with a password that has lost its beginning.
        raise UsageError("--url takes a PostgreSQL journal, postgresql://user@host/database; --dir takes a directory.")
    named: str | Path | None = arguments.url or arguments.dir
    return named or place_in_use(os.environ)


def home_of(place: str | Path) -> Path:
    """The directory that keeps what lies beside a journal: the contents of changed files."""
    return place if isinstance(place, Path) else data_home(os.environ)


@contextmanager
def read_journal(arguments: SimpleNamespace) -> Iterator[Journal]:
    """The journal that a command is about, to look at; an empty one where nothing has run yet.

    Whoever names a place with `--dir` or `--url` is told that no journal is there: the name is probably wrong.

    Raises:
        UsageError: there is none where one was named.
        JournalError: it cannot be used.
        ConfigurationError: none is named, and the settings are wrong.
    """
    with ExitStack() as stack:
        try:
            journal = stack.enter_context(open_journal(place_of(arguments)))
        except UsageError:
            if arguments.url or arguments.dir:
                raise
            journal = _empty(stack)
        yield journal


def _empty(stack: ExitStack) -> Journal:
    from tempfile import TemporaryDirectory

    from kagura_kernel.journal.store import Journal

    journal = Journal.open(Path(stack.enter_context(TemporaryDirectory(prefix="kagura-"))))
    stack.callback(journal.close)
    return journal


@contextmanager
def open_journal(place: str | Path) -> Iterator[Journal]:
    """A journal that is there; none is made.

    Raises:
        UsageError: there is none.
        JournalError: it cannot be used.
    """
    from kagura_kernel.journal.store import Journal

    journal = Journal.open(place, create=False)
    try:
        yield journal
    finally:
        journal.close()


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
    from kagura_kernel.cockpit.run_names import here_of, named_run

    since = read_time(arguments.since, datetime.now(UTC)) if arguments.since else None
    with read_journal(arguments) as journal:
        run_id = named_run(journal, arguments.run, here_of()) if arguments.run is not None else None
        return view(journal, run_id, since, arguments.limit)
