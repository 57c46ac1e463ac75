"""What a chat means: threads are sessions, and whoever is not on the list of operators has no say.

The same for every transport. Each message is taken durably before anything is done about it, so that one that is
delivered twice is done once; what was refused is a row of the journal.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.acting import Acting
from kagura_kernel.cockpit.transports.clicking import Clicking
from kagura_kernel.cockpit.transports.deciding import Refused
from kagura_kernel.cockpit.transports.following import Following, Thread, again
from kagura_kernel.cockpit.transports.plain import one_line
from kagura_kernel.cockpit.transports.recovering import recover
from kagura_kernel.cockpit.transports.transport import Clicked, Heard, Post, Said, Transport, TransportError
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.events import MessageRefused
from kagura_kernel.journal.chats import ChatBook, TakenMessage
from kagura_kernel.journal.owner import owner_alive, process_owner

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ChatTerms:
    """What holds for one chat.

    Attributes:
        operators: Who may say anything, by the names that the chat gives them; nobody else is heard, and an empty list
            is nobody.
        project: The project of its runs.
        brain: Their brain; None leaves it to the settings.
    """

    operators: frozenset[str] = frozenset()
    project: Path | None = None
    brain: str | None = None


class Conversations:
    """One chat's threads. Used on one loop, which the runs do not share.

    Args:
        cockpit: What is acted on; its owner closes it.
        transport: The chat.
        terms: Who may, and on what.
        clock: The time.
    """

    def __init__(self, cockpit: Cockpit, transport: Transport, terms: ChatTerms, clock: Clock) -> None:
        self._cockpit = cockpit
        self._transport = transport
        self._terms = terms
        self._clock = clock
        self._book = ChatBook(cockpit.journal, transport.name)
        self._owner = process_owner()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: Counter[str] = Counter()
        self._acting = Acting(cockpit, terms.project, terms.brain, transport.name)
        self._clicking = Clicking(cockpit, self._book, transport.name)

    async def open(self) -> None:
        """Tell what became of what an earlier process left, then listen; returns once connected.

        Raises:
            TransportError: the chat cannot be reached, or does not let us in.
            JournalError: the journal does not answer.
        """
        await self._transport.open(self.hear)
        await recover(self._cockpit, self._book, self._transport, owner_alive)

    async def close(self) -> None:
        """Listen no longer; runs go on, and what waits to be said is said by the next process."""
        await self._transport.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Return when everything that was heard so far is answered."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def hear(self, heard: Heard) -> None:
        """Take what was said or clicked; returns once it is kept, and answers later. Never raises."""
        try:
            await self._hear(heard)
        except JournalError as error:
            # What is not taken is not done either; the chat delivers it again, or its sender does.
            _log.error("A message of %s was not taken: %s", self._transport.name, error.message)

    def session_of(self, thread: str) -> str:
        """The session of a thread: always the same, and another one for every thread."""
        name = f"{self._transport.name}-{thread.replace(':', '-')}"
        if _NAME.fullmatch(name):
            return name
        return f"{self._transport.name}-{hashlib.sha256(thread.encode()).hexdigest()[:32]}"

    async def _hear(self, heard: Heard) -> None:
        if heard.operator not in self._terms.operators:
            await self._refuse(heard, "whoever sent it is no operator", self._clicking.subject_of(heard))
            return
        session = self.session_of(heard.thread)
        taken = TakenMessage(heard.message_id, heard.thread, session, heard.operator, self._owner)
        if not await asyncio.to_thread(self._book.take, taken):
            if isinstance(heard, Clicked):
                await self._refuse(heard, "it is a replay of an earlier click", self._clicking.subject_of(heard))
            return
        self._begin(self._answer(heard))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, heard: Heard) -> None:
        try:
            # In the order they came, in one thread; other threads, and the runs, do not wait for it.
            async with self._locks[heard.thread]:
                if isinstance(heard, Clicked):
                    await self._clicked(heard)
                    following = None
                else:
                    following = await self._said(heard)
            if following is not None:
                await following.follow()
            await asyncio.to_thread(self._book.done, heard.message_id)
        except (TransportError, JournalError) as error:
            # It stays undone, so that the next process tells about it.
            _log.error("A message of %s was not answered: %s", self._transport.name, error.message)
        # A fault of ours in one thread must not be silent, nor be the end of the others.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("A message of %s was not answered", self._transport.name)

    async def _said(self, heard: Said) -> Following | None:
        session = self.session_of(heard.thread)
        by = self._by(heard)
        try:
            answer, handle = await self._acting.act(heard, session, by)
        except Refused as refused:
            await self._refuse(heard, str(refused), (refused.approval_id, ""))
            answer, handle = f"That did nothing: {refused}.", None
        except KaguraError as error:
            answer, handle = f"{error.code}: {error.message}", None
        if handle is not None:
            await asyncio.to_thread(self._book.began, heard.message_id, handle.run_id)
            thread = Thread(heard.thread, self._transport, self._book, self._cockpit, self._clock)
            return Following(thread, handle)
        post = answer if isinstance(answer, Post) else Post(answer)
        await again(self._clock, lambda: self._transport.post(heard.thread, post))
        return None

    async def _clicked(self, heard: Clicked) -> None:
        try:
            await self._clicking.click(heard, self._by(heard))
        except Refused as refused:
            await self._refuse(heard, str(refused), self._clicking.subject_of(heard))
            await self._transport.post(heard.thread, Post(f"That did nothing: {refused}."))

    def _by(self, heard: Heard) -> str:
        return f"{self._transport.name}:{one_line(heard.operator, 60)}"

    async def _refuse(self, heard: Heard, why: str, subject: tuple[str, str]) -> None:
        """Record a refusal: the 1st, 2nd, 4th, 8th of each operator, so that nobody fills the journal."""
        self._refusals[heard.operator] += 1
        times = self._refusals[heard.operator]
        if times & (times - 1):
            return
        approval_id, run_id = subject
        event = MessageRefused(
            run_id=run_id,
            session_id=self.session_of(heard.thread),
            at=self._cockpit.journal.clock.now(),
            transport=self._transport.name,
            operator=one_line(heard.operator, 80),
            message_id=one_line(heard.message_id, 120),
            why=why,
            approval_id=approval_id,
            times=times,
        )
        await asyncio.to_thread(self._cockpit.journal.append, event)


def terms_of(operators: Collection[str], project: Path | None = None, brain: str | None = None) -> ChatTerms:
    """Terms for these operators; blanks around a name are dropped, and an empty name is nobody."""
    return ChatTerms(frozenset(name.strip() for name in operators if name.strip()), project, brain)
