"""One run in its thread: a post that is edited while it goes on and becomes its answer; another for each question."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.transports.plain import cut
from kagura_kernel.cockpit.transports.telling import RunTelling, decided_post, question_post, question_text
from kagura_kernel.cockpit.transports.transport import Button, Post, Transport, TransportError
from kagura_kernel.domain.approvals import ApprovalRequest
from kagura_kernel.journal.chats import ChatBook, KeptPost
from kagura_kernel.journal.mailbox import Mailbox

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.events import AnyEvent

EDIT_SECONDS = 1.0
"""Between two edits of one post."""

LOOK_SECONDS = 0.25
"""Between two looks for questions: those of children and answers from other processes are in the mailbox alone."""

_TRIES = 6


async def again(clock: Clock, work: Callable[[], Awaitable[object]]) -> None:
    """Say something, however often the chat does not take it at first.

    Raises:
        TransportError: it did not take it for half a minute.
    """
    for number in range(_TRIES):
        try:
            await work()
        except TransportError:
            if number == _TRIES - 1:
                raise
            await clock.sleep(2.0**number)
        else:
            return


@dataclass
class Thread:
    """Where a run is told about, and with what.

    Attributes:
        name: The thread.
        transport: The chat.
        book: What we have posted there.
        cockpit: Knows what waits.
        clock: The time.
    """

    name: str
    transport: Transport
    book: ChatBook
    cockpit: Cockpit
    clock: Clock
    asked: dict[str, ApprovalRequest] = field(default_factory=dict)

    async def put(self, subject: str, run_id: str, token: str, post: Post) -> None:
        """Post something that will be edited, or edit it where it stands already."""
        kept = await asyncio.to_thread(self.book.post_about, subject)
        if kept is not None and kept.post_id:
            await self.transport.edit(kept.thread, kept.post_id, post)
            return
        # Kept before it is out: a click may come back before the chat has told us what the post is called.
        await asyncio.to_thread(self.book.keep, KeptPost(subject, self.name, run_id, "", token))
        post_id = await self.transport.post(self.name, post)
        await asyncio.to_thread(self.book.keep, KeptPost(subject, self.name, run_id, post_id, token))

    async def settle(self, subject: str, run_id: str, post: Post) -> None:
        """Put the last word about something, however long the chat is away; then it is edited no more.

        Raises:
            TransportError: the chat did not take it, again and again.
        """
        token = secrets.token_hex(16)
        await again(self.clock, lambda: self.put(subject, run_id, token, post))
        await asyncio.to_thread(self.book.close, subject)

    async def ask(self, request: ApprovalRequest) -> None:
        """Put a question into the thread; one that stands there already is left alone."""
        kept = await asyncio.to_thread(self.book.post_about, request.id)
        if kept is not None and kept.post_id:
            self.asked[request.id] = request
            return
        token = secrets.token_hex(16)
        post, is_cut = question_post(request, token, self.transport.limit)
        if is_cut:
            await self.transport.upload(self.name, f"{request.id}.txt", question_text(request).encode())
        await self.put(request.id, request.run_id, token, post)
        self.asked[request.id] = request

    async def close_questions(self, mailbox: Mailbox) -> None:
        """Take the buttons off the questions of this thread that are answered, wherever that was."""
        decided = await asyncio.to_thread(mailbox.decisions, list(self.asked))
        for approval_id, decision in decided.items():
            request = self.asked[approval_id]
            await self.settle(approval_id, request.run_id, decided_post(request, decision, self.transport.limit))
            del self.asked[approval_id]


class Following:
    """Tells a thread about one run until it is over."""

    def __init__(self, thread: Thread, handle: RunHandle) -> None:
        self._thread = thread
        self._handle = handle
        self._telling = RunTelling(handle.run_id)
        self._mailbox = Mailbox(thread.cockpit.journal)

    async def follow(self) -> None:
        """Return when the answer is out.

        Raises:
            TransportError: the chat did not take it.
        """
        loop = asyncio.get_running_loop()

        def hear(event: AnyEvent) -> None:
            # The engine may outlive the loop of a chat that is closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._telling.take, event)

        stop = self._handle.subscribe(hear)
        try:
            await self._until_over()
        finally:
            stop()
        await self._end()

    async def _until_over(self) -> None:
        ending = asyncio.ensure_future(self._handle.ended())
        clock = self._thread.clock
        token = secrets.token_hex(16)
        kill = Button("Stop", f"kill:{self._handle.run_id}:{token}", "bad")
        next_edit = clock.monotonic()
        try:
            while not ending.done():
                if self._telling.changed and clock.monotonic() >= next_edit:
                    next_edit = clock.monotonic() + EDIT_SECONDS
                    post = self._telling.post(self._thread.transport.limit, kill)
                    try:
                        await self._thread.put(self._handle.run_id, self._handle.run_id, token, post)
                    except TransportError:
                        # A chat that is away must not end the run; the next edit tells everything.
                        self._telling.changed = True
                with contextlib.suppress(TransportError):
                    await self._questions()
                pause = asyncio.ensure_future(clock.sleep(LOOK_SECONDS))
                try:
                    await asyncio.wait({pause, ending}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    pause.cancel()
        finally:
            ending.cancel()

    async def _questions(self) -> None:
        ours = self._handle.run_id
        for request in await asyncio.to_thread(self._thread.cockpit.pending):
            if ours in (request.run_id, *request.lineage) and request.id not in self._thread.asked:
                await self._thread.ask(request)
        if self._thread.asked:
            await self._thread.close_questions(self._mailbox)

    async def _end(self) -> None:
        end = self._telling.finished
        limit = self._thread.transport.limit
        if end is not None and cut(end.text, limit)[1]:
            with contextlib.suppress(TransportError):
                await self._thread.transport.upload(self._thread.name, f"{end.run_id}.md", end.text.encode())
        # Without its last fact it was stopped because its facts could not be kept.
        post = self._telling.post(limit, None) if end is not None else await self._without_end()
        await self._thread.settle(self._handle.run_id, self._handle.run_id, post)
        with contextlib.suppress(TransportError):
            await self._thread.close_questions(self._mailbox)

    async def _without_end(self) -> Post:
        from kagura_kernel.domain.errors import KaguraError

        try:
            await self._handle.wait()
        except KaguraError as error:
            return Post(f"Failed · {self._handle.run_id} · {error.code}: {error.message}")
        return Post(f"Over · {self._handle.run_id}")
