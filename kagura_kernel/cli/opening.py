"""Which journal a command is about: the one of the settings, or one that is named; opened, and closed again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


def place_of(arguments: SimpleNamespace) -> str | Path:
    """The journal that `--dir` or `--url` names, or the one in use.

    Raises:
        ConfigurationError: none is named, and the settings are wrong.
    """
    named: str | Path | None = arguments.url or arguments.dir
    return named or place_in_use()


def place_in_use() -> str | Path:
    """The journal of the settings.

    Raises:
        ConfigurationError: the settings are wrong.
    """
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.journal.place import data_home

    return load_settings(os.environ).journal_url or data_home(os.environ)


def home_of(place: str | Path) -> Path:
    """The directory that keeps what lies beside a journal: the contents of changed files."""
    from kagura_kernel.journal.place import data_home

    return place if isinstance(place, Path) else data_home(os.environ)


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
