"""`kagura-kernel plugin enable` and `plugin audit`: the report, the decision and the form in a terminal.

A plugin is enabled for a session of another process: it is tried out here, with its configuration, and that session
then hears of it. In a conversation (`kagura-kernel repl`) its own session has it at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from kagura_kernel.cli.output import as_json, paragraph, terminal_width
from kagura_kernel.cli.plugin import VIA, as_data, as_in, in_cockpit, live_sessions, named_session, wait_for
from kagura_kernel.cockpit.plugin_talk import (
    AuditDone,
    AuditPlugin,
    EnablePlugin,
    PluginEnabled,
    TextSurface,
    as_asked,
    as_typed,
    enabled_text,
    talk_in_text,
)
from kagura_kernel.cockpit.run_names import working_directory
from kagura_kernel.domain.errors import PluginRefused, UsageError
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.plugins import AuditReport, PluginAudit, PluginState, ReportFinding, Risk, Severity, report_of
from kagura_kernel.journal.mailbox import LASTS, send_plugin_word
from kagura_kernel.journal.plugins import latest_failures, plugin_views
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.names import shown
from kagura_kernel.plugins.configuration import MASK, masked_field
from kagura_kernel.plugins.permissions import NotShown, field_of, read_path

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_talk import PluginStep, PluginTalk
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.manager import PluginRow


WIDEST = 100
"""Columns: longer lines are hard to read, however wide the terminal is."""

_RESET = "0"
_BOLD, _FAINT = "1", "2"
_RED, _YELLOW, _GREEN, _CYAN = "31", "33", "32", "36"
_BADGES = {
    Risk.LOW: "1;30;42",
    Risk.UNKNOWN: "1;30;43",
    Risk.MEDIUM: "1;30;43",
    Risk.HIGH: "1;37;41",
    Risk.CRITICAL: "1;37;41",
}
_TONES = {Severity.DANGER: _RED, Severity.WARNING: _YELLOW, Severity.INFO: _CYAN}


@dataclass(frozen=True, slots=True)
class _Paint:
    """Colours, or none."""

    on: bool

    def __call__(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[{_RESET}m" if self.on and text else text


def print_audit(audit: PluginAudit, stream: TextIO | None = None) -> None:
    """Print a report; in colours on a terminal that has them and where nobody has said `NO_COLOR`."""
    out = stream or sys.stdout
    print(audit_text(audit, width=min(terminal_width(), WIDEST), colours=coloured(out)), file=out)


def coloured(stream: TextIO) -> bool:
    """Whether colours are wanted there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def audit_text(audit: PluginAudit, *, width: int = 80, colours: bool = False) -> str:
    """The report as lines of at most so many columns.

    Words of the plugin and of the auditor cannot pose as anything else: what a terminal would obey is written out.
    """
    report, paint = report_of(audit), _Paint(colours)
    return "\n".join(_lines(report, paint, width))


def _lines(report: AuditReport, paint: _Paint, width: int) -> Iterator[str]:
    yield f"{paint(_BOLD, f'Audit of {shown(report.title)}')}  {paint(_BADGES[report.risk], f'[{report.risk_words}]')}"
    yield paragraph(f"{report.verdict_words} ({report.counts}).", "", "", width)
    yield ""
    yield paragraph(shown(report.summary), "", "", width)
    if report.remark:
        yield paint(_YELLOW, paragraph(shown(report.remark), "", "", width))
    yield ""
    label = max(len(fact.name) for fact in report.facts) + 2
    for fact in report.facts:
        tone = {True: _GREEN, False: _RED, None: _RESET}[fact.good]
        text = paragraph(shown(fact.text), "", " " * label, width)
        yield paint(_FAINT, fact.name.ljust(label)) + paint(tone, text)
    for finding in report.findings:
        yield ""
        yield from _finding(finding, paint, width)
    if report.injections:
        yield ""
        yield paint(_BOLD, "Text in it that talks to whoever reads it:")
        for text, why in report.injections:
            yield paragraph(shown(text), "  > ", "    ", width)
            if why:
                yield paint(_FAINT, paragraph(shown(why), "    ", "    ", width))


def _finding(finding: ReportFinding, paint: _Paint, width: int) -> Iterator[str]:
    place = f"  {paint(_FAINT, shown(finding.place))}" if finding.place else ""
    yield f"{paint(_TONES[finding.severity], finding.word)}{place}"
    yield paragraph(shown(finding.message), "  ", "  ", width)
    if finding.source:
        yield paint(_FAINT, f"  | {shown(finding.source)}")


CLEAN, DANGER = 0, 1


@in_cockpit
def plugin_audit(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Look through its files, and report; 1 when there is a danger, else 0. Raises `BrainError` too."""
    reports: list[AuditDone] = []

    def keep(step: PluginStep) -> None:
        if isinstance(step, AuditDone):
            reports.append(step)

    talk = found.plugins.audit(AuditPlugin(**_about(arguments)))
    talk.subscribe(keep)
    row = _followed(talk, arguments)
    if arguments.json:
        print(as_json(as_data(row)))
    return DANGER if any(report.audit.dangerous for report in reports) else CLEAN


@in_cockpit
def plugin_enable(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Try it out here, decided on and configured, and have a session enable it so; 0. Raises `BrainError` too."""
    row = found.plugins.row(arguments.name)
    session = named_session(found.journal, arguments.session)
    words, own = as_typed(arguments.values), session == getattr(arguments, "conversation", None)
    if not own:
        check_no_secret(row.name, [field for field, text in arguments.values if masked_field(field, text) != text])
    accept = Risk[arguments.accept_risk.upper()] if arguments.accept_risk else None
    of = session if own else None
    talk = found.plugins.enable(EnablePlugin(words=words, accept=accept, session=of, **_about(arguments)))
    row = _followed(talk, arguments)
    enabled = next(step for step in talk.steps if isinstance(step, PluginEnabled))
    said = ""
    if not own:
        check_no_secret(row.name, [field for field, text in row.config.items() if MASK in text])
        said = hand_over(found, session, enabled)
    if arguments.json:
        (there,) = as_in(found.journal, session, [replace(row, state=PluginState.CONFIGURED)])
        print(as_json(as_data(there) | {"session": session}))
    else:
        print(enabled_text(enabled, said))
    return CLEAN


def hand_over(found: Cockpit, session: str, enabled: PluginEnabled) -> str:
    """Have a session of another process enable a plugin as it was tried out here.

    Returns:
        What became of it; goes on from the plugin's name.

    Raises:
        UsageError: it is more configuration than can be handed over.
        PluginRefused: the session could not enable it.
        JournalError: the journal cannot be used.
    """
    journal, row = found.journal, enabled.row
    words = absolute(enabled.words, row, working_directory())
    since = journal.clock.now()
    send_plugin_word(
        journal, session, "enable", row.name, by=person(), via=VIA, content_hash=row.content_hash, words=words
    )
    state = wait_for(journal, session, partial(_heard, journal, session, row, since))
    if state == PluginState.ENABLED:
        return f"is enabled in the session {session}"
    if state:
        raise PluginRefused(row.name, f"works here and was not enabled in the session {session}: {state}")
    if session in live_sessions(journal):
        return f"is enabled in the session {session} as soon as that hears of it, at its next run at the latest"
    minutes = round(LASTS.total_seconds() / 60)
    return f"is enabled in the session {session} once a run uses that name, if it does so within {minutes} minutes"


def _heard(journal: Journal, session: str, row: PluginRow, since: datetime) -> str:
    """Where the plugin is in a session since then, or why it is not there; empty while nothing was said."""
    failed = latest_failures(journal, session).get(row.name)
    if failed is not None and failed.at >= since:
        return failed.reason
    for view in plugin_views(journal):
        if view.name == row.name:
            for use in view.uses:
                if use.session_id == session and use.at >= since and use.state is not PluginState.CONFIGURED:
                    return str(use.state) if use.state is PluginState.ENABLED else use.reason or str(use.state)
    return ""


def absolute(words: Sequence[str], row: PluginRow, here: Path) -> tuple[str, ...]:
    """Configuration as a process with another working directory understands it: paths that began here are whole.

    The plugin says what of the words, each `field=value`, are paths.
    """
    paths = {field_of(entry) for entry in (*row.permissions.read, *row.permissions.write)}
    return tuple(
        f"{field}={_absolute(text, here)}" if field in paths else f"{field}={text}"
        for field, _, text in (word.partition("=") for word in words)
    )


def _absolute(text: str, here: Path) -> str:
    if text.startswith("["):
        return json.dumps([_absolute(one, here) for one in json.loads(text)])
    try:
        written = read_path(text)
    except NotShown:
        return text
    if written is None or written.path.startswith(("/", "~")):
        return text
    return written.at(str(here / written.path))


def check_no_secret(name: str, fields: Sequence[str]) -> None:
    """Refuse to hand a password over: what lies between two processes can be read by whoever reads the journal.

    Raises:
        UsageError: there is one.
    """
    if fields:
        raise UsageError(
            f"{', '.join(fields)} of {name} holds a password, and none is handed from a terminal to a notebook. "
            "Enable it in a cell of the notebook, with the same words."
        )


def _about(arguments: SimpleNamespace) -> dict[str, Any]:
    return {
        **as_asked(vars(arguments)),
        "headless": arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()),
        "origin": "terminal",
        "by": person(),
        "via": VIA,
    }


def _followed(talk: PluginTalk, arguments: SimpleNamespace) -> PluginRow:
    def report(step: AuditDone) -> None:
        if not arguments.json:
            print_audit(step.audit)

    def say(text: str) -> None:
        # What a program reads is data alone; what a person reads on the way goes beside it.
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    try:
        return talk_in_text(talk, TextSurface(say, _line, report, person(), VIA, enabled=lambda _: None))
    except KeyboardInterrupt:
        print(f"Called off: nothing was decided about {arguments.name}.", file=sys.stderr)
        raise


def _line(prompt: str) -> str:
    """A line that a person types; what ends it otherwise leaves the prompt's line."""
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        print()
        raise
