"""Plugins as a person handles them: looked at, audited, enabled for a session, approved for later ones.

Whatever takes a while is a `PluginTalk`. Where a person has to decide, the audit is a run that waits at the desk, so
that it can be answered, attached to and killed from anywhere, and leaves nothing open when its process is killed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kagura_kernel.cockpit.plugin_audit import (
    Auditor,
    Enabling,
    PluginServices,
    Reloading,
    auditor_for,
    run_audit,
)
from kagura_kernel.cockpit.plugin_repositories import PluginRepositories, split_version
from kagura_kernel.cockpit.plugin_talk import (
    AuditDone,
    AuditPlugin,
    EnablePlugin,
    PluginExamined,
    PluginFailure,
    PluginStep,
    PluginTalk,
)
from kagura_kernel.cockpit.run_names import working_directory
from kagura_kernel.domain import errors
from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.manifest import FOLDER

if TYPE_CHECKING:
    from kagura_kernel.cockpit.orders import Choices
    from kagura_kernel.domain.plugins import PluginAudit, PluginChange
    from kagura_kernel.journal.mailbox import PluginWord
    from kagura_kernel.journal.plugins import PluginLogLine
    from kagura_kernel.plugins.decisions import TrustedAuthor
    from kagura_kernel.plugins.library import Examined
    from kagura_kernel.plugins.manager import PluginManager, PluginRow
    from kagura_kernel.plugins.manifest import Found
    from kagura_kernel.plugins.signature import Signature


log = logging.getLogger(__name__)

T = TypeVar("T")


class PluginDesk:
    """Everything that can be done with plugins, from any thread; nothing here waits for a person."""

    def __init__(self, around: PluginServices) -> None:
        self._around = around
        # The person's own plugins, and the authors whom they trust
        self.shelf = PluginShelf(around.manager, around.home)
        # Watches what is enabled
        self.reloading = Reloading(around, self.enable)

    @property
    def manager(self) -> PluginManager:
        """The process's plugins."""
        return self._around.manager()

    def rows(self, session: str | None = None, project: Path | None = None) -> tuple[PluginRow, ...]:
        """All plugins, looked for anew, as a session has them."""
        return self.manager.rows(self._session(session), self._project(project))

    def row(self, name: str, session: str | None = None, project: Path | None = None) -> PluginRow:
        """One of them; raises `UnknownName`."""
        return self.manager.row(self._session(session), name, self._project(project))

    def examine(self, name: str, project: Path | None = None) -> Examined:
        """Its files as they are now, scanned; raises `UnknownName` and `PluginInvalid`."""
        return self.manager.examine(name, self._project(project))

    def logs(self, name: str, limit: int = 50, session: str | None = None) -> tuple[PluginLogLine, ...]:
        """What happened to it and what it printed, the latest last; raises `UnknownName` where it is nothing at all."""
        lines = self.manager.logs(self._session(session), name, limit)
        if not lines:
            self.row(name)
        return lines

    def approve(self, name: str, *, by: str, via: str, project: Path | None = None) -> PluginRow:
        """Trust its files as they are now in later sessions.

        Raises:
            UnknownName: there is no such plugin.
            PluginRefused: nobody has audited these files, or what the audit says forbids it.
            PluginQuarantined: it is put off.
        """
        examined = self.examine(name, project)
        self.manager.approve(self._session(None), examined, by=by, via=via)
        return self.row(name, project=project)

    def unapprove(self, name: str, *, by: str, via: str) -> bool:
        """Take an approval back; False when there was none.

        Raises:
            UnknownName: there was none, and there is no such plugin.
        """
        gone = self.manager.unapprove(self._session(None), name, by=by, via=via)
        if not gone:
            # What was removed by hand may still be approved; a name that is nothing at all is a slip.
            self.row(name)
        return gone

    def disable(self, name: str, *, by: str, via: str, session: str | None = None) -> bool:
        """Take it away from a session's boxes, calls under way included; False when it was not enabled.

        Raises:
            UnknownName: there is no such plugin.
        """
        session_id = self._session(session)
        self.manager.row(session_id, name, self._project(None))
        self._around.engine.post(self.reloading.drop, session_id, name)
        return self._around.engine.call(self.manager.disable(session_id, name, by=by, via=via))

    def audit(self, intent: AuditPlugin) -> PluginTalk:
        """Examine a plugin anew; returns at once.

        Raises:
            UsageError: something in the intent cannot be understood.
            BrainError: the brain that it names cannot be used.
        """
        return self._begin(intent, self._audit)

    def enable(self, intent: EnablePlugin) -> PluginTalk:
        """Enable a plugin, with whatever has to come before it; returns at once, and raises like `audit`."""
        return self._begin(intent, self._enable)

    def _begin(
        self, intent: T, work: Callable[[T, PluginTalk, Auditor, str, Path], Coroutine[Any, Any, PluginRow]]
    ) -> PluginTalk:
        if not isinstance(intent, AuditPlugin):
            raise TypeError(type(intent).__name__)
        talk = PluginTalk()
        session_id, project = self._session(intent.session), self._project(intent.project)
        auditor = auditor_for(intent, self._around.choices)
        engine, stop = self._around.engine, _Stop()
        # Called off on the loop: where it has gone well a moment before, it has, and that is told.
        talk.began(partial(engine.post, stop))
        going_on = engine.submit(stop.follow(work(intent, talk, auditor, session_id, project)))
        going_on.add_done_callback(partial(_conclude, talk))
        return talk

    async def _audit(
        self, intent: AuditPlugin, talk: PluginTalk, auditor: Auditor, session_id: str, project: Path
    ) -> PluginRow:
        examined = await self._examined(intent, talk, session_id, project)

        async def then(audit: PluginAudit, _: Approver) -> str:
            self.manager.audited(session_id, examined, audit, by=intent.by, stored=True)
            talk.say(AuditDone(audit, examined, cached=False))
            return audit.summary

        await run_audit(self._around, intent, talk, auditor, examined, project, then=then)
        return self.manager.row_of(session_id, examined)

    async def _enable(
        self, intent: EnablePlugin, talk: PluginTalk, auditor: Auditor, session_id: str, project: Path
    ) -> PluginRow:
        from kagura_kernel.plugins.configuration import parse_inline

        self.reloading.asked_for(session_id, intent, project)
        examined = await self._examined(intent, talk, session_id, project)
        if intent.seen not in ("", examined.content_hash):
            raise errors.PluginChangedSince(intent.name, "shown")
        given = parse_inline(intent.words, examined.schema, intent.name)
        enabling = Enabling(self._around, intent, talk, examined, given, session_id, project)
        enabling.check_complete()
        if self.manager.approval(examined) is not None:
            await enabling.fast()
            return self.manager.row_of(session_id, examined)
        known = self.manager.cached_audit(intent.name, examined.content_hash)
        if any(finding.severity is Severity.DANGER for finding in examined.scan.findings):
            # Whatever a brain said, it could not be enabled: nobody has to pay for that.
            auditor = Auditor(None, "the scan has found a danger")
        if known is not None and intent.replay is None and known.played:
            # A cassette can lie in the project.
            known = None
        if known is not None and known.static_only and auditor.brain is not None and not intent.seen:
            # No brain has read it yet, and now one can.
            known = None
        if intent.seen and known is None:
            # What they saw was no audit that counts, and of a new one they would see nothing.
            raise errors.PluginRefused(intent.name, "has not been audited", "Have it audited first.")

        async def then(audit: PluginAudit, approver: Approver) -> str:
            if known is None:
                self.manager.audited(session_id, examined, audit, by=intent.by, stored=True)
            talk.say(AuditDone(audit, examined, cached=known is not None, config=enabling.told))
            return await enabling.decided(audit, approver)

        await run_audit(self._around, intent, talk, auditor, examined, project, known=known, then=then)
        return self.manager.row_of(session_id, examined)

    async def _examined(self, intent: AuditPlugin, talk: PluginTalk, session_id: str, project: Path) -> Examined:
        examined = await asyncio.to_thread(self.manager.examine, intent.name, project)
        talk.say(PluginExamined(self.manager.row_of(session_id, examined), tuple(examined.scan.findings)))
        return examined

    async def hear(self, session_ids: Sequence[str]) -> tuple[PluginTalk, ...]:
        """Do what other processes asked of these sessions; what a person was shown there, they have decided.

        Returns:
            What was begun and wants nobody's word any more.

        Raises:
            JournalError: it cannot be read.
        """
        begun: list[PluginTalk] = []
        for word in await self.manager.hear(session_ids):
            try:
                talk = await self._obey(word)
            except errors.KaguraError as error:
                self._came_to_nothing(word, error)
                continue
            if talk is not None:
                begun.append(talk)
        return tuple(begun)

    async def _obey(self, word: PluginWord) -> PluginTalk | None:
        """Do it, or begin it; what was begun and wants nobody's word any more."""
        about: dict[str, Any] = {"name": word.plugin, "session": word.session_id, "by": word.by, "via": word.via}
        match word.deed:
            case "audit":
                self._watch(word, self.audit(AuditPlugin(**about)))
            case "enable":
                # Whoever has seen the audit elsewhere has no form here to fill in.
                shown = bool(word.content_hash)
                talk = self.enable(EnablePlugin(**about, seen=word.content_hash, words=word.words, headless=shown))
                self._watch(word, talk)
                return talk if shown else None
            case "approve":
                examined = await asyncio.to_thread(self.examine, word.plugin)
                if word.content_hash and word.content_hash != examined.content_hash:
                    raise errors.PluginChangedSince(word.plugin, "shown")
                self.manager.approve(word.session_id, examined, by=word.by, via=word.via)
            case _:
                raise errors.UsageError(f"Nothing is known of {word.deed!r}.")
        return None

    def _watch(self, word: PluginWord, talk: PluginTalk) -> None:
        def heard(step: PluginStep) -> None:
            # An audit that failed is a run that says why.
            if isinstance(step, PluginFailure) and talk.handle is None:
                self._came_to_nothing(word, step.error)

        talk.subscribe(heard)

    def _came_to_nothing(self, word: PluginWord, error: errors.KaguraError) -> None:
        """Write down why, for whoever asked elsewhere."""
        try:
            self.manager.note(
                "failed",
                word.plugin,
                by=word.by,
                via=word.via,
                why=error.message,
                session_id=word.session_id,
                content_hash=word.content_hash,
            )
        except errors.JournalError as trouble:
            log.warning("%s %s, asked for in the %s: %s", word.deed, word.plugin, word.via, trouble.message)

    def use_choices(self, choices: Choices) -> None:
        """Put orders together from these from now on."""
        self._around = replace(self._around, choices=choices)

    def _session(self, name: str | None) -> str:
        return self._around.session_of(name)

    def _project(self, path: Path | None) -> Path:
        """The project root; a working directory that is no project is a place like any other, without plugins."""
        check = self._around.choices.check_project
        if path is not None:
            return check(path)
        here = working_directory()
        try:
            return check(here)
        except errors.WorkspaceError:
            return here


class _Stop:
    """Calls one piece of work off; on the engine's loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._wanted = False

    def __call__(self) -> None:
        """Call it off; nothing happens when it is over."""
        self._wanted = True
        if self._task is not None:
            self._task.cancel()

    async def follow(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry it out, unless it is called off."""
        self._task = asyncio.current_task()
        if self._wanted:
            work.close()
            raise asyncio.CancelledError
        return await work


def _conclude(talk: PluginTalk, done: concurrent.futures.Future[PluginRow]) -> None:
    if done.cancelled():
        talk.failed(errors.UsageError("It was called off."))
    elif (error := done.exception()) is not None:
        talk.failed(error)
    else:
        talk.over(done.result())


def installed_text(found: Found, barred: str, how: str) -> str:
    """What became of an installing, and what to do with it.

    `barred` is as `PluginShelf.barred` says it, `how` the command that enables it.
    """
    if barred:
        return f"{found.name} {found.manifest.version} is installed, and {barred}."
    return f"{found.name} {found.manifest.version} is installed. Nothing is enabled yet: `{how}`."


class PluginShelf:
    """Installs, removes, signs, trusts; from any thread. Nothing here enables anything.

    Args:
        manager: The process's plugins: they write down what is done, and know the authors whom this person trusts.
        home: Our data directory, with the person's own plugins in it.
    """

    def __init__(self, manager: Callable[[], PluginManager], home: Path) -> None:
        self._manager = manager
        self._own = home / FOLDER
        # Where plugins can be had from, beside directories, archives and addresses
        self.repositories = PluginRepositories(manager, home, self._installed)

    def install(
        self,
        source: str,
        sha256: str | None,
        *,
        repository: str | None = None,
        replace: bool = False,
        by: str,
        via: str,
    ) -> Found:
        """Copy a plugin from a directory, an archive, an address, or by its name from a repository.

        Raises:
            UsageError: there is no such source, its hash is missing, or it can mean two things.
            PluginInvalid: it is no plugin.
            PluginRefused: its hash is another one, it holds what no plugin may hold, or its name is taken.
            KaguraError: as `PluginRepositories.install`.
        """
        from kagura_kernel.plugins.installation import install

        named = split_version(source)
        if repository is not None or (named is not None and self.repositories.trusted()):
            if named is None or sha256 is not None:
                raise errors.UsageError("A repository's plugin is named: NAME or NAME@VERSION, and has no --sha256.")
            if repository is None and Path(source).exists():
                raise errors.UsageError(
                    f"{source} is a folder here and may be a plugin of a repository. Say ./{source} for the folder, or "
                    f"--repository NAME."
                )
            return self.repositories.install(*named, repository=repository, replace=replace, by=by, via=via)
        found = install(source, sha256, self._own, replace=replace)
        self._installed(found, f"from {Path(source).name or source}", replace=replace, by=by, via=via)
        return found

    def _installed(self, found: Found, why: str, *, replace: bool, by: str, via: str) -> None:
        from kagura_kernel.plugins.installation import remove

        try:
            self._manager().note(
                "installed",
                found.name,
                by=by,
                via=via,
                why=why,
                version=found.manifest.version,
                content_hash=found.content.content_hash,
            )
        except errors.JournalError:
            if not replace:
                remove(found.name, self._own)
            raise

    def barred(self, name: str) -> str:
        """Why one of the person's own plugins cannot be enabled, whatever they decide; empty when it can.

        Half a sentence that goes on from the plugin's name; takes as long as a scan.
        """
        manager = self._manager()
        try:
            return manager.barred(manager.examine(name, None), None)
        except errors.PluginInvalid as error:
            return f"cannot be used: {'; '.join(error.problems)}"

    def remove(self, name: str, *, by: str, via: str) -> None:
        """Delete one of the person's own plugins; its approval goes with it.

        Raises:
            UnknownName: it is not one of theirs.
            PluginRefused: it cannot be deleted.
        """
        from kagura_kernel.plugins.installation import remove

        if name in self._names():
            # Before it is gone: what cannot be written down is not done.
            self._manager().unapprove("", name, by=by, via=via, why="it was removed")
            with self._told("removed", "installed", name, by=by, via=via):
                remove(name, self._own)
        else:
            remove(name, self._own)

    def sign(self, path: Path, key: Path, author: str, *, by: str, via: str) -> Signature:
        """Sign a plugin's directory; the key is made when its file is not there.

        Raises:
            PluginInvalid: it is no directory that can be read.
            PluginRefused: it holds what no plugin may hold, or cannot be written to.
            SignatureInvalid: the key is none, others may read it, or the author's name cannot be shown.
        """
        from kagura_kernel.plugins.content import read_content, sign
        from kagura_kernel.plugins.signature import check_author, make_key

        content = read_content(path.resolve())
        check_author(author)
        if not key.exists():
            make_key(key)
        signature = sign(content, key, author)
        self._manager().note("signed", content.name, by=by, via=via, why=f"by {author}")
        return signature

    def authors(self) -> tuple[TrustedAuthor, ...]:
        """Those that are trusted, by name."""
        return self._manager().trust.authors()

    def trust(self, author: str, key: str, *, by: str, via: str) -> TrustedAuthor:
        """Trust an author's key.

        Raises:
            SignatureInvalid: it is none, or the name or the key is another author's.
            ConfigurationError: it cannot be kept.
        """
        trusted = self._manager().trust.check(author, key)
        with self._told("trusted", "distrusted", author, by=by, via=via, why=trusted.key):
            return self._manager().trust.add(author, key)

    def distrust(self, author: str, *, by: str, via: str) -> bool:
        """Trust an author no longer; False when they were not trusted.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        if author not in {one.name for one in self.authors()}:
            return False
        with self._told("distrusted", "trusted", author, by=by, via=via):
            return self._manager().trust.remove(author)

    def _names(self) -> list[str]:
        try:
            return [entry.name for entry in self._own.iterdir()]
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _told(
        self, change: PluginChange, back: PluginChange, name: str, *, by: str, via: str, why: str = ""
    ) -> Iterator[None]:
        """Write a change down before it is made, and that it was not where it fails.

        Raises:
            JournalError: it cannot be written down; nothing is changed.
        """
        from kagura_kernel.plugins.sessions import ITSELF

        self._manager().note(change, name, by=by, via=via, why=why)
        try:
            yield
        except errors.KaguraError as error:
            self._manager().note(back, name, by=ITSELF, via="", why=f"it could not be done: {error.message}")
            raise
