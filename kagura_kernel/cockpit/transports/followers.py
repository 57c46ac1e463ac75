"""The runs that a chat's threads are told about, whoever began them and wherever they run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.transports.following import Following, Pace
from kagura_kernel.cockpit.transports.posting import Posting
from kagura_kernel.cockpit.transports.questions import Questions
from kagura_kernel.cockpit.transports.transport import PostRefused, Said, TransportError
from kagura_kernel.domain.errors import JournalError
from kagura_kernel.journal import views
from kagura_kernel.journal.owner import process_owner

if TYPE_CHECKING:
    from kagura_kernel.cockpit.attaching import Feed
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.domain.approvals import ApprovalRequest
    from kagura_kernel.journal.rows import RunRow

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Between two looks whether the journal has changed, which costs next to nothing while it has not."""


@dataclass(eq=False, slots=True)
class _Followed:
    """A run of a thread; without a feed it is only about to begin."""

    thread: str
    feed: Feed | None = None
    task: asyncio.Task[None] | None = None
    answers: str = ""
    quiet: bool = False


class Followers:
    """Those of one chat. Used on one loop.

    Args:
        cockpit: Knows the runs.
        posting: How posts get into the threads.
        alive: Whether a process may still be there, by its owner's name.
    """

    def __init__(self, cockpit: Cockpit, posting: Posting, alive: Callable[[str], bool]) -> None:
        self._cockpit = cockpit
        self._posting = posting
        self._alive = alive
        self._owner = process_owner()
        self._pace = Pace(posting.clock)
        self._questions = Questions(cockpit.journal, posting)
        self._followed: dict[str, _Followed] = {}
        self._told: set[str] = set()
        self._seen: int | None = None

    async def were_seen(self, said: Said, waiting: Sequence[ApprovalRequest]) -> list[bool]:
        """See `Questions.were_seen`."""
        return await self._questions.were_seen(said, waiting)

    def going_on(self) -> list[str]:
        """The runs whose last word is not out yet, and those that are about to begin."""
        return list(self._followed)

    def running(self, thread: str) -> list[str]:
        """The runs of a thread that go on."""
        # Of one that is over already the end is told, and its feed may not have come that far.
        here = ((run_id, one.feed) for run_id, one in self._followed.items() if one.thread == thread and not one.quiet)
        return [run_id for run_id, feed in here if feed is not None and not feed.done]

    def claim(self, run_id: str, thread: str) -> None:
        """Say that a run which is about to begin is followed by whoever begins it."""
        self._followed[run_id] = _Followed(thread)

    def release(self, run_id: str) -> None:
        """Say that it did not begin."""
        self._followed.pop(run_id, None)

    def follow(self, feed: Feed, thread: str, message_id: str = "", *, quiet: bool = False) -> None:
        """Tell a thread about a run, until its last word is out or it is known that it never will be.

        Nothing happens when it is told already.

        Args:
            feed: The run.
            thread: Where.
            message_id: The message that began it, which is answered then; empty for none.
            quiet: Whether only its end is told, since it is over already.
        """
        known = self._followed.get(feed.run_id)
        if known is not None and known.task is not None:
            return
        following = Following(thread, feed, self._posting, self._pace, self._row_of, quiet=quiet)
        task = asyncio.ensure_future(self._until_told(feed.run_id, following, message_id))
        self._followed[feed.run_id] = _Followed(thread, feed, task, message_id, quiet)

    async def watch(self) -> None:
        """Look for runs that begin in our threads from elsewhere, and for what runs ask; never returns."""
        mark, told = "", ""
        while True:
            try:
                now = await asyncio.to_thread(self._cockpit.journal.mark)
                if now != mark:
                    await self.look()
                mark, told = now, ""
            except JournalError as error:
                # It may answer again; whoever works with it says what is wrong, and here it is said once.
                if error.message != told:
                    _log.error("The journal cannot be watched for %s: %s", self._posting.transport.name, error.message)
                told = error.message
            # A fault of ours must not be silent, nor be the end of all looks.
            except Exception:  # noqa: BLE001 - see above
                _log.exception("A look at what goes on for %s failed", self._posting.transport.name)
            await self._posting.clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Follow what is new, put what is asked, settle what is answered.

        Raises:
            JournalError: the journal does not answer.
        """
        # In this order: what was told to its end by now began no later, and what begins later is found next time.
        told = frozenset(self._told)
        newest = await asyncio.to_thread(self._cockpit.journal.last_seq)
        for run in await asyncio.to_thread(self._posting.book.runs_begun, self._seen):
            if run.run_id in self._followed or run.run_id in told:
                continue
            taken = await asyncio.to_thread(self._posting.book.that_began, run.run_id)
            # Another server that is still there tells of what it has begun.
            if taken is None or taken.owner == self._owner or not self._alive(taken.owner):
                feed = await asyncio.to_thread(self._cockpit.attach, run.run_id)
                self.follow(feed, run.thread, taken.message_id if taken is not None else "")
        self._seen = newest
        self._told -= told
        await self._questions.look({run_id: one.thread for run_id, one in self._followed.items()})

    async def settle_left(self) -> None:
        """See to the posts that an earlier process has left open.

        Raises:
            JournalError: the journal does not answer.
        """
        waiting = {request.id for request in await asyncio.to_thread(self._cockpit.pending)}
        for post in await asyncio.to_thread(self._posting.book.open_posts):
            if post.subject.startswith("app-"):
                # One that waits and may not have come out is put like a new one, and found if it has.
                if post.post_id or post.subject not in waiting:
                    self._questions.stands(post)
            elif post.subject == post.run_id and post.subject not in self._followed:
                row = await asyncio.to_thread(self._row_of, post.subject)
                if row is not None and not row.live:
                    self.follow(await asyncio.to_thread(self._cockpit.attach, row.run_id), post.thread, quiet=True)

    def answering(self) -> list[asyncio.Task[None]]:
        """What ends when the runs that messages have begun are told about, and the answered questions closed."""
        runs = [one.task for one in self._followed.values() if one.task is not None and (one.answers or one.quiet)]
        return [*runs, *self._questions.settling()]

    async def close(self) -> None:
        """Follow nothing any more; runs go on."""
        tasks = [one.task for one in self._followed.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._questions.close()

    async def _until_told(self, run_id: str, following: Following, message_id: str) -> None:
        try:
            await following.follow(lambda: self._questions.settled(run_id))
        except PostRefused as error:
            # The thread is gone: nobody waits there for an answer.
            _log.error("The end of %s cannot be told: %s", run_id, error.message)
        except (TransportError, JournalError) as error:
            # It stays undone, so that the next process tells about it.
            _log.error("The end of %s was not told: %s", run_id, error.message)
            return
        # A fault of ours in one thread must not be silent, nor be the end of the others.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("The end of %s was not told", run_id)
            return
        finally:
            self._told.add(run_id)
            self.release(run_id)
        if message_id:
            try:
                await asyncio.to_thread(self._posting.book.done, message_id)
            except JournalError as error:
                _log.error("That %s is answered was not kept: %s", message_id, error.message)

    def _row_of(self, run_id: str) -> RunRow | None:
        found = views.runs(self._cockpit.journal, limit=1, run_ids=[run_id])
        return found[0] if found else None
