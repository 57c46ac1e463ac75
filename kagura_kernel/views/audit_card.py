"""The card of an audit or an enabling: who looks, the report, the question, how it ended. Live and saved.

Nearly every word of the report is the plugin's author's, or was written by an auditor who had read them. All of it is
text. What differs from time to time, ids, times and who decided, stands in the output's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kagura_kernel.domain import plugins
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.html import Bundle, framed, html_of
from kagura_kernel.render.text import bounded, lines_of, words_in_text
from kagura_kernel.views.approvals import verdict_words
from kagura_kernel.views.audit import APPROVE, CANCEL, ENABLE, REJECT, STATES, AuditView, FormField, PluginForm, Subject
from kagura_kernel.views.body import item_blocks
from kagura_kernel.views.head import figures
from kagura_kernel.views.record import audit_record, clean, picked
from kagura_kernel.views.status import RISK_TONES

LABEL = "Plugin audit"
AUDIT_MIME = "application/vnd.kagura.audit+json"
CONFIGURED = "Configured with"
OPENS_NAME = "Its jail would open"
CACHED = "These very files were audited before; this is that report."

OPENS = (("read", "Read"), ("write", "Read and write"), ("net", "Reach"))
"""The kinds of permissions with what the jail would let a plugin do."""

_PLACES = {"bundled": "comes with Kagura", "user": "one of your own plugins", "project": "lies in this project"}
_MEANINGS = {
    ENABLE: "Let this session’s boxes call it",
    APPROVE: "Let this session’s boxes call it, and later sessions enable these very files without an audit",
    REJECT: "Do not enable it",
    CANCEL: "Do not enable it now",
}
_VIA = {"cell": "", "command": " by command", "sidebar": " in the sidebar", "terminal": " in a terminal"}
_SEVERITY_TONES = {plugins.Severity.DANGER: "bad", plugins.Severity.WARNING: "warn", plugins.Severity.INFO: "busy"}
_FACT_TONES = {True: "good", False: "bad", None: ""}
_IN_SIGHT = 12
_MOST, _TOLD = 200, 60
"""Findings on a card, and in text."""
_MOST_ENTRIES = 60
_OF_ITSELF, _SENTENCE, _LINE = 500, 600, 240
_FIELD = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")


def audit_parts(view: AuditView, *, left: float) -> dict[str, ui.Blocks]:
    """The parts of a live card that changed since the last time, by key."""
    dirty = view.take_dirty()
    sections = _sections(view, left=left, live=True)
    return {key: draw() for key, draw in sections.items() if key in dirty}


def audit_html(view: AuditView) -> str:
    """The card as it stays in a notebook."""
    head, *below = (tuple(draw()) for draw in _sections(view, left=0, live=False).values())
    inside = tuple(block for blocks in below for block in blocks)
    return framed(html_of([*head, *([ui.Group(inside, "body")] if inside else [])]), LABEL)


def audit_bundle(view: AuditView) -> Bundle:
    """An audit for a display slot."""
    data = {"text/plain": card_text(view), "text/html": audit_html(view), AUDIT_MIME: card_record(view)}
    return data, {"kagura": card_metadata(view)}


def _sections(view: AuditView, *, left: float, live: bool) -> Mapping[str, Callable[[], ui.Blocks]]:
    return {
        "head": lambda: _head(view, live=live),
        "said": lambda: _said(view) if live else (),
        "asks": lambda: (
            *(block for ask in view.questions for block in item_blocks(ask, view.run, live=live and not view.ended)),
            *(ui.Line((ui.Span(text, "prose"),), "note") for text in view.notes),
        ),
        "report": lambda: (report_block(view.audit, view.subject, cached=view.cached),) if view.audit else (),
        "form": lambda: form_blocks(view, left=left, live=live),
        "end": lambda: _end(view),
    }


def _head(view: AuditView, *, live: bool) -> ui.Blocks:
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
    return (ui.Group((top, *([ui.Group(places, "places")] if places else [])), "head"),)


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


def _end(view: AuditView) -> ui.Blocks:
    if view.enabled:
        told = ui.Pairs([(name, (text,)) for name, text in view.configured.items()])
        configured = _named(CONFIGURED, told) if told.rows else ()
        return (*configured, ui.Line((ui.Span(view.enabled, "prose"),), "end", "good"))
    # Of a person's no it is said already whose it was, and by whom it was stopped the cell's error says.
    if view.error is None or view.state in {"rejected", "stopped"}:
        return ()
    return (ui.Line((ui.Span(view.error.code, look="code"), ui.Span(view.why, "prose")), "end", "bad"),)


# ---------------------------------------------------------------- the question


def form_blocks(view: AuditView, *, left: float, live: bool) -> ui.Blocks:
    """The question with its form and its buttons, or what became of it; nothing before it is asked."""
    form = view.form
    if not view.waiting or form is None:
        words = decision_words(view)
        return (ui.Line((words,), "verdict"),) if words else ()
    if not live:
        return (ui.Line(("Not answered",), "verdict", "warn"),)
    title = title_words(view)
    top = ui.Line((ui.Span("Plugin", look="kind"), ui.Span(f"{title}?", "title", "ask-title")), "ask-top")
    fields = tuple(_field(one, view.problems.get(one.name, ""), form.ident) for one in form.fields)
    inside: list[ui.Block] = [top, *([ui.Group(fields, "form")] if fields else [])]
    if APPROVE in form.choices:
        later = ": for later ones too, until one of its files changes."
        words_ = (ui.strong(ENABLE), ": for this session.", ui.strong(APPROVE), later)
        inside.append(ui.Line(words_, "soft"))
    count = ui.Countdown(left, form.deadline, "no answer is a no")
    buttons = ui.Line(tuple(_button(form, choice) for choice in form.choices), "buttons")
    return (ui.Question((*inside, count, buttons, ui.Told()), f"Plugin: {title}", form.ident),)


def title_words(view: AuditView) -> str:
    """What is asked."""
    if view.subject is None:
        return ""
    how = plugins.RISK_WORDS[view.audit.risk].lower() if view.audit is not None else "approved earlier"
    return f"Enable {view.subject.name} {view.subject.version}, {how}"


def decision_words(view: AuditView) -> str:
    """Who decided what, and where; empty where nobody had to."""
    if view.cancelled:
        return "Cancelled"
    decision = view.decision
    if decision is None or decision.verdict == "aborted":
        return ""
    if decision.via == "policy":
        return "Denied by policy: nobody is here who could be asked" if decision.verdict != "allow" else ""
    if decision.verdict == "timeout":
        return "Not enabled, because nobody answered in time"
    word = "Allowed" if decision.verdict == "allow" else "Rejected"
    if decision.verdict == "allow" and view.enabled:
        approved = decision.answer.strip().casefold() == APPROVE.casefold()
        word = "Enabled, and approved for later sessions," if approved else "Enabled"
    return f"{word} by {visible(decision.by)}{_VIA.get(decision.via, '')}"


def _button(form: PluginForm, choice: str) -> ui.Button:
    act = "deny" if choice == form.choices[-1] else "allow"
    # Enter in a field sends a form that is nothing but a form; it decides nothing about a plugin's risk.
    enters = {"enter": ""} if choice == ENABLE and not form.approval_id else {}
    data = {"answer": choice, **enters, "id": form.ident}
    return ui.Button(choice, act, data, "primary" if choice == ENABLE else "", hint=_MEANINGS[choice])


def _field(field: FormField, problem: str, ident: str) -> ui.Field:
    options: list[tuple[str, str]] = []
    if field.type == "boolean":
        options = [*([] if field.default else [("", "Choose")]), ("y", "Yes"), ("n", "No")]
    return ui.Field(
        field.name,
        f"kg-{ident}-{field.name}",
        _help(field),
        value=field.default or "",
        options=options,
        is_number=field.type == "number",
        is_needed=field.default is None,
        problem=f"{problem[:1].upper()}{problem[1:].rstrip('.')}." if problem else "",
    )


def _help(field: FormField) -> ui.Words:
    description = one_line(field.description, 500)
    said: list[ui.Inline] = [description if description.endswith((".", "!", "?")) else f"{description}."]
    said += ["Several with commas."] if field.type == "array" else []
    low, high = field.minimum, field.maximum
    if low is not None:
        said.append(f"From {low:g} to {high:g}." if high is not None else f"At least {low:g}.")
    elif high is not None:
        said.append(f"At most {high:g}.")
    if field.default is not None and field.type != "boolean":
        default = one_line(field.default, 80)
        said += ["Left empty, it is", ui.code(default), "."] if default else ["May be empty."]
    return tuple(said)


# ---------------------------------------------------------------- the report


def report_block(audit: plugins.PluginAudit, subject: Subject | None, *, cached: bool) -> ui.Group:
    """Badge, verdict, facts, what the jail would open, findings with their lines."""
    report = plugins.report_of(audit)
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


def report_lines(audit: plugins.PluginAudit, subject: Subject | None, *, cached: bool) -> list[str]:
    """The report, for the card's text and for a console."""
    return lines_of([report_block(audit, subject, cached=cached)])


def _opens(permissions: plugins.PluginPermissions, config: Mapping[str, str]) -> ui.Blocks:
    """What the jail would open, by kind: declared entries with what their fields are configured with."""
    kinds = [(word, [_entry(entry, config) for entry in getattr(permissions, kind)]) for kind, word in OPENS]
    found = [(word, entries) for word, entries in kinds if entries]
    shown = ui.Pairs([(word, _entries([span for span, _ in entries])) for word, entries in found], plain="")
    would = "; ".join(f"{word.lower()} {', '.join(text for _, text in entries)}" for word, entries in found)
    plain = f"  {OPENS_NAME}: {one_line(would, _SENTENCE) or 'nothing'}"
    return _named(OPENS_NAME, shown if found else ui.Line(("Nothing: no files, no network.",), plain=""), plain)


def _entries(entries: Sequence[ui.Span]) -> ui.Words:
    left = len(entries) - _MOST_ENTRIES
    return (*ui.listed(entries[:_MOST_ENTRIES]), *([f"and {left:,} more"] if left > 0 else []))


def _entry(entry: str, config: Mapping[str, str]) -> tuple[ui.Span, str]:
    """One thing that a jail would open, on a card and in text; a field stands beside what it is configured with."""
    found = _FIELD.fullmatch(entry)
    if found is None:
        return _code(entry), entry
    field, value = found[1], config.get(found[1], "")
    if value:
        return ui.Span((_code(value), "(", _code(field), ")")), f"{value} ({field})"
    return ui.Span(("what", _code(field), "says")), f"what {field} says"


def _code(text: str) -> ui.Span:
    return ui.code(one_line(text, _LINE), "path")


def _findings(audit: plugins.PluginAudit, report: plugins.AuditReport) -> ui.Blocks:
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


def _finding(shown: plugins.ReportFinding, one: plugins.PluginFinding) -> ui.Group:
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


# ---------------------------------------------------------------- as text, and for programs


def card_text(view: AuditView) -> str:
    """The whole card; nothing in it differs between two runs of the same thing."""
    about = view.subject
    name = f" of {about.name} {about.version}" if about is not None else ""
    lines = [f"[plugin audit{name}: {STATES[view.state][0].lower()}]"]
    lines += [f"! {visible(text)}" for text in view.notes]
    lines += [f"? {visible(ask.request.title)}  {verdict_words(ask)}" for ask in view.questions]
    lines += report_lines(view.audit, about, cached=view.cached) if view.audit is not None else []
    if view.waiting:
        lines.append(f"? {visible(title_words(view))}?  Not answered")
    elif words := decision_words(view):
        lines.append(words)
    if view.configured:
        told = ", ".join(f"{name}={one_line(text, _LINE)}" for name, text in view.configured.items())
        lines.append(f"{CONFIGURED} {told}.")
    if view.enabled:
        lines.append(visible(view.enabled))
    elif view.error is not None and view.state != "stopped":
        lines.append(f"{view.error.code}: {visible(view.why)}")
    return "\n".join(lines)


def card_record(view: AuditView) -> dict[str, Any]:
    """What was found and what came of it, without anything that differs from time to time."""
    about = view.subject or Subject("")
    record = picked(about, "modules", plugin="name", plugin_version="version") | {"version": 1}
    record |= picked(view, "cached", status="state", config="configured")
    record |= picked(view.decision, "verdict", "via") if view.decision else {"verdict": "", "via": ""}
    record["error_code"] = view.error.code if view.error is not None else ""
    record["approved"] = bool(view.enabled) and about.approved
    record["audit"] = audit_record(view.audit) if view.audit is not None else None
    found: dict[str, Any] = clean(record)
    return found


def card_metadata(view: AuditView) -> dict[str, Any]:
    """Ids, hashes, times and money."""
    facts: dict[str, Any] = {"cost_usd": view.run.usd}
    if view.run.started is not None:
        facts |= picked(view.run.started, "run_id", started_at="at")
    if view.audit is not None:
        facts |= picked(view.audit, "content_hash", "auditor", audited_at="at")
    if view.decision is not None:
        facts |= picked(view.decision, "approval_id", "by", "at")
    found: dict[str, Any] = clean(facts)
    return found
