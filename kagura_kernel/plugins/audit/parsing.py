"""What an auditor answers, read with as much tolerance for its form as can be had, and none for what it leaves out.

Whatever is missing or cannot be understood is taken for the worst that it could mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from kagura_kernel.domain.plugins import AuditVerdict, PluginFinding, Risk, Severity

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
