"""The runs that a chat's threads are told about, whoever began them and wherever they run, and the posts that tell it.

A post has a subject, stands once as far as the chat can tell, and its last word gets out. It is written down before it
is out and named after that, so that a process that comes later knows what may be there. Where the first try is in
doubt, the chat is asked to look for it before it is said again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from kagura_kernel.cockpit.transports import messages
from kagura_kernel.cockpit.transports.transport import (
    Button,
    Post,
    PostRefused,
    Said,
    Transport,
    TransportError,
    TransportRefused,
)
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field, replace
from kagura_kernel.journal import views
from kagura_kernel.journal.chats import ChatBook, KeptPost
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import owner_alive, process_owner

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.feeds import Feed
    from kagura_kernel.domain.approvals import ApprovalRequest, Decision
    from kagura_kernel.domain.events import Event
    from kagura_kernel.journal.rows import RunRow
    from kagura_kernel.journal.store import Journal


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

    async def was_seen(self, said: Said, subject: str) -> bool:
        """Whether the post about something stood in the thread when this was written there, by the chat's own clock."""
        # Once what is being said of it just now is out.
        async with self._locks.setdefault(subject, asyncio.Lock()):
            post = await asyncio.to_thread(self.book.post_about, subject)
        if post is None or not post.post_id or post.thread != said.thread:
            return False
        return 0 < self.transport.order(post.post_id) <= said.order

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

    async def again(self, work: Callable[[], Awaitable[object]], passing: type[KaguraError] = TransportError) -> None:
        """Do it as often as it takes, for as long as what goes wrong is of a kind that passes; raises like `settle`."""
        pause = FIRST_PAUSE
        while True:
            try:
                await work()
            except (PostRefused, TransportRefused):
                raise
            except passing:
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


_log = logging.getLogger(__name__)

EDIT_SECONDS = 1.5
"""Between two edits of a chat while runs go on, all its threads together: no chat takes many more from one of us."""


@dataclass
class Pace:
    """How often a chat is told what is not the last word; those that wait come one after another."""

    clock: Clock  # The time
    seconds: float = EDIT_SECONDS  # Between two of them
    _next: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def turn(self) -> None:
        """Return when something may be told."""
        async with self._lock:
            if (wait := self._next - self.clock.monotonic()) > 0:
                await self.clock.sleep(wait)
            self._next = self.clock.monotonic() + self.seconds


@dataclass(eq=False)
class Following:
    """Tells a thread about one run until it is over."""

    thread: str  # Where
    feed: Feed  # The run, of whatever process
    posting: Posting  # How posts get there
    pace: Pace  # How often
    row_of: Callable[[str], RunRow | None]  # What the journal knows of a run; None for nothing. Blocks.
    _: KW_ONLY
    quiet: bool = False  # Whether only its end is told, since it is over already

    def __post_init__(self) -> None:
        self._telling = messages.RunThread(self.feed.run_id)
        self._news = asyncio.Event()
        self._news.set()

    async def follow(self, settled: Callable[[], Any]) -> None:
        """Return when its last word is out.

        Args:
            settled: Awaited once the run is over: what else of it stands in the thread is seen to.

        Raises:
            PostRefused: the chat never takes it.
            TransportRefused: the chat does not take us any more.
            JournalError: what was told so far cannot be read.
        """
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            # The engine may outlive the loop of a chat that is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._take, event)

        # The past may be long, and it is told by whoever subscribes.
        stop = await asyncio.to_thread(self.feed.subscribe, hear)
        ended = asyncio.ensure_future(self.feed.ended())
        try:
            if not self.quiet:
                await self._until(ended)
            error = await ended
        finally:
            ended.cancel()
            stop()
        # A database that was away comes back, and a thread must not say for ever that the run goes on.
        await self.posting.again(lambda: self._end(error), JournalError)
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
            if not is_first and not await unless(ended, self.pace.turn()):
                return
            self._news.clear()
            try:
                await self._put()
            except (TransportError, JournalError) as error:
                # A chat or a journal that is away must not end the run; the next word tells everything.
                self._news.set()
                pause = LONGEST_PAUSE if isinstance(error, PostRefused) else min(2 * pause, LONGEST_PAUSE)
                await unless(ended, self.posting.clock.sleep(pause))
            else:
                pause, is_first = FIRST_PAUSE, False

    async def _put(self) -> None:
        run_id, limit = self.feed.run_id, self.posting.transport.limit

        def make(token: str) -> Post:
            return self._telling.post(limit, Button("Stop", f"kill:{run_id}:{token}", "bad"))

        await self.posting.put(self.thread, run_id, run_id, make)
        if lost := self._telling.resumes:
            await self._take_over(lost)
            self._telling.resumes = ""

    async def _take_over(self, lost: str) -> None:
        """Take the button off a run that this one goes on from, where the chat has told of that one."""
        if await asyncio.to_thread(self.posting.book.post_about, lost) is not None:
            post = messages.gone_on_post(lost, self.feed.run_id)
            await self.posting.settle(self.thread, lost, lost, lambda _: post)

    async def _end(self, error: Exception | None) -> None:
        run_id, limit = self.feed.run_id, self.posting.transport.limit
        end = self._telling.finished
        is_whole = True
        if end is not None and messages.cut(end.text, limit)[1]:
            is_whole = await self._send_whole(end.text)
        row = await asyncio.to_thread(self.row_of, run_id) if end is not None and end.status == "lost" else None

        def make(token: str) -> Post:
            if row is not None:
                return messages.lost_post(row, token)
            if end is not None:
                return messages.end_post(end, limit, files=self._telling.files, is_whole=is_whole)
            # Without its last fact it was stopped because its facts could not be kept.
            if isinstance(error, KaguraError):
                return Post(f"Failed · {run_id} · {messages.told(error)}")
            return Post(f"Over · {run_id}")

        await self.posting.settle(self.thread, run_id, run_id, make)

    async def _send_whole(self, text: str) -> bool:
        run_id = self.feed.run_id
        try:
            await self.posting.upload(self.thread, f"file:{run_id}", f"{run_id}.md", text.encode())
        except TransportError as error:
            _log.error("The whole answer of %s was not sent: %s", run_id, error.message)
            return False
        return True


@dataclass(eq=False)
class _Asked:
    thread: str
    run_id: str
    request: ApprovalRequest | None
    decision: asyncio.Future[Decision] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    work: asyncio.Task[None] | None = None


class Questions:
    """Those of one chat. Used on one loop."""

    def __init__(self, journal: Journal, posting: Posting) -> None:
        self._mailbox = Mailbox(journal)
        self._posting = posting
        self._asked: dict[str, _Asked] = {}

    async def look(self, threads: Mapping[str, str]) -> None:
        """Put what is new, and settle what was answered; returns before the chat has taken it.

        Args:
            threads: The runs that are followed, and where; what works for one of them asks there too.

        Raises:
            JournalError: the journal does not answer.
        """
        for request in await asyncio.to_thread(self._mailbox.pending):
            run_id = next((one for one in (request.run_id, *reversed(request.lineage)) if one in threads), "")
            if run_id and request.id not in self._asked:
                self._begin(request.id, _Asked(threads[run_id], run_id, request))
        for approval_id, decision in (await asyncio.to_thread(self._mailbox.decisions, list(self._asked))).items():
            asked = self._asked.get(approval_id)
            if asked is not None and not asked.decision.done():
                asked.decision.set_result(decision)

    def stands(self, post: KeptPost) -> None:
        """Take over a question that an earlier process has put."""
        if post.subject not in self._asked:
            self._begin(post.subject, _Asked(post.thread, post.run_id, None))

    async def settled(self, run_id: str) -> None:
        """Return when the questions of a run that is over have lost their buttons.

        Raises:
            JournalError: the journal does not answer.
        """
        await self.look({})
        works = [one.work for one in self._asked.values() if one.run_id == run_id and one.decision.done() and one.work]
        await asyncio.gather(*works, return_exceptions=True)

    def settling(self) -> list[asyncio.Task[None]]:
        """What ends when the questions that are answered have lost their buttons."""
        return [one.work for one in self._asked.values() if one.work is not None and one.decision.done()]

    async def close(self) -> None:
        """Let everything stand as it is."""
        works = [one.work for one in self._asked.values() if one.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def _begin(self, approval_id: str, asked: _Asked) -> None:
        self._asked[approval_id] = asked
        asked.work = asyncio.ensure_future(self._see_to(approval_id, asked))

    async def _see_to(self, approval_id: str, asked: _Asked) -> None:
        try:
            if asked.request is not None:
                await self._ask(asked.request, asked)
            decision = await asked.decision
            limit = self._posting.transport.limit
            request = asked.request or await asyncio.to_thread(self._mailbox.asked, approval_id)
            # What never came out needs no last word.
            if await asyncio.to_thread(self._posting.book.post_about, approval_id) is not None:
                answered = messages.decided_post(request, decision, limit)
                await self._posting.settle(asked.thread, approval_id, asked.run_id, lambda _: answered)
        except TransportError as error:
            _log.error("The question %s cannot be shown as it stands: %s", approval_id, error.message)
            # Not put once more with each look.
            await asked.decision
        # A fault of ours in one question must not be silent, nor be the end of the others.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("The question %s was not seen to", approval_id)
        finally:
            self._asked.pop(approval_id, None)

    async def _ask(self, request: ApprovalRequest, asked: _Asked) -> None:
        """Put it, however long the chat is away, unless it is answered meanwhile."""
        posting, limit = self._posting, self._posting.transport.limit
        kept = await asyncio.to_thread(posting.book.post_about, request.id)
        if kept is not None and kept.post_id:
            return
        has_file = messages.fits(request, limit) or await self._send_whole(request, asked.thread)

        def make(token: str) -> Post:
            return messages.question_post(request, token, limit, has_file=has_file)

        pause = FIRST_PAUSE
        while not asked.decision.done():
            try:
                await posting.put(asked.thread, request.id, asked.run_id, make)
            except (PostRefused, TransportRefused):
                raise
            except TransportError:
                await unless(asked.decision, posting.clock.sleep(pause))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

    async def _send_whole(self, request: ApprovalRequest, thread: str) -> bool:
        """Put what does not fit into the thread as a file; whether the chat takes it."""
        whole = messages.question_text(request).encode()
        try:
            await self._posting.upload(thread, messages.whole_file(request.id), f"{request.id}.txt", whole)
        except PostRefused as error:
            _log.error("The whole of %s was not sent, so it cannot be allowed there: %s", request.id, error.message)
            return False
        return True


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


@dataclass(eq=False)
class Followers:
    """Those of one chat. Used on one loop."""

    cockpit: Cockpit  # Knows the runs
    posting: Posting  # How posts get into the threads
    _owner: str = field(default_factory=process_owner)

    def __post_init__(self) -> None:
        self._pace = Pace(self.posting.clock)
        self._questions = Questions(self.cockpit.journal, self.posting)
        self._followed: dict[str, _Followed] = {}
        self._told: set[str] = set()
        self._seen: int | None = None

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
        following = Following(thread, feed, self.posting, self._pace, self._row_of, quiet=quiet)
        task = asyncio.ensure_future(self._until_told(feed.run_id, following, message_id))
        self._followed[feed.run_id] = _Followed(thread, feed, task, message_id, quiet)

    async def watch(self) -> None:
        """Look for runs that begin in our threads from elsewhere, and for what runs ask; never returns."""
        mark, told = "", ""
        while True:
            try:
                now = await asyncio.to_thread(self.cockpit.journal.mark)
                if now != mark:
                    await self.look()
                mark, told = now, ""
            except JournalError as error:
                # It may answer again; whoever works with it says what is wrong, and here it is said once.
                if error.message != told:
                    _log.error("The journal cannot be watched for %s: %s", self.posting.transport.name, error.message)
                told = error.message
            # A fault of ours must not be silent, nor be the end of all looks.
            except Exception:  # noqa: BLE001 - see above
                _log.exception("A look at what goes on for %s failed", self.posting.transport.name)
            await self.posting.clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Follow what is new, put what is asked, settle what is answered.

        Raises:
            JournalError: the journal does not answer.
        """
        # In this order: what was told to its end by now began no later, and what begins later is found next time.
        told = frozenset(self._told)
        newest = await asyncio.to_thread(self.cockpit.journal.last_seq)
        for run in await asyncio.to_thread(self.posting.book.runs_begun, self._seen):
            if run.run_id in self._followed or run.run_id in told:
                continue
            taken = await asyncio.to_thread(self.posting.book.that_began, run.run_id)
            # Another server that is still there tells of what it has begun.
            if taken is None or taken.owner == self._owner or not owner_alive(taken.owner):
                feed = await asyncio.to_thread(self.cockpit.attach, run.run_id)
                self.follow(feed, run.thread, taken.message_id if taken is not None else "")
        self._seen = newest
        self._told -= told
        await self._questions.look({run_id: one.thread for run_id, one in self._followed.items()})

    async def settle_left(self) -> None:
        """See to the posts that an earlier process has left open.

        Raises:
            JournalError: the journal does not answer.
        """
        waiting = {request.id for request in await asyncio.to_thread(self.cockpit.pending)}
        for post in await asyncio.to_thread(self.posting.book.open_posts):
            if post.subject.startswith("app-"):
                # One that waits and may not have come out is put like a new one, and found if it has.
                if post.post_id or post.subject not in waiting:
                    self._questions.stands(post)
            elif post.subject == post.run_id and post.subject not in self._followed:
                row = await asyncio.to_thread(self._row_of, post.subject)
                if row is not None and not row.live:
                    self.follow(await asyncio.to_thread(self.cockpit.attach, row.run_id), post.thread, quiet=True)

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
                await asyncio.to_thread(self.posting.book.done, message_id)
            except JournalError as error:
                _log.error("That %s is answered was not kept: %s", message_id, error.message)

    def _row_of(self, run_id: str) -> RunRow | None:
        return views.run_of(self.cockpit.journal, run_id)
