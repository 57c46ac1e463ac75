"""All plugins of a process: which there are, how far each session has come with them, and the gate to enabling one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kagura_kernel.domain.errors import KaguraError, PluginChangedSince
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, PluginPermissions, PluginPlace, PluginState, Risk
from kagura_kernel.journal.mailbox import PluginWord, take_plugin_words
from kagura_kernel.journal.plugins import PluginHistory, PluginLogLine, plugin_log
from kagura_kernel.plugins.calls import EnabledPlugin, plugin_briefing
from kagura_kernel.plugins.decisions import ApprovalRecord
from kagura_kernel.plugins.enabler import CHANGED, Enabler, why_audit_bars, why_barred, why_outlived
from kagura_kernel.plugins.library import Examined, Library, ManagerParts
from kagura_kernel.plugins.manifest import Trace, trace
from kagura_kernel.plugins.sessions import CONFIGURED, ITSELF, JailedPlugin, PluginSessions, Teller, after, shown_state
from kagura_kernel.plugins.text import first_danger

if TYPE_CHECKING:
    from datetime import datetime

    from kagura_kernel.plugins.configuration import Value
    from kagura_kernel.plugins.decisions import TrustBook
    from kagura_kernel.plugins.manifest import Found, Problem


@dataclass(frozen=True, slots=True)
class PluginRow:
    """One plugin, as lists show it."""

    name: str  # Its name; for one that cannot be used, its directory's
    version: str = ""  # SemVer; empty for one that cannot be used
    description: str = ""  # As its manifest has it
    place: PluginPlace = "user"  # Where it lies
    path: Path = Path()  # Its directory
    modules: tuple[str, ...] = ()  # What guest code imports
    permissions: PluginPermissions = field(default_factory=PluginPermissions)  # As declared
    state: PluginState = PluginState.DISCOVERED  # Where it is in the session
    approved: bool = False  # Whether exactly these files are approved, at a risk that is allowed
    risk: Risk | None = None  # Of the latest audit of exactly these files; None while there is none
    verdict: AuditVerdict | None = None  # Likewise
    audited_at: datetime | None = None  # Likewise, UTC
    content_hash: str = ""  # SHA-256 over all files; empty for one that cannot be used
    signed_by: str = ""  # The trusted author whose signature holds; empty for none
    problem: str = ""  # Why it cannot be used; empty when it can
    quarantine: str = ""  # Why it is put off; empty when it is not
    # What it is configured with in the session, passwords masked
    config: Mapping[str, str] = field(default_factory=dict)
    # What its jail opens in the session; nothing before it is configured
    opens: PluginPermissions = field(default_factory=PluginPermissions)
    static_only: bool = False  # Whether no brain took part in the latest audit
    played: bool = False  # Whether a cassette was its auditor
    # What keeps these files out whatever anybody decides: of their bytes, or of their latest audit, its risk among
    # that; empty for nothing that is known
    danger: str = ""
    update: str = ""  # The newer version that a repository has, as far as anybody has looked; empty for none

    @property
    def why_out(self) -> str:
        """Why it cannot be enabled, as lists say it beneath; empty when it can, as far as is known."""
        return self.problem or self.quarantine or (f"kept out: {self.danger}" if self.danger else "")


class PluginManager:
    """The plugins of this process, of all its sessions.

    What does not start or end a jail may be called from any thread and returns at once; the rest is for the engine's
    loop. Every method raises `JournalError` when the journal says no; then nothing was done, but for what takes away:
    a plugin is off, and an approval void, whether or not it could be written down.
    """

    def __init__(self, parts: ManagerParts) -> None:
        self._parts = parts
        self._history = PluginHistory(parts.journal)
        self._library = Library(parts, self._history, self._replaced)
        self._sessions = PluginSessions()
        self._tell = Teller(parts.journal, parts.clock, parts.owner, parts.redact)
        self._enabler = Enabler(parts, self._history, self._sessions, self._library, self._tell)
        # How a plugin is brought into a session and taken away again, and the end of all; for the engine's loop
        self.enable, self.disable, self.close = self._enabler.enable, self._enabler.disable, self._enabler.close
        self._unheard: list[PluginWord] = []
        self._traces: WeakKeyDictionary[JailedPlugin, Trace] = WeakKeyDictionary()
        # What the next run of a session is told, by plugin
        self._notes: dict[str, dict[str, str]] = {}
        # Writes down what was done to a plugin or an author elsewhere (installed, removed, signed, trusted), and what
        # was asked for a session and came to nothing
        self.note = self._tell.noted

    # ------------------------------------------------------------------ any thread: looking

    def rows(self, session_id: str, project: Path | None) -> tuple[PluginRow, ...]:
        """Look for plugins anew: by name, as one session has them.

        What is new, different or gone is written down. Files that differ from approved ones void the approval.
        """
        look = self._library.look(project)
        rows = [self._row(session_id, found, look.signed.get(name, "")) for name, found in look.found.items()]
        return tuple(sorted([*rows, *map(_unusable, look.problems)], key=lambda row: row.name))

    def row(self, session_id: str, name: str, project: Path | None) -> PluginRow:
        """One of them; raises `UnknownName`."""
        look = self._library.look(project)
        problem = next((problem for problem in look.problems if problem.name == name), None)
        if problem is not None and name not in look.found:
            return _unusable(problem)
        return self._row(session_id, look.one(name), look.signed.get(name, ""))

    def row_of(self, session_id: str, examined: Examined) -> PluginRow:
        """How the very bytes that were examined stand in a session; no file is read again."""
        return self._row(session_id, examined.found, examined.signed_by)

    def examine(self, name: str, project: Path | None, *, content_hash: str = "") -> Examined:
        """Read a plugin's files once, and scan them; takes as long as the scan, and raises as `Library.examine`."""
        return self._library.examine(self._library.look(project), name, content_hash=content_hash)

    def cached_audit(self, name: str, content_hash: str) -> PluginAudit | None:
        """The latest audit of these very bytes, of whichever process; None when there is none."""
        return self._history.audit(name, content_hash)

    def approval(self, examined: Examined) -> ApprovalRecord | None:
        """The approval that makes an audit needless: of these very bytes, at a risk that is allowed now."""
        if self.barred(examined, None):
            return None
        return self._enabler.approval(examined.name, examined.content_hash)

    def now(self) -> datetime:
        """The time, UTC."""
        return self._parts.clock.now()

    def offered(self, name: str, version: str, why: str) -> None:
        """Write down that a repository has a newer version of one of the person's own plugins, where that is news."""
        if self._history.offered(name) != version:
            self.note("outdated", name, by=ITSELF, why=why, version=version)

    def barred(self, examined: Examined, audit: PluginAudit | None) -> str:
        """Why nobody can enable or approve it, whatever they decide; empty when somebody can.

        A danger in its source or its audit, the wrong audit, a risk above the highest allowed, quarantine. Half a
        sentence that goes on from "The plugin 'name'".
        """
        if why := self._enabler.why_off(examined.name, examined.content_hash):
            return f"is in quarantine: {why}; `plugin audit {examined.name}` examines it anew and lets it out"
        return why_barred(examined, audit, self._parts.max_risk)

    def values(self, session_id: str, name: str) -> Mapping[str, Value]:
        """What it was last configured with in this session; empty before."""
        return self._sessions.standing(session_id, name).values

    def check_values(self, examined: Examined, values: Mapping[str, Value], project: Path) -> None:
        """Make sure that a jail could open what these values say.

        Raises `PluginNotConfigured`: with everything that is wrong with them.
        """
        self._enabler.plan(examined, values, project)

    def logs(self, session_id: str, name: str, limit: int = 50) -> tuple[PluginLogLine, ...]:
        """What happened to it, and then what it printed in this session, the latest last."""
        lines = plugin_log(self._parts.journal, name, limit=limit)
        printed = self._sessions.printed(session_id, name).splitlines()[-limit:]
        now = self._parts.clock.now()
        return (*lines, *(PluginLogLine(now, "printed", text, session_id=session_id) for text in printed))

    @property
    def problems(self) -> tuple[str, ...]:
        """Why what was decided on this machine counts for nothing, a sentence for each file to which that befell."""
        books = (self._parts.approvals, self._parts.quarantine, self._parts.trust)
        return tuple(problem for book in books if (problem := book.problem))

    @property
    def trust(self) -> TrustBook:
        """The authors whose signatures count."""
        return self._parts.trust

    # ------------------------------------------------------------------ any thread: deciding

    def audited(self, session_id: str, examined: Examined, audit: PluginAudit, *, by: str, stored: bool) -> None:
        """Take note of a fresh audit: the session's state, a way out of quarantine, and an end of approvals.

        One that says worse than the audit that an approval was given on takes that back, for every session and process.
        With `stored` the audit's run has stored it already. Raises `PluginChangedSince`: it is about other bytes;
        `ConfigurationError`: the approval cannot be taken out of its file; it counts for nothing nevertheless.
        """
        if audit.content_hash != examined.content_hash or audit.plugin != examined.name:
            raise PluginChangedSince(examined.name, "audited")
        if not stored:
            self._tell.audited(session_id, audit, by=by)
        approval = self._parts.approvals.valid(examined.name, examined.content_hash)
        if approval is not None and (why := why_outlived(approval, audit)):
            self.unapprove(session_id, examined.name, by=ITSELF, via="audit", why=f"it {why}")
        if self._enabler.why_off(examined.name, examined.content_hash):
            self.release(session_id, examined, by=by, via="audit", why="it was audited anew")
        standing = self._sessions.standing(session_id, examined.name)
        if standing.state is PluginState.ENABLED and standing.content_hash != examined.content_hash:
            # What is loaded goes on with its own bytes until the next run finds others.
            return
        standing = standing.about(examined.content_hash)
        self._sessions.put(session_id, examined.name, replace(standing, state=after(standing.state, "audit")))

    def approve(self, session_id: str, examined: Examined, *, by: str, via: str) -> ApprovalRecord:
        """Approve these very bytes for all sessions of this machine.

        Raises as `Enabler.audit_of` and `Enabler.check`; `ConfigurationError`: the approval cannot be kept.
        """
        audit = self._enabler.audit_of(examined)
        self._enabler.check(examined, audit)
        why = f"risk {audit.risk}, {audit.verdict}"
        self._tell.decided("approved", session_id, examined.found, by=by, via=via, why=why)
        try:
            return self._parts.approvals.approve(audit)
        except KaguraError as error:
            why = f"it could not be kept: {error.message}"
            self._tell.decided("unapproved", session_id, examined.found, by=ITSELF, why=why)
            raise

    def unapprove(self, session_id: str, name: str, *, by: str, via: str, why: str = "") -> bool:
        """Take an approval back; False when there was none. What is enabled stays enabled for its session."""
        if not self._parts.approvals.remove(name):
            return False
        self._tell.noted("unapproved", name, by=by, via=via, why=why, session_id=session_id)
        return True

    def reject(self, session_id: str, examined: Examined, *, by: str, via: str, why: str = "") -> None:
        """Write down that somebody said no."""
        self._tell.decided("rejected", session_id, examined.found, by=by, via=via, why=why)

    def release(self, session_id: str, examined: Examined, *, by: str, via: str, why: str = "") -> bool:
        """Let these very bytes out of quarantine; False when they were in none."""
        name = examined.name
        released = self._enabler.release(name, examined.content_hash)
        standing = self._sessions.standing(session_id, name)
        if standing.state is PluginState.QUARANTINED:
            self._sessions.put(session_id, name, replace(standing, state=after(standing.state, "release")))
        if released:
            self._tell.decided("released", session_id, examined.found, by=by, via=via, why=why)
        return released

    # ------------------------------------------------------------------ the engine's loop

    async def refresh(self, session_id: str, project: Path) -> Sequence[str]:
        """Before a run: plugins whose files have changed are off; words from other processes are heard.

        Returns:
            Notes for the run, each a sentence.
        """
        self._unheard += await self._hear([session_id])
        for plugin in self._sessions.running(session_id):
            await self._check(session_id, plugin, project)
        notes = self._notes.pop(session_id, {})
        return [note for name, note in notes.items() if self._sessions.one(session_id, name) is None]

    async def watch(self) -> Mapping[tuple[str, str], Found]:
        """Look, in every session, whether the files of what is enabled are still the same; what has others is off.

        Returns:
            By session and name, as it was enabled, what is off for that since the last time, whoever noticed.
        """
        for session_id, plugin in self._sessions.enabled():
            found = plugin.found
            seen = await asyncio.to_thread(trace, found.content.root)
            if self._traces.get(plugin) != seen:
                project = found.content.root.parents[1] if found.place == "project" else None
                await self._check(session_id, plugin, project)
                self._traces[plugin] = seen
        off, self._enabler.changed = self._enabler.changed, {}
        return off

    def enabled(self, session_id: str) -> Sequence[EnabledPlugin]:
        """Those that are enabled in this session, by name."""
        return self._sessions.running(session_id)

    def briefing(self, session_id: str) -> str:
        """What a brain is told of them."""
        return plugin_briefing(self._sessions.running(session_id))

    async def hear(self, session_ids: Sequence[str]) -> tuple[PluginWord, ...]:
        """Take the words that other processes left for these sessions, and do those that nobody has to be asked about.

        Left are those for whoever can ask a person: `enable`, `audit`, `approve`. Sessions that have come anywhere with
        a plugin are among them anyway. Costs next to nothing while there is no word.
        """
        heard = await self._hear(session_ids)
        unheard, self._unheard = self._unheard, []
        return (*unheard, *heard)

    # ------------------------------------------------------------------ privates

    def _replaced(self, name: str, content_hash: str) -> None:
        # Voided for good: the same bytes, put back later, are looked at by a person again.
        if self._parts.approvals.valid(name, content_hash) is not None:
            self.unapprove("", name, by=ITSELF, via="", why=CHANGED)

    def _row(self, session_id: str, found: Found, signed_by: str) -> PluginRow:
        content_hash = found.content.content_hash
        audit = self._history.audit(found.name, content_hash)
        quarantine = self._enabler.why_off(found.name, content_hash)
        standing = self._sessions.standing(session_id, found.name)
        state = shown_state(standing, content_hash, audited=audit is not None, quarantined=bool(quarantine))
        return PluginRow(
            name=found.name,
            version=found.manifest.version,
            description=found.manifest.description,
            place=found.place,
            path=found.content.root,
            modules=found.manifest.host_modules,
            permissions=found.manifest.permissions,
            state=state,
            approved=not quarantine and self._enabler.approval(found.name, content_hash) is not None,
            risk=audit.risk if audit else None,
            verdict=audit.verdict if audit else None,
            audited_at=audit.at if audit else None,
            content_hash=content_hash,
            signed_by=signed_by,
            quarantine=quarantine,
            config=standing.config,
            opens=standing.opens if state in CONFIGURED else PluginPermissions(),
            static_only=bool(audit and audit.static_only),
            played=bool(audit and audit.played),
            danger=self._danger(found, audit),
            update=self._history.offered(found.name) if found.place == "user" else "",
        )

    def _danger(self, found: Found, audit: PluginAudit | None) -> str:
        # A signature that does not hold is seen without an audit.
        danger = first_danger([*found.content.oddities, *(audit.findings if audit else ())])
        if audit is not None and not danger and (why := why_audit_bars(audit, self._parts.max_risk)):
            return f"it {why}"
        return danger

    async def _check(self, session_id: str, plugin: JailedPlugin, project: Path | None) -> None:
        """Take a plugin off that is not what it was; the session's next run is told."""
        note = await self._why_off(session_id, plugin)
        if note:
            self._notes.setdefault(session_id, {})[plugin.name] = note
            # What is there now is seen, and an approval of what was there is void.
            await asyncio.to_thread(self._library.look, project)

    async def _why_off(self, session_id: str, plugin: JailedPlugin) -> str:
        name = plugin.name
        if why := self._enabler.why_off(name, plugin.content_hash):
            await self._enabler.take_off("quarantine", session_id, plugin, why)
            return f"{name} is in quarantine and off: {why}"
        if why := self._enabler.why_audit_bars(name, plugin.content_hash):
            await self.disable(session_id, name, by=ITSELF, via="", why=f"by its latest audit it {why}")
            return f"{name} is off: by its latest audit it {why}"
        now = await asyncio.to_thread(self._library.hash_now, plugin.found)
        if now == plugin.content_hash:
            return ""
        why = CHANGED if now else "its files are gone, or no plugin any more"
        await self._enabler.take_off("change", session_id, plugin, why)
        return f"{name} is off: {why}; enable it again to have it audited" if now else f"{name} is off: {why}"

    async def _hear(self, session_ids: Sequence[str]) -> list[PluginWord]:
        left = []
        for word in take_plugin_words(self._parts.journal, self._sessions.known(session_ids)):
            match word.deed:
                case "disable":
                    await self.disable(word.session_id, word.plugin, by=word.by, via=word.via)
                case "unapprove":
                    self.unapprove(word.session_id, word.plugin, by=word.by, via=word.via)
                case "reject":
                    about = {"session_id": word.session_id, "content_hash": word.content_hash}
                    self._tell.noted("rejected", word.plugin, by=word.by, via=word.via, standing=None, **about)
                case _:
                    left.append(word)
        return left


def _unusable(problem: Problem) -> PluginRow:
    return PluginRow(name=problem.name, place=problem.place, path=problem.path, problem="; ".join(problem.why))
