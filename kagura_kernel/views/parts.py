"""The parts of a run card, in the order in which they came: what each holds, and how much of it is kept."""

from __future__ import annotations

from kagura_kernel.domain import events as ev
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.plugins import PluginAudit, Severity, line_of, report_of
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted

KEPT_OUTPUT = 24_000
"""Characters of a running command's output that a live card holds."""

KEPT_RESULTS = 50
"""Results of one run that a card shows; those that come later are counted."""

KEPT_RESULT = 4_000_000
"""Characters of one result that a card takes."""

KEPT_OF_RESULTS = 15_000_000
"""Characters of all results of a run that a card takes: they end up in the notebook file."""


@dataclass(slots=True)
class Passage:
    """A piece of the brain's answer; `growing` while it is being written."""

    key: str
    text: str
    growing: bool = False


@dataclass(slots=True)
class Call:
    """A tool call: what was asked, what it printed so far, what came of it; `refused` when an approval denied it.

    `images` are those that the brain was shown with its result, and `place` is where it ran, in a word.
    """

    key: str
    asked: ev.ToolCalled
    printed: str = ""
    finished: ev.ToolFinished | None = None
    refused: bool = False
    place: str = ""
    images: list[ev.ImageSent] = field(default_factory=list)


def image_words(sent: ev.ImageSent) -> str:
    """An image that a brain was shown: `plot.png, 640 × 480, about 410 tokens`."""
    name = f"{one_line(sent.name, 200)}, " if sent.name else ""
    return f"{name}{sent.width:,} × {sent.height:,}, about {counted(sent.tokens, 'token')}"


@dataclass(slots=True)
class Ask:
    """An approval: the request, and the decision once there is one."""

    key: str  # of its part
    request: ev.ApprovalRequested  # what is asked
    decision: ev.ApprovalDecided | None = None  # the answer
    inside: bool = False  # whether another magic blocks the kernel, so that nobody can answer
    brief: bool = False  # whether it joined others of its kind that wait, and takes one line


@dataclass(slots=True)
class Note:
    """A remark for the reader."""

    key: str
    text: str
    grave: bool = False


@dataclass(slots=True)
class Said:
    """What a person said while it went on; `heard` once the brain has taken it up, `over` when it never will."""

    key: str
    event: ev.PersonSaid
    heard: bool = False
    over: bool = False


@dataclass(slots=True)
class Printout:
    """What the program of a `%%sandbox` cell prints; bounded while it runs."""

    key: str
    text: str = ""
    spill: str | None = None


@dataclass(slots=True)
class Result:
    """Something that a program in the box wants to be looked at."""

    key: str
    said: ev.ResultShown


@dataclass(slots=True)
class Withheld:
    """Results that came after as many as a card shows."""

    key: str
    count: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Check:
    """How the finished work was tried out."""

    key: str
    event: ev.RunVerified


@dataclass(slots=True)
class Part:
    """A part of the work that was handed on, and how it ended once it has."""

    key: str
    started: ev.ChildStarted
    ended: ev.ChildEnded | None = None


Item = Passage | Call | Ask | Note | Said | Printout | Result | Withheld | Check | Part


def kept(said: ev.ResultShown, taken: int) -> ev.ResultShown:
    """The result, without its data where that is too large for a card that has `taken` so many characters already."""
    size = len(said.data)
    if size <= KEPT_RESULT and taken + size <= KEPT_OF_RESULTS:
        return said
    why = "Not shown: it is too large for a card."
    if size <= KEPT_RESULT:
        why = "Not shown: the results before it fill the card."
    return said.model_copy(update={"data": "", "text": said.text[:KEPT_OUTPUT], "note": said.note or why})


_FINDINGS = 20


def audit_notes(audit: PluginAudit) -> list[tuple[str, bool]]:
    """The lines, each with whether it is grave."""
    report = report_of(audit)
    lines = [(f"{report.title}: {line_of(audit)}", audit.dangerous)]
    if report.remark:
        lines.append((report.remark, False))
    for finding in report.findings[:_FINDINGS]:
        place = f" ({finding.place})" if finding.place else ""
        lines.append((f"{finding.word}: {finding.message}{place}", finding.severity is Severity.DANGER))
    if (left := len(report.findings) - _FINDINGS) > 0:
        lines.append((f"{left} more findings", False))
    return lines
