"""A Jupyter cell becomes an agent run that is safe by construction."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kagura_kernel.domain.imports import guard_imports

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell

    from kagura_kernel.cockpit.session import Session
    from kagura_kernel.jupyter.memories import MemoryFrame
    from kagura_kernel.memory.store import MemoryStore
    from kagura_kernel.plugins.scan import Scan

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "load_ipython_extension",
    "open_memory",
    "recall",
    "redact",
    "scan_plugin",
    "session",
    "unload_ipython_extension",
]

guard_imports(os.path.realpath, os.getcwd)


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext kagura_kernel`: register the magics; what the first run needs is imported between cells."""
    from kagura_kernel.domain.former_names import former_variables
    from kagura_kernel.jupyter.magics import register
    from kagura_kernel.jupyter.preparation import compile_ahead, prepare

    register(ipython)
    for told in former_variables(os.environ):
        sys.stderr.write(f"{told}\n")
    compile_ahead(os.environ)
    prepare(ipython, os.environ)


def unload_ipython_extension(ipython: InteractiveShell) -> None:
    """`%unload_ext kagura_kernel`: stop what runs, close what is open, and take the magics away."""
    from kagura_kernel.jupyter.magics import unregister
    from kagura_kernel.jupyter.preparation import leave_be

    leave_be(ipython)
    unregister(ipython)


def open_memory(path: str | Path | None = None) -> MemoryStore:
    """A memory for a program; the end of a `with` block closes it, and so does its `close`.

    Its calls block, and any thread may make them; any number of programs may have the same memory open. What a program
    remembers is kept as it is given; `redact` takes secrets out.

    Args:
        path: A file, which is made when it is missing, a `postgresql://` URL, `cloud`, or an `https://` address; None
            is the one of the settings, which notebooks and runs use.

    Raises:
        ConfigurationError: the settings are wrong.
        MemoryUnavailable: it cannot be used.
    """
    from kagura_kernel.journal.place import data_home, read_settings
    from kagura_kernel.memory.location import open_memory as opened

    settings = read_settings(os.environ)
    where = settings.memory if path is None else str(path)
    home, meaning = data_home(os.environ), settings.memory_meaning
    return opened(where, home, os.environ, meaning=meaning, setting=path is None)


def recall(
    query: str,
    k: int = 10,
    *,
    type: str | Iterable[str] | None = None,  # noqa: A002 - the word of the command
    tag: str | Iterable[str] | None = None,
    tier: str | None = None,
    since: str | datetime | timedelta | None = None,
    scope: str | Iterable[str] | None = None,
) -> MemoryFrame:
    """What is remembered about something, the best first, as a DataFrame.

    Args:
        query: In words; empty lists the newest.
        k: How many at most, 1 to 1,000.
        type: Of this type alone, or of one of these: `note`, `lesson`, `fix`, `outcome`, …
        tag: With this tag, or with any of these.
        tier: `trusted` or `quarantine`; None for both.
        since: That happened since: an age such as `7d`, a time (one without a zone is this machine's), or how long ago.
        scope: Of this scope alone, or of one of these; `everybody` is what concerns everybody. None for any.

    Returns:
        One line for each memory, with its id as the index, and the columns `score` (0 to 1, comparable within one
        answer), `tier`, `type`, `source`, `age` (timedelta), `why_matched`, `summary`, `text`, `said` (then, of a
        lesson), `tags`, `scope`, `pinned` and `at` (UTC). As the end of a cell in a notebook it is a list with buttons.

    Raises:
        UsageError: the tier or the time makes no sense.
        MemoryInvalid: the question cannot be asked.
        MemoryUnavailable: the memory cannot be used.
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    from kagura_kernel.jupyter.memories import recalled

    return recalled(query, k, types=type, tags=tag, tier=tier, since=since, scopes=scope)


def redact(text: str) -> str:
    """The text with `[REDACTED:<kind>]` for every secret that is found in it; redacting twice changes nothing more.

    The first call may take seconds on a machine that has never compiled the rules; later processes find them compiled.

    Raises:
        RedactionUnavailable: secrets cannot be looked for.
    """
    from kagura_kernel.journal.place import data_home
    from kagura_kernel.kit.redaction.redactor import redactor_in

    return redactor_in(data_home(os.environ)).redact(text).text


def scan_plugin(path: str | Path) -> Scan:
    """What the static scan finds in a plugin's directory, or in one Python file; nothing of it is run or enabled.

    Raises:
        UsageError: there is no such file or directory, or it cannot be read.
    """
    from kagura_kernel.plugins.scan.scanner import scan_path

    return scan_path(path)


def session(name: str | None = None) -> Session:
    """A session for programs: one run at a time with `run`, many at once under one budget with `dispatch`.

    What these return can be awaited, in a notebook's cell too, or waited for with `result()`.

    Args:
        name: Its name, so that its runs know of each other from process to process; None is the one of this process.

    Raises:
        UsageError: it cannot be named so.
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    from kagura_kernel.assembly import get_cockpit

    return get_cockpit().session(name)
