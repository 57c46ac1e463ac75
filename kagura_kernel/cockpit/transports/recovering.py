"""After a restart: every message that was taken gets its answer, and no post goes on saying what is true no longer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.transports.followers import Followers
from kagura_kernel.cockpit.transports.posting import Posting
from kagura_kernel.cockpit.transports.transport import Post, PostRefused
from kagura_kernel.journal import views

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.journal.chats import TakenMessage

INTERRUPTED = "I was restarted while I was at this, and do not do it a second time. See /status, and say it again."

CLICK = "click:"
"""How the names of clicks begin in the book: what became of one shows in the post that it was about."""


async def recover(cockpit: Cockpit, posting: Posting, followers: Followers, alive: Callable[[str], bool]) -> None:
    """See to what a process that is gone has left: its messages, its posts, and runs of its threads that go on.

    A thread that takes nothing now keeps no other one waiting.

    Raises:
        TransportRefused: the chat does not take us any more.
        JournalError: the journal does not answer.
    """
    never_begun = []
    for message in await asyncio.to_thread(posting.book.interrupted, alive):
        rows = await asyncio.to_thread(views.runs, cockpit.journal, limit=1, run_ids=[message.run_id])
        if rows:
            feed = await asyncio.to_thread(cockpit.attach, message.run_id)
            followers.follow(feed, message.thread, message.message_id, quiet=not rows[0].live)
        else:
            # What was named before its first fact was stored did not begin either.
            never_begun.append(message)
    await followers.settle_left()
    await followers.look()
    await asyncio.gather(*(_tell(posting, message) for message in never_begun))


async def _tell(posting: Posting, message: TakenMessage) -> None:
    interrupted = Post(INTERRUPTED)
    # Where the thread is gone, nobody waits for an answer.
    with contextlib.suppress(PostRefused):
        if message.run_id and await asyncio.to_thread(posting.book.post_about, message.run_id) is not None:
            # It may be out, and says that a run begins.
            await posting.settle(message.thread, message.run_id, message.run_id, lambda _: interrupted)
        elif not message.message_id.startswith(CLICK):
            await posting.reply(message.thread, message.message_id, interrupted)
    await asyncio.to_thread(posting.book.done, message.message_id)
