"""The load gate and what is behind it: examined bytes become a jail, and the jail ends when it must.

Reasons are half sentences that go on from "The plugin 'name'".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import Decision
from kagura_kernel.domain.errors import JournalError, KaguraError, PluginChangedSince, PluginQuarantined, PluginRefused
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginState, Risk
from kagura_kernel.journal.plugins import PluginHistory
from kagura_kernel.plugins.configuration import complete, shown
from kagura_kernel.plugins.decisions import ApprovalRecord
from kagura_kernel.plugins.library import Examined, Library, ManagerParts
from kagura_kernel.plugins.permissions import Ground, plan_jail
from kagura_kernel.plugins.sessions import (
    ITSELF,
    JailedPlugin,
    JailOrder,
    PluginSessions,
    SessionPlugin,
    Step,
    Teller,
    after,
)
from kagura_kernel.plugins.text import first_danger

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuration import Configured, Value
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.manifest import Found
    from kagura_kernel.plugins.permissions import JailPlan


def why_barred(examined: Examined, audit: PluginAudit | None, highest: Risk) -> str:
    """Why nobody can enable or approve it; empty when somebody can."""
    if found := first_danger(examined.scan.findings):
        return f"may not be loaded: {found}"
    if audit is None:
        return ""
    if audit.content_hash != examined.content_hash:
        return "has other files than those that were audited"
    return why_audit_bars(audit, highest)


def why_audit_bars(audit: PluginAudit, highest: Risk) -> str:
    """Why nobody can have what this audit is about; empty when somebody can."""
    if found := first_danger(audit.findings):
        return f"may not be loaded: {found}"
    if audit.risk.rank > highest.rank:
        return f"has the risk {audit.risk}, and {highest} is the highest that is allowed here (plugin_max_risk)"
    return ""


def why_outlived(approval: ApprovalRecord, audit: PluginAudit | None) -> str:
    """Why an approval counts no more: an audit of the same bytes says worse than the one that it was given on.

    Where no brain has looked, only a danger is worse: that the risk is not known says nothing new.
    """
    if audit is None:
        return ""
    graver = audit.risk.rank > approval.risk.rank or audit.verdict.rank > approval.verdict.rank
    if not (audit.dangerous or (graver and not audit.static_only)):
        return ""
    was = f"risk {approval.risk}, {approval.verdict}"
    return f"was approved at {was}, and an audit of the same files says risk {audit.risk}, {audit.verdict}"


def check_bytes(content: PluginContent, content_hash: str) -> None:
    """Make sure that these bytes, hashed anew, are those that a decision was about.

    Raises `PluginChangedSince`: they are not.
    """
    # A fresh copy has no hash that was kept from before.
    if replace(content).content_hash != content_hash:
        raise PluginChangedSince(content.name, "examined")


ENDED = "its session has ended"
CHANGED = "its files have changed"
_OUT: Mapping[Step, PluginChange] = {"disable": "disabled", "change": "changed", "quarantine": "quarantined"}
GOES_ON = "The one that is enabled goes on as it was."


class Enabler:
    """Enables and disables plugins; but for the checks it lives on the engine's loop."""

    def __init__(
        self, parts: ManagerParts, history: PluginHistory, sessions: PluginSessions, library: Library, tell: Teller
    ) -> None:
        self._parts = parts
        self._history = history
        self._sessions = sessions
        self._library = library
        self._tell = tell
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}
        self._starting: dict[tuple[str, str], JailedPlugin] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._put_off: dict[tuple[str, str], str] = {}
        self._closed = False
        # What was enabled last and is off because its files changed, by session and name, until somebody asks for it
        self.changed: dict[tuple[str, str], Found] = {}

    # ------------------------------------------------------------------ the gate, any thread

    def approval(self, name: str, content_hash: str) -> ApprovalRecord | None:
        """The approval of these very bytes, at a risk that is allowed now, and which no audit has overtaken."""
        record = self._parts.approvals.valid(name, content_hash)
        if record is None or record.risk.rank > self._parts.max_risk.rank:
            return None
        return None if self._why_outlived(record, name, content_hash) else record

    def _why_outlived(self, record: ApprovalRecord, name: str, content_hash: str) -> str:
        # The book of a process that was killed after its audit still holds the approval; the journal has the audit, and
        # a better one that was made later does not bring the approval back.
        audits = (
            self._history.audit(name, content_hash),
            *self._history.audits_since(name, content_hash, record.approved_at),
        )
        return next(filter(None, (why_outlived(record, audit) for audit in audits)), "")

    def why_off(self, name: str, content_hash: str) -> str:
        """Why exactly these files are in quarantine; empty when they are not."""
        return (
            self._put_off.get((name, content_hash), "")
            or self._parts.quarantine.reason(name, content_hash)
            # A book that is broken counts as empty, which must let nothing out.
            or self._history.quarantine(name, content_hash)
        )

    def why_audit_bars(self, name: str, content_hash: str) -> str:
        """Why the latest audit of exactly these files lets nobody have them; empty when it does, or there is none."""
        audit = self._history.audit(name, content_hash)
        return why_audit_bars(audit, self._parts.max_risk) if audit is not None else ""

    def release(self, name: str, content_hash: str) -> bool:
        """Let these files of a plugin out of quarantine; False when they were in none."""
        here = self._put_off.pop((name, content_hash), None)
        return self._parts.quarantine.release(name, content_hash) or here is not None

    def audit_of(self, examined: Examined) -> PluginAudit:
        """The audit of these very bytes.

        Raises `PluginChangedSince`: other bytes of this name were audited; `PluginRefused`: nothing of this name was.
        """
        audit = self._history.audit(examined.name, examined.content_hash)
        if audit is not None:
            return audit
        if self._history.audited_hashes(examined.name):
            raise PluginChangedSince(examined.name, "audited")
        raise PluginRefused(examined.name, "has not been audited", f"Begin with `plugin audit {examined.name}`.")

    def check(self, examined: Examined, audit: PluginAudit | None) -> None:
        """Refuse what nobody can enable or approve.

        Raises `PluginQuarantined`: these bytes are put off; `PluginRefused`: a danger, or a risk above the highest that
        is allowed.
        """
        if why := self.why_off(examined.name, examined.content_hash):
            raise PluginQuarantined(examined.name, why)
        if why := why_barred(examined, audit, self._parts.max_risk):
            raise PluginRefused(examined.name, why)

    def check_word(self, examined: Examined, decision: Decision | None) -> str:
        """Make sure that somebody has let these very bytes in: the hash that they meant.

        Without a person's word an approval takes its place. Raises as `check`; `PluginRefused`: nobody has let them in;
        `PluginChangedSince`: it was other bytes that were audited.
        """
        if decision is None:
            self.check(examined, None)
            return self._approved_hash(examined)
        if not decision.allowed:
            raise PluginRefused(examined.name, f"was not enabled: {decision.by} said no")
        audit = self.audit_of(examined)
        self.check(examined, audit)
        return audit.content_hash

    def _approved_hash(self, examined: Examined) -> str:
        record = self._parts.approvals.record(examined.name)
        if record is None:
            raise PluginRefused(examined.name, "is not approved, and nobody has decided about it")
        if record.content_hash != examined.content_hash:
            raise PluginChangedSince(examined.name, "approved")
        if why := self._why_outlived(record, examined.name, examined.content_hash):
            raise PluginRefused(examined.name, why, f"See `plugin audit {examined.name}`, and decide anew.")
        if self.approval(examined.name, examined.content_hash) is None:
            highest = self._parts.max_risk
            why = f"is approved at the risk {record.risk}, and {highest} is the highest that is allowed here"
            raise PluginRefused(examined.name, why, "The setting is plugin_max_risk.")
        return record.content_hash

    # ------------------------------------------------------------------ in

    async def enable(
        self,
        session_id: str,
        examined: Examined,
        values: Mapping[str, Value],
        *,
        project: Path,
        by: str,
        via: str,
        decision: Decision | None = None,
    ) -> JailedPlugin:
        """Load exactly the bytes that were examined, for this session.

        One that is enabled already is replaced when the jail of the new one is up; calls under way in it are cut then.
        Where that comes to nothing it goes on as it was, unless its files are others by now: then it is off. What is
        missing in `values` gets its default. Without a decision, on the fast path, an approval counts.

        Raises:
            PluginRefused: it is barred; no approval and no decision; or it has undeclared modules.
            PluginChangedSince: the audit or the approval is about other bytes, or its files are others by now.
            PluginQuarantined: it is put off.
            PluginNotConfigured: with everything that is wrong with the values.
            KaguraError: as `StartJail`; it is disabled then where it was not enabled before.
        """
        meant = self.check_word(examined, decision)
        # One at a time may bring one plugin into one session.
        async with self._turns.setdefault((session_id, examined.name), asyncio.Lock()):
            if self._closed:
                raise PluginRefused(examined.name, f"cannot be enabled: {ENDED}")
            anew = self._sessions.one(session_id, examined.name) is not None
            try:
                standing, plan = await self._checked(session_id, examined, meant, values, project)
                anew = await self._still_itself(session_id, examined.name, project) is not None
                if not anew:
                    self._tell.decided("configured", session_id, examined.found, standing, by=by, via=via)
                    self._sessions.put(session_id, examined.name, standing)
                put_off = partial(self._quarantine_soon, session_id, examined.found)
                order = JailOrder(session_id, examined.found, plan, put_off)
                plugin = JailedPlugin(order, self._parts.start_jail, self._parts.clock)
                await self._open(session_id, plugin, standing)
                await self._enter(session_id, plugin, standing, by=by, via=via, anew=anew)
            except KaguraError as error:
                if anew:
                    await self._spare(session_id, examined, error, project)
                raise
            return plugin

    async def _checked(
        self, session_id: str, examined: Examined, meant: str, values: Mapping[str, Value], project: Path
    ) -> tuple[SessionPlugin, JailPlan]:
        check_bytes(examined.found.content, meant)
        if await asyncio.to_thread(self._library.hash_now, examined.found) != meant:
            raise PluginChangedSince(examined.name, "looked at")
        self._check_modules(session_id, examined.found)
        configured, plan = self.plan(examined, values, project)
        kept = MappingProxyType(dict(values))
        config = MappingProxyType(shown(configured.values))
        return SessionPlugin(PluginState.CONFIGURED, meant, kept, config, plan.permissions), plan

    async def _enter(
        self, session_id: str, plugin: JailedPlugin, standing: SessionPlugin, *, by: str, via: str, anew: bool
    ) -> None:
        """Have it enabled, and end the one that was so far; nothing is awaited between being told and being done."""
        enabled = replace(standing, state=after(standing.state, "enable"))
        # One row alone: until it is stored, the journal has the earlier one enabled as it was configured, which is so.
        given = ", ".join(f"{name}={value}" for name, value in enabled.config.items())
        why = f"configured anew{given and ' with '}{given}" if anew else ""
        try:
            self._tell.decided("enabled", session_id, plugin.found, enabled, by=by, via=via, why=why)
        except JournalError:
            await plugin.close("could not be written down as enabled")
            raise
        self._sessions.put(session_id, plugin.name, enabled)
        before = self._sessions.enter(session_id, plugin)
        if before is not None:
            end = self._in_background(before.close("was configured anew"))
            # Whoever calls this off is left with the new one, and the jail of the old one ends nevertheless.
            await asyncio.shield(end)

    async def _still_itself(self, session_id: str, name: str, project: Path) -> JailedPlugin | None:
        """The one that is enabled, unless its files are others by now: then it is taken off."""
        plugin = self._sessions.one(session_id, name)
        if plugin is None:
            return None
        if await asyncio.to_thread(self._library.hash_now, plugin.found) != plugin.content_hash:
            await self.take_off("change", session_id, plugin, CHANGED)
            # What is there now is seen, and an approval of what was there is void.
            await asyncio.to_thread(self._library.look, project)
        return self._sessions.one(session_id, name)

    async def _spare(self, session_id: str, examined: Examined, error: KaguraError, project: Path) -> None:
        """Say that the one that was enabled before this failed attempt goes on, where it does; write the attempt down.

        The row has no state: whatever has ended the earlier one meanwhile has told its own.
        """
        # What went wrong is raised, whether or not it can be written down.
        with contextlib.suppress(JournalError):
            if await self._still_itself(session_id, examined.name, project) is not None:
                error.args = (f"{_as_sentence(error.message)}{GOES_ON}", *error.args[1:])
            self._tell.decided("failed", session_id, examined.found, by=ITSELF, why=error.message)

    def plan(self, examined: Examined, values: Mapping[str, Value], project: Path) -> tuple[Configured, JailPlan]:
        """What these values make of it, and what its jail opens then; raises `PluginNotConfigured`. For any thread."""
        name, declared = examined.name, examined.found.manifest.permissions
        configured = complete(examined.schema, values, name)
        ground = Ground(project, self._parts.person, self._parts.private)
        return configured, plan_jail(declared, examined.schema, configured.values, ground, plugin=name)

    async def _open(self, session_id: str, plugin: JailedPlugin, standing: SessionPlugin) -> None:
        key = (session_id, plugin.name)
        self._starting[key] = plugin
        try:
            await plugin.open()
            await self._check_started(plugin)
        except KaguraError as error:
            failed = replace(standing, state=after(standing.state, "fail"))
            if self._sessions.standing(*key).state is PluginState.CONFIGURED:
                self._sessions.put(session_id, plugin.name, failed)
                self._tell.decided("failed", session_id, plugin.found, failed, by=ITSELF, why=error.message)
            raise
        finally:
            del self._starting[key]

    async def _check_started(self, plugin: JailedPlugin) -> None:
        """End one that was put off, or whose session ended, while its jail came up."""
        if why := self.why_off(plugin.name, plugin.content_hash):
            await plugin.close(f"is in quarantine: {why}")
            raise PluginQuarantined(plugin.name, why)
        if self._closed:
            await plugin.close(ENDED)
            raise PluginRefused(plugin.name, f"cannot be enabled: {ENDED}")

    def _check_modules(self, session_id: str, found: Found) -> None:
        others = (plugin for plugin in self._sessions.running(session_id) if plugin.name != found.name)
        taken = {module: plugin.name for plugin in others for module in plugin.modules}
        for module in found.manifest.host_modules:
            if module in taken:
                why = f"has the module {module!r}, which {taken[module]!r} has in this session"
                raise PluginRefused(found.name, why, f"Disable {taken[module]!r} first.")

    # ------------------------------------------------------------------ out

    async def disable(self, session_id: str, name: str, *, by: str, via: str, why: str = "") -> bool:
        """End its jail; calls under way are cut, and one that is being started too.

        False when it was not enabled in this session.
        """
        starting = self._starting.get((session_id, name))
        if starting is not None:
            await starting.close("was disabled while it was started")
        plugin = self._sessions.leave(session_id, name)
        if plugin is None:
            return starting is not None
        await self._out("disable", session_id, plugin, by=by, via=via, why=why)
        return True

    async def take_off(self, step: Step, session_id: str, plugin: JailedPlugin, why: str) -> None:
        """Take off a plugin whose files are others now, or that is in quarantine; not one that is off already."""
        if self._sessions.leave(session_id, plugin.name, only=plugin) is not None:
            if step == "change":
                self.changed[session_id, plugin.name] = plugin.found
            await self._out(step, session_id, plugin, by=ITSELF, why=why)

    async def close(self) -> None:
        """End every jail, and refuse what comes later; may be called twice."""
        self._closed = True
        ends: list[Any] = [plugin.close(ENDED) for plugin in list(self._starting.values())]
        for session_id, plugin in self._sessions.clear():
            ends.append(self._out("disable", session_id, plugin, by=ITSELF, why=ENDED))
        ends += self._tasks
        # One that cannot be written down any more ends nevertheless.
        await asyncio.gather(*ends, return_exceptions=True)

    async def _out(
        self, step: Step, session_id: str, plugin: JailedPlugin, *, by: str, why: str, via: str = ""
    ) -> None:
        try:
            standing = self._sessions.standing(session_id, plugin.name)
            standing = replace(standing, state=after(standing.state, step))
            self._sessions.put(session_id, plugin.name, standing)
            self._tell.decided(_OUT[step], session_id, plugin.found, standing, by=by, via=via, why=why)
        finally:
            await plugin.close(f"is off: {why or 'it was disabled'}")

    # ------------------------------------------------------------------ quarantine

    def _quarantine_soon(self, session_id: str, found: Found, why: str) -> None:
        """Put a plugin off at once; whoever tells of it is its jail, which cannot wait for its own end."""
        name, content_hash = found.name, found.content.content_hash
        self._put_off[name, content_hash] = why
        out = {
            one: plugin
            for one, plugin in self._sessions.everywhere(name, content_hash)
            if self._sessions.leave(one, name, only=plugin) is not None
        }
        # One that never came up is in no session; whose attempt it was is known nevertheless.
        for one in {session_id, *out}:
            standing = self._sessions.standing(one, name).about(content_hash)
            self._sessions.put(one, name, replace(standing, state=after(standing.state, "quarantine")))
        self._in_background(self._quarantine(session_id, found, why, out))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have it done whoever waits for it; `close` does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _quarantine(self, session_id: str, found: Found, why: str, out: Mapping[str, JailedPlugin]) -> None:
        try:
            # In the book first: whoever reads that it was put off finds it so, in every process.
            await asyncio.to_thread(self._parts.quarantine.put, found.name, found.content.content_hash, why)
        except KaguraError as error:
            why = f"{why} (this could not be kept in its file: {error.message})"
        else:
            # From here on the book says so.
            self._put_off.pop((found.name, found.content.content_hash), None)
        ends = [self._out("quarantine", one, plugin, by=ITSELF, why=why) for one, plugin in out.items()]
        await asyncio.gather(*ends, return_exceptions=True)
        if session_id not in out:
            standing = self._sessions.standing(session_id, found.name)
            # A journal that cannot be written stops whatever would use the plugin, too.
            with contextlib.suppress(JournalError):
                self._tell.decided("quarantined", session_id, found, standing, by=ITSELF, why=why)


def _as_sentence(message: str) -> str:
    """A message that another sentence can follow; one of several lines gets a line of its own after it."""
    text = message.rstrip()
    if "\n" in text:
        return f"{text}\n"
    return f"{text} " if text.endswith((".", "!", "?")) else f"{text}. "
