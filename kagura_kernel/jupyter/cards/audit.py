"""The card of an audit or an enabling: who looks, the report, the question, how it ended. Live and saved.

Nearly every word of the report is the plugin's author's, or was written by an auditor who had read them. All of it is
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kagura_kernel.domain.plugins import AuditReport, ReportFinding, Severity, report_of
from kagura_kernel.jupyter.cards.audit_form import form_html
from kagura_kernel.jupyter.cards.audit_view import STATES, AuditView, Subject
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.bounded import bounded
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.render.text import lines_of, words_in_text
from kagura_kernel.views.body import item_blocks
from kagura_kernel.views.head import figures
from kagura_kernel.views.status import RISK_TONES

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginAudit, PluginFinding, PluginPermissions

LABEL = "Plugin audit"
CONFIGURED = "Configured with"
OPENS_NAME = "Its jail would open"
CACHED = "These very files were audited before; this is that report."

OPENS = (("read", "Read"), ("write", "Read and write"), ("net", "Reach"))
"""The kinds of permissions with what the jail would let a plugin do."""

_PLACES = {"bundled": "comes with Kagura", "user": "one of your own plugins", "project": "lies in this project"}
_ORDER = ("said", "asks", "report", "form", "end")
_SEVERITY_TONES = {Severity.DANGER: "bad", Severity.WARNING: "warn", Severity.INFO: "busy"}
_FACT_TONES = {True: "good", False: "bad", None: ""}
_IN_SIGHT = 12
_MOST, _TOLD = 200, 60
"""Findings on a card, and in text."""
_MOST_ENTRIES = 60
_OF_ITSELF, _SENTENCE, _LINE = 500, 600, 240
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")


def audit_parts(view: AuditView, *, left: float) -> dict[str, str]:
    """HTML of the parts of a live card that changed since the last time, by key.

    Args:
        view: The audit.
        left: Seconds until no answer to its question is a no.
    """
    dirty = view.take_dirty()
    parts = {"head": html_of([_head(view, live=True)])} if "head" in dirty else {}
    drawn = _drawn(view, left=left, live=True)
    return parts | {key: drawn[key]() for key in _ORDER if key in dirty}


def audit_html(view: AuditView) -> str:
    """The card as it stays in a notebook."""
    inside = "".join(draw() for draw in _drawn(view, left=0, live=False).values())
    body = f'<div class="kg-body">{inside}</div>' if inside else ""
    return framed(html_of([_head(view, live=False)]) + body, LABEL)


def _drawn(view: AuditView, *, left: float, live: bool) -> Mapping[str, Callable[[], str]]:
    return {
        "said": lambda: html_of(_said(view)) if live else "",
        "asks": lambda: html_of(_asks(view, live=live)),
        "report": lambda: html_of([report_block(view.audit, view.subject, cached=view.cached)]) if view.audit else "",
        "form": lambda: form_html(view, left=left, live=live),
        "end": lambda: html_of(_end(view)),
    }


def _head(view: AuditView, *, live: bool) -> ui.Group:
    words, tone = STATES[view.state]
    if view.audit is not None and view.state == "audited":
        tone = RISK_TONES[view.audit.risk]
    # The front end announces the end once; a region that speaks by itself would do so at every figure beside it.
    pill = ui.Span(words, "pill", tone=tone, is_last_word=live and view.ended)
    about = view.subject
    name: ui.Words = (LABEL,) if about is None else (about.name, ui.soft(about.version))
    going = live and not view.ended
    stop = [ui.Button("Stop", "stop", {}, "quiet", hint="Call it off; nothing is enabled")] if going else []
    top = ui.Line((pill, ui.Span(name, "name"), figures(view.run, live=live), *stop), "top")
    places = tuple(_places(view, about))
    return ui.Group((top, *([ui.Group(places, "places")] if places else [])), "head")


def _places(view: AuditView, about: Subject | None) -> Iterator[ui.Block]:
    if about is not None:
        yield ui.Line((ui.strong("Says of itself"), ui.quote(one_line(about.description, _OF_ITSELF), "own")))
        signed = f", signed by {about.signed_by}, whom you trust" if about.signed_by else ""
        yield ui.Line((ui.strong("From"), f"{_PLACES[about.place]}{signed}"))
    started = view.run.started
    if started is not None and view.audit is None:
        why = [f"— {one_line(started.brain_reason, _OF_ITSELF)}"] if started.brain_reason else []
        yield ui.Line((ui.strong("Auditor"), started.brain or "none, the static scan alone", *why))


def _said(view: AuditView) -> ui.Blocks:
    if not view.writes:
        return ()
    if not view.said:
        return (ui.label("The auditor reads the source."),)
    line = f"The auditor writes its report, {counted(len(view.said), 'character')} so far"
    return (ui.Fold((line,), (ui.Pre(view.said, is_followed=True),), "said", "args"),)


def _asks(view: AuditView, *, live: bool) -> ui.Blocks:
    asks = [block for ask in view.questions for block in item_blocks(ask, view.run, live=live and not view.ended)]
    return (*asks, *(ui.Line((ui.Span(text, "prose"),), "note") for text in view.notes))


def _end(view: AuditView) -> ui.Blocks:
    if view.enabled:
        told = ui.Pairs([(name, (text,)) for name, text in view.configured.items()])
        return (
            *(_named(CONFIGURED, told) if told.rows else ()),
            ui.Line((ui.Span(view.enabled, "prose"),), "end", "good"),
        )
    # Of a person's no it is said already whose it was, and by whom it was stopped the cell's error says.
    if view.error is None or view.state in {"rejected", "stopped"}:
        return ()
    return (ui.Line((ui.Span(view.error.code, look="code"), ui.Span(view.why, "prose")), "end", "bad"),)


# ---------------------------------------------------------------- the report


def report_block(audit: PluginAudit, subject: Subject | None, *, cached: bool) -> ui.Group:
    """Badge, verdict, facts, what the jail would open, findings with their lines."""
    report = report_of(audit)
    pill = ui.Span(report.risk_words, "pill", tone=RISK_TONES[report.risk])
    words = (pill, ui.Span(report.verdict_words, "title", "ask-title"), ui.soft(report.counts))
    top = ui.Line(words, "ask-top", plain=f"{report.risk_words}. {report.verdict_words} ({report.counts}).")
    summary = [ui.Line((one_line(report.summary, _SENTENCE),), "summary")] if report.summary else []
    remarks = [one_line(text, _SENTENCE) for text in (report.remark, CACHED if cached else "") if text]
    notes = [ui.Line((text,), "note", plain=f"! {text}") for text in remarks]
    # Permissions stand by themselves, as what the jail would open.
    facts = [fact for fact in report.facts if fact.name != "Permissions"]
    rows = [(fact.name, one_line(fact.text, _SENTENCE)) for fact in facts]
    tones = [_FACT_TONES[fact.good] for fact in facts]
    plain = "\n".join(f"  {name}: {text}" for name, text in rows)
    said = ui.Pairs([(name, (text,)) for name, text in rows], tones, plain)
    opens = _opens(audit.permissions, subject.config if subject is not None else {})
    found = (*_findings(audit, report), *_injections(report.injections))
    return ui.Group((top, *summary, *notes, said, *opens, *found), "report")


@dataclass(frozen=True, slots=True)
class Opened:
    """One thing that a jail would open."""

    field: str  # The field that says what, for an entry that is configured; else empty
    value: str  # What it is; empty while the field has not been configured

    @property
    def words(self) -> str:
        """The same as plain text."""
        if not self.field:
            return self.value
        return f"{self.value} ({self.field})" if self.value else f"what {self.field} says"


def _opens(permissions: PluginPermissions, config: Mapping[str, str]) -> ui.Blocks:
    """What the jail would open, by kind: declared entries with what their fields are configured with."""
    kinds = [(word, [_filled(entry, config) for entry in getattr(permissions, kind)]) for kind, word in OPENS]
    found = [(word, entries) for word, entries in kinds if entries]
    shown = ui.Pairs([(word, _entries(entries)) for word, entries in found], plain="")
    would = "; ".join(f"{word.lower()} {', '.join(one.words for one in entries)}" for word, entries in found)
    plain = f"  {OPENS_NAME}: {one_line(would, _SENTENCE) or 'nothing'}"
    return _named(OPENS_NAME, shown if found else ui.Line(("Nothing: no files, no network.",), plain=""), plain)


def _filled(entry: str, config: Mapping[str, str]) -> Opened:
    found = _FIELD.fullmatch(entry)
    return Opened("", entry) if found is None else Opened(found[1], config.get(found[1], ""))


def _entries(entries: Sequence[Opened]) -> ui.Words:
    left = len(entries) - _MOST_ENTRIES
    return (*ui.listed([_entry(one) for one in entries[:_MOST_ENTRIES]]), *([f"and {left:,} more"] if left > 0 else []))


def _entry(one: Opened) -> ui.Span:
    if not one.field:
        return _code(one.value)
    if one.value:
        return ui.Span((_code(one.value), "(", _code(one.field), ")"))
    return ui.Span(("what", _code(one.field), "says"))


def _code(text: str) -> ui.Span:
    return ui.code(one_line(text, _LINE), "path")


def _findings(audit: PluginAudit, report: AuditReport) -> ui.Blocks:
    shown = [_finding(shown, one) for shown, one in zip(report.findings, audit.findings, strict=True)]
    if not shown:
        return ()
    inside: list[ui.Block] = [*shown[:_IN_SIGHT]]
    if rest := shown[_IN_SIGHT:_MOST]:
        inside.append(ui.Fold((counted(len(rest), "more finding"),), tuple(rest), "findings", "args"))
    if (left := len(shown) - _MOST) > 0:
        inside.append(ui.label(f"… and {left:,} more that a card has no room for"))
    told = lines_of(shown[:_TOLD])
    told += [f"- … and {len(shown) - _TOLD:,} more"] if len(shown) > _TOLD else []
    return _named("Findings", ui.Group(tuple(inside), "findings", plain=""), "\n".join(told))


def _finding(shown: ReportFinding, one: PluginFinding) -> ui.Group:
    message, rule = one_line(shown.message, _SENTENCE), one_line(one.rule, _LINE)
    place = [_code(shown.place)] if shown.place else []
    words = (ui.chip(shown.word, _SEVERITY_TONES[shown.severity]), ui.item(message), *place, ui.soft(rule))
    source = [ui.Pre(_cut(shown.source))] if shown.source else []
    plain = f"- {words_in_text((shown.word, *place))}: {message} ({rule})"
    plain += f"\n    | {one_line(shown.source, _LINE)}" if shown.source else ""
    return ui.Group((ui.Line(words, "finding-top"), *source), "finding", plain=plain)


def _injections(injections: Sequence[tuple[str, str]]) -> ui.Blocks:
    if not injections:
        return ()
    shown = [_injection(text, one_line(why, _SENTENCE)) for text, why in injections[:_TOLD]]
    left = len(injections) - _IN_SIGHT
    more = [ui.label(f"… and {left:,} more")] if left > 0 else []
    inside = ui.Group((*shown[:_IN_SIGHT], *more), "findings", plain="")
    return _named("Text in it that talks to whoever reads it", inside, "\n".join(lines_of(shown)))


def _injection(text: str, why: str) -> ui.Group:
    plain = f"> {one_line(text, _LINE)}" + (f"\n    {why}" if why else "")
    return ui.Group((ui.Pre(_cut(text)), *([ui.Line((why,), "soft")] if why else [])), "finding", plain=plain)


def _cut(text: str) -> str:
    return bounded(text, lines=20, characters=2000).whole()


def _named(name: str, block: ui.Block, plain: str = "") -> ui.Blocks:
    """A block below its name; in text it is what `plain` says."""
    return (ui.Line((name,), "part-name", plain=plain), block)
