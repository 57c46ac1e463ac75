"""Plugins as the journal tells of them, and the sessions that they can be enabled for.

What an approval or a quarantine is worth is decided by the books of the machine; here it is as it was said.

A session is known once its process has run something or done something with a plugin; until then it has no name that
anybody outside of it could use.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import PurePath
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from kagura_kernel.domain.events import Event, PluginAudited, PluginCalled, PluginChanged, PluginSeen, RunFinished
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.plugins import PluginAudit, PluginPlace, PluginState
from kagura_kernel.journal.encoding import as_text, decode
from kagura_kernel.journal.moves import of_notebook
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.journal.schema import PLUGINS, events, runs
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import RUNS, run_row

# How a plugin stands that nobody has configured, its audit tells better.
_SAYS_NOTHING = (PluginState.DISCOVERED, PluginState.AUDITED, PluginState.QUARANTINED)
_FACTS = ("plugin.audited", "plugin.changed", "plugin.seen")
_ALL = (*_FACTS, "plugin.called")
_ROWS = select(events.c.seq, events.c.kind, events.c.run_id, events.c.body).where(PLUGINS)
_CHUNK = 500
# Behind so many calls of other plugins nobody looks for one of this.
_FAR = 20_000
_PLACE_ORDER: tuple[PluginPlace, ...] = ("bundled", "user", "project")


@dataclass(frozen=True, slots=True)
class PluginView:
    """One plugin, as far as the journal knows it."""

    seen: PluginSeen  # How it was when it was last found to be new or different
    audit: PluginAudit | None = None  # The latest audit of exactly these files; None while there is none
    approved: bool = False  # Whether exactly these files are approved, as far as the journal knows
    quarantine: str = ""  # Why these files are put off; empty when they are not
    update: str = ""  # The newer version that a repository has; empty where none is known
    uses: tuple[PluginChanged, ...] = ()  # What brought it where it is in a session, for each one, the latest first

    @property
    def name(self) -> str:
        """Its name; for one that cannot be used, its directory's."""
        return self.seen.plugin

    def use(self, session_id: str) -> PluginChanged | None:
        """What brought it where it is in a session; what a process that is gone had enabled is enabled no more."""
        return next((use for use in self.uses if use.session_id == session_id and owner_alive(use.owner)), None)

    def state(self, session_id: str) -> PluginState:
        """Where it is in a session."""
        use = self.use(session_id)
        if use is None or use.state in _SAYS_NOTHING:
            return self.state_alone
        # What is enabled stays so until the session's next run finds other files.
        current = use.content_hash == self.seen.content_hash or use.state is PluginState.ENABLED
        return PluginState(use.state) if current else self.state_alone

    @property
    def state_alone(self) -> PluginState:
        """Where it is for a session that has done nothing with it."""
        if self.quarantine:
            return PluginState.QUARANTINED
        return PluginState.AUDITED if self.audit is not None else PluginState.DISCOVERED


class PluginFold:
    """What the events so far add up to; no I/O."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, PluginPlace, str], PluginSeen] = {}  # The latest sight by name, place and project
        self._hashes: dict[tuple[str, PluginPlace, str], set[str]] = {}  # All that was ever seen there
        # The latest audit by name and hash; one that a brain has made stands until a brain makes another
        self.audits: dict[tuple[str, str], PluginAudit] = {}
        self.audited: dict[tuple[str, str], list[PluginAudited]] = {}  # Every audit by name and hash, in order
        self._approved: dict[str, str] = {}
        self.quarantined: dict[tuple[str, str], str] = {}
        self._uses: dict[tuple[str, str], PluginChanged] = {}
        self.offered: dict[str, str] = {}  # The newer version that a repository has of one of the person's own

    def take(self, event: Event) -> None:
        """Take the next event; those that are not about plugins change nothing."""
        match event:
            case PluginSeen():
                key = (event.plugin, event.place, event.project)
                if event.gone:
                    self.seen.pop(key, None)
                else:
                    self.seen[key] = event
                    self._hashes.setdefault(key, set()).add(event.content_hash)
            case PluginAudited():
                about = (event.audit.plugin, event.audit.content_hash)
                self.audited.setdefault(about, []).append(event)
                before = self.audits.get(about)
                # What a brain has found in these bytes is not undone by looking less closely.
                if before is None or _is_read(event.audit) or not _is_read(before):
                    self.audits[about] = event.audit
                self.quarantined.pop(about, None)
            case PluginChanged():
                self._change(event)

    def views(self) -> list[PluginView]:
        """All plugins, as `PluginHistory.look` has them."""
        keys = sorted(self.seen, key=lambda key: (key[0], _PLACE_ORDER.index(key[1]), key[2]))
        return [self._view(self.seen[key]) for key in keys]

    def _change(self, event: PluginChanged) -> None:
        match event.change:
            case "approved":
                self._approved[event.plugin] = event.content_hash
            case "unapproved" | "removed":
                self._approved.pop(event.plugin, None)
            case "outdated":
                self.offered[event.plugin] = event.version
            case "quarantined":
                self.quarantined[event.plugin, event.content_hash] = event.reason
            case "released":
                self.quarantined.pop((event.plugin, event.content_hash), None)
        if event.change in ("installed", "removed"):
            self.offered.pop(event.plugin, None)
        if event.session_id and event.state:
            self._uses[event.plugin, event.session_id] = event

    def _view(self, seen: PluginSeen) -> PluginView:
        key = (seen.plugin, seen.content_hash)
        namesakes = sum(name == seen.plugin for name, *_ in self.seen)
        theirs = self._hashes[seen.plugin, seen.place, seen.project]
        uses = [
            # Two projects may each have one of this name: the bytes tell whose session it is, those of before as well.
            use
            for (name, _), use in self._uses.items()
            if name == seen.plugin and (namesakes == 1 or use.content_hash in theirs)
        ]
        return PluginView(
            seen,
            audit=self.audits.get(key),
            approved=bool(seen.content_hash) and self._approved.get(seen.plugin) == seen.content_hash,
            quarantine=self.quarantined.get(key, ""),
            update=self.offered.get(seen.plugin, "") if seen.place == "user" else "",
            uses=tuple(sorted(uses, key=lambda use: use.at, reverse=True)),
        )


def _is_read(audit: PluginAudit) -> bool:
    """Whether a brain has read the source for it: not the scan alone, and not a cassette."""
    return not (audit.static_only or audit.played)


@dataclass(frozen=True, slots=True)
class PluginLogLine:
    """One thing that happened to a plugin."""

    at: datetime  # When, UTC
    what: str  # `seen`, `audited`, `called`, or the change; `printed` for what the plugin itself wrote
    text: str  # One line for a person
    ok: bool = True  # Whether it is nothing to worry about
    session_id: str = ""  # The session; empty where none is concerned
    run_id: str = ""  # The run that called, or that audited; empty for others
    by: str = ""  # Who; empty where nobody decided anything


class PluginHistory:
    """What one journal says about plugins; reads only what is new at each look. Any thread may use it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._fold = PluginFold()
        self._seq = 0

    def look(self) -> list[PluginView]:
        """All plugins, by name; of one name those that come with the package first, then the user's.

        Raises `JournalUnreadable`: it cannot be read.
        """
        with self._current() as fold:
            return fold.views()

    def audit(self, plugin: str, content_hash: str) -> PluginAudit | None:
        """The latest audit of exactly these files; None when there is none. Raises like `look`."""
        with self._current() as fold:
            return fold.audits.get((plugin, content_hash))

    def audits_since(self, plugin: str, content_hash: str, at: datetime) -> list[PluginAudit]:
        """The audits of exactly these files after a moment, in order. Raises like `look`."""
        with self._current() as fold:
            return [event.audit for event in fold.audited.get((plugin, content_hash), ()) if event.at > at]

    def quarantine(self, plugin: str, content_hash: str) -> str:
        """Why exactly these files were put off and were not let out since; else empty. Raises like `look`."""
        with self._current() as fold:
            return fold.quarantined.get((plugin, content_hash), "")

    def audited_hashes(self, plugin: str) -> frozenset[str]:
        """Hashes of all files of this name that were ever audited. Raises like `look`."""
        with self._current() as fold:
            return frozenset(found for name, found in fold.audits if name == plugin)

    def offered(self, plugin: str) -> str:
        """The newer version of one of the person's own plugins that a repository has; empty where none is known."""
        with self._current() as fold:
            return fold.offered.get(plugin, "")

    def seen(self) -> dict[tuple[str, PluginPlace, str], PluginSeen]:
        """How plugins were when they were last found, by name, place and project. Raises like `look`."""
        with self._current() as fold:
            return dict(fold.seen)

    @contextmanager
    def _current(self) -> Iterator[PluginFold]:
        """What the events add up to now, for the block alone."""
        with self._lock:
            rows = self._journal.read(_of_kinds(_FACTS).where(events.c.seq > self._seq).order_by(events.c.seq))
            for row, event in self._journal.told(rows):
                self._fold.take(event)
                self._seq = row.seq
            yield self._fold


def plugin_views(journal: Journal) -> list[PluginView]:
    """All plugins, read anew; see `PluginHistory.look`."""
    return PluginHistory(journal).look()


def plugin_log(journal: Journal, name: str, *, limit: int = 50) -> list[PluginLogLine]:
    """The latest that happened to a plugin, in every session, the latest last.

    Raises `JournalUnreadable`: it cannot be read.
    """
    lines = (line for event in _newest(journal) if (line := _line(event, name)) is not None)
    return list(islice(lines, limit))[::-1]


def _of_kinds(kinds: Sequence[str]) -> Any:
    return _ROWS.where(events.c.kind.in_(kinds))


def _newest(journal: Journal) -> Iterator[Event]:
    query = _of_kinds(_ALL).order_by(events.c.seq.desc()).limit(_CHUNK)
    rows = journal.read(query)
    looked_at = 0
    while rows:
        for _, event in journal.told(rows):
            yield event
        looked_at += len(rows)
        done = len(rows) < _CHUNK or looked_at >= _FAR
        rows = () if done else journal.read(query.where(events.c.seq < rows[-1].seq))


def _line(event: Event, name: str) -> PluginLogLine | None:
    line = PluginLogLine(event.at, "", "", session_id=event.session_id, run_id=event.run_id)
    match event:
        case PluginSeen() if event.plugin == name:
            return replace(line, what="seen", text=_seen_text(event), ok=not event.problem)
        case PluginAudited() if event.audit.plugin == name:
            ok = not event.audit.dangerous
            return replace(line, what="audited", text=_audited_text(event.audit), ok=ok, by=event.by)
        case PluginCalled() if event.plugin == name:
            return replace(line, what="called", text=_called_text(event), ok=event.ok)
        case PluginChanged() if event.plugin == name:
            ok = event.change not in {"changed", "failed", "quarantined", "rejected"}
            return replace(line, what=event.change, text=_changed_text(event), ok=ok, by=event.by)
        case _:
            return None


def _seen_text(event: PluginSeen) -> str:
    if event.gone:
        return "it is there no more"
    return event.problem or f"version {event.version} with the hash {event.content_hash[:12]}"


def _changed_text(event: PluginChanged) -> str:
    if event.reason:
        return event.reason
    given = ", ".join(f"{name}={value}" for name, value in event.config.items())
    return f"{event.change} with {given}" if given and event.change == "configured" else event.change


def _audited_text(audit: PluginAudit) -> str:
    by = audit.auditor or "the scan alone"
    findings = "1 finding" if len(audit.findings) == 1 else f"{len(audit.findings)} findings"
    return f"risk {audit.risk}, {audit.verdict}, {findings}, by {by}"


def _called_text(event: PluginCalled) -> str:
    call = f"{event.module}.{event.function}"
    took = f"{event.duration * 1000:.0f} ms"
    return f"{call} answered in {took}" if event.ok else f"{call} failed after {took}: {event.error_code} {event.error}"


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

    Raises `JournalUnreadable`: it cannot be read.

    Args:
        journal: Which journal.
        views: All plugins: a session may have done something with one, and have run nothing.
        session_id: Its id, which says all.
        notebook: Else the notebook whose own session is meant, as Jupyter tells its kernel.
        kernel_id: Its kernel's id, which counts more: a notebook can be renamed.
    """
    if session_id:
        fits = runs.c.session_id == as_text(session_id)
        ours = [*_of_runs(journal, fits, views), *_of_uses(journal, views, session_id)]
        ours = [one for one in ours if one.session_id == session_id]
    elif kernel_id:
        ours = _of_runs(journal, runs.c.kernel_id == as_text(kernel_id), views)
    elif notebook:
        ours = _of_runs(journal, of_notebook(journal, notebook), views)
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
    query = select(events.c.body).where(ours).order_by(events.c.seq.desc()).limit(_CHANGES)
    for event in _readable(journal.read(query)):
        if isinstance(event, PluginChanged) and event.change == "failed":
            found.setdefault(event.plugin, event)
    return found


def latest_audits(journal: Journal, owner: str) -> dict[str, AuditRunRow]:
    """The latest audit that a process has run of each plugin, by the plugin's name; raises like `find_session`."""
    query = RUNS.where(runs.c.owner == owner, runs.c.flavour == "audit").limit(_AUDITS)
    found: dict[str, RunRow] = {}
    for row in journal.readable(journal.read(query), run_row):
        found.setdefault(_audited(row.task), row)
    failed = [row.run_id for row in found.values() if row.error_code]
    errors = _errors(journal, failed) if failed else {}
    return {name: AuditRunRow(row, errors.get(row.run_id, "")) for name, row in found.items() if name}


def _audited(task: str) -> str:
    """The plugin's name, of an audit's task: `Audit the plugin NAME VERSION`."""
    words = task.split()
    return words[-2] if len(words) > 1 else ""


def _errors(journal: Journal, run_ids: Sequence[str]) -> dict[str, str]:
    query = select(events.c.body).where(events.c.run_id.in_(run_ids), events.c.kind == "run.finished")
    return {event.run_id: event.error for event in _readable(journal.read(query)) if isinstance(event, RunFinished)}


def _readable(rows: Iterable[Row[Any]]) -> Iterator[Event]:
    for row in rows:
        with suppress(ValueError):
            yield decode(row.body)


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
