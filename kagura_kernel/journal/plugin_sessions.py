"""Sessions that plugins can be enabled for, as runs and plugins tell of them, and how audits for them went.

A session is known once its process has run something or done something with a plugin; until then it has no name that
anybody outside of it could use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from kagura_kernel.domain.events import PluginChanged, RunFinished
from kagura_kernel.journal.encoding import as_text, decode
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.plugin_views import PluginView
from kagura_kernel.journal.projected import RUNS, run_row
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.schema import events, runs
from kagura_kernel.journal.store import Journal

_RECENT = 50
_AUDITS = 100
_CHANGES = 100
# How sessions are called that nobody has named: a notebook's own one.
_OWN = "ses-"


@dataclass(frozen=True, slots=True)
class HeldSession:
    """A session and the process that holds it, or held it."""

    session_id: str
    owner: str  # The process
    project: str  # The project root in which it last ran something
    notebook: str = ""  # The notebook that asked last; empty elsewhere
    kernel_id: str = ""  # Its kernel's id; empty elsewhere

    @property
    def live(self) -> bool:
        """Whether its process may still run."""
        return owner_alive(self.owner)


@dataclass(frozen=True, slots=True)
class AuditRunRow:
    """The latest audit of a plugin that a process has run."""

    run: RunRow
    error: str  # Why it did not end well, in full; empty otherwise


def find_session(
    journal: Journal, views: Sequence[PluginView], *, session_id: str = "", notebook: str = "", kernel_id: str = ""
) -> HeldSession | None:
    """The session that is meant; None while nothing is known of it.

    Args:
        journal: Which journal.
        views: All plugins: a session may have done something with one, and have run nothing.
        session_id: Its id, which says all.
        notebook: Else the notebook whose own session is meant, as Jupyter tells its kernel.
        kernel_id: Its kernel's id, which counts more: a notebook can be renamed.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    if session_id:
        fits = runs.c.session_id == as_text(session_id)
        ours = [*_of_runs(journal, fits, views), *_of_uses(journal, views, session_id)]
        ours = [one for one in ours if one.session_id == session_id]
    elif kernel_id:
        ours = _of_runs(journal, runs.c.kernel_id == as_text(kernel_id), views)
    elif notebook:
        ours = _of_runs(journal, runs.c.notebook == as_text(notebook), views)
    else:
        return None
    live = [one for one in ours if one.live]
    own = [one for one in live if one.session_id.startswith(_OWN)]
    return next(iter((*own, *live, *ours)), None)


def concerns(view: PluginView, session: HeldSession | None, *, notebook: str = "", project: str = "") -> bool:
    """Whether a session, a notebook or a project can have this plugin: one of another project it cannot."""
    if not view.seen.project:
        return True
    if project:
        return view.seen.project == project
    if session is not None and session.project:
        return view.seen.project == session.project
    return not notebook or PurePath(notebook).is_relative_to(view.seen.project)


def notebooks_of(journal: Journal, owners: Collection[str]) -> dict[str, str]:
    """The notebook from which each of these processes last ran something; raises like `find_session`."""
    if not owners:
        return {}
    query = (
        select(runs.c.owner, runs.c.notebook)
        .where(runs.c.owner.in_(sorted(owners)), runs.c.notebook != "")
        .order_by(runs.c.first_seq)
    )
    return {row.owner: row.notebook for row in journal.read(query)}


def latest_failures(journal: Journal, session_id: str) -> dict[str, PluginChanged]:
    """What was last asked for in a session and came to nothing, by plugin; raises like `find_session`."""
    ours = (events.c.session_id == as_text(session_id)) & (events.c.kind == "plugin.changed")
    found: dict[str, PluginChanged] = {}
    for row in journal.read(select(events.c.body).where(ours).order_by(events.c.seq.desc()).limit(_CHANGES)):
        try:
            event = decode(row.body)
        except ValueError:
            continue
        if isinstance(event, PluginChanged) and event.change == "failed":
            found.setdefault(event.plugin, event)
    return found


def latest_audits(journal: Journal, owner: str) -> dict[str, AuditRunRow]:
    """The latest audit that a process has run of each plugin, by the plugin's name; raises like `find_session`."""
    query = RUNS.where(runs.c.owner == owner, runs.c.flavour == "audit").limit(_AUDITS)
    found: dict[str, RunRow] = {}
    for row in map(run_row, journal.read(query)):
        found.setdefault(_audited(row.task), row)
    errors = _errors(journal, [row.run_id for row in found.values() if row.error_code])
    return {name: AuditRunRow(row, errors.get(row.run_id, "")) for name, row in found.items() if name}


def _audited(task: str) -> str:
    """The plugin's name, of an audit's task: `Audit the plugin NAME VERSION`."""
    words = task.split()
    return words[-2] if len(words) > 1 else ""


def _errors(journal: Journal, run_ids: Sequence[str]) -> dict[str, str]:
    if not run_ids:
        return {}
    query = select(events.c.run_id, events.c.body).where(events.c.run_id.in_(run_ids), events.c.kind == "run.finished")
    found = {}
    for row in journal.read(query):
        try:
            event = decode(row.body)
        except ValueError:
            continue
        if isinstance(event, RunFinished):
            found[row.run_id] = event.error
    return found


def _of_runs(journal: Journal, fits: ColumnElement[bool], views: Sequence[PluginView]) -> list[HeldSession]:
    """Sessions of the runs that fit, the latest first; for an audit, those that its process had plugins for."""
    by_owner = _sessions_by_owner(views)
    found: dict[tuple[str, str], HeldSession] = {}
    for row in journal.read(RUNS.where(fits).limit(_RECENT)):
        ids = by_owner.get(row.owner, []) if row.flavour == "audit" else [row.session_id]
        for session_id in ids:
            found.setdefault((session_id, row.owner), _held(session_id, row))
    return list(found.values())


def _of_uses(journal: Journal, views: Sequence[PluginView], session_id: str) -> list[HeldSession]:
    """The same session as plugins tell of it, the latest first."""
    uses = sorted((use for view in views for use in view.uses if use.session_id == session_id), key=_at, reverse=True)
    found: dict[str, HeldSession] = {}
    for owner in dict.fromkeys(use.owner for use in uses):
        last = journal.read(RUNS.where(runs.c.owner == owner).limit(1))
        found[owner] = _held(session_id, last[0]) if last else HeldSession(session_id, owner, "")
    return list(found.values())


def _held(session_id: str, row: Row[Any]) -> HeldSession:
    return HeldSession(session_id, row.owner, row.project, row.notebook, row.kernel_id)


def _sessions_by_owner(views: Iterable[PluginView]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for use in sorted((use for view in views for use in view.uses), key=_at, reverse=True):
        ids = found.setdefault(use.owner, [])
        if use.session_id not in ids:
            ids.append(use.session_id)
    return found


def _at(use: PluginChanged) -> datetime:
    return use.at
