"""What a chat means: threads are sessions, and whoever is not on the list of operators has no say.

The same for every transport. Each message is taken durably before anything is done about it, so that one that is
delivered twice is done once; what was refused is a row of the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Coroutine
from typing import Any

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.message_intent import (
    Ambiguous,
    CommandSaid,
    Meaning,
    SentenceSaid,
    TaskSaid,
    waits_for_nobody,
)
from kagura_kernel.cockpit.orders import SESSION_NAME
from kagura_kernel.cockpit.restart import going_on
from kagura_kernel.cockpit.transports.actions import (
    Acting,
    Begin,
    ChatTerms,
    Clicking,
    Copied,
    Deciding,
    Launching,
    NotBegun,
    Offering,
    Place,
    Refused,
    ending,
    subject_of,
)
from kagura_kernel.cockpit.transports.ambiguity import Ambiguities, Choice
from kagura_kernel.cockpit.transports.changes import Offer
from kagura_kernel.cockpit.transports.followers import Followers, Posting
from kagura_kernel.cockpit.transports.messages import one_line, told
from kagura_kernel.cockpit.transports.transport import (
    Clicked,
    Ending,
    Heard,
    Post,
    PostRefused,
    Said,
    Transport,
    TransportError,
    Turn,
    Turns,
)
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.events import MessageRefused
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.journal import views
from kagura_kernel.journal.chats import ChatBook, TakenMessage
from kagura_kernel.journal.owner import owner_alive, process_owner


@dataclass(frozen=True, slots=True)
class Messages:
    """Carries out what was said. Used on one loop."""

    acting: Acting  # Does all but begin runs
    launching: Launching  # Begins them
    turns: Turns  # The order of each thread
    ambiguities: Ambiguities  # Knows what only prose decides

    async def do(self, said: Said, place: Place, turn: Turn | None) -> str | Post | Offering | None:
        """Do what a message asks for: what to say, or None where a run was begun, which tells for itself.

        What waits for nobody has no turn.

        Raises:
            KaguraError: it could not be done; the message says why.
            Refused: it answers an approval that cannot be answered any more.
            NotBegun: a run is not begun, for a reason that is nobody's fault.
        """
        if place.session is None:
            return await self.acting.tell(CommandSaid(said.text.removeprefix("/") or "help"), place)
        if turn is None:
            return await self.acting.tell(await self.acting.understood(said, place, in_turn=False), place)
        try:
            await self.turns.come(turn)
            return await self._in_turn(said, place, turn)
        finally:
            self.turns.leave(turn)

    async def go_on(self, run_id: str, place: Place) -> None:
        """Begin a run that goes on from another one; raises like `do`."""
        turn = self.turns.enter(place.thread)
        try:
            await self.turns.come(turn)
            await self.launching.begin(Begin(place, turn, resume=run_id))
        finally:
            self.turns.leave(turn)

    async def _in_turn(self, said: Said, place: Place, turn: Turn) -> str | Post | Offering | None:
        meaning = await self.acting.understood(said, place, in_turn=True)
        match meaning:
            case TaskSaid(task=task):
                await self.launching.begin(Begin(place, turn, task=task, files=said.files))
                return None
            case CommandSaid(line=line) if line.split()[0].casefold() == "resume":
                words = line.split()[1:]
                run_id = ending(words[0], "run") if words else await asyncio.to_thread(self.acting.last_run, place)
                if not run_id:
                    return "There was no run in this thread yet."
                await self.launching.begin(Begin(place, turn, resume=run_id))
                return None
            case CommandSaid(line=line) if line.split()[0].casefold() == "instead":
                task = "".join(line.split(None, 1)[1:]).strip()
                return await self._instead(Begin(place, turn, task=task, files=said.files))
            case SentenceSaid() | Ambiguous() if said.files:
                return "A run goes on here, and files cannot be said to it. Wait for it, or say stop first."
            case _:
                return await self._told(meaning, place)

    async def _told(self, meaning: Meaning, place: Place) -> str | Post | Offering:
        if isinstance(meaning, Ambiguous):
            return await self.ambiguities.settle(meaning, place)
        return await self.acting.tell(meaning, place)

    async def choose(self, choice: Choice, place: Place) -> str | Post | Offering | None:
        """Do what a person has chosen that a text is; like `do`."""
        if not isinstance(choice.meaning, TaskSaid):
            return await self.acting.tell(choice.meaning, place)
        turn = self.turns.enter(place.thread)
        try:
            await self.turns.come(turn)
            return await self._instead(Begin(place, turn, task=choice.meaning.task))
        finally:
            self.turns.leave(turn)

    async def _instead(self, begin: Begin) -> str | None:
        if not begin.task:
            return "/instead needs the task to go on with behind it."
        over = await self.acting.stopped(begin.place)
        intent = await asyncio.to_thread(going_on, self.acting.cockpit.journal, over, begin.task)
        await self.launching.begin(replace(begin, resume=intent.resume or ""))
        return None


INTERRUPTED = "I was restarted while I was at this, and do not do it a second time. See /status, and say it again."

CLICK = "click:"
"""How the names of clicks begin in the book: what became of one shows in the post that it was about."""


async def recover(followers: Followers) -> None:
    """See to what a process that is gone has left: its messages, its posts, and runs of its threads that go on.

    A thread that takes nothing now keeps no other one waiting.

    Raises:
        TransportRefused: the chat does not take us any more.
        JournalError: the journal does not answer.
    """
    cockpit, posting, never_begun = followers.cockpit, followers.posting, []
    for message in await asyncio.to_thread(posting.book.interrupted, owner_alive):
        run = await asyncio.to_thread(views.run_of, cockpit.journal, message.run_id)
        if run is not None:
            feed = await asyncio.to_thread(cockpit.attach, message.run_id)
            followers.follow(feed, message.thread, message.message_id, quiet=not run.live)
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
            await posting.reply(message.thread, message.message_id, lambda _: interrupted)
    await asyncio.to_thread(posting.book.done, message.message_id)


WINDOW_SECONDS = 3600.0
"""For so long the bounds below hold, then they begin anew."""

MOST_ROWS, MOST_ROWS_OF_ONE = 100, 20
"""Of all together, and of one operator: of words as many as of clicks and answers, which have a place of their own."""

EACH_UNTIL = 8
"""So many clicks and answers of a kind are told one by one; after that, as words from the first, at each doubling."""

_MOST_KINDS = 1000


@dataclass(frozen=True, slots=True)
class Counted:
    """A refusal that has a row."""

    times: int  # How often it happened: the same operator, reason and subject
    left_out: int  # Refusals of whatever kind that have had no row since the last one


class Refusals:
    """Those of one chat. Used on one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._rows: Counter[tuple[bool, str]] = Counter()
        self._began = clock.monotonic()
        self._left_out = 0

    def count(self, operator: str, why: str, subject: str, *, decides: bool) -> Counted | None:
        """Count one; None where it has no row.

        Args:
            operator: Whoever sent it.
            why: The reason.
            subject: The approval or run that it was about; empty for none.
            decides: Whether it was to decide something, as a click or an answer, and not mere talk.
        """
        kind = (operator, why, subject)
        times = self._times[kind] = self._times.pop(kind, 0) + 1
        # Of what was heard longest ago the figure begins anew.
        while len(self._times) > _MOST_KINDS:
            self._times.popitem(last=False)
        is_told = (decides and times <= EACH_UNTIL) or not times & (times - 1)
        if not (is_told and self._has_room(operator, decides=decides)):
            self._left_out += 1
            return None
        counted, self._left_out = Counted(times, self._left_out), 0
        return counted

    def _has_room(self, operator: str, *, decides: bool) -> bool:
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_SECONDS:
            self._rows.clear()
            self._began = now
        mine, everybody = (decides, operator), (decides, "")
        if self._rows[mine] >= MOST_ROWS_OF_ONE or self._rows[everybody] >= MOST_ROWS:
            return False
        self._rows[mine] += 1
        self._rows[everybody] += 1
        return True


_log = logging.getLogger(__name__)

FORGET_SECONDS = 24 * 3600.0
"""Between two looks whether anything is old enough to be forgotten."""

_NOT_TAKEN = "Nothing was done: once that is mended, say it again."
OLDER_COPY = "An older copy: the newer one below it counts."
"""What stands in the place of a post whose first try was in doubt, once somebody has pressed its button."""


@dataclass(eq=False)
class Conversations:
    """One chat's threads. Used on one loop, which the runs do not share."""

    cockpit: Cockpit  # What is acted on; its owner closes it
    transport: Transport  # The chat
    terms: ChatTerms  # Who may, and on what
    clock: Clock  # The time
    _owner: str = field(default_factory=process_owner)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _watching: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._refusals = Refusals(self.clock)
        self._book = ChatBook(self.cockpit.journal, self.transport.name)
        self._posting = Posting(self.transport, self._book, self.clock)
        self._followers = Followers(self.cockpit, self._posting)
        self._turns = Turns()
        name = self.transport.name
        self._launching = Launching(self.cockpit, self._followers, self._book, self.terms, name)
        deciding = Deciding(self.cockpit, self._book, name, self.transport.limit)
        acting = Acting(self.cockpit, self._followers, self._turns, self._posting, deciding)
        self._ambiguities = Ambiguities(acting, self.terms.brain, name)
        self._messages = Messages(acting, self._launching, self._turns, self._ambiguities)
        self._clicking = Clicking(self.cockpit, self._book, deciding)

    async def open(self) -> None:
        """Listen, and see to what an earlier process has left; returns once connected. May be tried again.

        Raises:
            TransportRefused: the chat does not let us in, and will not.
            TransportError: it cannot be reached, or does not let us in now.
            JournalError: the journal does not answer.
        """
        await asyncio.to_thread(self._book.prune)
        await self.transport.open(self.hear)
        self._watching = [asyncio.ensure_future(work) for work in (self._followers.watch(), self._forget())]
        self._begin(recover(self._followers))

    async def over(self) -> None:
        """Wait until the chat is served no more though nobody closes it; once it is open.

        Raises:
            TransportRefused: it does not let us in any more.
            TransportError: its connection is over for another reason, and does not come back by itself.
        """
        ends = [asyncio.ensure_future(self._posting.refused())]
        if isinstance(self.transport, Ending):
            ends.append(asyncio.ensure_future(self.transport.ended()))
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in ends:
                one.cancel()

    async def close(self) -> None:
        """Listen no longer; runs go on, and what waits to be said is said by the next process."""
        await self.transport.close()
        tasks = [*self._tasks, *self._watching]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._followers.close()

    def drain(self) -> None:
        """Begin nothing new from now on: a task is told to be said again later, and all else is done as before."""
        self._launching.draining = True

    def going_on(self) -> list[str]:
        """The runs of its threads whose last word is not out yet, of whatever process."""
        return self._followers.going_on()

    async def idle(self) -> None:
        """Return when everything that was heard so far is answered."""
        while tasks := {*self._tasks, *self._followers.answering()}:
            await asyncio.wait(tasks)

    async def hear(self, heard: Heard) -> None:
        """Take what was said or clicked; returns once it is kept, and answers later. Never raises."""
        try:
            await self._hear(heard)
        except JournalError as error:
            # What is not taken is not done either, and the chat will not bring it again.
            _log.error("A message of %s was not taken: %s", self.transport.name, error.message)
            if not self._against(heard):
                with contextlib.suppress(TransportError):
                    await self.transport.post(heard.thread, Post(f"{told(error)} {_NOT_TAKEN}"))

    def session_of(self, thread: str) -> str:
        """The session of a thread: always the same, and another one for every thread."""
        name = f"{self.transport.name}-{thread.replace(':', '-')}"
        if SESSION_NAME.fullmatch(name):
            return name
        return f"{self.transport.name}-{hashlib.sha256(thread.encode()).hexdigest()[:32]}"

    async def _hear(self, heard: Heard) -> None:
        if why := self._against(heard):
            await self._refuse(heard, why, subject_of(heard))
            return
        # Before anything is waited for: what is heard later may be about it.
        turn = self._turns.enter(heard.thread) if _takes_a_turn(heard) else None
        taken = TakenMessage(_key(heard), heard.thread, self.session_of(heard.thread), heard.operator, self._owner)
        try:
            is_new = await asyncio.to_thread(self._book.take, taken)
        except BaseException:
            self._leave(turn)
            raise
        if is_new:
            self._begin(self._answer(heard, turn))
            return
        self._leave(turn)
        if isinstance(heard, Clicked):
            await self._refuse(heard, "it is a replay of an earlier click", subject_of(heard))

    def _against(self, heard: Heard) -> str:
        """Why whoever sent it is not heard; empty where they are."""
        return heard.barred or ("" if heard.operator in self.terms.operators else "whoever sent it is no operator")

    async def _forget(self) -> None:
        """Forget once a day what is old; never returns."""
        while True:
            await self.clock.sleep(FORGET_SECONDS)
            try:
                await asyncio.to_thread(self._book.prune)
            except JournalError as error:
                _log.error("What is old in %s was not forgotten: %s", self.transport.name, error.message)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._safely(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _safely(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (TransportError, JournalError) as error:
            # It stays undone, so that the next process tells about it.
            _log.error("A message of %s was not answered: %s", self.transport.name, error.message)
        # A fault of ours in one thread must not be silent, nor be the end of the others.
        except Exception:  # noqa: BLE001 - see above
            _log.exception("A message of %s was not answered", self.transport.name)

    async def _answer(self, heard: Heard, turn: Turn | None) -> None:
        try:
            begun = await (self._clicked(heard) if isinstance(heard, Clicked) else self._said(heard, turn))
        except PostRefused as error:
            # The thread is gone: nobody waits there for an answer.
            _log.error("An answer of %s cannot be given: %s", self.transport.name, error.message)
            begun = False
        finally:
            self._leave(turn)
        # A run's thread is told of it by those who follow it, and then the message is answered.
        if not begun:
            await asyncio.to_thread(self._book.done, _key(heard))

    async def _said(self, said: Said, turn: Turn | None) -> bool:
        """Do what it asks for, and answer it unless it has begun a run; whether it has."""
        session = self.session_of(said.thread) if said.in_thread else None
        place = Place(said.thread, session, self._by(said), _key(said))
        try:
            answer = await self._messages.do(said, place, turn)
        except Refused as refused:
            await self._refuse(said, str(refused), (refused.approval_id, ""))
            answer = f"That did nothing: {refused}."
        except NotBegun as why:
            answer = str(why)
        except KaguraError as error:
            answer = told(error)
        return answer is None or await self._reply(said, answer)

    async def _clicked(self, clicked: Clicked) -> bool:
        """Do what the button says; whether that has begun a run."""
        try:
            return await self._press(clicked)
        except Refused as refused:
            await self._refuse(clicked, str(refused), subject_of(clicked))
            if isinstance(refused, Copied):
                with contextlib.suppress(TransportError):
                    await self.transport.edit(clicked.thread, clicked.post_id, Post(OLDER_COPY))
            return await self._reply(clicked, f"That did nothing: {refused}.")
        except NotBegun as why:
            return await self._reply(clicked, str(why))
        except KaguraError as error:
            return await self._reply(clicked, told(error))

    async def _press(self, clicked: Clicked) -> bool:
        by = self._by(clicked)
        place = Place(clicked.thread, self.session_of(clicked.thread), by, _key(clicked))
        if choice := self._ambiguities.chosen(clicked):
            return await self._chose(clicked, choice, place)
        pressed = await self._clicking.click(clicked, by)
        if isinstance(pressed, Offering):
            return await self._reply(clicked, pressed)
        if pressed:
            await self._messages.go_on(pressed, place)
        return bool(pressed)

    async def _chose(self, clicked: Clicked, choice: Choice, place: Place) -> bool:
        """Do what a text is said to be, and take the buttons away; whether that has begun a run."""
        with contextlib.suppress(TransportError):
            await self.transport.edit(clicked.thread, clicked.post_id, Post(f"Chosen: {choice.label}"))
        answer = await self._messages.choose(choice, place)
        return answer is None or await self._reply(clicked, answer)

    async def _reply(self, heard: Heard, told: str | Post | Offering) -> bool:
        offer = told.offer if isinstance(told, Offering) else Offer("")
        post = told.post if isinstance(told, Offering) else told if isinstance(told, Post) else Post(told)

        def make(token: str) -> Post:
            return replace(post, buttons=offer.buttons(token)) if offer.run_id else post

        await self._posting.reply(heard.thread, _key(heard), make, offer.run_id)
        return False

    def _leave(self, turn: Turn | None) -> None:
        if turn is not None:
            self._turns.leave(turn)

    def _by(self, heard: Heard) -> str:
        return f"{self.transport.name}:{one_line(heard.operator, 60)}"

    async def _refuse(self, heard: Heard, why: str, subject: tuple[str, str]) -> None:
        """Record a refusal, unless there are too many of its kind."""
        approval_id, run_id = subject
        decides = isinstance(heard, Clicked) or bool(approval_id)
        counted = self._refusals.count(heard.operator, why, approval_id or run_id, decides=decides)
        if counted is None:
            return
        event = MessageRefused(
            run_id=run_id,
            session_id=self.session_of(heard.thread),
            at=self.cockpit.journal.clock.now(),
            transport=self.transport.name,
            operator=one_line(heard.operator, 80),
            message_id=one_line(heard.message_id, 120),
            why=why,
            approval_id=approval_id,
            times=counted.times,
            left_out=counted.left_out,
        )
        await asyncio.to_thread(self.cockpit.journal.append, event)


def _key(heard: Heard) -> str:
    """What the book knows it by; the chat may name a click and a message alike."""
    return f"{CLICK}{heard.message_id}" if isinstance(heard, Clicked) else heard.message_id


def _takes_a_turn(heard: Heard) -> bool:
    return isinstance(heard, Said) and heard.in_thread and not waits_for_nobody(heard.text)
