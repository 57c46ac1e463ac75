"""`kagura-kernel doctor`: looks at every tripwire, changes nothing, and says what needs somebody."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

from kagura_kernel.cli.opening import open_journal, place_of
from kagura_kernel.cli.printing import as_json, for_terminal, paragraph, terminal_width
from kagura_kernel.cockpit.moments import read_time
from kagura_kernel.domain.errors import ConfigurationError, IsolationTooWeak, JournalError, UsageError
from kagura_kernel.domain.errors.memory import MemoryStoreError

if TYPE_CHECKING:
    from pathlib import Path

    from kagura_kernel.cockpit.status import PartStatus
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.store import Journal

NOTHING_FOUND, SOMETHING_FOUND = 0, 1

MANY_REFUSALS = 20
"""Refused connections of one run from which on somebody should look at it: something in the box tries doors."""
MANY_DENIALS = 3
"""Denials by a person from which on somebody should look at what is being asked for."""
_LATEST = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found.

    Attributes:
        name: What was looked at.
        state: `ok`, `note` (good to know) or `look` (it needs somebody).
        said: What was found; one line, or one for each of several problems.
        then: What to type or do next; empty when nothing.
    """

    name: str
    state: Literal["ok", "note", "look"]
    said: str
    then: str = ""


def run(arguments: SimpleNamespace) -> int:
    """Print what was found; 0 when nothing needs somebody, 1 when something does.

    Raises:
        ConfigurationError: the settings are wrong.
        UsageError: the time makes no sense, or a journal was named and is not there.
    """
    from kagura_kernel.assembly import load_settings

    since = read_time(arguments.since, datetime.now(UTC))
    settings = load_settings(os.environ)
    findings = [*_boxes(settings), *_providers(), _memory(settings), *_books(place_of(arguments), since)]
    needed = any(finding.state == "look" for finding in findings)
    if arguments.json:
        print(as_json({"ok": not needed, "findings": [asdict(finding) for finding in findings]}))
    else:
        print(_laid_out(findings, terminal_width()))
    return SOMETHING_FOUND if needed else NOTHING_FOUND


# ---------------------------------------------------------------------- boxes


def _boxes(settings: Settings) -> Iterator[Finding]:
    from kagura_kernel.domain.policy import IsolationClass
    from kagura_kernel.sandbox.selection import AUTO, SHARED_NEEDS, is_shared

    shared = is_shared(settings.shared or None, os.environ.get("JUPYTERHUB_USER"))
    needs = f"boxes need {SHARED_NEEDS.label} or stronger" if shared else "any back-end may start"
    try:
        parts = asyncio.run(_probed(settings))
        yield Finding("shared deployment", "ok", f"{'yes' if shared else 'no'}: {needs}")
    except IsolationTooWeak as error:
        yield Finding("shared deployment", "look", error.message)
        parts = asyncio.run(_probed(settings.model_copy(update={"box": AUTO})))
    weak = {level.label for level in IsolationClass if shared and level < SHARED_NEEDS}
    for part in parts:
        yield _box(part, asked_for=part.name == settings.box, weak=part.isolation in weak)
    if not any(part.ok and part.isolation not in weak for part in parts):
        strong = f" of {SHARED_NEEDS.label} isolation or stronger" if shared else ""
        said = f"no back-end{strong} starts a box here, so no run can start"
        yield Finding("boxes", "look", said, "install one of the above")


def _box(part: PartStatus, *, asked_for: bool, weak: bool) -> Finding:
    name = f"box {part.name}"
    if weak:
        said = f"{part.isolation}: refused here with {IsolationTooWeak.code}, for this deployment is shared"
        return Finding(name, "look" if asked_for else "note", f"{said}; {part.reason}", part.advice)
    state: Literal["ok", "note", "look"] = "ok" if part.ok else "look" if asked_for else "note"
    return Finding(name, state, f"{part.isolation}: {part.reason}", part.advice)


async def _probed(settings: Settings) -> Sequence[PartStatus]:
    from kagura_kernel.assembly.boxes import Boxes
    from kagura_kernel.journal.owner import process_owner

    boxes = Boxes(os.environ, settings, process_owner())
    try:
        return await boxes.probe()
    finally:
        await boxes.close()


def _providers() -> Iterator[Finding]:
    from kagura_kernel.assembly import load_providers

    try:
        names = sorted(load_providers(os.environ))
    except ConfigurationError as error:
        yield Finding("credential providers", "look", error.message)
        return
    yield Finding("credential providers", "ok", ", ".join(names) or "none")


def _memory(settings: Settings) -> Finding:
    from kagura_kernel.journal.place import data_home
    from kagura_kernel.memory.gate import ready
    from kagura_kernel.memory.opening import file_of, open_memory

    home = data_home(os.environ)
    file = file_of(settings.memory, home, os.environ)
    if file is not None and not file.exists():
        return Finding("memory", "ok", f"none yet at {file}")
    try:
        store = open_memory(settings.memory, home, os.environ, meaning=False)
        try:
            ready(store)
            counts = store.counts()
        finally:
            store.close()
    except MemoryStoreError as error:
        return Finding("memory", "look", error.message)
    said = f"{store.where}: {counts.memories:,} remembered, {counts.quarantined:,} of them in quarantine"
    return Finding("memory", "ok", said)


# ---------------------------------------------------------------------- books


def _books(place: Path | str, since: datetime) -> Iterator[Finding]:
    from kagura_kernel.journal.place import shown

    try:
        with open_journal(place) as journal:
            yield _chain(journal)
            yield _runs(journal)
            yield _leases(journal)
            yield from _approvals(journal, since)
            yield _refusals(journal, since)
    except UsageError:
        yield Finding("journal", "ok", f"none yet at {shown(place)}")
    except JournalError as error:
        yield Finding("journal", "look", error.message)


def _chain(journal: Journal) -> Finding:
    checked = journal.verify()
    return Finding("journal", "ok", f"{checked.where}: {checked.rows} rows, last hash {checked.last_hash}")


def _runs(journal: Journal) -> Finding:
    from kagura_kernel.journal import views
    from kagura_kernel.journal.owner import owner_alive

    rows = views.unfinished(journal)
    lost = [row.run_id for row in rows if not owner_alive(row.owner)]
    if lost:
        then = f"`kagura-kernel kill {' '.join(lost[:3])}` marks them as lost"
        return Finding("runs", "look", f"{len(lost)} whose process is gone: {_some(lost)}", then)
    return Finding("runs", "ok", f"{len(rows)} going on")


def _leases(journal: Journal) -> Finding:
    from kagura_kernel.journal.leases import LeaseLedger
    from kagura_kernel.journal.owner import owner_alive

    rows = LeaseLedger(journal).open_rows()
    # What a live process owes, and has not failed to give back, is on its way.
    owed = [row for row in rows if (row.state == "owed" and row.attempts) or not owner_alive(row.owner)]
    if owed:
        named = _some([f"{row.provider}:{row.scope} of {row.run_id}" for row in owed])
        return Finding("leases", "look", f"{len(owed)} to be given back: {named}", "`kagura-kernel leases sweep`")
    return Finding("leases", "ok", f"{len(rows)} out, all of processes that live")


def _approvals(journal: Journal, since: datetime) -> Iterator[Finding]:
    from kagura_kernel.journal import views

    waiting = views.approvals(journal, pending_only=True, limit=_LATEST)
    if waiting:
        said = f"{len(waiting)} waiting: {_some([f'{row.id} ({row.title})' for row in waiting])}"
        yield Finding("approvals", "look", said, "answer in the notebook that asks, or with `kagura-kernel approve`")
    else:
        yield Finding("approvals", "ok", "none waiting")
    denied = [
        row.title
        for row in views.approvals(journal, limit=_LATEST)
        if row.verdict == "deny" and row.by != "policy" and row.decided_at and row.decided_at >= since
    ]
    many = len(denied) >= MANY_DENIALS
    said = f"{len(denied)} denied by a person" + (f": {_some(denied)}" if denied else "")
    yield Finding(
        "denials", "look" if many else "ok", said, "`kagura-kernel runs` says whose they were" if many else ""
    )


def _refusals(journal: Journal, since: datetime) -> Finding:
    from kagura_kernel.journal import views

    # The same refusal is recorded the 1st, 2nd, 4th … time, each with its count.
    counts: Counter[tuple[str, str, int, str]] = Counter()
    for row in views.egress(journal, since=since, refused_only=True, limit=_LATEST):
        key = (row.run_id, row.host, row.port, row.reason)
        counts[key] = max(counts[key], row.times)
    by_run: Counter[str] = Counter()
    for (run_id, *_), times in counts.items():
        by_run[run_id] += times
    worst, most = max(by_run.items(), key=lambda item: item[1], default=("", 0))
    said = f"{by_run.total()} connections refused, of {len(by_run)} runs"
    if most < MANY_REFUSALS:
        return Finding("egress", "ok", said)
    return Finding(
        "egress", "look", f"{said}; {most} of {worst}", f"`kagura-kernel egress log --refused --run {worst}`"
    )


def _some(names: Sequence[str], count: int = 3) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more


def _laid_out(findings: Sequence[Finding], width: int) -> str:
    """A paragraph for each, and how many need somebody."""
    marks = {"ok": " ", "note": "-", "look": "!"}
    names = max(len(finding.name) for finding in findings)
    indent = " " * (len("!  ") + names + len("  "))
    lines = []
    for finding in findings:
        start = f"{marks[finding.state]}  {finding.name:<{names}}  "
        lines.append(paragraph(for_terminal(finding.said), start, indent, width))
        if finding.then:
            lines.append(paragraph(for_terminal(finding.then), f"{indent}→ ", f"{indent}  ", width))
    needed = sum(finding.state == "look" for finding in findings)
    lines.append(f"\n{f'{needed} marked with ! need somebody.' if needed else 'Nothing needs somebody.'}")
    return "\n".join(lines)
