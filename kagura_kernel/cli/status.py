"""`kagura-kernel status`: what runs, what waits, and what today cost, as the journal tells it; starts nothing."""

from __future__ import annotations

import os
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from kagura_kernel.cli.journal_access import place_of, read_journal
from kagura_kernel.cli.output import table, tell
from kagura_kernel.domain.approval_content import asked_line
from kagura_kernel.domain.errors.memory import MemoryStoreError
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.place import data_home, read_settings, shown as shown_place
from kagura_kernel.journal.spending import spent
from kagura_kernel.membrane.names import shown
from kagura_kernel.memory.location import check_folder, check_place, file_of, open_memory
from kagura_kernel.memory.store import ready
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import money

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.rows import ApprovalRow, RunRow
    from kagura_kernel.journal.store import Journal


_LATEST = 1000
_TOLD = 20


class _Found(NamedTuple):
    """What the journal tells."""

    running: list[RunRow]  # Runs that go on
    gone: list[str]  # Runs that did not end and whose process is gone
    pending: list[ApprovalRow]  # Approvals that wait
    leases: int  # How many credentials are out
    cost_today_usd: float  # What today's runs cost as far as that is known
    unpriced_today: int  # Of how many it is not
    journal: str  # Where it lies
    memory: str = ""  # Where memories are kept and how many, or what is wrong with that
    memory_ok: bool = True  # Whether runs of agents can start with it


def status(arguments: SimpleNamespace) -> int:
    """Print it; 0 whatever it is like. Raises as `read_journal`, and where the settings are wrong."""
    with read_journal(arguments) as journal:
        found = _look(journal, shown_place(place_of(arguments)))
        acts = not journal.audited
    memory = look_at_memory(read_settings(os.environ))
    found = found._replace(memory=memory.said, memory_ok=memory.ok)
    rows = {name: [asdict(row) for row in getattr(found, name)] for name in ("running", "pending")}
    return tell(arguments, found._asdict() | rows, _text(found, acts=acts))


def _look(journal: Journal, where: str) -> _Found:
    today = spent(journal, day=journal.clock.now().date())
    begun = views.unfinished(journal)
    running = [row for row in begun if views.goes_on(row)]
    gone = {row.run_id: None for row in begun if row not in running}
    return _Found(
        running=running,
        gone=list(gone),
        # Nobody hears an answer to what a lost run had asked.
        pending=[row for row in views.approvals(journal, pending_only=True, limit=_LATEST) if row.run_id not in gone],
        leases=len({row.lease_id for row in LeaseLedger(journal).open_rows()}),
        cost_today_usd=today.usd or 0.0,
        unpriced_today=today.unpriced_runs,
        journal=where,
    )


def _text(found: _Found, *, acts: bool) -> str:
    """The same for reading; with what to do, for all but an auditor."""
    rows = [
        ("running", row.run_id, f"{row.status.replace('_', ' ')}: {one_line(row.task, 100)}")
        for row in found.running[:_TOLD]
    ]
    rows += [
        ("lost", run_id, "its process is gone" + (f"; `kagura-kernel kill {run_id}` marks it" if acts else ""))
        for run_id in found.gone[:_TOLD]
    ]
    for row in found.pending[:_TOLD]:
        what = asked_line(row.kind, row.title, row.detail, row.arguments)
        rows.append(("waiting", row.id, f"{one_line(what, 100)} (of {row.run_id})"))
    lines = [table(("what", "id", "about"), rows, whole=("what", "id"))] if rows else ["Nothing runs, nothing waits."]
    further = {
        "running and lost": max(len(found.running) - _TOLD, 0) + max(len(found.gone) - _TOLD, 0),
        "waiting": max(len(found.pending) - _TOLD, 0),
    }
    if any(further.values()):
        more = " and ".join(f"{many} more {what}" for what, many in further.items() if many)
        lines.append(f"{more}: `kagura-kernel runs`, `kagura-kernel approvals --pending`.")
    if found.pending and acts:
        lines.append("Answer with `kagura-kernel approve ID` or `kagura-kernel deny ID`.")
    if found.leases:
        lines.append(f"{found.leases} {'credential is' if found.leases == 1 else 'credentials are'} out.")
    unpriced = f", and {found.unpriced_today} of unknown price" if found.unpriced_today else ""
    lines.append(f"{money(found.cost_today_usd)} today (UTC){unpriced}.")
    lines.append(f"Journal: {found.journal}")
    if not found.memory_ok:
        lines.append("NO AGENT CAN START: the memory cannot be used.")
    lines.append(f"Memory: {shown(found.memory)}")
    return "\n".join(lines)


class MemoryState(NamedTuple):
    """How a memory is."""

    ok: bool  # Whether runs can start with it
    said: str  # Where it is and what it holds, or what is wrong with it and what to do


def look_at_memory(settings: Settings) -> MemoryState:
    """Look at the memory that the settings name; a server is asked, and a file that is not there is not made."""
    home = data_home(os.environ)
    file = file_of(settings.memory, home, os.environ)
    try:
        check_place(settings.memory)
        if file is not None and not file.exists():
            check_folder(file, home)
            return MemoryState(ok=True, said=f"none yet at {file}")
        store = open_memory(settings.memory, home, os.environ, meaning=False)
        try:
            ready(store)
            counts = store.counts()
        finally:
            store.close()
    except MemoryStoreError as error:
        return MemoryState(ok=False, said=error.message)
    held = f"{counts.memories:,} remembered, {counts.quarantined:,} of them in quarantine"
    return MemoryState(ok=True, said=f"{store.where}: {held}")
