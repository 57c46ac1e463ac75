"""`%kagura status` for reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kagura_kernel.domain.asked import asked_line
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.domain.visible import visible
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import money
from kagura_kernel.sandbox.selection import SHARED_NEEDS

if TYPE_CHECKING:
    from kagura_kernel.cockpit.status import PartStatus, StatusReport


_YES = {True: "ready", False: "no   "}


class StatusText:
    """The report as the value of a cell: text to read, with the report behind it."""

    def __init__(self, report: StatusReport) -> None:
        self.report = report  # The figures

    def __repr__(self) -> str:
        return status_text(self.report)


def status_text(report: StatusReport) -> str:
    """The whole report, a line for each fact."""
    lines = [
        f"running   {run.run_id}  {run.status.replace('_', ' ')}  {one_line(run.task, 60)}" for run in report.running
    ]
    for request in report.pending:
        what = asked_line(request.kind, request.title, request.detail, request.arguments)
        lines.append(f"waiting   {request.id}  {one_line(what, 100)}")
        answer = " TEXT" if request.kind == "question" else ""
        lines.append(f"          %kagura approve {request.id}{answer}   or   %kagura deny {request.id}")
        if answer:
            lines.append("          TEXT is the answer to send.")
    lines.extend(f"lost      {run_id}" for run_id in report.lost)
    # A crash may leave many, and what a person needs is which rights were out and that they are not any more.
    for (name, how), count in Counter((f"{one.provider}:{one.scope}", one.how) for one in report.swept).items():
        lines.append(f"swept     {visible(name)}  {how}{f', {count} credentials' if count > 1 else ''}")
    for one in report.owed:
        why = f"  {_sentence(one.why)}" if one.why else ""
        lines.append(f"owed      {one.lease_id}  {visible(one.provider)}:{visible(one.scope)}{why}")
    if not lines:
        lines.append("Nothing runs, nothing waits.")
    if report.shared:
        lines.append(f"shared    Others share this machine: a box needs {SHARED_NEEDS.label} isolation or stronger.")
    for part in report.boxes:
        lines.extend(_box(part, shared=report.shared))
    named = (*(("brain", part) for part in report.brains), *(("also", part) for part in report.others))
    lines.extend(f"{what:<9} {part.name:<12} {_YES[part.ok]}  {_sentence(part.reason)}" for what, part in named)
    unpriced = f", {report.unpriced_today} of unknown price" if report.unpriced_today else ""
    lines.append(f"cost      {money(report.spent_today_usd)} today (UTC){unpriced}.")
    lines.append(f"journal   {report.journal}")
    if report.memory:
        lines.append(f"memory    No agent can start. {_sentence(report.memory)}")
    return "\n".join(lines)


def _box(part: PartStatus, *, shared: bool) -> Iterator[str]:
    weak = {level.label for level in IsolationClass if level < SHARED_NEEDS}
    if shared and part.ok and part.isolation in weak:
        yield f"box       {part.name:<12} no     Refused here: {part.isolation} isolation is too weak to be shared."
    else:
        yield f"box       {part.name:<12} {_YES[part.ok]}  {_sentence(part.reason)}"
    if part.advice:
        yield f"          {'':<12}        {_sentence(part.advice)}"


def _sentence(text: str) -> str:
    shown = visible(text).rstrip()
    return shown if not shown or shown.endswith((".", "!", "?")) else f"{shown}."
