"""The plugins of sessions as runs see them, made when a session first has to do with one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.journal.mailbox import plugin_words_wait

if TYPE_CHECKING:
    from kagura_kernel.cockpit.plugin_talk import PluginTalk
    from kagura_kernel.cockpit.plugins import PluginDesk
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.calling import EnabledPlugin
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
