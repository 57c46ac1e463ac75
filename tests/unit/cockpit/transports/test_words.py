"""What a word in a thread is about: only what its writer has seen there, and only what it names."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms, ending, the_one
from kagura_kernel.cockpit.transports.conversations import (
    EACH_UNTIL,
    MOST_ROWS,
    MOST_ROWS_OF_ONE,
    WINDOW_SECONDS,
    Conversations,
    Counted,
    Refusals,
)
from kagura_kernel.cockpit.transports.transport import Post, Said
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import ChangesCollected, PersonSaid, RunFinished, RunStarted
from kagura_kernel.domain.identity import new_run_id
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.testing.brain import Ask, Hang, Listen, Step
from kagura_kernel.testing.chat import FakeChat, Shown
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from kagura_kernel.views.changes import UNSEEN

ANN, BOB = "ann", "bob"
HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})
LONG = Ask("bash", {"command": f"echo {'x' * 3000}", "host": True, "reason": "to see it"})


@dataclass
class Talk:
    """A chat without a service, and a cockpit behind it."""

    chat: FakeChat
    cockpit: Cockpit
    conversations: Conversations

    async def says(self, thread: str, words: str) -> Shown:
        """The post of a thread in which these words stand, once there is one."""
        await eventually(lambda: any(words in post.text for post in self.chat.shown(thread)))
        return next(post for post in self.chat.shown(thread) if words in post.text)

    async def question(self, thread: str, *, number: int = 1) -> Shown:
        """The only question that waits there, once so many were asked in all."""
        await eventually(lambda: len(self.cockpit.approvals()) == number and len(self.waits()) == 1)
        [waits] = self.waits()
        return await self.says(thread, waits)

    def waits(self) -> list[str]:
        return [one.id for one in self.cockpit.pending()]


class SlowChat(FakeChat):
    """A chat that takes a question for as long as the test likes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.takes = asyncio.Event(), asyncio.Event()

    async def post(self, thread: str, post: Post) -> str:
        """Say something."""
        if any(button.label == "Allow" for button in post.buttons):
            self.asked.set()
            await self.takes.wait()
        return await super().post(thread, post)


Open = Callable[..., Awaitable[Talk]]


@pytest.fixture
async def talk_of(cockpit_on: Callable[..., Cockpit], project: Path) -> AsyncIterator[Open]:
    opened: list[Conversations] = []

    async def make(script: Sequence[Step] = ("Done.",), chat: FakeChat | None = None) -> Talk:
        chat, cockpit = chat or FakeChat(), cockpit_on(script)
        conversations = Conversations(cockpit, chat, ChatTerms(frozenset({ANN, BOB}), project), SystemClock())
        opened.append(conversations)
        await conversations.open()
        return Talk(chat, cockpit, conversations)

    yield make
    for one in opened:
        await one.close()


async def test_a_stop_waits_for_no_question_that_is_being_put_and_a_yes_does(talk_of):
    chat = SlowChat()
    talk = await talk_of([HOST, "Good."], chat)
    thread = await chat.say(ANN, "go")
    await chat.asked.wait()
    await chat.say(ANN, "yes", thread=thread)
    await chat.say(ANN, "stop", thread=thread)
    await talk.says(thread, "is being stopped")
    assert not any("asked only after" in post.text for post in chat.shown(thread))
    chat.takes.set()
    await talk.says(thread, "was stopped by")
    assert talk.cockpit.approvals()[0].verdict == "aborted"


async def test_a_message_whose_place_is_not_known_answers_nothing(talk_of):
    talk = await talk_of([HOST, "Good."])
    thread = await talk.chat.say(ANN, "go")
    await talk.question(thread)
    await talk.conversations.hear(Said("unknown-1", thread, ANN, "yes"))
    await talk.says(thread, "asked only after")
    assert len(talk.waits()) == 1


@pytest.mark.parametrize("word", ["yes", "no", "ok", "/approve", "/deny"])
async def test_a_yes_where_nothing_waits_begins_nothing(talk_of, word):
    talk = await talk_of(["Done."])
    thread = await talk.chat.say(ANN, word)
    await talk.conversations.idle()
    assert [post.text for post in talk.chat.shown(thread)] == ["Nothing waits for an answer here."]
    assert talk.cockpit.runs() == []


async def test_an_approval_is_named_by_no_less_than_six_characters_from_anywhere(talk_of):
    talk = await talk_of([HOST, "Good."])
    thread = await talk.chat.say(ANN, "go")
    await talk.question(thread)
    [waits] = talk.waits()
    for typed in (waits[-1:], waits[-5:], "last"):
        other = await talk.chat.say(BOB, f"/approve {typed}")
        assert "Too short" in (await talk.says(other, "ERR_USAGE")).text
    assert talk.waits() == [waits]
    await talk.chat.say(BOB, f"/approve {waits[-6:]}")
    await talk.says(thread, "Good.")
    assert talk.cockpit.approvals()[0].verdict == "allow"


async def test_what_the_chat_cannot_show_whole_is_denied_there_and_never_allowed(talk_of):
    talk = await talk_of([LONG, "Good."])
    talk.chat.takes_files = False
    thread = await talk.chat.say(ANN, "go")
    await talk.says(thread, "the rest could not be put here")
    [waits] = talk.waits()
    question = await talk.says(thread, waits)
    [(label, deny)] = question.buttons
    assert label == "Deny"
    for number, word in enumerate(("yes", "/approve", f"/approve {waits}"), start=1):
        await talk.chat.say(ANN, word, thread=thread)
        await eventually(lambda number=number: _count(talk.chat, thread, "only a part of it stands here") == number)
    await talk.chat.click(ANN, thread, question.post_id, deny.replace("deny", "allow", 1))
    await eventually(lambda: _count(talk.chat, thread, "only a part of it stands here") == 4)
    assert talk.waits() == [waits]
    await talk.chat.click(ANN, thread, question.post_id, deny)
    await talk.says(thread, "Good.")
    assert talk.cockpit.approvals()[0].verdict == "deny"


async def test_what_is_too_long_for_a_post_is_allowed_where_its_file_is(talk_of):
    talk = await talk_of([LONG, "Good."])
    thread = await talk.chat.say(ANN, "go")
    question = await talk.question(thread)
    assert "read the file first" in question.text
    assert b"x" * 3000 in talk.chat.uploads(thread)[0][1]
    await talk.chat.say(ANN, "yes", thread=thread)
    await talk.says(thread, "Good.")
    assert talk.cockpit.approvals()[0].verdict == "allow"


@pytest.mark.parametrize("takes_files", [True, False])
async def test_a_long_list_of_changes_is_cut_and_comes_whole_as_a_file(talk_of, takes_files):
    talk = await talk_of(["Done."])
    talk.chat.takes_files = takes_files
    paths = [f"some/where/{number:03}.txt" for number in range(300)]
    changed(talk.cockpit, "fake-room-1", paths)
    await talk.chat.say(ANN, "/changes", thread="room:1")
    shown = await talk.says("room:1", "Changes of run-")
    await talk.conversations.idle()
    assert paths[0] in shown.text
    assert paths[-1] not in shown.text
    assert " more" in shown.text
    assert [content.decode().count(".txt") for _, content in talk.chat.uploads("room:1")] == [300] * takes_files
    assert ("`kagura-kernel changes` shows it" in shown.text) is not takes_files


async def test_a_file_that_somebody_would_run_unasked_stands_first_and_says_why(talk_of):
    talk = await talk_of(["Done."])
    changed(talk.cockpit, "fake-room-1", ["a.txt", "z.mk"], runs={"z.mk": "make runs what it says"})
    await talk.chat.say(ANN, "/changes", thread="room:1")
    shown = await talk.says("room:1", "Changes of run-")
    assert shown.text.index("z.mk (proposed): runs by itself: make runs what it says") < shown.text.index("a.txt")


async def test_a_change_in_which_something_is_hidden_says_that_it_is_applied_unseen(talk_of):
    talk = await talk_of(["Done."])
    changed(talk.cockpit, "fake-room-1", ["a.txt"], diff="@@ -0,0 +1 @@\n+[REDACTED:github-pat]\n")
    await talk.chat.say(ANN, "/changes", thread="room:1")
    shown = await talk.says("room:1", "Changes of run-")
    assert f"a.txt (proposed) · {UNSEEN}" in shown.text


CHANGES = "sed -i 's/^line 2$/line two/; s/^line 30$/line thirty/' a.txt; echo theirs > b.txt"


async def test_changes_are_reviewed_by_hunk_conflict_and_undo(talk_of, project):
    (project / "a.txt").write_text(lines := "".join(f"line {number}\n" for number in range(40)))
    (project / "b.txt").write_text("old\n")
    talk = await talk_of([Ask("bash", {"command": CHANGES}), "Done."])
    thread = await talk.chat.say(ANN, "go")
    await talk.says(thread, "2 files changed")

    async def told(text: str, words: str) -> Shown:
        await talk.chat.say(ANN, text, thread=thread)
        await talk.conversations.idle()
        assert words in talk.chat.shown(thread)[-1].text
        return talk.chat.shown(thread)[-1]

    await told("/changes", "2 hunks: /changes a.txt, /apply a.txt --hunk N")
    # Who asks for commits is not given all files instead.
    await told("/apply --commits", "No commits of")
    assert (project / "a.txt").read_text() == lines
    await told("/changes a.txt", "hunk 2\n")
    shown = await told("/apply a.txt --hunk 2", "a.txt, hunk 2: in the project")
    assert (project / "a.txt").read_text() == lines.replace("line 30\n", "line thirty\n")
    await told("/discard a.txt --hunk 1", "a.txt, hunk 1: given up")
    (project / "b.txt").write_text("mine\n")
    conflict = await told("/apply b.txt", "b.txt: left alone")
    assert [label for label, _ in conflict.buttons] == ["Undo", "Keep mine", "Take theirs"]
    await told("/changes b.txt", "+mine")

    async def press(post: Shown, label: str, words: str) -> Shown:
        await talk.chat.click(ANN, thread, post.post_id, dict(post.buttons)[label])
        await talk.conversations.idle()
        assert words in talk.chat.shown(thread)[-1].text
        return talk.chat.shown(thread)[-1]

    # What is saved now was in the project when the button was put there.
    (project / "b.txt").write_text("newer\n")
    await press(conflict, "Take theirs", "b.txt was saved since")
    again = await told("/apply", "b.txt: left alone")
    taken = await press(again, "Take theirs", "b.txt: in the project")
    assert (project / "b.txt").read_text() == "theirs\n"
    undone = await press(taken, "Undo", "b.txt: taken back")
    assert (project / "b.txt").read_text() == "newer\n"
    assert (project / "a.txt").read_text() == lines
    await press(undone, "Keep mine", "b.txt: given up")
    # A button that nobody was given does nothing, whoever presses it.
    forged = dict(shown.buttons)["Undo"].rpartition(":")[0] + ":" + "0" * 32
    await talk.chat.click(ANN, thread, shown.post_id, forged)
    await talk.says(thread, "the button is none of ours")
    await talk.chat.click(BOB, thread, undone.post_id, dict(shown.buttons)["Undo"])
    await eventually(lambda: any("older copy" in post.text for post in talk.chat.shown(thread)))


def changed(
    cockpit: Cockpit, session: str, paths: Sequence[str], runs: Mapping[str, str] | None = None, diff: str = ""
) -> None:
    """A run of a session that is over, and has changed these; some of them run by themselves."""
    facts: dict[str, Any] = {"run_id": new_run_id(), "session_id": session, "at": datetime.now(UTC)}
    rows = tuple(FileChange(path=path, status="added", runs=(runs or {}).get(path, ""), diff=diff) for path in paths)
    cockpit.journal.append(RunStarted(**facts, task="go"))
    cockpit.journal.append(ChangesCollected(**facts, changes=rows))
    cockpit.journal.append(RunFinished(**facts, status="done", text="Done."))


def _count(chat: FakeChat, thread: str, words: str) -> int:
    return sum(words in post.text for post in chat.shown(thread))


STRANGER = "whoever sent it is no operator"


def test_what_somebody_says_hides_no_click_of_theirs():
    refusals = Refusals(FakeClock())
    talk = [refusals.count("eve", STRANGER, "", decides=False) for _ in range(3)]
    assert talk == [Counted(1, 0), Counted(2, 0), None]
    assert refusals.count("eve", STRANGER, "app-1", decides=True) == Counted(1, 1)


def test_clicks_are_told_one_by_one_and_when_there_are_too_many_at_each_doubling():
    refusals = Refusals(FakeClock())
    told = [refusals.count("eve", STRANGER, "app-1", decides=True) for _ in range(2 * EACH_UNTIL)]
    assert [one.times for one in told if one is not None] == [*range(1, EACH_UNTIL + 1), 2 * EACH_UNTIL]
    assert told[-1] == Counted(2 * EACH_UNTIL, EACH_UNTIL - 1)


def test_hundreds_of_strangers_have_so_many_rows_an_hour_and_leave_clicks_their_place():
    refusals = Refusals(FakeClock())
    told = [refusals.count(f"eve-{number}", STRANGER, "", decides=False) for number in range(400)]
    assert len([one for one in told if one is not None]) == MOST_ROWS
    assert refusals.count("eve-399", STRANGER, "app-1", decides=True) == Counted(1, 400 - MOST_ROWS)


def test_one_who_makes_up_what_it_is_about_leaves_others_their_place():
    refusals = Refusals(FakeClock())
    told = [refusals.count("eve", STRANGER, f"app-{number}", decides=True) for number in range(400)]
    assert len([one for one in told if one is not None]) == MOST_ROWS_OF_ONE
    assert refusals.count("mallory", STRANGER, "app-1", decides=True) == Counted(1, 400 - MOST_ROWS_OF_ONE)


async def test_there_is_a_place_again_after_an_hour():
    clock = FakeClock()
    refusals = Refusals(clock)
    for number in range(MOST_ROWS + 1):
        refusals.count(f"eve-{number}", STRANGER, "", decides=False)
    await clock.advance(WINDOW_SECONDS - 1)
    assert refusals.count("mallory", STRANGER, "", decides=False) is None
    await clock.advance(1)
    assert refusals.count("bob", STRANGER, "", decides=False) == Counted(1, 2)


def test_no_more_figures_are_kept_than_there_is_room_for():
    refusals = Refusals(FakeClock())
    for number in range(5000):
        refusals.count(f"eve-{number}", STRANGER, "", decides=False)
    assert len(refusals._times) <= 1000
    assert len(refusals._rows) <= 2 * MOST_ROWS + 2


FIRST, SECOND = "app-0123456789abcd", "app-1123456789abcd"


@pytest.mark.parametrize("word", [FIRST, FIRST.upper(), "app-0123456789abcd"[4:]])
def test_a_whole_id_names_its_own(word):
    assert the_one(word, "app", [FIRST, SECOND]) == FIRST


@pytest.mark.parametrize("word", ["89abcd", "app-89abcd"])
def test_the_end_of_an_id_names_it_where_it_fits_one_alone(word):
    assert the_one(word, "app", [SECOND]) == SECOND
    with pytest.raises(UsageError, match="fits 2"):
        the_one(word, "app", [FIRST, SECOND])


@pytest.mark.parametrize("word", ["d", "9abcd", "app-9abcd", "app-", "last", ""])
def test_what_is_shorter_names_nothing(word):
    with pytest.raises(UsageError, match="Too short"):
        the_one(word, "app", [FIRST])


def test_what_fits_none_is_none():
    assert the_one("run-89abcd", "app", [FIRST]) == ""
    assert ending("run-89ABCD", "run") == "89abcd"
    # No database can be asked for half a character.
    assert ending("run-89ABC\ud800", "run") == "89abc\ufffd"


async def test_a_reply_while_a_run_goes_on_is_said_to_it(talk_of):
    talk = await talk_of([Listen(), "As you say."])
    thread = await talk.chat.say(ANN, "go")
    await eventually(lambda: bool(talk.cockpit.runs()))
    run_id = talk.cockpit.runs()[0].run_id
    await talk.chat.say(BOB, "the second sheet", thread=thread)
    await talk.says(thread, f"{run_id} hears it at its next turn")
    await talk.says(thread, "As you say.")
    (said,) = (row.event for row in talk.cockpit.journal.events(kinds=("person.said",)))
    assert isinstance(said, PersonSaid)
    assert (said.run_id, said.text) == (run_id, "the second sheet")
    assert (said.by, said.via) == (f"{talk.chat.name}:{BOB}", talk.chat.name)


async def test_where_the_brain_takes_nothing_the_thread_can_stop_it_and_go_on_with_the_reply(talk_of):
    talk = await talk_of([Hang()])
    thread = await talk.chat.say(ANN, "go")
    await eventually(lambda: bool(talk.cockpit.runs()))
    first = talk.cockpit.runs()[0]
    await talk.chat.say(ANN, "the second sheet", thread=thread)
    await talk.says(thread, "`/instead` and a task stops it")
    await talk.chat.say(ANN, "/instead\nthe second sheet", thread=thread)
    await eventually(lambda: len(talk.cockpit.runs()) == 2)
    after, before = talk.cockpit.runs()
    assert (before.run_id, before.status) == (first.run_id, "killed")
    assert (after.session_id, after.task) == (first.session_id, "the second sheet")
    talk.cockpit.kill(after.run_id, by=ANN)


async def test_instead_needs_a_run_and_a_task(talk_of):
    talk = await talk_of()
    thread = await talk.chat.say(ANN, "/instead")
    await talk.says(thread, "needs the task")
    await talk.chat.say(ANN, "/instead begin", thread=thread)
    await talk.says(thread, "Nothing goes on in this thread")
