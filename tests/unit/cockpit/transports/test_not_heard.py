"""Whoever is not heard leaves a row for everything that matters; what is old is forgotten while the server runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import FORGET_SECONDS, Conversations
from kagura_kernel.cockpit.transports.transport import Clicked, Said
from kagura_kernel.domain.events import MessageRefused
from kagura_kernel.journal.chats import KEPT_DAYS, ChatBook, TakenMessage
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.testing.chat import FakeChat
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually

ANN, EVE = "ann", "eve"
ALLOW = f"allow:app-{'0' * 14}:{'0' * 32}"


@pytest.fixture
async def talk(cockpit: Cockpit, project: Path) -> AsyncIterator[tuple[Conversations, FakeClock]]:
    clock = FakeClock()
    conversations = Conversations(cockpit, FakeChat(), ChatTerms(frozenset({ANN}), project), clock)
    yield conversations, clock
    await conversations.close()


def refused(cockpit: Cockpit) -> list[MessageRefused]:
    rows = cockpit.journal.events(kinds=("message.refused",))
    return [row.event for row in rows if isinstance(row.event, MessageRefused)]


async def test_a_stranger_s_click_has_a_row_however_much_they_have_said(cockpit, talk):
    conversations, _ = talk
    for number in range(3):
        await conversations.hear(Said(f"m{number}", "room:1", EVE, "hello"))
    await conversations.hear(Clicked("c1", "room:1", EVE, ALLOW, "p1"))
    told = [(one.message_id, one.approval_id, one.times, one.left_out) for one in refused(cockpit)]
    assert told == [("m0", "", 1, 0), ("m1", "", 2, 0), ("c1", "app-" + "0" * 14, 1, 1)]


@pytest.mark.parametrize(
    "heard",
    [
        Said("m1", "room:1", ANN, "go", barred="it comes from another workspace"),
        Clicked("c1", "room:1", ANN, ALLOW, "p1", barred="it comes from another workspace"),
    ],
)
async def test_what_is_barred_is_not_done_and_has_a_row_though_it_bears_the_name_of_an_operator(cockpit, talk, heard):
    conversations, _ = talk
    await conversations.hear(heard)
    await conversations.idle()
    assert [(one.operator, one.why) for one in refused(cockpit)] == [(ANN, "it comes from another workspace")]
    assert cockpit.runs() == []


async def test_a_server_that_runs_for_months_forgets_once_a_day_what_is_old(cockpit, talk):
    conversations, clock = talk
    await conversations.open()
    book = ChatBook(cockpit.journal, "fake")
    taken = TakenMessage("m1", "room:1", "fake-room-1", ANN, process_owner())
    cockpit.journal.clock = FakeClock()
    assert book.take(taken)
    book.done("m1")
    await clock.advance(FORGET_SECONDS)
    assert not book.take(taken)
    await cockpit.journal.clock.advance((KEPT_DAYS + 1) * 24 * 3600)
    await eventually(lambda: clock.sleepers == 2)
    await clock.advance(FORGET_SECONDS)
    await eventually(lambda: book.take(taken))
