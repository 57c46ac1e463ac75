"""Posts of ours: each has a subject, stands once as far as the chat can tell, and its last word gets out.

A post is written down before it is out and named after that, so that a process that comes later knows what may be
there. Where the first try is in doubt, the chat is asked to look for it before it is said again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from kagura_kernel.cockpit.transports.transport import Post, PostRefused, Transport, TransportError, TransportRefused
from kagura_kernel.domain.clock import Clock
from kagura_kernel.journal.chats import ChatBook, KeptPost

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between two tries to say something: each twice as long as the one before."""

_T = TypeVar("_T")

Make = Callable[[str], Post]
"""A post of the token that its buttons bear."""


@dataclass
class Posting:
    """One chat's posts. Used on one loop."""

    transport: Transport  # The chat
    book: ChatBook  # What stands there
    clock: Clock  # The time
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _refusal: TransportRefused | None = None

    async def refused(self) -> None:
        """Wait until the chat does not let us in any more, as far as that shows when something is said.

        Raises:
            TransportRefused: always, with what it said.
        """
        await self._over.wait()
        if self._refusal is not None:
            raise self._refusal

    async def put(self, thread: str, subject: str, run_id: str, make: Make) -> None:
        """Post something that will be edited, or edit it where it stands already; somebody may have taken it away.

        Raises:
            TransportError: the chat does not take it.
        """
        async with self._locks.setdefault(subject, asyncio.Lock()):
            kept = await asyncio.to_thread(self.book.post_about, subject)
            if kept is not None and kept.post_id:
                try:
                    await self._out(self.transport.edit(kept.thread, kept.post_id, make(kept.token)))
                except PostRefused:
                    await self._post(KeptPost(subject, thread, run_id, "", kept.token), make, may_be_out=False)
                return
            mine = kept or KeptPost(subject, thread, run_id, "", secrets.token_hex(16))
            if kept is None:
                # Before it is out: a click may come back before the chat has told us what the post is called.
                await asyncio.to_thread(self.book.keep, mine)
            named = await self._post(mine, make, may_be_out=kept is not None)
            if kept is not None:
                # What was found there may say something older.
                await self._out(self.transport.edit(thread, named.post_id, make(mine.token)))

    async def standing(self, subject: str) -> KeptPost | None:
        """The post about something, once what is being said of it just now is out; None where none is known to be."""
        async with self._locks.setdefault(subject, asyncio.Lock()):
            kept = await asyncio.to_thread(self.book.post_about, subject)
        return kept if kept is not None and kept.post_id else None

    async def settle(self, thread: str, subject: str, run_id: str, make: Make) -> None:
        """Put the last word about something, however long the chat is away; then it is edited no more.

        Raises:
            PostRefused: the chat never takes it.
            TransportRefused: it does not take us any more.
        """
        await self.again(lambda: self.put(thread, subject, run_id, make))
        await asyncio.to_thread(self.book.close, subject)

    async def reply(self, thread: str, message_id: str, make: Make, run_id: str = "") -> None:
        """Answer a message, once, however long the chat is away; with a run that its buttons are about.

        Raises like `settle`.
        """
        subject = f"said:{message_id}"

        async def say() -> None:
            kept = await asyncio.to_thread(self.book.post_about, subject)
            if kept is not None and kept.post_id:
                return
            mine = kept or KeptPost(subject, thread, run_id, "", secrets.token_hex(16))
            if kept is None:
                await asyncio.to_thread(self.book.keep, mine)
            await self._post(mine, make, may_be_out=kept is not None)

        await self.again(say)
        await asyncio.to_thread(self.book.close, subject)

    async def upload(self, thread: str, subject: str, name: str, content: bytes) -> None:
        """Put a file into a thread, however long the chat is away; one that is there already is not sent again.

        Raises like `settle`.
        """
        kept = await asyncio.to_thread(self.book.post_about, subject)
        if kept is not None:
            return
        await self.again(lambda: self._out(self.transport.upload(thread, name, content)))
        await asyncio.to_thread(self.book.keep, KeptPost(subject, thread, "", name, ""))
        await asyncio.to_thread(self.book.close, subject)

    async def again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do it as often as it takes; raises like `settle`."""
        pause = FIRST_PAUSE
        while True:
            try:
                await work()
            except (PostRefused, TransportRefused):
                raise
            except TransportError:
                await self.clock.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

    async def _post(self, mine: KeptPost, make: Make, *, may_be_out: bool) -> KeptPost:
        post = replace(make(mine.token), mark=mine.token, may_be_out=may_be_out)
        post_id = await self._out(self.transport.post(mine.thread, post))
        named = replace(mine, post_id=post_id)
        await asyncio.to_thread(self.book.keep, named)
        return named

    async def _out(self, saying: Awaitable[_T]) -> _T:
        try:
            return await saying
        except TransportRefused as error:
            # Whoever serves the chat has to hear of it, and not only the thread that met it.
            self._refusal = self._refusal or error
            self._over.set()
            raise


async def unless(ended: asyncio.Future[Any], work: Coroutine[Any, Any, object]) -> bool:
    """Do it, and say whether it was done before something else came to its end; it is called off then."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({ended, working}, return_when=asyncio.FIRST_COMPLETED)
        return not ended.done()
    finally:
        working.cancel()
