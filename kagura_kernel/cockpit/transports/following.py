"""One run in its thread: a post that is edited while it goes on and becomes its answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.transports.plain import cut, told
from kagura_kernel.cockpit.transports.posting import FIRST_PAUSE, LONGEST_PAUSE, Posting, unless
from kagura_kernel.cockpit.transports.telling import RunTelling, end_post, gone_on_post, lost_post
from kagura_kernel.cockpit.transports.transport import Button, Post, PostRefused, TransportError
from kagura_kernel.domain.errors import KaguraError

if TYPE_CHECKING:
    from kagura_kernel.cockpit.attaching import Feed
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.events import Event
    from kagura_kernel.journal.rows import RunRow

_log = logging.getLogger(__name__)

EDIT_SECONDS = 1.5
"""Between two edits of a chat while runs go on, all its threads together: no chat takes many more from one of us."""


@dataclass
class Pace:
    """How often a chat is told what is not the last word; those that wait come one after another.

    Attributes:
        clock: The time.
        seconds: Between two of them.
    """

    clock: Clock
    seconds: float = EDIT_SECONDS
    _next: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def turn(self) -> None:
        """Return when something may be told."""
        async with self._lock:
            if (wait := self._next - self.clock.monotonic()) > 0:
                await self.clock.sleep(wait)
            self._next = self.clock.monotonic() + self.seconds


class Following:
    """Tells a thread about one run until it is over.

    Args:
        thread: Where.
        feed: The run, of whatever process.
        posting: How posts get there.
        pace: How often.
        row_of: What the journal knows of a run; None for nothing. Blocks.
        quiet: Whether only its end is told, since it is over already.
    """

    def __init__(
        self,
        thread: str,
        feed: Feed,
        posting: Posting,
        pace: Pace,
        row_of: Callable[[str], RunRow | None],
        *,
        quiet: bool = False,
    ) -> None:
        self._thread = thread
        self._feed = feed
        self._posting = posting
        self._pace = pace
        self._row_of = row_of
        self._quiet = quiet
        self._telling = RunTelling(feed.run_id)
        self._news = asyncio.Event()
        self._news.set()

    async def follow(self, settled: Callable[[], Any]) -> None:
        """Return when its last word is out.

        Args:
            settled: Awaited once the run is over: what else of it stands in the thread is seen to.

        Raises:
            PostRefused: the chat never takes it.
            TransportRefused: the chat does not take us any more.
            JournalError: the journal does not answer.
        """
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            # The engine may outlive the loop of a chat that is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take, event)

        # The past may be long, and it is told by whoever subscribes.
        stop = await asyncio.to_thread(self._feed.subscribe, hear)
        ended = asyncio.ensure_future(self._feed.ended())
        try:
            if not self._quiet:
                await self._until(ended)
            error = await ended
        finally:
            ended.cancel()
            stop()
        await self._end(error)
        await settled()

    def _take(self, event: Event) -> None:
        self._telling.take(event)
        if self._telling.changed:
            self._news.set()

    async def _until(self, ended: asyncio.Future[Any]) -> None:
        """Tell how it goes on; what is being said when it ends is said to its end first."""
        pause = FIRST_PAUSE
        is_first = True
        while await unless(ended, self._news.wait()):
            # The first word comes at once: somebody has just asked for it.
            if not is_first and not await unless(ended, self._pace.turn()):
                return
            self._news.clear()
            try:
                await self._put()
            except TransportError as error:
                # A chat that is away must not end the run; the next word tells everything.
                self._news.set()
                pause = LONGEST_PAUSE if isinstance(error, PostRefused) else min(2 * pause, LONGEST_PAUSE)
                await unless(ended, self._posting.clock.sleep(pause))
            else:
                pause, is_first = FIRST_PAUSE, False

    async def _put(self) -> None:
        run_id, limit = self._feed.run_id, self._posting.transport.limit

        def make(token: str) -> Post:
            return self._telling.post(limit, Button("Stop", f"kill:{run_id}:{token}", "bad"))

        await self._posting.put(self._thread, run_id, run_id, make)
        if lost := self._telling.resumes:
            await self._take_over(lost)
            self._telling.resumes = ""

    async def _take_over(self, lost: str) -> None:
        """Take the button off a run that this one goes on from, where the chat has told of that one."""
        if await asyncio.to_thread(self._posting.book.post_about, lost) is not None:
            post = gone_on_post(lost, self._feed.run_id)
            await self._posting.settle(self._thread, lost, lost, lambda _: post)

    async def _end(self, error: Exception | None) -> None:
        run_id, limit = self._feed.run_id, self._posting.transport.limit
        end = self._telling.finished
        is_whole = True
        if end is not None and cut(end.text, limit)[1]:
            is_whole = await self._send_whole(end.text)
        row = await asyncio.to_thread(self._row_of, run_id) if end is not None and end.status == "lost" else None

        def make(token: str) -> Post:
            if row is not None:
                return lost_post(row, token)
            if end is not None:
                return end_post(end, limit, files=self._telling.files, is_whole=is_whole)
            # Without its last fact it was stopped because its facts could not be kept.
            if isinstance(error, KaguraError):
                return Post(f"Failed · {run_id} · {told(error)}")
            return Post(f"Over · {run_id}")

        await self._posting.settle(self._thread, run_id, run_id, make)

    async def _send_whole(self, text: str) -> bool:
        run_id = self._feed.run_id
        try:
            await self._posting.upload(self._thread, f"file:{run_id}", f"{run_id}.md", text.encode())
        except TransportError as error:
            _log.error("The whole answer of %s was not sent: %s", run_id, error.message)
            return False
        return True
