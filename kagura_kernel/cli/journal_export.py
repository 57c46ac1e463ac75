"""`kagura-kernel journal export`: rows for an auditor, who checks them without us."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cockpit.naming import here_of, named_run, read_time

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

PRINTED = "-"
"""In place of a file's name: what is exported is printed."""


def run(arguments: SimpleNamespace) -> int:
    """Write it; 0.

    Raises:
        UsageError: there is no journal, a time makes no sense, no row is of that time, or the file cannot be made.
        RunUnknown: there is no such run.
        JournalError: the journal does not hold, or cannot be read; then no file is left.
    """
    with open_journal(place_of(arguments)) as journal:
        lines = _lines(journal, arguments)
        if arguments.file in (None, Path(PRINTED)):
            for line in lines:
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
            return 0
        from kagura_kernel.cockpit.memory import write_file

        count = write_file(Path(arguments.file), lines)
    print(f"{arguments.file}: {count:,} lines, the first and the last of which say where the part lies in the chain.")
    return 0


def _lines(journal: Journal, arguments: SimpleNamespace) -> Iterator[str]:
    from kagura_kernel.journal.exporting import ExportPart, export_lines

    now = datetime.now(UTC)
    part = ExportPart(
        since=read_time(arguments.since, now) if arguments.since else None,
        until=read_time(arguments.until, now, "--until") if arguments.until else None,
        run_id=named_run(journal, arguments.run, here_of()) if arguments.run is not None else None,
    )
    return export_lines(journal, part)
