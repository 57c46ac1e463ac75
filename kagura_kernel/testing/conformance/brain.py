"""What every brain promises, as a suite: subclass `BrainConformance`, give it the fixture `brain_for`, run pytest.

::

    class TestMyBrain(BrainConformance):
        @pytest.fixture
        def brain_for(self, tmp_path):
            @contextmanager
            def make(script):
                yield MyBrain(script)
            return make

`script` is what its model is to say in each round of a run, a `Round` each: a fake of the model's service answers so.
"""

# ruff: noqa: S101 - a conformance suite asserts; pytest runs it, never python -O
from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.brain.provider import (
    BrainDone,
    BrainEvent,
    BrainHeard,
    BrainProvider,
    BrainSession,
    BrainText,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import NotThisTime
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.tools import CallTool, ToolCall, ToolResult, ToolSpec
from kagura_kernel.testing.patience import eventually


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a brain's loop: it says something, then asks for tools, all at once; the last asks for none."""

    text: str = ""  # What it says
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # Names and arguments of the tools
    slow: bool = False  # Whether the text takes so long that a test can stop the brain in the middle of it


BrainFor = Callable[[Sequence[Round]], AbstractContextManager[BrainProvider]]

ECHO = ToolSpec(
    "echo",
    "Says what it was told.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    read_only=True,
)
TALK = (Round("I ask.", (("echo", {"word": "one"}),)), Round("The answer came."))
FOREVER = (*(Round("Again.", (("echo", {"word": str(number)}),)) for number in range(8)), Round("At last."))


@dataclass
class ToolLog:
    """A `call_tool` that keeps what it was asked."""

    calls: list[ToolCall] = field(default_factory=list)  # The calls in the order they began
    most_at_once: int = 0  # The largest number under way at one time
    wait: float = 0.0  # Seconds that each call takes
    # How many calls wait for one another before any of them goes on; for half a minute, and no longer
    together: int = 0
    error: bool = False  # Whether the answers are errors
    cancelled: int = 0  # How many calls were cancelled
    _under_way: int = 0

    async def __call__(self, call: ToolCall) -> ToolResult:
        """Answer with the word that was sent."""
        self.calls.append(call)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            await asyncio.sleep(self.wait)
            if self.together:
                await self._all_there()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self._under_way -= 1
        return ToolResult(f"echo: {call.arguments['word']}", is_error=self.error)

    async def _all_there(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                while self.most_at_once < self.together:  # noqa: ASYNC110 - a count, which knows no events
                    await asyncio.sleep(0.005)


def a_turn(call_tool: CallTool, **fields: Any) -> Turn:
    """A turn with the one tool `echo`; `fields` are those of `Turn`."""
    return Turn(task="Say something.", system="You are being tested.", tools=[ECHO], call_tool=call_tool, **fields)


async def first_word(events: AsyncIterator[BrainEvent]) -> BrainEvent:
    """The first event that is more than how to go on later."""
    while isinstance(event := await anext(events), BrainSession):
        pass
    return event


async def all_events(brain: BrainProvider, turn: Turn) -> list[BrainEvent]:
    """Everything a run yields."""
    return [event async for event in brain.run(turn)]


def child_processes() -> set[int]:
    """Process ids of this process's children, zombies left out."""
    while True:
        # A thread that ends meanwhile leaves its children to another one, which may have been looked at already.
        with suppress(FileNotFoundError, ProcessLookupError):
            return _children()


def _children() -> set[int]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            stat = Path(f"/proc/{pid}/stat")
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(int(pid))
    return found


async def close(events: Any) -> None:
    """Close an iterator that can be closed."""
    await events.aclose()


class BrainConformance:
    """The promises."""

    @pytest.fixture
    def brain_for(self) -> BrainFor:
        """A context manager that makes a brain which follows the given rounds."""
        raise NotImplementedError

    async def test_it_says_its_text_and_is_done(self, brain_for: BrainFor) -> None:
        """Text first, `BrainDone` last and once."""
        with brain_for([Round("Hello there.")]) as brain:
            events = await all_events(brain, a_turn(ToolLog()))
        whole = [event.text for event in events if isinstance(event, BrainText) and not event.partial]
        assert whole == ["Hello there."]
        assert [index for index, event in enumerate(events) if isinstance(event, BrainDone)] == [len(events) - 1]
        done = events[-1]
        assert isinstance(done, BrainDone)
        assert done.text == "Hello there."
        assert done.stopped == ""

    async def test_pieces_add_up_to_the_whole(self, brain_for: BrainFor) -> None:
        """Partial texts come before their whole and, when there are any, are all of it."""
        words = "A longer text that is written in several pieces, one after the other."
        with brain_for([Round(words)]) as brain:
            events = await all_events(brain, a_turn(ToolLog()))
        texts = [event for event in events if isinstance(event, BrainText)]
        assert texts[-1] == BrainText(words)
        pieces = [text.text for text in texts[:-1]]
        assert all(text.partial for text in texts[:-1])
        assert "".join(pieces) == (words if brain.capabilities().streaming else "")

    async def test_a_tool_is_called_through_the_turn(self, brain_for: BrainFor) -> None:
        """Name and arguments arrive, and every call has an id of its own."""
        log = ToolLog()
        with brain_for(FOREVER[:2] + FOREVER[-1:]) as brain:
            events = await all_events(brain, a_turn(log))
        assert [(call.name, call.arguments) for call in log.calls] == [("echo", {"word": "0"}), ("echo", {"word": "1"})]
        assert len({call.id for call in log.calls}) == 2  # noqa: PLR2004 - the two calls above
        assert isinstance(events[-1], BrainDone)

    async def test_two_tools_that_change_nothing_run_at_once(self, brain_for: BrainFor) -> None:
        """Read-only calls of one round do not wait for each other."""
        log = ToolLog(together=2)
        both = Round(calls=(("echo", {"word": "a"}), ("echo", {"word": "b"})))
        with brain_for([both, Round("Both came.")]) as brain:
            events = await all_events(brain, a_turn(log))
        assert sorted(call.arguments["word"] for call in log.calls) == ["a", "b"]
        assert log.most_at_once == 2  # noqa: PLR2004 - both
        assert isinstance(events[-1], BrainDone)

    async def test_a_failing_tool_does_not_end_the_run(self, brain_for: BrainFor) -> None:
        """An error result is something to go on from."""
        log = ToolLog(error=True)
        with brain_for(TALK) as brain:
            events = await all_events(brain, a_turn(log))
        assert len(log.calls) == 1
        done = events[-1]
        assert isinstance(done, BrainDone)
        assert done.text == "The answer came."

    async def test_what_a_call_raises_ends_the_run(self, brain_for: BrainFor) -> None:
        """`call_tool` raises only what must end it, and the caller sees that very error."""

        async def broken(call: ToolCall) -> ToolResult:
            raise LookupError(call.name)

        before = child_processes()
        with brain_for(TALK) as brain:
            with pytest.raises(LookupError, match="echo"):
                await all_events(brain, a_turn(broken))
            assert child_processes() == before

    async def test_usage_adds_up(self, brain_for: BrainFor) -> None:
        """`BrainDone.usage` is the sum of the rounds, and input includes the cache."""
        with brain_for(TALK) as brain:
            events = await all_events(brain, a_turn(ToolLog()))
        rounds = [event.usage for event in events if isinstance(event, BrainUsage)]
        done = events[-1]
        assert isinstance(done, BrainDone)
        assert sum(rounds, Usage()) == done.usage
        assert done.usage.input_tokens >= done.usage.cache_read_tokens + done.usage.cache_write_tokens

    async def test_a_budget_stops_it_within_one_round(self, brain_for: BrainFor) -> None:
        """With a budget it says so; a brain that knows none costs nothing, or refuses to begin with one."""
        log = ToolLog()
        with brain_for(FOREVER) as brain:
            try:
                done = (await all_events(brain, a_turn(log, budget_usd=0.0001)))[-1]
            except NotThisTime:
                assert not brain.capabilities().budget
                assert log.calls == []
                return
        assert isinstance(done, BrainDone)
        if brain.capabilities().budget:
            assert done.stopped == "budget"
            assert len(log.calls) <= 1
        else:
            assert done.reported_usd in (None, 0.0)

    async def test_closing_in_the_middle_leaves_nothing(self, brain_for: BrainFor) -> None:
        """Closed while it speaks, and closed twice: no process, no task."""
        before = child_processes()
        slow = Round("word " * 200, slow=True)
        with brain_for([slow, slow]) as brain:
            events = brain.run(a_turn(ToolLog()))
            assert isinstance(await first_word(events), BrainText)
            await close(events)
            await close(events)
            assert child_processes() == before
            assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_cancelling_during_a_tool_call_cancels_the_call(self, brain_for: BrainFor) -> None:
        """The call hears of it, and when the run has ended nothing is left."""
        before = child_processes()
        log = ToolLog(wait=600)
        with brain_for(TALK) as brain:
            run = asyncio.create_task(all_events(brain, a_turn(log)))
            while not log.calls:
                assert not run.done()
                await asyncio.sleep(0.02)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert log.cancelled == 1
            assert child_processes() == before
            # A library may need a turn or two of the loop to hear that it was cancelled.
            await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()}, patience=5)

    async def test_it_takes_what_a_person_says_at_its_next_turn(self, brain_for: BrainFor) -> None:
        """What is said during a call is taken up before the next words; a brain that cannot says that it does not."""
        said = Sentence("The second, please.")
        unsaid = [said]

        async def call_tool(_call: ToolCall) -> ToolResult:
            if unsaid:
                turn.sentences.put_nowait(unsaid.pop())
            # A program of its own has to read it while it waits for the answer.
            await asyncio.sleep(0.3)
            return ToolResult("one")

        turn = a_turn(call_tool)
        with brain_for(TALK) as brain:
            events = await all_events(brain, turn)
        heard = [event for event in events if isinstance(event, BrainHeard)]
        assert heard == ([BrainHeard(said.text, said.id)] if brain.capabilities().listens else [])
        if heard:
            assert events.index(heard[0]) < events.index(BrainText("The answer came."))

    async def test_what_is_said_with_its_last_words_is_worth_a_turn_more(self, brain_for: BrainFor) -> None:
        """It is not done while something waits that it was told."""
        first, second = Sentence("And why?"), Sentence("And where?")
        turn = a_turn(ToolLog())
        spoken: list[BrainEvent] = []
        slow = Round("word " * 40, slow=True)
        with brain_for([slow, slow, slow]) as brain:
            async for event in brain.run(turn):
                if isinstance(event, BrainText) and not any(isinstance(one, BrainText) for one in spoken):
                    turn.sentences.put_nowait(first)
                    turn.sentences.put_nowait(second)
                spoken.append(event)
        if not brain.capabilities().listens:
            return
        assert [event.id for event in spoken if isinstance(event, BrainHeard)] == [first.id, second.id]
        done = spoken[-1]
        assert isinstance(done, BrainDone)
        rounds = [event.usage for event in spoken if isinstance(event, BrainUsage)]
        assert len(rounds) > 1
        assert done.usage == sum(rounds, Usage())

    async def test_two_runs_at_once(self, brain_for: BrainFor) -> None:
        """They do not disturb each other."""
        logs = [ToolLog(), ToolLog()]
        with brain_for(TALK) as brain:
            both = await asyncio.gather(*(all_events(brain, a_turn(log)) for log in logs))
        assert [len(log.calls) for log in logs] == [1, 1]
        assert [event.text for events in both for event in events if isinstance(event, BrainDone)] == [
            "The answer came.",
            "The answer came.",
        ]

    def test_it_runs_in_a_loop_of_another_thread(self, brain_for: BrainFor) -> None:
        """Nothing in it needs the main thread."""
        found: list[BrainEvent] = []

        def run() -> None:
            found.extend(asyncio.run(all_events(brain, a_turn(ToolLog()))))

        with brain_for(TALK) as brain:
            thread = threading.Thread(target=run)
            thread.start()
            thread.join(60)
        assert isinstance(found[-1], BrainDone)

    async def test_it_says_who_it_is(self, brain_for: BrainFor) -> None:
        """A name, a way to sign in that is ready, and the model that answered."""
        with brain_for([Round("Hello.")]) as brain:
            auth = brain.resolve_auth()
            done = (await all_events(brain, a_turn(ToolLog())))[-1]
        assert brain.name
        assert auth.ready
        assert auth.reason
        assert isinstance(done, BrainDone)
        assert done.model
