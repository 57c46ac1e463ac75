"""What becomes by itself of an enabled plugin whose files change: off at once, audited anew, and a question.

Somebody who saves twice a second is asked once, when it is quiet. Whoever enables the plugin meanwhile, or changes it
again, takes the question away. No answer is a no, as with every question; then nothing is asked until somebody enables
it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.plugin_talk import EnablePlugin, PluginAsked, PluginFailure, PluginStep, PluginTalk
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.plugins.sessions import ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.cockpit.enabling import PluginSurroundings
    from kagura_kernel.plugins.manifest import Found, Trace

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
QUIET_LOOKS = 2
"""So often in a row nothing has to change before changed files are audited."""

VIA = "reload"


@dataclass
class _Off:
    """A plugin that is off because its files have changed."""

    before: Found  # As it was enabled
    trace: Trace = frozenset()
    quiet: int = 0  # Looks since the last change
    talk: PluginTalk | None = None  # The question about its files as they are now, once there is one


class Reloading:
    """Lives on the engine's loop, but for `begin` and `asked_for`.

    Args:
        around: What handling plugins needs.
        enable: Begins an enabling.
    """

    def __init__(self, around: PluginSurroundings, enable: Callable[[EnablePlugin], PluginTalk]) -> None:
        self._around = around
        self._enable = enable
        self._intents: dict[tuple[str, str], EnablePlugin] = {}
        self._off: dict[tuple[str, str], _Off] = {}

    def begin(self) -> None:
        """Watch what is enabled from now on, unless the settings say no."""
        if self._around.choices.settings.plugin_reload != "off":
            self._around.engine.submit(self._watch())

    def asked_for(self, session_id: str, intent: EnablePlugin, project: Path) -> None:
        """Remember how somebody wants a plugin of a session enabled: it is audited anew in the same way."""
        self._intents[session_id, intent.name] = replace(intent, project=project, session=session_id)

    def drop(self, session_id: str, name: str) -> None:
        """Ask no more about a plugin that somebody has disabled."""
        off = self._off.pop((session_id, name), None)
        if off is not None:
            _withdraw(off)

    @property
    def asking(self) -> bool:
        """Whether anything that is off may still be asked about."""
        return bool(self._off)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # A journal that cannot be used now may be the next time; what is off is off.
            with contextlib.suppress(JournalError):
                await self.look()

    async def look(self) -> None:
        """Take off what has changed, and ask about what has been left alone since."""
        changed: Mapping[tuple[str, str], Found] = await self._around.manager().watch()
        for key, before in changed.items():
            self._off[key] = _Off(before)
        for key, off in list(self._off.items()):
            await self._follow(key, off)

    async def _follow(self, key: tuple[str, str], off: _Off) -> None:
        from kagura_kernel.plugins.manifest import trace

        session_id, name = key
        if any(plugin.name == name for plugin in self._around.manager().enabled(session_id)):
            if off.talk is not None and self._was_answered(off.talk):
                # It is this question's yes, which is just being carried out.
                off.talk = None
            self.drop(*key)
            return
        now = await asyncio.to_thread(trace, off.before.content.root)
        if now != off.trace:
            off.trace, off.quiet = now, 0
            _withdraw(off)
            return
        if off.quiet == QUIET_LOOKS - 1 and self._is_audited_elsewhere(off):
            # Whoever has paid for an audit of these files needs no second one.
            return
        off.quiet += 1
        if off.quiet == QUIET_LOOKS:
            off.talk = self._ask(session_id, off)
            if off.talk is None:
                self._off.pop(key, None)
        elif off.talk is not None and off.talk.done and _was_asked(off.talk):
            # Somebody, or the deadline, said no. What nobody can allow is looked at again when it has changed again.
            self._off.pop(key, None)

    def _is_audited_elsewhere(self, off: _Off) -> bool:
        root = off.before.content.root
        others = [one.talk for one in self._off.values() if one is not off and one.before.content.root == root]
        return any(talk is not None and not talk.done and not _was_asked(talk) for talk in others)

    def _was_answered(self, talk: PluginTalk) -> bool:
        handle = talk.handle
        waiting = {request.run_id for request in self._around.desk.pending()}
        return _was_asked(talk) and handle is not None and handle.run_id not in waiting

    def _ask(self, session_id: str, off: _Off) -> PluginTalk | None:
        """The audit and the question; None where nobody can be asked, or it cannot begin."""
        before = off.before
        intent = self._intents.get((session_id, before.name))
        # What came from a terminal was decided there, and says nothing of who sits before this session.
        if intent is None or (intent.headless and not intent.seen):
            return None
        scan_only = intent.static or intent.replay is not None or self._around.choices.settings.plugin_reload == "scan"
        # As it was enabled, but for what was said of those files alone: nobody has accepted a risk of these.
        anew = EnablePlugin(
            name=intent.name,
            session=intent.session,
            project=intent.project,
            brain=intent.brain,
            model=intent.model,
            budget_usd=intent.budget_usd,
            static=scan_only,
            origin=intent.origin,
            place=intent.place,
            by=ITSELF,
            via=VIA,
            before=before,
        )
        try:
            talk = self._enable(anew)
        except KaguraError as error:
            self._failed(session_id, before, error)
            return None

        def heard(step: PluginStep) -> None:
            # An audit that failed is a run that says why, and a question that was taken away has not failed.
            if isinstance(step, PluginFailure) and talk.handle is None and off.talk is talk:
                self._failed(session_id, before, step.error)

        talk.subscribe(heard)
        return talk

    def _failed(self, session_id: str, before: Found, error: KaguraError) -> None:
        why = f"its files have changed, and it was not enabled anew: {error.message}"
        try:
            self._around.manager().note("failed", before.name, by=ITSELF, via=VIA, why=why, session_id=session_id)
        except JournalError as trouble:
            log.warning("%s: %s (%s)", before.name, why, trouble.message)


def _withdraw(off: _Off) -> None:
    talk, off.talk = off.talk, None
    if talk is not None and not talk.done:
        talk.kill(ITSELF)


def _was_asked(talk: PluginTalk) -> bool:
    return any(isinstance(step, PluginAsked) for step in talk.steps)
