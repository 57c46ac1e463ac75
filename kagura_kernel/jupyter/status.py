"""`%kagura status` for reading."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.lines.help import WIDTH
from kagura_kernel.domain.approval_content import asked_line
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import money
from kagura_kernel.sandbox.selection import SHARED_NEEDS

if TYPE_CHECKING:
    from kagura_kernel.cockpit.status import PartStatus, StatusReport


class StatusText:
    """The report as the value of a cell: a card, and text to read, with the report behind it."""

    def __init__(self, report: StatusReport) -> None:
        self.report = report  # The figures

    def __repr__(self) -> str:
        return status_text(self.report)

    def _repr_html_(self) -> str:
        from kagura_kernel.render.html import framed, html_of

        return framed(html_of(status_blocks(self.report)), "Status")


@dataclass(frozen=True, slots=True)
class _Fact:
    """One line of the report."""

    what: str  # What kind of fact, in a word
    name: str = ""
    state: str = ""
    told: str = ""  # A sentence of ours
    more: str = ""  # Another one, on a line of its own
    commands: tuple[str, ...] = ()  # What can be typed now
    tone: str = ""  # How the state looks


def status_text(report: StatusReport) -> str:
    """The whole report, a line for each fact."""
    return "\n".join(line for fact in _facts(report) for line in _lines(fact))


def status_blocks(report: StatusReport) -> ui.Blocks:
    """The same as a card."""
    nothing = () if _going(report) else (ui.soft(_NOTHING),)
    rows = [_row(fact) for fact in _facts(report) if fact.what]
    return (ui.head("Status", *nothing), ui.Group((ui.Pairs(rows),), "body"))


_NOTHING = "Nothing runs, nothing waits."


def _lines(fact: _Fact) -> Iterator[str]:
    if not fact.what:
        yield fact.told
        return
    part = bool(fact.tone)
    name, state = (f"{fact.name:<11}", f"{fact.state:<5}") if part else (fact.name, fact.state)
    margin = " " * (30 if part else 10)
    yield _wrapped(f"{fact.what:<9} {'  '.join(filter(None, (name, state, fact.told)))}", margin)
    if fact.commands:
        yield f"{margin}{'   or   '.join(fact.commands)}"
    if fact.more:
        yield _wrapped(f"{margin}{fact.more}", margin)


def _wrapped(line: str, margin: str) -> str:
    """A front end would break a long line in the middle of a word, and go on at the left edge."""
    return textwrap.fill(line, WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def _row(fact: _Fact) -> tuple[str, ui.Words]:
    told = [ui.Span(text, "prose") for text in (fact.told, fact.more[:1].upper() + fact.more[1:]) if text]
    if fact.tone:
        return f"{fact.what} {fact.name}", (ui.chip(fact.state, fact.tone), *told)
    name = (ui.code(fact.name),) if fact.name else ()
    return fact.what, (*name, fact.state, *told, *(ui.code(command) for command in fact.commands))


def _facts(report: StatusReport) -> Iterator[_Fact]:
    yield from _going(report) or [_Fact("", told=_NOTHING)]
    if report.shared:
        needs = f"Others share this machine: a box needs {SHARED_NEEDS.label} isolation or stronger."
        yield _Fact("shared", told=needs)
    for part in report.boxes:
        yield _box(part, shared=report.shared)
    for what, part in (*(("brain", part) for part in report.brains), *(("also", part) for part in report.others)):
        yield _part(what, part)
    unpriced = f", {report.unpriced_today} of unknown price" if report.unpriced_today else ""
    yield _Fact("cost", told=f"{money(report.spent_today_usd)} today (UTC){unpriced}.")
    yield _Fact("journal", told=visible(report.journal))
    if report.memory:
        yield _Fact("memory", told=f"No agent can start. {_sentence(report.memory)}")


def _going(report: StatusReport) -> list[_Fact]:
    """What runs and waits, and what earlier processes have left."""
    facts = [
        _Fact("running", run.run_id, run.status.replace("_", " "), one_line(run.task, 60)) for run in report.running
    ]
    for request in report.pending:
        what = asked_line(request.kind, request.title, request.detail, request.arguments)
        answer = " TEXT" if request.kind == "question" else ""
        commands = (f"%kagura approve {request.id}{answer}", f"%kagura deny {request.id}")
        more = "TEXT is the answer to send." if answer else ""
        facts.append(_Fact("waiting", request.id, told=one_line(what, 100), more=more, commands=commands))
    facts += [_Fact("lost", run_id) for run_id in report.lost]
    # A crash may leave many, and what a person needs is which rights were out and that they are not any more.
    for (name, how), count in Counter((f"{one.provider}:{one.scope}", one.how) for one in report.swept).items():
        many = f", {count} credentials" if count > 1 else ""
        facts.append(_Fact("swept", visible(name), told=f"{how}{many}"))
    for one in report.owed:
        name = f"{visible(one.provider)}:{visible(one.scope)}"
        facts.append(_Fact("owed", one.lease_id, name, _sentence(one.why) if one.why else ""))
    return facts


def _box(part: PartStatus, *, shared: bool) -> _Fact:
    weak = {level.label for level in IsolationClass if level < SHARED_NEEDS}
    if shared and part.ok and part.isolation in weak:
        refused = f"Refused here: {part.isolation} isolation is too weak to be shared."
        return _Fact("box", part.name, "no", refused, _sentence(part.advice), tone="warn")
    return _part("box", part)


def _part(what: str, part: PartStatus) -> _Fact:
    state, tone = ("ready", "good") if part.ok else ("no", "warn")
    return _Fact(what, part.name, state, _sentence(part.reason), _sentence(part.advice), tone=tone)


def _sentence(text: str) -> str:
    shown = visible(text).rstrip()
    return shown if not shown or shown.endswith((".", "!", "?")) else f"{shown}."
