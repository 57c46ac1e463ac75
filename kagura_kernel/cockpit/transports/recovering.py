"""After a restart: every message that was taken gets its answer, and no post goes on saying what is true no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.following import Thread
from kagura_kernel.cockpit.transports.telling import decided_post, end_post, lost_post
from kagura_kernel.cockpit.transports.transport import Post, Transport
from kagura_kernel.domain.events import ChangesCollected, RunFinished
from kagura_kernel.journal import views
from kagura_kernel.journal.chats import ChatBook, TakenMessage
from kagura_kernel.journal.mailbox import Mailbox

INTERRUPTED = "I was restarted while I was at this, and do not do it a second time. See /status, and say it again."


async def recover(cockpit: Cockpit, book: ChatBook, transport: Transport, alive: Callable[[str], bool]) -> None:
    """Answer what a process that is gone has left; what goes on elsewhere is left alone.

    Raises:
        TransportError: the chat does not take it; what is left stays for the next time.
        JournalError: the journal does not answer.
    """
    for message in await asyncio.to_thread(book.interrupted, alive):
        thread = Thread(message.thread, transport, book, cockpit, cockpit.journal.clock)
        if await _answered(cockpit, thread, message):
            await asyncio.to_thread(book.done, message.message_id)
    decisions = await asyncio.to_thread(
        Mailbox(cockpit.journal).decisions, [post.subject for post in book.open_posts()]
    )
    for post in await asyncio.to_thread(book.open_posts):
        if post.subject in decisions and post.post_id:
            thread = Thread(post.thread, transport, book, cockpit, cockpit.journal.clock)
            await thread.settle(post.subject, post.run_id, decided_post(None, decisions[post.subject], transport.limit))


async def _answered(cockpit: Cockpit, thread: Thread, message: TakenMessage) -> bool:
    if not message.run_id:
        await thread.transport.post(message.thread, Post(INTERRUPTED))
        return True
    rows = await asyncio.to_thread(views.runs, cockpit.journal, limit=1, run_ids=[message.run_id])
    if not rows:
        # It was named before its first fact was stored, so it never began.
        await thread.transport.post(message.thread, Post(INTERRUPTED))
        return True
    if rows[0].status in ("running", "awaiting_approval"):
        return False
    events = [row.event for row in await asyncio.to_thread(views.run_events, cockpit.journal, message.run_id)]
    end = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    files = sum(len(event.changes) for event in events if isinstance(event, ChangesCollected))
    post = end_post(end, thread.transport.limit, files=files) if end is not None else lost_post(rows[0])
    if end is not None and end.status == "lost":
        post = lost_post(rows[0])
    await thread.settle(message.run_id, message.run_id, post)
    return True
