"""Many chats on one cockpit: each is opened, however long that takes, and all are closed in good order.

The chats live on one loop beside the engine, so that a click or a stop is heard whatever runs do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.transport import TransportError, TransportRefused
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal import views
from kagura_kernel.journal.owner import process_owner


class Supervisor:
    """Tells it; says nothing where nobody listens.

    Args:
        environ: What it has set; its words are taken out, so that nothing that is started later speaks for us.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._place = environ.pop("NOTIFY_SOCKET", "")
        micros, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        asked = bool(self._place) and micros.isdigit() and int(micros) > 0 and pid in ("", str(os.getpid()))
        # Seconds of silence after which it believes that we are stuck; None where it does not ask
        self.patience = int(micros) / 1e6 if asked else None

    def tell(self, *words: str) -> None:
        """Say these, each a `NAME=value` on a line of its own."""
        if not self._place:
            return
        # A name that begins with @ lies in no directory.
        place = "\0" + self._place[1:] if self._place.startswith("@") else self._place
        told = "\n".join(" ".join(word.splitlines()) for word in words)
        # What does not listen any more, or has not read what was said before, cannot be told, and the chats do not
        # suffer for it: nothing waits here.
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as way:
            way.sendto(told.encode(), place)


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two tries to open a chat: each twice as long as the one before."""

LOOK_SECONDS = 0.1
"""Between two looks whether what is waited for at the end is over."""

REST_SECONDS = 30.0
"""Between two looks whether runs have left anything to be cleared away."""

FAREWELL_SECONDS = 20.0
"""For runs that were stopped to end, and for their threads to be told."""

STOPPED_BY = "the end of the server"

_State = Literal["opening", "away", "open", "refused"]


@dataclass(eq=False)
class Server:
    """Serves chats until it is told to stop. Used on one loop."""

    cockpit: Cockpit  # What is acted on; its owner closes it
    chats: Mapping[str, Conversations]  # The chats by name, none of them open
    clock: Clock  # The time
    tell: Callable[[str], None]  # Says a line to whoever looks after the server
    supervisor: Supervisor  # What started this process
    # Clears away what runs have left in memory; called in a thread of its own now and then, after runs
    rest: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._states: dict[str, _State] = dict.fromkeys(self.chats, "opening")
        self._refusals: list[TransportRefused] = []
        self._ready = False
        self._stop = asyncio.Event()
        self._owner = process_owner()

    def stop(self) -> None:
        """Begin to stop; from the loop."""
        self._stop.set()

    async def serve(self, drain: float) -> None:
        """Serve until `stop`; then end what goes on, close the chats and return.

        Args:
            drain: Seconds that runs have to end by themselves once it stops.

        Raises:
            TransportRefused: no chat lets us in, and none will.
            TransportError: a connection is over and does not come back by itself; a new server may have one.
        """
        working = [asyncio.ensure_future(self._kept(name)) for name in self.chats]
        working += [asyncio.ensure_future(self._beats()), asyncio.ensure_future(self._rests())]
        try:
            await self._until_stopped(working)
            if len(self._refusals) < len(self.chats):
                await self._drained(drain)
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await asyncio.gather(*(chat.close() for chat in self.chats.values()))
        if len(self._refusals) == len(self.chats):
            raise self._refusals[0]

    async def _until_stopped(self, working: list[asyncio.Task[None]]) -> None:
        """Return when it shall stop; what goes wrong in the work for no reason that is known here ends it too."""
        stopping = asyncio.ensure_future(self._stop.wait())
        waiting: set[asyncio.Future[Any]] = {stopping, *working}
        try:
            while not stopping.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            stopping.cancel()

    async def _kept(self, name: str) -> None:
        """Serve a chat for as long as it lets us in."""
        chat = self.chats[name]
        try:
            await self._opened(name)
            await chat.over()
        except TransportRefused as error:
            self._refusals.append(error)
            self.tell(f"{name} is not served{' any more' if self._states[name] == 'open' else ''}: {_said(error)}")
            # Its runs go on; what its threads should hear is told by the next server that is let in.
            await chat.close()
            self._now(name, "refused")

    async def _opened(self, name: str) -> None:
        """Open a chat, trying again for as long as it may still be had.

        Raises:
            TransportRefused: it does not let us in, and will not.
        """
        pause, told = FIRST_PAUSE, ""
        while True:
            try:
                await self.chats[name].open()
            except TransportRefused:
                raise
            except (TransportError, JournalError) as error:
                if error.message != told:
                    self.tell(f"{name} is not served yet, and is tried again: {_said(error)}")
                told = error.message
                self._now(name, "away")
            else:
                self._now(name, "open")
                return
            await self.clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _now(self, name: str, state: _State) -> None:
        is_news = state == "open" or self._states[name] == "opening"
        self._states[name] = state
        found = set(self._states.values())
        if found == {"refused"}:
            self.stop()
        elif "opening" not in found:
            self._say_what_is_served(aloud=is_news)

    def _say_what_is_served(self, *, aloud: bool) -> None:
        served = [name for name, state in self._states.items() if state == "open"]
        said = f"Serving {', '.join(served)}." if served else "No chat can be reached yet."
        if aloud and (served or not self._ready):
            self.tell(f"{said} Stop with Ctrl-C or SIGTERM.")
        away = [name for name, state in self._states.items() if state == "away"]
        trying = f" Trying {', '.join(away)}." if away else ""
        refused = [name for name, state in self._states.items() if state == "refused"]
        refusing = f" Refused by {', '.join(refused)}." if refused else ""
        self.supervisor.tell("READY=1", f"STATUS={said}{trying}{refusing}")
        self._ready = True

    async def _beats(self) -> None:
        """Tell the supervisor that neither this loop nor the engine is stuck, as often as it wants to hear it."""
        if self.supervisor.patience is None:
            return
        while True:
            await self.cockpit.answers()
            self.supervisor.tell("WATCHDOG=1")
            await asyncio.sleep(self.supervisor.patience / 3)

    async def _rests(self) -> None:
        """Clear away whenever nothing goes on and something has since the last time."""
        newest, done = self.cockpit.journal.last_seq, -1
        while True:
            await self.clock.sleep(REST_SECONDS)
            if any(chat.going_on() for chat in self.chats.values()):
                continue
            with contextlib.suppress(JournalError):
                if (now := await asyncio.to_thread(newest)) != done:
                    await asyncio.to_thread(self.rest)
                    done = now

    async def _drained(self, seconds: float) -> None:
        """Take no new task, and see what goes on here to its end: its own within these seconds, or else ours."""
        self.supervisor.tell("STOPPING=1", "STATUS=Stopping.")
        for chat in self.chats.values():
            chat.drain()
        if going := await self._going_on():
            self.tell(f"Stopping; at most {seconds:g} s are waited for {', '.join(going)}.")
        await self._until_told(seconds)
        await self._until_told(FAREWELL_SECONDS, stop=True)

    async def _until_told(self, seconds: float, *, stop: bool = False) -> None:
        """Return when no thread waits for the end of a run of this process, or the time is up."""
        until = self.clock.monotonic() + seconds
        while (going := await self._going_on()) and self.clock.monotonic() < until:
            for handle in map(self.cockpit.handle, going) if stop else ():
                if handle is not None and not handle.stopping:
                    handle.kill(STOPPED_BY)
            await self.clock.sleep(LOOK_SECONDS)

    async def _going_on(self) -> list[str]:
        """Runs of which a thread waits to hear the end; those of other processes are left out, and go on without us."""
        followed = {run_id for chat in self.chats.values() for run_id in chat.going_on()}
        try:
            running = await asyncio.to_thread(views.unfinished, self.cockpit.journal) if followed else []
        except JournalError:
            # Nothing more can be told then either.
            return []
        return sorted(followed - {row.run_id for row in running if row.owner != self._owner})


def _said(error: KaguraError) -> str:
    return f"{error.code}: {error.message}"
