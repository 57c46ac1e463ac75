"""Chats are opened however long that takes, one does not hold up the others, and all are closed in good order."""

import asyncio
import contextlib
import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kagura_kernel.cockpit.chat_server import Server, Supervisor
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.transport import Hear, Post, TransportError, TransportRefused
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import FakeBrain, Hang
from kagura_kernel.testing.chat import FakeChat
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually

ANN = "ann"
WAITING = 2
"""Sleepers while one chat is away: what clears away, and the next try."""
AWAY = TransportError("fake", "let us in", "it cannot be reached")
REFUSED = TransportRefused("fake", "let us in", "invalid_auth")


@dataclass
class MoodyChat(FakeChat):
    """A chat that cannot always be opened."""

    # What each try to open it raises, in turn; it lets us in when they are used up
    moods: list[TransportError] = field(default_factory=list)
    tries: int = 0  # How often it was tried
    closed: int = 0  # How often it was closed
    out: TransportError | None = None  # What it raises when something is to be said; None for nothing
    # Where it is told that its connection is over
    over: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def ended(self) -> None:
        await asyncio.shield(self.over)

    async def post(self, thread: str, post: Post) -> str:
        if self.out is not None:
            raise self.out
        return await super().post(thread, post)

    async def open(self, hear: Hear) -> None:
        self.tries += 1
        if self.moods:
            raise self.moods.pop(0)
        await super().open(hear)

    async def close(self) -> None:
        self.closed += 1
        await super().close()


@dataclass
class Place:
    """A server and what it said."""

    cockpit: Cockpit
    project: Path
    clock: FakeClock = field(default_factory=FakeClock)
    said: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(
        self,
        *chats: FakeChat,
        drain: float = 0,
        rest: Callable[[], None] = lambda: None,
        environ: dict[str, str] | None = None,
    ) -> AsyncIterator[tuple[Server, asyncio.Task[None]]]:
        terms = ChatTerms(frozenset({ANN}), self.project)
        made = {chat.name: Conversations(self.cockpit, chat, terms, SystemClock()) for chat in chats}
        server = Server(self.cockpit, made, self.clock, self.said.append, Supervisor(environ or {}), rest)
        task = asyncio.ensure_future(server.serve(drain))
        try:
            yield server, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[Sequence[object]], Place]]:
    made: list[Cockpit] = []
    (tmp_path / "project").mkdir()

    def make(script: Sequence[object] = ("Done.",)) -> Place:
        made.append(fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain(script)]))
        return Place(made[-1], tmp_path / "project")

    yield make
    for cockpit in made:
        cockpit.close()


async def test_what_listens_is_said_once_every_chat_was_tried(place):
    here, chats = place(), [MoodyChat("one"), MoodyChat("two")]
    async with here.serving(*chats) as (server, task):
        await eventually(lambda: here.said)
        assert here.said == ["Serving one, two. Stop with Ctrl-C or SIGTERM."]
        server.stop()
        await task
    assert [chat.closed for chat in chats] == [1, 1]


async def test_a_chat_that_is_away_is_tried_after_growing_pauses_and_told_once_while_the_other_is_served(place):
    here, away = place(), MoodyChat("away", moods=[AWAY] * 8)
    async with here.serving(away, FakeChat("here")) as (server, task):
        await eventually(lambda: len(here.said) == 2)
        assert here.said == [
            f"away is not served yet, and is tried again: ERR_TRANSPORT: {AWAY.message}",
            "Serving here. Stop with Ctrl-C or SIGTERM.",
        ]
        for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60), start=1):
            await here.clock.until_sleeping(WAITING)
            assert away.tries == number
            await here.clock.advance(pause - 0.1)
            assert away.tries == number
            await here.clock.advance(0.1)
            await eventually(lambda: away.tries == number + 1)  # noqa: B023 - asked at once
        await eventually(lambda: here.said[2:] == ["Serving away, here. Stop with Ctrl-C or SIGTERM."])
        server.stop()
        await task


async def test_where_nobody_can_be_reached_yet_that_is_said(place):
    here = place()
    async with here.serving(MoodyChat("away", moods=[AWAY] * 2)):
        await eventually(lambda: here.said[1:] == ["No chat can be reached yet. Stop with Ctrl-C or SIGTERM."])


async def test_a_chat_that_refuses_for_good_is_not_tried_again_and_the_others_go_on(place):
    here, refusing = place(), MoodyChat("one", moods=[REFUSED])
    async with here.serving(refusing, FakeChat("two")) as (server, task):
        await eventually(lambda: here.said[1:] == ["Serving two. Stop with Ctrl-C or SIGTERM."])
        assert here.said[0] == f"one is not served: ERR_TRANSPORT_REFUSED: {REFUSED.message}"
        await here.clock.advance(3600)
        assert (refusing.tries, task.done()) == (1, False)
        server.stop()
        await task


async def test_where_every_chat_refuses_for_good_the_server_ends_with_the_reason(place):
    here = place()
    async with here.serving(MoodyChat("one", moods=[REFUSED]), MoodyChat("two", moods=[AWAY, REFUSED])) as (_, task):
        await here.clock.until_sleeping(WAITING)
        await here.clock.advance(1)
        with pytest.raises(TransportRefused):
            await task


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[tuple[dict[str, str], Callable[[], list[str]]]]:
    """What a supervisor has set, and what it has heard since it was asked last."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(path))
        heard.settimeout(0)

        def told() -> list[str]:
            found = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    found.append(heard.recv(4096).decode())
            return found

        yield {"NOTIFY_SOCKET": heard.getsockname()}, told


async def test_a_chat_that_takes_our_token_no_more_is_told_once_and_closed_and_the_others_go_on(place, tmp_path):
    here, one, two = place(), MoodyChat("one"), FakeChat("two")
    async with listening(tmp_path / "notify") as (environ, told), here.serving(one, two, environ=environ) as (_, task):
        await eventually(lambda: here.said)
        one.out = REFUSED
        await one.say(ANN, "status")
        await one.say(ANN, "help")
        await eventually(lambda: here.said[1:])
        await eventually(lambda: one.closed)
        await eventually(lambda: "READY=1\nSTATUS=Serving two. Refused by one." in told())
        thread = await two.say(ANN, "status")
        await eventually(lambda: two.shown(thread))
        assert here.said[1:] == [f"one is not served any more: ERR_TRANSPORT_REFUSED: {REFUSED.message}"]
        assert not task.done()


async def test_where_the_last_chat_takes_our_token_no_more_the_server_ends_with_the_reason(place):
    here, one = place(), MoodyChat("one")
    async with here.serving(one, MoodyChat("two", moods=[REFUSED])) as (_, task):
        await eventually(lambda: here.said[1:])
        one.over.set_exception(REFUSED)
        with pytest.raises(TransportRefused):
            await task
    assert one.closed > 0


async def test_a_connection_that_does_not_come_back_ends_the_server_so_that_another_is_begun(place):
    here, one = place(), MoodyChat("one")
    async with here.serving(one, FakeChat("two")) as (_, task):
        await eventually(lambda: here.said)
        one.over.set_exception(AWAY)
        with pytest.raises(TransportError) as caught:
            await task
    assert caught.value is AWAY


async def test_a_stop_while_a_chat_is_still_tried_ends_the_tries(place):
    here, away = place(), MoodyChat("away", moods=[AWAY] * 2)
    async with here.serving(away) as (server, task):
        await here.clock.until_sleeping(WAITING)
        server.stop()
        await task
    assert (away.tries, away.closed) == (1, 1)


async def test_a_run_has_its_time_to_end_and_is_stopped_then_and_its_thread_is_told(place):
    here, chat = place([Hang()]), FakeChat()
    async with here.serving(chat, drain=60) as (server, task):
        await eventually(lambda: here.said)
        thread = await chat.say(ANN, "go on for ever")
        await eventually(lambda: [post for post in chat.shown(thread) if "Works" in post.text])
        [run] = here.cockpit.board().live
        server.stop()
        await eventually(lambda: here.said[1:] == [f"Stopping; at most 60 s are waited for {run.run_id}."])
        late = await chat.say(ANN, "one more")
        await eventually(lambda: [post for post in chat.shown(late) if "begins nothing new" in post.text])
        await here.clock.until_sleeping(WAITING)
        await here.clock.advance(59)
        assert not here.cockpit.handle(run.run_id).stopping
        await here.clock.advance(2)
        await eventually(lambda: here.cockpit.handle(run.run_id) is None)
        while not task.done():
            await here.clock.advance(0.1)
            await asyncio.sleep(0.01)
        await task
    assert [" was stopped by " in post.text.partition(" ·")[0] for post in chat.shown(thread)] == [True]


async def test_what_runs_have_left_is_cleared_away_once_nothing_goes_on(place):
    here, chat, rested = place([Hang()]), FakeChat(), []
    async with here.serving(chat, rest=lambda: rested.append(len(rested))):
        await eventually(lambda: here.said)
        await here.clock.advance(30)
        await eventually(lambda: here.clock.sleepers and rested == [0])
        thread = await chat.say(ANN, "go on for ever")
        await eventually(lambda: [post for post in chat.shown(thread) if "Works" in post.text])
        await here.clock.advance(30)
        await eventually(lambda: here.clock.sleepers)
        assert rested == [0]
        await chat.say(ANN, "stop", thread=thread)
        await eventually(lambda: [post for post in chat.shown(thread) if "was stopped by" in post.text])
        while rested != [0, 1]:
            await here.clock.advance(30)
            await asyncio.sleep(0.01)
        await here.clock.advance(30)
        await eventually(lambda: here.clock.sleepers)
        assert rested == [0, 1]


async def test_whoever_watches_is_told_that_nothing_is_stuck_and_hears_nothing_while_the_engine_is(place, tmp_path):
    here, stuck, go_on = place([Hang()]), threading.Event(), threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(0)

        def beats() -> int:
            found = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    found += heard.recv(4096) == b"WATCHDOG=1"
            return found

        def hold() -> None:
            stuck.set()
            go_on.wait(60)

        environ = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "3000"}
        async with here.serving(FakeChat(), environ=environ):
            await eventually(beats)
            here.cockpit._engine.post(hold)
            await eventually(stuck.is_set)
            # One that was on its way may still come.
            await asyncio.sleep(0.05)
            beats()
            await asyncio.sleep(0.05)
            assert beats() == 0
            go_on.set()
            await eventually(beats)


async def test_a_fault_of_ours_ends_the_server_instead_of_leaving_a_chat_unheard(place):
    class Broken(FakeChat):
        async def open(self, hear: Hear) -> None:
            raise RuntimeError(f"a fault, {hear is not None}")

    here = place()
    async with here.serving(Broken("one"), FakeChat("two")) as (_, task):
        with pytest.raises(RuntimeError, match="a fault"):
            await task


@pytest.mark.parametrize("is_abstract", [False, True])
def test_words_arrive_a_line_each(tmp_path, is_abstract):
    place = f"@{uuid.uuid4().hex}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place.replace("@", "\0", 1) if is_abstract else place)
        Supervisor({"NOTIFY_SOCKET": place}).tell("READY=1", "STATUS=one\nMAINPID=1")
        assert heard.recv(4096) == b"READY=1\nSTATUS=one MAINPID=1"


def test_where_nobody_listens_nothing_happens(tmp_path):
    Supervisor({}).tell("READY=1")
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell("READY=1")


def test_one_that_reads_nothing_keeps_nobody_waiting(tmp_path):
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place)
        heard.settimeout(0)
        supervisor = Supervisor({"NOTIFY_SOCKET": place})
        for _ in range(2_000):
            supervisor.tell("WATCHDOG=1" + " " * 1_000)
        assert heard.recv(4096).startswith(b"WATCHDOG=1")


def test_what_is_started_later_cannot_speak_for_us():
    environ = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "A": "b"}
    assert Supervisor(environ).patience == 3
    assert environ == {"A": "b"}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
    ],
)
def test_without_a_watchdog_of_ours_there_is_no_patience(asked):
    assert Supervisor({"NOTIFY_SOCKET": "/run/notify", **asked}).patience is None
