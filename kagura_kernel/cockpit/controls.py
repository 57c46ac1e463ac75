"""Words from other processes: for this process's runs, and for the plugins of its sessions, as runs see these."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal.mailbox import plugin_words_wait
from kagura_kernel.journal.sentences import take_sentences

if TYPE_CHECKING:
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.plugin_talk import PluginTalk
    from kagura_kernel.cockpit.plugins import PluginDesk
    from kagura_kernel.journal.mailbox import Mailbox
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.calls import EnabledPlugin
    from kagura_kernel.plugins.manager import PluginManager


HEAR_SECONDS = 20.0
"""How long a run waits for what a person has already decided elsewhere."""


@dataclass(eq=False)
class LazyPlugins:
    """A `PluginAccess` that costs a run nothing where there are no plugins."""

    make: Callable[[], PluginManager]  # Makes the process's manager
    desk: Callable[[], PluginDesk]  # Gives the desk that carries out what other processes ask for
    journal: Journal  # Where their words lie
    listen: Callable[[], None]  # Begins to listen for them; may be called often
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _manager: PluginManager | None = None
    _hearing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _begun: set[PluginTalk] = field(default_factory=set)

    @property
    def made(self) -> PluginManager | None:
        """The manager, if anything has needed it."""
        return self._manager

    def manager(self) -> PluginManager:
        """The manager; made on first use, from any thread."""
        with self._lock:
            if self._manager is None:
                self._manager = self.make()
                self.listen()
            return self._manager

    async def hear(self, session_ids: Sequence[str], *, wait: bool = False) -> None:
        """Carry out what other processes ask of these sessions.

        Args:
            session_ids: Of this process.
            wait: Whether to wait for what nobody has to be asked about, also where it was begun earlier.
        """
        # One at a time: a run must not pass by a word that somebody else here has taken and not carried out yet.
        async with self._hearing:
            # A manager looks by itself, for sessions besides that have a plugin and have run nothing yet.
            if self._manager is not None or plugin_words_wait(self.journal, session_ids):
                self._begun.update(await self.desk().hear(session_ids))
        self._begun = {talk for talk in self._begun if not talk.done}
        if wait and self._begun:
            ends = [asyncio.ensure_future(talk.wait()) for talk in self._begun]
            await asyncio.wait(ends, timeout=HEAR_SECONDS)
            for end in ends:
                # Their errors are rows; a run without the plugin is still a run.
                with contextlib.suppress(KaguraError, asyncio.InvalidStateError):
                    end.result()

    async def refresh(self, session_id: str, project: Path) -> Sequence[str]:
        """See `PluginAccess.refresh`."""
        await self.hear([session_id], wait=True)
        return await self._manager.refresh(session_id, project) if self._manager is not None else ()

    def enabled(self, session_id: str) -> Sequence[EnabledPlugin]:
        """See `PluginAccess.enabled`."""
        return self._manager.enabled(session_id) if self._manager is not None else ()

    def briefing(self, session_id: str) -> str:
        """See `PluginAccess.briefing`."""
        return self._manager.briefing(session_id) if self._manager is not None else ""

    async def close(self) -> None:
        """End every jail; may be called twice."""
        if self._manager is not None:
            await self._manager.close()


IDLE_SECONDS = 2.0
"""How often it is looked for words while no run goes on: one about a plugin can come at any time."""


@dataclass(eq=False)
class Controls:
    """Listens from the first run on."""

    mailbox: Mailbox  # Where words for runs lie
    engine: Engine  # Where the listening goes on
    handles: Callable[[], dict[str, RunHandle]]  # The runs that go on here
    plugins: LazyPlugins  # Hears words about plugins
    sessions: Callable[[], Sequence[str]]  # The sessions of this process
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _awake: asyncio.Event | None = None
    _begun: bool = False

    def __post_init__(self) -> None:
        self._glance = self.mailbox.glance()

    def begin(self) -> None:
        """Listen, and soon: a run has just begun. May be called often, from any thread."""
        with self._lock:
            if not self._begun:
                self._begun = True
                self.engine.submit(self._listen())
                return
        self.engine.post(self._wake)

    def _wake(self) -> None:
        # What was left for a run or a session before it was ours is news to us.
        self._glance.forget()
        if self._awake is not None:
            self._awake.set()

    async def _listen(self) -> None:
        self._awake = asyncio.Event()
        while True:
            handles = self.handles()
            if handles:
                await asyncio.sleep(self._glance.pause)
            else:
                # Not wait_for: of Python 3.11 it loses a cancellation that comes together with the wake-up.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._awake.wait()
                self._awake.clear()
            # A journal that cannot be read now may be read the next time; whoever works with it says what is wrong.
            with contextlib.suppress(JournalError):
                if (news := self._glance.news()) is not None:
                    await self._look(self.handles())
                    self._glance.seen(news)

    async def _look(self, handles: dict[str, RunHandle]) -> None:
        sessions = self.sessions()
        # A run's own rows are news as well, and almost always there is nothing else.
        if self.plugins.made is None and not self.mailbox.holds_for([*handles, *sessions]):
            return
        for message in self.mailbox.take(list(handles), ("kill", "leases")):
            handle = handles[message.run_id]
            if message.word == "kill":
                handle.kill(message.by)
            elif handle.leasing is not None:
                handle.leasing.look(message.by)
        for run_id, sentence in take_sentences(self.plugins.journal, list(handles)):
            # Whoever said it reads in the journal what comes of it.
            handles[run_id].say(sentence)
        await self.plugins.hear(sessions)
