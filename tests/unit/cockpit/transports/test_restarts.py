"""What a process that is gone has left in a chat is told, once, by the next one."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports import conversations as conversations_module, followers as followers_module
from kagura_kernel.cockpit.transports.actions import LATER, ChatTerms
from kagura_kernel.cockpit.transports.conversations import INTERRUPTED, OLDER_COPY, Conversations
from kagura_kernel.cockpit.transports.transport import Button, Post, Said
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.events import RunFinished, RunStarted
from kagura_kernel.domain.events.memory import RunCheckpointed
from kagura_kernel.domain.identity import new_approval_id, new_run_id
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.journal.chats import KEPT_DAYS, ChatBook, KeptPost, TakenMessage
from kagura_kernel.journal.checkpoints import digest_of, store
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask
from kagura_kernel.testing.chat import FakeChat
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually

ANN = "ann"
HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})


def gone() -> str:
    """The name of a process of this machine that cannot be running."""
    host, _, rest = process_owner().partition(":")
    _, _, rest = rest.partition(":")
    began, _, more = rest.partition(".")
    return f"{host}:1:{int(began) + 1 if began.isdigit() else began}.{more}"


def talk(cockpit: Cockpit, chat: FakeChat, project: Path) -> Conversations:
    return Conversations(cockpit, chat, ChatTerms(frozenset({ANN}), project), SystemClock())


async def restart(cockpit: Cockpit, chat: FakeChat, project: Path) -> None:
    """One more life of the chat's server: everything that was left is seen to when this returns."""
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    await conversations.idle()
    await conversations.close()


def left(book: ChatBook, run_id: str = "") -> None:
    assert book.take(TakenMessage("message-7", "room:1", "fake-room-1", ANN, gone(), run_id))


def start(cockpit: Cockpit, run_id: str) -> None:
    cockpit.journal.append(
        RunStarted(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), task="go", owner=gone())
    )


async def test_a_message_that_began_nothing_is_told_about_and_not_done_again(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    left(ChatBook(cockpit.journal, "fake"))
    for _ in range(2):
        await restart(cockpit, chat, tmp_path)
    assert [post.text for post in chat.shown("room:1")] == [INTERRUPTED]
    assert cockpit.runs() == []


async def test_an_answer_that_was_not_out_takes_the_place_of_the_progress(cockpit_on, tmp_path):
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
        await restart(cockpit, chat, tmp_path)
    shown = chat.shown("room:1")
    assert [(post.post_id, post.edits, post.buttons) for post in shown] == [(post_id, 1, ())]
    assert "It was 42." in shown[0].text


async def test_a_run_that_was_lost_with_its_process_is_said_to_be(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    run_id = new_run_id()
    left(ChatBook(cockpit.journal, "fake"), run_id)
    start(cockpit, run_id)
    cockpit.journal.append(
        RunFinished(run_id=run_id, session_id="fake-room-1", at=datetime.now(UTC), status="lost", error="gone")
    )
    await restart(cockpit, chat, tmp_path)
    assert [post.text for post in chat.shown("room:1")] == [
        f"Lost: the process that ran it is gone · {run_id}. Say it again to start over."
    ]


async def test_what_a_living_process_is_at_is_left_to_it(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    taken = TakenMessage("message-7", "room:1", "fake-room-1", ANN, process_owner())
    assert ChatBook(cockpit.journal, "fake").take(taken)
    await restart(cockpit, chat, tmp_path)
    assert chat.shown("room:1") == []


async def test_a_question_that_was_answered_meanwhile_loses_its_buttons(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    run_id, approval_id = new_run_id(), new_approval_id()
    start(cockpit, run_id)
    mailbox = Mailbox(cockpit.journal)
    mailbox.post(request(approval_id, run_id))
    mailbox.decide(approval_id, Verdict.DENY, by="bob", via="sidebar")
    post_id = await chat.post("room:1", Post("May it?", buttons=(Button("Allow", "allow"),)))
    ChatBook(cockpit.journal, "fake").keep(KeptPost(approval_id, "room:1", run_id, post_id, "0" * 32))
    await restart(cockpit, chat, tmp_path)
    assert [(post.text, post.buttons) for post in chat.shown("room:1")] == [
        (f"Denied · {approval_id} · bob (sidebar)\n> echo", ())
    ]


async def test_an_approval_that_a_lost_run_left_open_grants_nothing(cockpit_on, tmp_path):
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


async def test_a_message_is_taken_once_whichever_process_it_comes_to(cockpit_on, tmp_path):
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


async def test_an_answer_that_the_chat_does_not_take_is_tried_again(cockpit_on, tmp_path):
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


async def test_a_lost_run_is_gone_on_with_by_its_button_once_and_by_operators_alone(cockpit_on, project):
    cockpit, chat = cockpit_on(["It was 42."]), FakeChat()
    run_id = new_run_id()
    left(ChatBook(cockpit.journal, "fake"), run_id)
    stood(cockpit, run_id, project)
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    await conversations.idle()
    post = chat.shown("room:1")[0]
    [(label, action)] = post.buttons
    assert label == "Go on"
    await chat.click("eve", "room:1", post.post_id, action)
    assert [row.run_id for row in cockpit.runs()] == [run_id]
    await chat.click(ANN, "room:1", post.post_id, action)
    await conversations.idle()
    assert "It was 42." in chat.shown("room:1")[1].text
    successor = cockpit.runs()[0]
    assert (successor.resumes, successor.session_id) == (run_id, "fake-room-1")
    assert [(one.text, one.buttons) for one in chat.shown("room:1")[:1]] == [
        (f"Lost: the process that ran it is gone · {run_id} · {successor.run_id} goes on from it", ())
    ]
    await chat.click(ANN, "room:1", post.post_id, action)
    await conversations.idle()
    assert "ERR_RESUME_REFUSED" in chat.shown("room:1")[-1].text
    await conversations.close()
    assert len(cockpit.runs()) == 2


async def test_the_word_alone_goes_on_with_a_lost_run(cockpit_on, project):
    cockpit, chat = cockpit_on(["It was 42."]), FakeChat()
    run_id = new_run_id()
    stood(cockpit, run_id, project)
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    await chat.say(ANN, "resume", thread="room:1")
    await conversations.idle()
    assert (cockpit.runs()[0].resumes, cockpit.runs()[0].status) == (run_id, "done")
    conversations.drain()
    await chat.say(ANN, "/resume", thread="room:1")
    await conversations.idle()
    assert LATER in chat.shown("room:1")[-1].text
    await conversations.close()


async def test_an_answer_that_is_out_is_not_followed_by_a_word_about_a_restart(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    book = ChatBook(cockpit.journal, "fake")
    left(book)
    book.keep(KeptPost("said:message-7", "room:1", "", await chat.post("room:1", Post("Denied.")), "0" * 32))
    await restart(cockpit, chat, tmp_path)
    assert [post.text for post in chat.shown("room:1")] == ["Denied."]
    assert book.interrupted(lambda _: False) == []


async def test_an_answer_whose_name_was_not_kept_any_more_is_found_by_its_mark(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    book = ChatBook(cockpit.journal, "fake")
    left(book)
    await chat.post("room:1", Post("Denied.", mark="0" * 32))
    book.keep(KeptPost("said:message-7", "room:1", "", "", "0" * 32))
    await restart(cockpit, chat, tmp_path)
    assert [post.text for post in chat.shown("room:1")] == ["Denied."]


async def test_a_click_that_was_interrupted_is_told_by_its_post_alone(cockpit_on, tmp_path):
    cockpit, chat = cockpit_on(), FakeChat()
    book = ChatBook(cockpit.journal, "fake")
    assert book.take(TakenMessage("click:7", "room:1", "fake-room-1", ANN, gone()))
    await restart(cockpit, chat, tmp_path)
    assert chat.shown("room:1") == []
    assert book.interrupted(lambda _: False) == []


async def test_a_post_that_is_out_though_nobody_heard_so_stands_there_once(cockpit_on, project):
    cockpit, chat = cockpit_on([HOST, "Good."]), FakeChat()
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    chat.lose(2)
    thread = await chat.say(ANN, "go")
    await eventually(lambda: [post for post in chat.shown(thread) if dict(post.buttons).get("Allow")])
    question = next(post for post in chat.shown(thread) if "Allow" in dict(post.buttons))
    await chat.click(ANN, thread, question.post_id, dict(question.buttons)["Allow"])
    await conversations.idle()
    assert [(post.text.partition(" ")[0], post.buttons) for post in chat.shown(thread)] == [
        ("Done", ()),
        ("Allowed", ()),
    ]
    await conversations.close()


@pytest.mark.parametrize("is_out", [False, True])
async def test_a_question_of_which_nobody_knows_whether_it_is_out_stands_in_its_thread_once(
    cockpit_on, project, is_out
):
    cockpit, elsewhere, chat = cockpit_on(), cockpit_on([HOST, "Good."]), FakeChat()
    book = ChatBook(cockpit.journal, "fake")
    assert book.take(TakenMessage("message-7", "room:1", "fake-room-1", ANN, process_owner()))
    elsewhere.launch(RunRequest(task="go", session="fake-room-1", project=project))
    await eventually(elsewhere.pending)
    asked = elsewhere.pending()[0]
    token = "0" * 32
    book.keep(KeptPost(asked.id, "room:1", asked.run_id, "", token))
    if is_out:
        await chat.post("room:1", Post("May it?", buttons=(Button("Allow", f"allow:{asked.id}:{token}"),), mark=token))
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    await eventually(lambda: len(chat.shown("room:1")) == 2)
    await eventually(lambda: (kept := book.post_about(asked.id)) and kept.post_id)
    question = next(post for post in chat.shown("room:1") if "Allow" in dict(post.buttons))
    await chat.click(ANN, "room:1", question.post_id, dict(question.buttons)["Allow"])
    await eventually(lambda: any("Good." in post.text for post in chat.shown("room:1")))
    await conversations.idle()
    await conversations.close()
    assert len(chat.shown("room:1")) == 2


async def test_what_another_server_that_is_there_follows_is_left_to_it(cockpit_on, project, monkeypatch):
    cockpit, elsewhere, chat = cockpit_on(), cockpit_on([HOST, "Good."]), FakeChat()
    for module in (conversations_module, followers_module):
        monkeypatch.setattr(module, "owner_alive", lambda _: True)
    book = ChatBook(cockpit.journal, "fake")
    left(book, run_id := new_run_id())
    elsewhere.launch(RunRequest(task="go", session="fake-room-1", project=project, run_id=run_id))
    await eventually(elsewhere.pending)
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    await chat.say(ANN, "/status", thread="room:9")
    # What was left is seen to, and all that goes on looked at.
    await conversations.idle()
    assert run_id in chat.shown("room:9")[0].text
    assert conversations.going_on() == []
    await conversations.close()
    assert chat.shown("room:1") == []


async def test_an_older_copy_of_a_question_says_that_it_is_one_and_loses_its_buttons(cockpit_on, project):
    cockpit, chat = cockpit_on([HOST, "Good."]), FakeChat()
    conversations = talk(cockpit, chat, project)
    await conversations.open()
    thread = await chat.say(ANN, "go")
    await eventually(lambda: [post for post in chat.shown(thread) if dict(post.buttons).get("Allow")])
    allow = next(dict(post.buttons)["Allow"] for post in chat.shown(thread) if "Allow" in dict(post.buttons))
    copy = await chat.post(thread, Post("May it?", buttons=(Button("Allow", allow),)))
    await chat.click(ANN, thread, copy, allow)
    await eventually(lambda: "older copy" in chat.shown(thread)[-1].text)
    assert len(cockpit.pending()) == 1
    assert [(post.text, post.buttons) for post in chat.shown(thread) if post.post_id == copy] == [(OLDER_COPY, ())]
    await chat.say(ANN, "stop", thread=thread)
    await conversations.idle()
    await conversations.close()


async def test_what_is_settled_for_long_is_forgotten_and_nothing_else(tmp_path):
    clock = FakeClock()
    old = Journal.open(tmp_path / "home", clock=clock)
    book = ChatBook(old, "fake")
    for number in range(4):
        taken = TakenMessage(f"message-{number}", f"room:{number}", f"fake-room-{number}", ANN, process_owner())
        assert book.take(taken)
        book.keep(KeptPost(f"said:{number}", f"room:{number}", "", "post-1", "0" * 32))
    book.done("message-0")
    book.close("said:0")
    await clock.advance(2 * 86400)
    book.done("message-1")
    book.close("said:1")
    await clock.advance((KEPT_DAYS - 1) * 86400)
    book.prune()
    assert [book.post_about(f"said:{number}") is None for number in range(4)] == [True, False, False, False]
    again = [TakenMessage(f"message-{number}", "room:9", "fake-room-9", ANN, process_owner()) for number in range(4)]
    assert [book.take(message) for message in again] == [True, False, False, False]
    old.close()


def stood(cockpit: Cockpit, run_id: str, project: Path) -> None:
    """A run of a process that is gone, with all that is needed to go on from it."""
    at = datetime.now(UTC)
    where: dict[str, Any] = {"run_id": run_id, "session_id": "fake-room-1", "at": at}
    cockpit.journal.append(RunStarted(**where, task="go", brain="fake", owner=gone()))
    checkpoint = Checkpoint(run_id, "fake-room-1", 1, at, "go", brain="fake", options={"project": str(project)})
    told = RunCheckpointed(**where, step=1, digest=digest_of(checkpoint))
    store(cockpit.journal, checkpoint, told)
    cockpit.journal.append(RunFinished(**where, status="lost", error="gone", brain="fake"))


def request(approval_id: str, run_id: str) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id, run_id, "fake-room-1", ApprovalKind.HOST_COMMAND, "echo", "echo", datetime.now(UTC)
    )


async def test_an_end_that_the_journal_does_not_take_at_first_is_told_once_it_does(cockpit_on, tmp_path, monkeypatch):
    monkeypatch.setattr(followers_module, "FIRST_PAUSE", 0.01)
    keep, away = ChatBook.keep, [True]

    def kept(book: ChatBook, post: KeptPost) -> None:
        if away[0]:
            raise JournalUnwritable("the journal", "the server is away")
        keep(book, post)

    monkeypatch.setattr(ChatBook, "keep", kept)
    cockpit, chat = cockpit_on(["It was 42."]), FakeChat()
    conversations = talk(cockpit, chat, tmp_path / "project")
    (tmp_path / "project").mkdir()
    await conversations.open()
    await chat.say(ANN, "what was it?")
    await eventually(lambda: [run.status for run in cockpit.runs()] == ["done"])
    assert [post.text for post in chat.shown("room:1") if "42" in post.text] == []
    away[0] = False
    await eventually(lambda: any("It was 42." in post.text for post in chat.shown("room:1")))
    await conversations.close()
