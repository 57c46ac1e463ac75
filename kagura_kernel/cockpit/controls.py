"""Words from other processes: for this process's runs, and for the plugins of its sessions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalError

if TYPE_CHECKING:
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.cockpit.plugin_access import LazyPlugins
    from kagura_kernel.journal.mailbox import Mailbox

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
        for message in self.mailbox.take(list(handles), ("kill", "leases")):
            handle = handles[message.run_id]
            if message.word == "kill":
                handle.kill(message.by)
            elif handle.leasing is not None:
                handle.leasing.look(message.by)
        await self.plugins.hear(self.sessions())
