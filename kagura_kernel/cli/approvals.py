"""`kagura-kernel approvals`, `approve` and `deny`: what was asked for, by whom, and what is answered."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel import redact
from kagura_kernel.cli.journal_access import open_journal, place_of, read_journal
from kagura_kernel.cli.output import as_json, cut, moment, table, tell, with_next
from kagura_kernel.cli.runs import LATEST
from kagura_kernel.cockpit.next_commands import NO_APPROVALS, NONE_WAITS, more_than, of_approval
from kagura_kernel.cockpit.run_names import here_of, named_approval
from kagura_kernel.domain.approval_content import asked
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kagura_kernel.journal.rows import ApprovalRow
    from kagura_kernel.journal.store import Journal


_TITLE = 60
_REASON = 300


def approvals(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_journal`."""
    with read_journal(arguments) as journal:
        limit = arguments.limit or LATEST
        rows = views.approvals(journal, limit=limit, pending_only=arguments.pending)
        more = more_than(journal, len(rows), limit, "pending" if arguments.pending else "approvals")
        heard = views.running(journal)
        following = [of_approval(journal, row, heard) for row in rows]
        answered = not journal.audited
    if arguments.json:
        print(as_json(with_next([asdict(row) for row in rows], following)))
    elif rows:
        head = ("", "approval", "run", "lineage", "kind", "asked", "until", "answer", "by", "title", "what")
        whole = ("", "approval", "run", "asked", "until")
        print(table(head, [_cells(row) for row in rows], whole=whole))
        waiting = [row for row in rows if row.verdict is None]
        told = _lessons(waiting)
        for row in waiting:
            lines = [*_in_full(row, told.get(row.id, ())), *([_how(row, heard)] if answered else [])]
            print("\n".join(["", *lines]))
        if more:
            print(f"\n{more}" if waiting else more)
    else:
        print(NONE_WAITS if arguments.pending else NO_APPROVALS)
    return 0


def _cells(row: ApprovalRow) -> tuple[str, ...]:
    waits = row.verdict is None
    return (
        "*" if waits else " ",
        row.id,
        row.run_id,
        " → ".join(row.lineage) or "-",
        row.kind.replace("_", " "),
        moment(row.requested_at),
        moment(row.deadline_at) if waits else "-",
        row.verdict or "waits",
        row.by or "-",
        cut(row.title, _TITLE),
        cut(_what(row), _TITLE),
    )


def _what(row: ApprovalRow) -> str:
    """What exactly is asked for, where its title does not say it already."""
    command = row.arguments.get("command")
    if row.kind == "host_command" and isinstance(command, str):
        return command
    return row.detail if row.detail.strip() != row.title.strip() else "-"


def _lessons(rows: Sequence[ApprovalRow]) -> dict[str, list[str]]:
    """What plans among these would have trusted, by approval: the memory has the words, and the journal has not."""
    from kagura_kernel.assembly.memories import memory_desk
    from kagura_kernel.cockpit.memory import has_lessons, lessons_told

    plans = [row for row in rows if row.kind == "plan" and has_lessons(row.arguments)]
    if not plans:
        return {}
    with memory_desk(os.environ) as desk:
        return {row.id: lessons_told(lambda: desk, row.arguments) for row in plans}


def _how(row: ApprovalRow, heard: Collection[str]) -> str:
    """How a question is answered, or called off where nobody hears an answer."""
    if row.run_id in heard:
        return f"  `kagura-kernel approve {row.id}` or `kagura-kernel deny {row.id}`"
    return f"  its process is gone, and nobody acts on an answer: `kagura-kernel kill {row.run_id}` calls it off"


def _in_full(row: ApprovalRow, lessons: Sequence[str]) -> Iterator[str]:
    """A question as somebody has to know it who answers: all of it, why, for whom, and what it would have trusted."""
    above = "".join(f", which works for {one}" for one in reversed(row.lineage))
    what = asked(row.kind, row.title, row.detail, row.arguments)
    yield shown(f"{row.id}: {row.title} (asked by {row.run_id}{above})")
    yield from (f"    {shown(line)}" for line in what.title.split("\n") if what.title != row.title)
    yield from [f"    {shown(what.target)}"] if what.target else []
    for block in what.blocks:
        yield from [f"  {shown(block.label)}:"] if block.label else []
        # One line of it stays one line, whatever it holds.
        yield from (f"    {shown(line)}" for line in block.text.split("\n"))
        yield from [f"  ({block.size})"] if block.size else []
    yield from [f"  directory: {shown(what.place)}"] if what.place else []
    yield from (f"    {shown(line)}" for line in what.means.split("\n") if line)
    yield from (f"    {shown(line)}" for line in lessons)
    if row.reason.strip():
        yield f"  why, in the asker’s words: {shown(cut(row.reason, _REASON))}"
    if row.options:
        yield f"  answers: {', '.join(shown(option) for option in row.options)}"


HEARD, NOBODY_HEARS = 0, 1


def approve(arguments: SimpleNamespace) -> int:
    """Allow what is asked for; see `_decide`."""
    return _decide(arguments, allow=True)


def deny(arguments: SimpleNamespace) -> int:
    """Say no to it; see `_decide`."""
    return _decide(arguments, allow=False)


def _decide(arguments: SimpleNamespace, *, allow: bool) -> int:
    """Leave the answer where the run that asked finds it; 1 when that run's process is gone, so that nobody does.

    Raises:
        ApprovalUnknown: there is no such approval.
        ApprovalAlreadyDecided: somebody, or the deadline, was faster.
        ApprovalExpired: its deadline is over.
        UsageError: there is no journal, a word is the end of several ids, or a question is answered without words.
        JournalError: it cannot be used.
        RedactionUnavailable: secrets cannot be looked for in the answer.
    """
    verdict = Verdict.ALLOW if allow else Verdict.DENY
    with open_journal(place_of(arguments)) as journal:
        approval_id = named_approval(journal, arguments.approval, here_of())
        heard = _heard(journal, approval_id)
        answer = redact(" ".join(arguments.answer))
        mailbox = Mailbox(journal)
        decision = mailbox.decide(approval_id, verdict, by=person(), via="terminal", answer=answer, in_time=True)
    said = f"{decision.approval_id}: {'allowed' if decision.allowed else 'denied'}."
    tell(arguments, asdict(decision) | {"heard": heard}, said)
    if not heard:
        print("The process that asked is gone: nobody acts on this answer.", file=sys.stderr)
    return HEARD if heard else NOBODY_HEARS


def _heard(journal: Journal, approval_id: str) -> bool:
    """Whether the run that asked still has a process."""
    asking = {request.run_id for request in Mailbox(journal).pending() if request.id == approval_id}
    return not asking.isdisjoint(views.running(journal))
