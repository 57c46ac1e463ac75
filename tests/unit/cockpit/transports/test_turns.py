"""Messages of one thread are understood in the order in which they came, and what is stopped begins nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.followers import Pace
from kagura_kernel.cockpit.transports.transport import Said, SentFile, Turn, Turns
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.testing.chat import FakeChat
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually


async def test_a_turn_comes_when_all_before_it_in_its_thread_are_over():
    turns, order = Turns(), []
    first, second, third = (turns.enter("room:1") for _ in range(3))
    elsewhere = turns.enter("room:2")

    async def take(turn: Turn, name: str) -> None:
        await turns.come(turn)
        order.append(name)
        turns.leave(turn)

    waiting = [asyncio.ensure_future(take(turn, name)) for turn, name in ((third, "third"), (second, "second"))]
    await take(elsewhere, "elsewhere")
    assert order == ["elsewhere"]
    await take(first, "first")
    await asyncio.gather(*waiting)
    assert order == ["elsewhere", "first", "second", "third"]


async def test_what_has_left_is_not_there_to_be_stopped():
    turns = Turns()
    first, second = turns.enter("room:1"), turns.enter("room:1")
    other = turns.enter("room:2")
    assert turns.begins("room:1") == [first.run_id, second.run_id]
    assert turns.begins() == [first.run_id, second.run_id, other.run_id]
    turns.leave(first)
    turns.leave(first)
    turns.stop([first.run_id, second.run_id], "ann")
    assert (first.stopped_by, second.stopped_by, other.stopped_by) == ("", "ann", "")
    assert turns.begins("room:1") == [second.run_id]


ANN, ROOM = "ann", "room:1"


class SlowFile:
    """A file that is fetched for as long as the test likes."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.arrives = asyncio.Event()

    def sent(self) -> SentFile:
        """The file as a message brings it."""
        return SentFile("data.csv", 3, self._read)

    async def _read(self, limit: int) -> bytes:
        self.asked.set()
        await self.arrives.wait()
        return b"a,b"[:limit]


@pytest.fixture
async def chat(cockpit: Cockpit, project: Path) -> AsyncIterator[tuple[FakeChat, Conversations]]:
    chat = FakeChat()
    conversations = Conversations(cockpit, chat, ChatTerms(frozenset({ANN}), project), SystemClock())
    await conversations.open()
    yield chat, conversations
    await conversations.close()


@pytest.mark.parametrize("word", ["stop", "/kill"])
async def test_what_is_stopped_while_it_is_being_begun_never_begins(cockpit, chat, word):
    shown, conversations = chat
    file = SlowFile()
    await conversations.hear(Said("slow-1", ROOM, ANN, "count the rows", (file.sent(),)))
    await file.asked.wait()
    await shown.say(ANN, word, thread=ROOM)
    await eventually(lambda: any("is being stopped" in post.text for post in shown.shown(ROOM)))
    file.arrives.set()
    await conversations.idle()
    assert "was stopped before it had begun" in shown.shown(ROOM)[-1].text
    assert cockpit.runs() == []
    await shown.say(ANN, "count them now", thread=ROOM)
    await conversations.idle()
    assert [row.task for row in cockpit.runs()] == ["count them now"]


async def test_one_that_is_being_begun_can_be_named_and_is_told_of(cockpit, chat):
    shown, conversations = chat
    file = SlowFile()
    await conversations.hear(Said("slow-1", ROOM, ANN, "count the rows", (file.sent(),)))
    await file.asked.wait()
    await shown.say(ANN, "status", thread=ROOM)
    await eventually(lambda: shown.shown(ROOM))
    _, run_id, word = shown.shown(ROOM)[0].text.split()
    assert word == "begins."
    await shown.say(ANN, f"/kill {run_id}", thread="room:2")
    await eventually(lambda: shown.shown("room:2"))
    file.arrives.set()
    await conversations.idle()
    assert cockpit.runs() == []


async def test_what_is_said_later_in_the_thread_waits_for_what_was_said_earlier(cockpit, chat):
    shown, conversations = chat
    file = SlowFile()
    await conversations.hear(Said("slow-1", ROOM, ANN, "first", (file.sent(),)))
    await shown.say(ANN, "/help", thread=ROOM)
    await file.asked.wait()
    await shown.say(ANN, "status", thread=ROOM)
    await eventually(lambda: len(shown.shown(ROOM)) == 1)
    file.arrives.set()
    await conversations.idle()
    assert [row.task for row in cockpit.runs()] == ["first"]
    assert any("/approve [APPROVAL]" in post.text for post in shown.shown(ROOM))


async def test_what_the_journal_cannot_keep_is_not_done_and_its_sender_is_told(cockpit, chat):
    shown, conversations = chat
    await conversations.idle()
    cockpit.journal.close()
    await shown.say(ANN, "count the rows", thread=ROOM)
    await shown.say("eve", "count the rows", thread="room:2")
    [told] = shown.shown(ROOM)
    assert told.text.startswith("ERR_JOURNAL")
    assert told.text.endswith("say it again.")
    assert shown.shown("room:2") == []


async def test_those_that_have_something_to_tell_come_one_after_another():
    clock = FakeClock()
    pace, order = Pace(clock, 1.5), []

    async def tell(name: str) -> None:
        for _ in range(2):
            await pace.turn()
            order.append(name)

    await pace.turn()
    telling = [asyncio.ensure_future(tell(name)) for name in ("one", "two")]
    for _ in range(4):
        await clock.until_sleeping()
        await clock.advance(1.5)
    await asyncio.gather(*telling)
    assert order == ["one", "two", "one", "two"]
