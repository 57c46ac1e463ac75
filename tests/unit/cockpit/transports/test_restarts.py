"""What a process that is gone has left in a chat is told, once, by the next one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.conversations import ChatTerms, Conversations
from kagura_kernel.cockpit.transports.recovering import INTERRUPTED
from kagura_kernel.cockpit.transports.transport import Button, Post, Said
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import RunFinished, RunStarted
from kagura_kernel.domain.identity import new_approval_id, new_run_id
from kagura_kernel.journal.chats import ChatBook, KeptPost, TakenMessage
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.testing.chat import FakeChat

CockpitOn = Callable[..., Cockpit]
ANN = "ann"


def gone() -> str:
    """The name of a process of this machine that cannot be running."""
    host, _, rest = process_owner().partition(":")
    _, _, rest = rest.partition(":")
    began, _, more = rest.partition(".")
    return f"{host}:1:{int(began) + 1 if began.isdigit() else began}.{more}"


def talk(cockpit: Cockpit, chat: FakeChat, project: Path) -> Conversations:
    return Conversations(cockpit, chat, ChatTerms(frozenset({ANN}), project), SystemClock())


def left(book: ChatBook, run_id: str = "") -> None:
    assert book.take(TakenMessage("message-7", "room:1", "fake-room-1", ANN, gone(), run_id))


def start(cockpit: Cockpit, run_id: str) -> None:
    cockpit.journal.append(
        RunStarted(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), task="go", owner=gone())
    )


async def test_a_message_that_began_nothing_is_told_about_and_not_done_again(
    cockpit_on: CockpitOn, tmp_path: Path
) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    left(ChatBook(cockpit.journal, "fake"))
    for _ in range(2):
        conversations = talk(cockpit, chat, tmp_path)
        await conversations.open()
        await chat.close()
    assert [post.text for post in chat.shown("room:1")] == [INTERRUPTED]
    assert cockpit.runs() == []


async def test_an_answer_that_was_not_out_takes_the_place_of_the_progress(
    cockpit_on: CockpitOn, tmp_path: Path
) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    book = ChatBook(cockpit.journal, "fake")
    run_id = new_run_id()
    post_id = await chat.post("room:1", Post("Works", buttons=(Button("Stop", "kill"),)))
    book.keep(KeptPost(run_id, "room:1", run_id, post_id, "0" * 32))
    left(book, run_id)
    start(cockpit, run_id)
    cockpit.journal.append(
        RunFinished(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), status="done", text="It was 42.")
    )
    for _ in range(2):
        await talk(cockpit, chat, tmp_path).open()
    shown = chat.shown("room:1")
    assert [(post.post_id, post.edits, post.buttons) for post in shown] == [(post_id, 1, ())]
    assert "It was 42." in shown[0].text


async def test_a_run_that_was_lost_with_its_process_is_said_to_be(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    run_id = new_run_id()
    left(ChatBook(cockpit.journal, "fake"), run_id)
    start(cockpit, run_id)
    cockpit.journal.append(
        RunFinished(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), status="lost", error="gone")
    )
    await talk(cockpit, chat, tmp_path).open()
    assert [post.text for post in chat.shown("room:1")] == [
        f"Lost: the process that ran it is gone · {run_id}. Say it again to start over."
    ]


async def test_what_a_living_process_is_at_is_left_to_it(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    taken = TakenMessage("message-7", "room:1", "fake-room-1", ANN, process_owner())
    assert ChatBook(cockpit.journal, "fake").take(taken)
    await talk(cockpit, chat, tmp_path).open()
    assert chat.shown("room:1") == []


async def test_a_question_that_was_answered_meanwhile_loses_its_buttons(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    run_id, approval_id = new_run_id(), new_approval_id()
    start(cockpit, run_id)
    mailbox = Mailbox(cockpit.journal)
    mailbox.post(request(approval_id, run_id))
    mailbox.decide(approval_id, Verdict.DENY, by="bob", via="sidebar")
    post_id = await chat.post("room:1", Post("May it?", buttons=(Button("Allow", "allow"),)))
    ChatBook(cockpit.journal, "fake").keep(KeptPost(approval_id, "room:1", run_id, post_id, "0" * 32))
    await talk(cockpit, chat, tmp_path).open()
    assert [(post.text, post.buttons) for post in chat.shown("room:1")] == [
        (f"Denied · {approval_id} · bob (sidebar)", ())
    ]


async def test_an_approval_that_a_lost_run_left_open_grants_nothing(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    cockpit, chat = cockpit_on(), FakeChat()
    run_id, approval_id = new_run_id(), new_approval_id()
    start(cockpit, run_id)
    Mailbox(cockpit.journal).post(request(approval_id, run_id))
    cockpit.journal.append(
        RunFinished(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), status="lost", error="gone")
    )
    conversations = talk(cockpit, chat, tmp_path)
    await conversations.open()
    thread = await chat.say(ANN, f"/approve {approval_id}")
    await conversations.idle()
    assert "That did nothing" in chat.shown(thread)[0].text
    assert cockpit.approvals()[0].verdict != "allow"
    refused = cockpit.journal.events(kinds=("message.refused",))
    assert [row.event.model_dump()["approval_id"] for row in refused] == [approval_id]


async def test_a_message_is_taken_once_whichever_process_it_comes_to(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    first, second = cockpit_on(), cockpit_on()
    chats = FakeChat(), FakeChat()
    talks = [talk(first, chats[0], tmp_path), talk(second, chats[1], tmp_path)]
    said = Said("message-9", "room:2", ANN, "/help")
    for one in talks:
        await one.open()
    for one in talks:
        await one.hear(said)
        await one.idle()
    assert sorted(len(chat.shown("room:2")) for chat in chats) == [0, 1]


async def test_an_answer_that_the_chat_does_not_take_is_tried_again(cockpit_on: CockpitOn, tmp_path: Path) -> None:
    cockpit, chat = cockpit_on(["Here it is."]), FakeChat()
    project = tmp_path / "project"
    project.mkdir()
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    chat.refuse(2)
    thread = await chat.say(ANN, "go")
    await conversations.idle()
    assert ["Here it is." in post.text for post in chat.shown(thread)] == [True]
    chat.refuse(1)
    await chat.say(ANN, "/help", thread=thread)
    await conversations.idle()
    assert len(chat.shown(thread)) == 2
    assert ChatBook(cockpit.journal, "fake").interrupted(lambda _: False) == []


def request(approval_id: str, run_id: str) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id, run_id, "fake-room-1", ApprovalKind.HOST_COMMAND, "echo", "echo", datetime.now(UTC)
    )
