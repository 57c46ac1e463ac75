"""A brain's examination of a plugin, as a report for a person: the answer's form may vary, any doubt counts against.

Whatever is missing or cannot be understood is taken for the worst that it could mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from kagura_kernel.domain.plugins import (
    AuditVerdict,
    CanaryStatus,
    Injection,
    PluginAudit,
    PluginFinding,
    Risk,
    Severity,
)
from kagura_kernel.plugins.audit_prompt import Canaries, ids_in, texts_of, verify
from kagura_kernel.plugins.content import MANIFEST, SOURCE, PluginContent
from kagura_kernel.plugins.manifest import Found

if TYPE_CHECKING:
    from kagura_kernel.plugins.scan.scanning import ScanResult

MAX_ANSWER = 256 * 1024
"""Characters; no honest report is as long."""

W = TypeVar("W", Severity, AuditVerdict)

_MOST = 200
"""Findings and injections that are kept, of each."""
_LONGEST = 1000
_FENCE = ("```", "~~~")
_RISKS = {risk.value.lower(): risk for risk in Risk if risk is not Risk.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Text that the auditor takes for an instruction to itself."""

    text: str
    why: str  # What it tries
    whole: str  # Every text of this entry, whatever it was filed under


@dataclass(frozen=True, slots=True)
class Answer:
    """An auditor's report, complete: what it left out has its worst value."""

    risk: Risk  # Never unknown
    summary: str  # One sentence
    verdict: AuditVerdict  # What it advises
    accurate: bool  # Whether the manifest says what the source does
    mismatch: str  # How it does not
    findings: tuple[PluginFinding, ...]  # In its order; files as it says, lines as it was shown them
    attempts: tuple[Attempt, ...]  # In its order, planted ones included
    left_out: tuple[str, ...]  # What it did not say, in words


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An answer that is no report."""

    why: str  # Half a sentence


def parse_answer(text: str) -> Answer | Unreadable:
    """An auditor's answer; never raises, however it looks."""
    if len(text) > MAX_ANSWER:
        return Unreadable(f"it is longer than {MAX_ANSWER // 1024} KiB")
    if not text.strip():
        return Unreadable("it is empty")
    why = "there is no JSON object in it"
    for candidate in _candidates(text):
        try:
            value = json.loads(candidate, object_pairs_hook=_once, parse_constant=_no_number)
        except RecursionError:
            why = "its JSON is nested too deeply"
        except ValueError as error:
            why = str(error) if isinstance(error, _NotTaken) else "its JSON is broken or cut off"
        else:
            if isinstance(value, dict):
                return _answer(value)
    return Unreadable(why)


class _NotTaken(ValueError):
    """JSON that Python would take, and we do not."""


def _candidates(text: str) -> Iterator[str]:
    """What may be the report: the one block between fences, then what the outer braces hold."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(_FENCE)]
    if len(fences) == 2:  # noqa: PLR2004 - one opens it and one closes it
        yield "\n".join(lines[fences[0] + 1 : fences[1]])
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        yield text[start : end + 1]
    elif start >= 0:
        yield text[start:]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Written in any of the usual ways: riskLevel, risk_level, "Risk level".
    value: dict[str, Any] = {}
    for name, inner in pairs:
        key = re.sub(r"[\s_-]", "", name).casefold()
        if key in value:
            raise _NotTaken(f"it says {name!r} twice")
        value[key] = inner
    return value


def _no_number(name: str) -> NoReturn:
    raise _NotTaken(f"{name} is no JSON")


def _answer(value: Mapping[str, Any]) -> Answer:
    risk = _RISKS.get(_text(value.get("risklevel")).lower())
    verdict = _word(AuditVerdict, value.get("verdict"))
    summary = _text(value.get("summary"))
    accurate = value.get("descriptionaccurate")
    said = {
        "the risk level": risk is not None,
        "the verdict": verdict is not None,
        "the summary": bool(summary),
        "whether the description is accurate": isinstance(accurate, bool),
    }
    return Answer(
        risk=risk or Risk.HIGH,
        summary=summary or "The auditor does not say what it does.",
        verdict=verdict or AuditVerdict.REJECT,
        accurate=accurate is True,
        mismatch=_text(value.get("descriptionmismatch")),
        findings=tuple(_finding(entry) for entry in _entries(value.get("findings"))),
        attempts=tuple(_attempt(entry) for entry in _entries(value.get("injectionattempts"))),
        left_out=tuple(name for name, there in said.items() if not there),
    )


def _finding(entry: Any) -> PluginFinding:
    if not isinstance(entry, dict):
        return PluginFinding(Severity.WARNING, "auditor", _text(entry) or _wordless(entry))
    line = entry.get("line")
    return PluginFinding(
        severity=_word(Severity, entry.get("severity")) or Severity.WARNING,
        rule="auditor",
        message=_text(entry.get("message")) or _text(entry.get("description")) or _wordless(entry),
        file=_text(entry.get("file")),
        line=line if type(line) is int and line > 0 else 0,
    )


def _attempt(entry: Any) -> Attempt:
    if not isinstance(entry, dict):
        return Attempt(_text(entry) or _wordless(entry), "", " ".join(_texts(entry)))
    text = _text(entry.get("text")) or _text(entry.get("excerpt"))
    return Attempt(text or _wordless(entry), _text(entry.get("why")), " ".join(_texts(entry)))


def _wordless(entry: Any) -> str:
    return _cut(json.dumps(entry, ensure_ascii=False))


def _entries(value: Any) -> list[Any]:
    return value[:_MOST] if isinstance(value, list) else []


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, however deep; the value came through a parser that bounds its depth."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as inner:
                waiting.extend(inner.values())
            case list() as inner:
                waiting.extend(inner)


def _word(words: type[W], value: Any) -> W | None:
    return next((word for word in words if word.value == _text(value).lower()), None)


def _text(value: Any) -> str:
    return _cut(" ".join(value.split())) if isinstance(value, str) else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_WIDEST = 200


def merge(scanned: Iterable[PluginFinding], audited: Iterable[PluginFinding]) -> tuple[PluginFinding, ...]:
    """Both, the gravest first and the scan's before the auditor's of one severity.

    What says the same as an earlier one, but for upper and lower case, is left out; of the scan's own findings none is,
    since they tell of different places.
    """
    kept = sorted(scanned, key=lambda finding: finding.order)
    said = {finding.message.lower() for finding in kept}
    for finding in audited:
        if finding.message.lower() not in said:
            said.add(finding.message.lower())
            kept.append(finding)
    return tuple(sorted(kept, key=lambda finding: finding.severity.rank))


def placed(findings: Sequence[PluginFinding], content: PluginContent, canaries: Canaries) -> list[PluginFinding]:
    """An auditor's findings in the plugin as it is; those about what was planted are left out."""
    return [_placed(finding, content, canaries) for finding in findings if not canaries.ids & ids_in(finding.message)]


def _placed(finding: PluginFinding, content: PluginContent, canaries: Canaries) -> PluginFinding:
    file = finding.file if finding.file in content.files else ""
    line = canaries.original(finding.line) if file == SOURCE else finding.line
    source = source_line(content, file, line)
    return replace(finding, file=file, line=line if source is not None else 0, source=source or "")


def place_of(text: str, content: PluginContent) -> tuple[str, int]:
    """File and line in which a text begins; empty and 0 where it does not stand as it is."""
    sought = text.encode("utf-8", "surrogatepass")
    for path, data in content.files.items() if sought else ():
        if (at := data.find(sought)) >= 0:
            return path, data.count(b"\n", 0, at) + 1
    return "", 0


def source_line(content: PluginContent, file: str, line: int) -> str | None:
    """A line of a file, cut to what can be shown; None when there is none."""
    data = content.files.get(file)
    if data is None or line < 1:
        return None
    lines = data.split(b"\n")
    if line > len(lines):
        return None
    text = lines[line - 1].decode("utf-8", "backslashreplace").rstrip()
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


_QUOTED = 300


@dataclass
class _Judgement:
    """An opinion that can only get worse."""

    risk: Risk
    verdict: AuditVerdict
    findings: list[PluginFinding] = field(default_factory=list)

    def worsen(self, risk: Risk, verdict: AuditVerdict, finding: PluginFinding | None = None) -> None:
        self.risk = self.risk.at_least(risk)
        self.verdict = max(self.verdict, verdict, key=lambda one: one.rank)
        if finding is not None:
            self.findings.append(finding)


def deep_audit(
    found: Found, scan: ScanResult, answer: str, *, canaries: Canaries, auditor: str = "", at: datetime | None = None
) -> PluginAudit:
    """The report that an auditor's answer, whatever it looks like, makes together with what the scan has found."""
    parsed = parse_answer(answer)
    if isinstance(parsed, Unreadable):
        return _unread(found, scan, parsed, auditor, at)
    judgement = _Judgement(parsed.risk, parsed.verdict, placed(parsed.findings, found.content, canaries))
    _check_description(judgement, parsed)
    status = _check_auditor(judgement, parsed, found, canaries)
    attempts = [one for one in parsed.attempts if not canaries.ids & ids_in(one.whole)]
    _report_attempts(judgement, attempts, found.content)
    findings = merge(scan.findings, judgement.findings)
    if any(finding.severity is Severity.DANGER for finding in findings):
        judgement.worsen(Risk.HIGH, AuditVerdict.REJECT)
    left_out = f"The auditor did not say {', '.join(parsed.left_out)}." if parsed.left_out else ""
    return _report(
        found,
        judgement.risk,
        judgement.verdict,
        parsed.summary,
        findings,
        injections=tuple(Injection(one.text, one.why) for one in attempts),
        canaries=status,
        description_accurate=parsed.accurate,
        auditor=auditor,
        remark=left_out,
        at=at,
    )


def static_audit(found: Found, scan: ScanResult, why: str, *, at: datetime | None = None) -> PluginAudit:
    """The report of the scan alone, and why there is no other: the risk is unknown, and never below medium."""
    findings = merge(scan.findings, ())
    danger = any(finding.severity is Severity.DANGER for finding in findings)
    verdict = AuditVerdict.REJECT if danger else AuditVerdict.REVIEW
    summary = f"No brain has read its source. It describes itself as: {found.manifest.description}"
    return _report(found, Risk.UNKNOWN, verdict, summary, findings, static_only=True, remark=why, at=at)


def _unread(found: Found, scan: ScanResult, answer: Unreadable, auditor: str, at: datetime | None) -> PluginAudit:
    why = f"The auditor's answer is no report: {answer.why}."
    findings = merge(scan.findings, [PluginFinding(Severity.WARNING, "parser", f"{why} Read the source yourself.")])
    summary = "The auditor's answer cannot be read, so nothing is known beyond what the scan has found."
    return _report(found, Risk.HIGH, AuditVerdict.REJECT, summary, findings, auditor=auditor, remark=why, at=at)


def _report(
    found: Found, risk: Risk, verdict: AuditVerdict, summary: str, findings: tuple[PluginFinding, ...], **more: Any
) -> PluginAudit:
    return PluginAudit(
        found.name,
        found.manifest.version,
        found.content.content_hash,
        risk,
        verdict,
        summary,
        findings,
        permissions=found.manifest.permissions,
        **more,
    )


def _check_description(judgement: _Judgement, answer: Answer) -> None:
    if answer.accurate:
        return
    why = f": {answer.mismatch}" if answer.mismatch else "."
    message = f"Its description does not say what its source does{why}"
    judgement.worsen(Risk.HIGH, AuditVerdict.REVIEW, PluginFinding(Severity.DANGER, "auditor", message, MANIFEST))


def _check_auditor(judgement: _Judgement, answer: Answer, found: Found, canaries: Canaries) -> CanaryStatus:
    told = [one.whole for one in answer.attempts]
    status = verify(canaries, told, source=texts_of(found.content))
    if status is CanaryStatus.UNRELIABLE:
        message = "The auditor reported an instruction that nobody has shown it: what it says cannot be relied on."
        judgement.worsen(Risk.MEDIUM, AuditVerdict.REVIEW, PluginFinding(Severity.WARNING, "canary", message))
    # An invented id must not make good for one that was kept back: a plugin could ask for just that.
    if not canaries.noticed(told):
        message = (
            "The auditor passed over an instruction that was planted for it: something in this plugin may have talked "
            "it round. Nothing that it says counts."
        )
        judgement.worsen(Risk.CRITICAL, AuditVerdict.REJECT, PluginFinding(Severity.DANGER, "canary", message))
    return status


def _report_attempts(judgement: _Judgement, attempts: list[Attempt], content: PluginContent) -> None:
    for one in attempts:
        why = f" ({one.why})" if one.why else ""
        message = f"Text that talks to whoever reads the source: {one.text[:_QUOTED]}{why}"
        file, line = place_of(one.text, content)
        source = source_line(content, file, line) or ""
        finding = PluginFinding(Severity.WARNING, "injection", message, file, line, source)
        judgement.worsen(Risk.MEDIUM, AuditVerdict.REVIEW, finding)
