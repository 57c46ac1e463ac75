"""What runs ask, in their threads: a post with buttons, which it loses when it is answered, wherever that was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.transports.posting import FIRST_PAUSE, LONGEST_PAUSE, Posting, unless
from kagura_kernel.cockpit.transports.telling import decided_post, fits, question_post, question_text, whole_file
from kagura_kernel.cockpit.transports.transport import Post, PostRefused, Said, TransportError, TransportRefused
from kagura_kernel.journal.mailbox import Mailbox

if TYPE_CHECKING:
    from kagura_kernel.domain.approvals import ApprovalRequest, Decision
    from kagura_kernel.journal.chats import KeptPost
    from kagura_kernel.journal.store import Journal

_log = logging.getLogger(__name__)


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

    async def were_seen(self, said: Said, waiting: Sequence[ApprovalRequest]) -> list[bool]:
        """Whether each of these stood in the thread when something was written there, by the chat's own clock."""
        return [await self._was_seen(said, one.id) for one in waiting]

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

    async def _was_seen(self, said: Said, approval_id: str) -> bool:
        post = await self._posting.standing(approval_id)
        if post is None or post.thread != said.thread:
            return False
        return 0 < self._posting.transport.order(post.post_id) <= said.order

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
                answered = decided_post(request, decision, limit)
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
        has_file = fits(request, limit) or await self._send_whole(request, asked.thread)

        def make(token: str) -> Post:
            return question_post(request, token, limit, has_file=has_file)

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
        whole = question_text(request).encode()
        try:
            await self._posting.upload(thread, whole_file(request.id), f"{request.id}.txt", whole)
        except PostRefused as error:
            _log.error("The whole of %s was not sent, so it cannot be allowed there: %s", request.id, error.message)
            return False
        return True
