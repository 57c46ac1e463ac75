"""`kagura-kernel brain` and `models`: what could think here, and what that would cost. The first asks no service."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from types import SimpleNamespace

from kagura_kernel.assembly.extensions import all_brain_reports
from kagura_kernel.cli.journal_access import open_journal, place_of, read_journal
from kagura_kernel.cli.output import as_json, for_terminal, paragraph, table, tell_rows, terminal_width
from kagura_kernel.cockpit.brains import PRICES_SAID, turn_words
from kagura_kernel.cockpit.next_commands import NO_MODELS
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.journal.place import data_home


def brain(arguments: SimpleNamespace) -> int:
    """Print them; 0 whether or not one can think.

    Raises:
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.assembly import load_settings

    settings, home = load_settings(os.environ), data_home(os.environ)
    with ExitStack() as stack:
        try:
            journal = stack.enter_context(open_journal(place_of(arguments)))
        except UsageError:
            journal = None  # nothing has run here yet, which is when people ask
        reports = all_brain_reports(os.environ, settings, home, journal, model=arguments.model)
    if arguments.json:
        print(as_json([asdict(one) for one in reports]))
        return 0
    head = ("brain", "", "model", "window", "a turn costs", "why")
    rows = [
        (
            one.name,
            "ready" if one.ready else "no",
            one.model or "-",
            "-" if one.window is None else one.window,
            "unknown" if one.turn_usd is None else f"${one.turn_usd:.4f}",
            for_terminal(one.reason),
        )
        for one in reports
    ]
    print(_told(head, rows))
    print(paragraph(turn_words(reports), "", "", terminal_width()) if sys.stdout.isatty() else turn_words(reports))
    return 0


def models(arguments: SimpleNamespace) -> int:
    """Print the models that runs here can name; 0.

    Raises:
        BrainNotConfigured: nothing can think.
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.assembly.offered_models import offered_models

    with read_journal(arguments) as journal:
        found = offered_models(os.environ, load_settings(os.environ), data_home(os.environ), journal, "")
    head = ("", "model", "read", "written", "price", "what it is")
    cells = [
        ("*" if one.current else " ", one.name, _usd(one.input_usd), _usd(one.output_usd), one.price, one.about or "-")
        for one in found
    ]
    tell_rows(arguments, list(map(asdict, found)), head, cells, whole=("", "model"), none=NO_MODELS)
    if cells and not arguments.json:
        print(PRICES_SAID)
    return 0


def _usd(figure: float | None) -> str:
    return "unknown" if figure is None else f"${figure:g}"


def _told(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; on a terminal the reasons stand below it, since what to do is among them and is typed again."""
    whole = ("brain", "", "a turn costs")
    if not sys.stdout.isatty():
        return table(head, rows, whole=whole)
    reasons = [f"{row[0]}:\n{paragraph(str(row[-1]), '  ', '  ', terminal_width())}" for row in rows]
    return "\n".join([table(head[:-1], [row[:-1] for row in rows], whole=whole), "", *reasons, ""])
