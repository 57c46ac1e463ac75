"""What every transport promises, as a suite: subclass `TransportConformance`, give it the fixture `chat`, run pytest.

::

    class TestMyChat(TransportConformance):
        @pytest.fixture
        async def chat(self):
            server = MyServer()
            yield MyChat(server.url), server

Behind the transport stands a real cockpit, with a real journal, whose brain and box are fakes.
"""

# ruff: noqa: S101, D102, PLR2004 - pytest runs it: asserts are its words, a name is a sentence, numbers are the point
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.transports.actions import ChatTerms
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.cockpit.transports.transport import Clicked, Heard, Post, Said, Transport, TransportError
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.events import MessageRefused
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Step
from kagura_kernel.testing.chat import ChatServer, Shown
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually

ANN, EVE = "10000000001", "10000000002"
HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})
HOSTILE = (
    "<!everyone> <!channel> <@U0ANN> @everyone @here <@1> <@&2>\n"
    "[Allowed](https://evil.example/x) <https://evil.example/y|press here> *Allow* `x`\n"
    "Allowed · app-00000000000000\u202e\n> quoted"
)

Chat = tuple[Transport, ChatServer]

_HASTE = 5


class _HastyClock(SystemClock):
    """Waits a fifth: the chat is looked after so much more often, and a question stands so much earlier."""

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await super().sleep(seconds / _HASTE)


@dataclass
class Talk:
    """A chat with a cockpit behind it."""

    cockpit: Cockpit
    conversations: Conversations
    transport: Transport
    server: ChatServer
    project: Path
    make: Callable[[], Conversations]
    elsewhere: Callable[[Sequence[Step]], Cockpit]

    async def close(self) -> None:
        """Serve the chat no longer."""
        await self.conversations.close()

    async def restart(self) -> None:
        """Close the chat and serve it anew; what went on goes on meanwhile."""
        await self.conversations.close()
        self.conversations = self.make()
        await self.conversations.open()

    def refused(self) -> list[MessageRefused]:
        """What the journal has of refusals."""
        rows = self.cockpit.journal.events(kinds=("message.refused",))
        return [row.event for row in rows if isinstance(row.event, MessageRefused)]

    async def question(self, thread: str) -> Shown:
        """The question that stands in a thread with its buttons."""
        await eventually(lambda: _question(self.server, thread) is not None)
        found = _question(self.server, thread)
        assert found is not None
        return found

    async def says(self, thread: str, words: str) -> Shown:
        """The post of a thread in which these words stand, once there is one."""
        await eventually(lambda: any(words in post.text for post in self.server.shown(thread)))
        return next(post for post in self.server.shown(thread) if words in post.text)

    async def done(self, thread: str, words: str) -> Shown:
        """The post that tells of the end of a run with these words; while it is under way they may stand there too."""

        def ended(post: Shown) -> bool:
            return words in post.text and post.text.startswith("Done · run-")

        await eventually(lambda: any(map(ended, self.server.shown(thread))))
        return next(filter(ended, self.server.shown(thread)))


OpenTalk = Callable[..., Awaitable[Talk]]


class TransportConformance:
    """Subclass it; `chat` gives a transport, not open yet, and the far side."""

    @pytest.fixture
    def chat(self) -> Chat:
        """A transport, not open yet, and its far side; the subclass gives them."""
        raise NotImplementedError("give this suite the fixture `chat`")

    @pytest.fixture
    async def heard(self, chat: Chat) -> AsyncIterator[list[Heard]]:
        """What the transport hands over, while it is open."""
        told: list[Heard] = []

        async def hear(one: Heard) -> None:
            told.append(one)

        await chat[0].open(hear)
        yield told
        await chat[0].close()

    @pytest.fixture
    async def open_talk(self, chat: Chat, tmp_path: Path) -> AsyncIterator[OpenTalk]:
        """Opens the chat with a cockpit behind it."""
        project = tmp_path / "project"
        project.mkdir()
        async with AsyncExitStack() as stack:

            async def make(script: Sequence[Step] = ("Done.",), operators: Sequence[str] = (ANN,)) -> Talk:
                def join(script: Sequence[Step]) -> Cockpit:
                    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[FakeBrain(script)])
                    stack.push_async_callback(asyncio.to_thread, cockpit.close)
                    return cockpit

                cockpit = join(script)

                def converse() -> Conversations:
                    terms = ChatTerms(frozenset(operators), project)
                    return Conversations(cockpit, chat[0], terms, _HastyClock())

                talk = Talk(cockpit, converse(), chat[0], chat[1], project, converse, join)
                stack.push_async_callback(talk.close)
                await talk.conversations.open()
                return talk

            yield make

    # ------------------------------------------------------------- the wire

    async def test_what_somebody_says_comes_with_who_and_where(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "count the rows")
        await chat[1].say(EVE, "and the columns", thread=thread)
        await eventually(lambda: len(heard) == 2)
        first, second = heard
        assert isinstance(first, Said)
        assert isinstance(second, Said)
        assert (first.thread, first.operator, first.text) == (thread, ANN, "count the rows")
        assert (second.thread, second.operator, second.text) == (thread, EVE, "and the columns")
        assert first.message_id != second.message_id

    async def test_a_second_delivery_has_the_same_message_id(self, chat: Chat, heard: list[Heard]) -> None:
        await chat[1].say(ANN, "once")
        await chat[1].replay()
        await eventually(lambda: len(heard) == 2)
        assert heard[0].message_id == heard[1].message_id

    async def test_a_file_that_was_sent_along_can_be_read_up_to_a_limit(self, chat: Chat, heard: list[Heard]) -> None:
        await chat[1].say(ANN, "look at it", files=[("data.csv", b"a,b\n1,2\n")])
        await eventually(lambda: heard)
        said = heard[0]
        assert isinstance(said, Said)
        assert [(file.name, file.size) for file in said.files] == [("data.csv", 8)]
        assert await said.files[0].read(100) == b"a,b\n1,2\n"
        assert len(await said.files[0].read(3)) <= 3

    async def test_a_post_can_be_edited_and_stays_one_post(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        post_id = await chat[0].post(thread, Post("Works", "step one"))
        await chat[0].edit(thread, post_id, Post("Works", "step two"))
        shown = chat[1].shown(thread)
        assert [(post.post_id, post.edits) for post in shown] == [(post_id, 1)]
        assert "step two" in shown[0].text
        assert "step one" not in shown[0].text

    async def test_posts_and_messages_have_their_order(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "before it")
        await eventually(lambda: heard)
        post_id = await chat[0].post(thread, Post("May it?"))
        before = chat[0].order(post_id)
        await chat[0].edit(thread, post_id, Post("May it still?"))
        await chat[1].say(ANN, "behind it", thread=thread)
        await eventually(lambda: len(heard) == 2)
        orders = [said.order for said in heard if isinstance(said, Said)]
        assert 0 < orders[0] < before <= orders[1]
        assert chat[0].order(post_id) == before

    async def test_words_of_others_notify_nobody_and_hide_no_address(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        post_id = await chat[0].post(thread, Post("Works", HOSTILE))
        await chat[0].edit(thread, post_id, Post("Done", HOSTILE))
        shown = chat[1].shown(thread)[0]
        assert not shown.notifies
        assert shown.links == ()
        assert shown.buttons == ()

    async def test_words_as_long_as_the_limit_fit(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        for words in ("*" * chat[0].limit, "<&>" * (chat[0].limit // 3), "long words " * (chat[0].limit // 11)):
            await chat[0].post(thread, Post("x" * 250, words))
        assert len(chat[1].shown(thread)) == 3

    async def test_a_file_of_ours_comes_into_the_thread_whole(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        await chat[0].upload(thread, "answer.md", b"x" * 50_000)
        assert chat[1].uploads(thread) == [("answer.md", b"x" * 50_000)]

    async def test_a_chat_that_takes_nothing_is_an_error_of_ours(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        chat[1].refuse(1)
        with pytest.raises(TransportError) as caught:
            await chat[0].post(thread, Post("Works"))
        assert caught.value.code == "ERR_TRANSPORT"

    async def test_a_click_comes_with_who_pressed_what(self, chat: Chat, heard: list[Heard]) -> None:
        thread = await chat[1].say(ANN, "go")
        await eventually(lambda: heard)
        post_id = await chat[0].post(thread, Post("May it?"))
        await chat[1].click(EVE, thread, post_id, "allow:anything:at all")
        await eventually(lambda: len(heard) == 2)
        clicked = heard[1]
        assert isinstance(clicked, Clicked)
        assert (clicked.thread, clicked.operator, clicked.post_id) == (thread, EVE, post_id)
        assert clicked.action == "allow:anything:at all"

    # ------------------------------------------------------------ the whole way

    async def test_a_message_begins_a_run_whose_answer_takes_the_place_of_its_progress(
        self, open_talk: OpenTalk
    ) -> None:
        talk = await open_talk(["I look.", Ask("bash", {"command": "true"}), "It holds two columns."])
        thread = await talk.server.say(ANN, "count the columns")
        await talk.says(thread, "It holds two columns.")
        await talk.conversations.idle()
        # While it goes on the post may hold the same words already.
        [done] = talk.server.shown(thread)
        assert done.text.startswith("Done · run-")
        row = talk.cockpit.runs()[0]
        assert (row.status, row.session_id) == ("done", talk.conversations.session_of(thread))

    async def test_a_second_message_of_a_thread_goes_on_in_its_session(self, open_talk: OpenTalk) -> None:
        talk = await open_talk(["Yes."])
        thread = await talk.server.say(ANN, "first")
        await talk.says(thread, "Yes.")
        await talk.conversations.idle()
        await talk.server.say(ANN, "second", thread=thread)
        other = await talk.server.say(ANN, "third")
        await eventually(lambda: len(talk.cockpit.runs()) == 3)
        await talk.conversations.idle()
        sessions = {row.task: row.session_id for row in talk.cockpit.runs()}
        assert sessions["first"] == sessions["second"] != sessions["third"]
        assert thread != other

    async def test_a_message_that_is_delivered_twice_is_done_once(self, open_talk: OpenTalk) -> None:
        talk = await open_talk()
        thread = await talk.server.say(ANN, "only once")
        await talk.server.replay()
        await talk.says(thread, "Done.")
        await talk.conversations.idle()
        assert [row.task for row in talk.cockpit.runs()] == ["only once"]
        assert len(talk.server.shown(thread)) == 1
        assert talk.refused() == []

    async def test_a_button_allows_what_was_asked_and_then_is_gone(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, lambda results: results[-1].text])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        assert "echo from the host" in question.text
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Allow"))
        await talk.says(thread, "from the host\n")
        await talk.conversations.idle()
        row = talk.cockpit.approvals()[0]
        name = talk.conversations.session_of(thread).partition("-")[0]
        assert (row.verdict, row.by, row.via) == ("allow", f"{name}:{ANN}", name)
        assert all(post.buttons == () for post in talk.server.shown(thread))
        assert (await talk.says(thread, "Allowed · ")).post_id == question.post_id

    async def test_a_button_denies_what_was_asked(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, lambda results: results[-1].text])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Deny"))
        await talk.says(thread, "ERR_APPROVAL_DENIED")
        assert talk.cockpit.approvals()[0].verdict == "deny"

    async def test_a_word_answers_the_only_question(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, lambda results: results[-1].text])
        thread = await talk.server.say(ANN, "go")
        await talk.question(thread)
        await talk.server.say(ANN, "yes", thread=thread)
        await talk.conversations.idle()
        assert talk.cockpit.approvals()[0].verdict == "allow"

    async def test_a_text_that_may_be_an_answer_is_asked_back_and_a_button_says_what_it_is(
        self, open_talk: OpenTalk
    ) -> None:
        asks = Ask("ask_user", {"question": "Which side?", "options": ["left", "right"]})
        talk = await open_talk([asks, lambda results: results[-1].text])
        thread = await talk.server.say(ANN, "go")
        await talk.says(thread, " asks · question · ")
        await talk.server.say(ANN, "by the window", thread=thread)
        back = await talk.says(thread, "What is that?")
        assert len(talk.cockpit.pending()) == 1
        await talk.server.click(ANN, thread, back.post_id, _action(back, "Answer"))
        await talk.done(thread, "by the window")
        assert [row.answer for row in talk.cockpit.approvals()] == ["by the window"]
        assert (await talk.says(thread, "Chosen: Answer")).buttons == ()

    async def test_a_word_that_was_written_before_a_question_does_not_answer_it(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "yes")
        await talk.says(thread, "Nothing waits")
        await talk.server.say(ANN, "go", thread=thread)
        question = await talk.question(thread)
        late = Said("late", thread, ANN, "yes", order=talk.transport.order(question.post_id) - 1)
        await talk.conversations.hear(late)
        await talk.says(thread, "asked only after")
        assert len(talk.cockpit.pending()) == 1
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Deny"))
        await talk.says(thread, "Good.")

    async def test_an_answer_from_elsewhere_takes_the_buttons_off(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        await talk.question(thread)
        talk.cockpit.decide(talk.cockpit.pending()[0].id, allow=True, by="bob", via="sidebar")
        await talk.says(thread, "bob (sidebar)")
        await talk.conversations.idle()
        assert all(post.buttons == () for post in talk.server.shown(thread))

    async def test_status_and_kill_are_answered_while_a_run_goes_on(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([Hang()])
        thread = await talk.server.say(ANN, "go")
        await talk.says(thread, "Works")
        await talk.server.say(ANN, "/status", thread=thread)
        await talk.says(thread, "running")
        await talk.server.say(ANN, "/kill", thread=thread)
        await talk.says(thread, "was stopped by")
        await talk.conversations.idle()
        assert talk.cockpit.runs()[0].status == "killed"

    async def test_the_stop_button_ends_the_run(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([Hang()])
        thread = await talk.server.say(ANN, "go")
        working = await talk.says(thread, "Works")
        await talk.server.click(ANN, thread, working.post_id, _action(working, "Stop"))
        await talk.says(thread, "was stopped by")

    async def test_a_long_answer_is_cut_and_comes_whole_as_a_file(self, open_talk: OpenTalk) -> None:
        answer = "\n".join(f"line {number} of a long answer" for number in range(1000))
        talk = await open_talk([answer])
        thread = await talk.server.say(ANN, "tell me all")
        shown = await talk.says(thread, "the whole answer is in the file")
        await talk.conversations.idle()
        assert "line 999" not in shown.text
        assert [content for _, content in talk.server.uploads(thread)] == [answer.encode()]

    async def test_an_unknown_command_says_what_was_meant(self, open_talk: OpenTalk) -> None:
        talk = await open_talk()
        thread = await talk.server.say(ANN, "/stauts")
        assert "status" in (await talk.says(thread, "Did you mean")).text

    # ------------------------------------------------------- stopping and going on

    async def test_a_stop_right_behind_a_task_stops_that_run_and_no_other(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([Hang()])
        other = await talk.server.say(ANN, "stay")
        await talk.says(other, "Works")
        thread = await talk.server.say(ANN, "go")
        await talk.server.say(ANN, "/kill", thread=thread)
        await eventually(lambda: any(_is_stopped(post) for post in talk.server.shown(thread)))
        status = {row.task: row.status for row in talk.cockpit.runs()}
        assert status["stay"] == "running"
        assert status.get("go", "killed") == "killed"
        await talk.server.say(ANN, "stop", thread=other)
        await talk.says(other, "was stopped by")
        await talk.conversations.idle()

    async def test_a_server_that_is_being_stopped_begins_nothing_and_hears_the_rest(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        assert talk.conversations.going_on() == [talk.cockpit.runs()[0].run_id]
        talk.conversations.drain()
        other = await talk.server.say(ANN, "and this")
        assert "Say it again" in (await talk.says(other, "is being stopped")).text
        await talk.server.say(ANN, "/status", thread=thread)
        await talk.says(thread, "awaiting approval")
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Allow"))
        await talk.says(thread, "Good.")
        await talk.conversations.idle()
        assert [row.task for row in talk.cockpit.runs()] == ["go"]
        assert talk.conversations.going_on() == []

    async def test_a_run_that_begins_elsewhere_in_a_session_of_ours_is_told_in_its_thread(
        self, open_talk: OpenTalk
    ) -> None:
        talk = await open_talk(["First."])
        thread = await talk.server.say(ANN, "go")
        await talk.says(thread, "First.")
        await talk.conversations.idle()
        elsewhere = talk.elsewhere([HOST, "Second."])
        elsewhere.launch(RunRequest(task="go on", session=talk.conversations.session_of(thread), project=talk.project))
        question = await talk.question(thread)
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Allow"))
        await talk.done(thread, "Second.")
        foreign = RunRequest(task="another's", session="somebody-else", project=talk.project)
        await talk.elsewhere(["Third."]).launch(foreign)
        await talk.conversations.idle()
        told = [post.text for post in talk.server.shown(thread)]
        assert [sum(words in text for text in told) for words in ("Second.", "Third.")] == [1, 0]

    async def test_what_goes_on_while_the_chat_is_served_anew_is_followed_again(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        before = await talk.question(thread)
        await talk.restart()
        assert talk.server.shown(thread)[-1].post_id == before.post_id
        await talk.server.click(ANN, thread, before.post_id, _action(before, "Allow"))
        await talk.says(thread, "Good.")
        await talk.conversations.idle()
        shown = talk.server.shown(thread)
        assert len(shown) == 2
        assert all(post.buttons == () for post in shown)

    async def test_a_question_that_was_put_while_nobody_served_is_put_in_its_thread(self, open_talk: OpenTalk) -> None:
        talk = await open_talk(["First."])
        thread = await talk.server.say(ANN, "go")
        await talk.says(thread, "First.")
        await talk.conversations.idle()
        await talk.conversations.close()
        elsewhere = talk.elsewhere([HOST, "Second."])
        elsewhere.launch(RunRequest(task="go on", session=talk.conversations.session_of(thread), project=talk.project))
        await eventually(talk.cockpit.pending)
        await talk.restart()
        question = await talk.question(thread)
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Deny"))
        await talk.says(thread, "Second.")
        assert talk.cockpit.approvals()[0].verdict == "deny"

    # ---------------------------------------------------------------- refusals

    async def test_nobody_is_an_operator_who_is_not_named(self, open_talk: OpenTalk) -> None:
        talk = await open_talk(operators=())
        thread = await talk.server.say(ANN, "go")
        await eventually(talk.refused)
        await talk.conversations.idle()
        assert talk.cockpit.runs() == []
        assert talk.server.shown(thread) == []
        assert (talk.refused()[0].operator, talk.refused()[0].why) == (ANN, "whoever sent it is no operator")

    async def test_another_person_s_click_does_nothing_and_is_recorded(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        await talk.server.click(EVE, thread, question.post_id, _action(question, "Allow"))
        await eventually(talk.refused)
        refused = talk.refused()[0]
        assert [one.id for one in talk.cockpit.pending()] == [refused.approval_id]
        assert (refused.operator, refused.why) == (EVE, "whoever sent it is no operator")

    async def test_a_replayed_click_is_refused_and_recorded(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Allow"))
        await talk.says(thread, "Allowed · ")
        await talk.server.replay()
        await eventually(talk.refused)
        assert talk.refused()[0].why == "it is a replay of an earlier click"
        await eventually(lambda: len(talk.cockpit.pending()) == 1)

    async def test_a_made_up_action_is_refused_and_recorded(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        pending = talk.cockpit.pending()[0].id
        made_up = ("allow", f"allow:{pending}", f"allow:{pending}:{'0' * 32}", f"kill:{pending}:{'0' * 32}", "x" * 200)
        for action in made_up:
            await talk.server.click(ANN, thread, question.post_id, action)
        await eventually(
            lambda: sum("That did nothing" in one.text for one in talk.server.shown(thread)) == len(made_up)
        )
        assert {refused.why for refused in talk.refused()} == {"the button is none of ours"}
        assert [one.id for one in talk.cockpit.pending()] == [pending]

    async def test_a_button_works_only_in_its_own_thread(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        other = await talk.server.say(ANN, "/help")
        foreign = await talk.says(other, "/status")
        await talk.server.click(ANN, other, foreign.post_id, _action(question, "Allow"))
        await eventually(talk.refused)
        assert len(talk.cockpit.pending()) == 1

    async def test_an_approval_of_a_finished_run_is_refused_and_recorded(self, open_talk: OpenTalk) -> None:
        talk = await open_talk([HOST, "Good."])
        thread = await talk.server.say(ANN, "go")
        question = await talk.question(thread)
        talk.cockpit.kill(talk.cockpit.runs()[0].run_id, by="bob")
        await talk.says(thread, "was stopped by")
        await talk.server.click(ANN, thread, question.post_id, _action(question, "Allow"))
        await eventually(talk.refused)
        assert talk.refused()[0].approval_id == talk.cockpit.approvals()[0].id
        assert talk.cockpit.approvals()[0].verdict == "aborted"


def _question(server: ChatServer, thread: str) -> Shown | None:
    found = [post for post in server.shown(thread) if any(label == "Allow" for label, _ in post.buttons)]
    return found[-1] if found else None


def _is_stopped(post: Shown) -> bool:
    """Whether it is the last word of a run that was killed, or of one that was stopped before it had begun."""
    return "was stopped by" in post.text or "was stopped before" in post.text


def _action(post: Shown, label: str) -> str:
    return next(action for shown, action in post.buttons if shown == label)
