"""A run as those outside the engine see it: to listen to, to wait for, to stop; and which session is running which."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Union

from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.domain.errors import SessionBusy
from kagura_kernel.domain.events import (
    AnyEvent,
    EgressClosed,
    EgressDecided,
    LeaseUsed,
    MemoriesShown,
    OutputStreamed,
    PluginCalled,
    RunFinished,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.membrane.run_leases import Leasing

if TYPE_CHECKING:
    from kagura_kernel.runs.question_run import QuestionRun
    from kagura_kernel.runs.run import Run

KEPT_OUTPUT = 24_000
"""Characters of a call's latest output that are kept; its end says all of it."""


class UnderWay:
    """The passage that is being written, and the latest output of the calls that go on; not for several threads."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._last_text: TextStreamed | None = None
        self._outputs: dict[str, _Output] = {}

    def take(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        match event:
            case TextStreamed():
                self._text.append(event.text)
                self._last_text = event
            case TextWritten() | ToolCalled():
                self._text.clear()
            case OutputStreamed():
                self._outputs.setdefault(event.call_id, _Output()).add(event)
            case ToolFinished():
                self._outputs.pop(event.call_id, None)
            case RunFinished():
                self._text.clear()
                self._outputs.clear()
            case _:
                pass

    def events(self) -> list[AnyEvent]:
        """The same in one piece each."""
        found: list[AnyEvent] = [output.event() for output in self._outputs.values()]
        if self._text and self._last_text is not None:
            found.append(self._last_text.model_copy(update={"text": "".join(self._text)}))
        return found


class _Output:
    """The end of what a call has printed, added to at no price however much it prints."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._length = 0
        self._last: OutputStreamed | None = None

    def add(self, event: OutputStreamed) -> None:
        self._pieces.append(event.text)
        self._length += len(event.text)
        self._last = event
        while self._length - len(self._pieces[0]) >= KEPT_OUTPUT:
            self._length -= len(self._pieces.popleft())

    def event(self) -> OutputStreamed:
        if self._last is None:
            raise RuntimeError("nothing was printed")
        return self._last.model_copy(update={"text": "".join(self._pieces)[-KEPT_OUTPUT:]})


Listener = Callable[[AnyEvent], None]

MAX_CROSSINGS = 10_000
"""Connections, uses of leases and calls of plugins that are told to those who listen late; the journal has them all."""

_BEGINS_WITHIN = 60.0
"""Seconds; more than the rules of redaction, which look at a task first, take to be compiled on a busy machine."""

_CROSSINGS = (EgressDecided, EgressClosed, LeaseUsed, PluginCalled)


AnyRun = Union["Run", "QuestionRun"]
"""What can be run: a brain's task, a cell's own code, one question to a brain. Used on the engine's loop."""


class RunHandle:
    """One run, usable from any thread and any loop."""

    def __init__(self, run: AnyRun, engine: Engine) -> None:
        self.run_id = run.order.run_id
        self.session_id = run.order.session_id  # The session it belongs to
        self._run = run
        self._engine = engine
        self._lock = threading.Lock()
        self._past: list[AnyEvent] = []
        self._crossings = 0
        self._under_way = UnderWay()
        self._listeners: list[Listener] = []
        self._result: concurrent.futures.Future[RunOutcome] | None = None
        self._begun = threading.Event()
        self._stopping = False

    def __repr__(self) -> str:
        """What somebody who meets it in a notebook can do with it."""
        return f"<run {self.run_id}; await it, or wait with .result()>"

    def start(self, on_end: Callable[[RunHandle], None], *, after: RunHandle | None = None) -> None:
        """Set the run going, once the run `after` is over.

        `on_end` is called on the engine's thread when this one is over, however it ended.
        """
        self._result = self._engine.submit(self._pump(on_end, after))

    @property
    def stopping(self) -> bool:
        """Whether somebody has stopped it, though it may not have ended yet."""
        return self._stopping

    @property
    def leasing(self) -> Leasing | None:
        """What it holds, while it has credentials."""
        return self._run.leasing

    @property
    def done(self) -> bool:
        """Whether it is over."""
        return self._result is not None and self._result.done()

    @property
    def unrecorded(self) -> bool:
        """Of one that is over, whether its beginning is in the journal and its end could not be stored there."""
        kinds = {event.kind for event in self._past}
        return "run.started" in kinds and "run.finished" not in kinds

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear everything: what has been, then what comes, each once and in order.

        The past is told on the calling thread, the rest on the engine's thread, where a listener must not block.
        Of what was streamed, those who come late hear what no durable event has repeated yet, in one piece: the passage
        that is being written, the latest output of calls that go on, and what memories say. Left out are connections,
        uses of leases and calls of plugins but for the latest thousands, for a program makes them as often as it likes;
        the journal has them all. Returns how to stop listening.
        """
        with self._lock:
            for event in [*self._past, *self._under_way.events()]:
                listener(event)
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def kill(self, by: str) -> None:
        """Stop the run; returns at once. Nothing happens when it is over."""
        self._stopping = True
        self._engine.post(self._run.kill, by)

    def say(self, sentence: Sentence) -> concurrent.futures.Future[str]:
        """Tell its brain something; the result is why that cannot be, as a clause, and empty where it can.

        The result raises `JournalError` where it could not be stored, so that the brain was not told.
        """
        return self._engine.submit(self._run.say(sentence))

    async def wait(self) -> RunOutcome:
        """How it ended. Cancelling the wait does not stop the run.

        Raises:
            JournalError: its facts could not be stored; it was stopped.
        """
        if self._result is None:
            raise RuntimeError("the run was not started")
        return await asyncio.shield(asyncio.wrap_future(self._result))

    def wait_begun(self) -> None:
        """Block until its first fact is in the journal, where others find it; never from the engine's thread.

        Returns at once where it waits for another run of its session, when it is over, and after a minute.
        """
        self._begun.wait(_BEGINS_WITHIN)

    async def begun(self) -> None:
        """The same as `wait_begun` for callers with a loop."""
        if not self._begun.is_set():
            await asyncio.to_thread(self.wait_begun)

    async def ended(self) -> Exception | None:
        """Return when it is over, however it ended; with its error, if it has one."""
        if self._result is not None:
            result = asyncio.wrap_future(self._result)
            # Looked at, also when nobody waits here any more, so that nobody is warned of an error that those who wait
            # for the outcome get.
            result.add_done_callback(lambda over: over.cancelled() or over.exception())
            await asyncio.wait({result})
        return self.error

    @property
    def error(self) -> Exception | None:
        """What kept it from saying its last words; None where nothing did, and while it goes on."""
        if not self.done:
            return None
        try:
            self.result(0)
        # Whatever it was: it is told to those who look on, and raised where somebody waits for the outcome.
        except Exception as error:  # noqa: BLE001 - see above
            return error
        return None

    def __await__(self) -> Generator[Any, None, RunOutcome]:
        """The same as `wait`."""
        return self.wait().__await__()

    def result(self, timeout: float | None = None) -> RunOutcome:
        """The same for callers without a loop; blocks. Never from the engine's thread."""
        if self._result is None:
            raise RuntimeError("the run was not started")
        return self._result.result(timeout)

    async def _pump(self, on_end: Callable[[RunHandle], None], after: RunHandle | None) -> RunOutcome:
        try:
            if after is not None and not after.done:
                self._begun.set()
                await after.ended()
            async for event in self._run.events():
                self._tell(event)
                self._begun.set()
        finally:
            self._begun.set()
            on_end(self)
        if self._run.outcome is None:
            raise RuntimeError(f"{self.run_id} ended without an outcome")
        return self._run.outcome

    def _tell(self, event: AnyEvent) -> None:
        with self._lock:
            self._under_way.take(event)
            # What memories say is in no journal, and a person answers for a plan by what its lessons say.
            if event.durable or isinstance(event, MemoriesShown):
                self._remember(event)
            listeners = list(self._listeners)
        for listener in listeners:
            listener(event)

    def _remember(self, event: AnyEvent) -> None:
        self._past.append(event)
        self._crossings += isinstance(event, _CROSSINGS)
        if self._crossings > 2 * MAX_CROSSINGS:
            # Half of them at once, so that looking through the list costs next to nothing for each event.
            oldest = [at for at, past in enumerate(self._past) if isinstance(past, _CROSSINGS)][:-MAX_CROSSINGS]
            dropped = set(oldest)
            self._past = [past for at, past in enumerate(self._past) if at not in dropped]
            self._crossings = MAX_CROSSINGS


class Sessions:
    """Which session is running what; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}

    def enter(self, session_id: str, run_id: str, *, stopping: Callable[[str], bool]) -> str:
        """Take a session for a run: the run that it has to wait for, because that one is being stopped, or nothing.

        Raises:
            SessionBusy: it has a run that goes on.
        """
        with self._lock:
            before = self._running.get(session_id, "")
            if before and not stopping(before):
                raise SessionBusy(session_id, before)
            self._running[session_id] = run_id
            return before

    def leave(self, session_id: str, run_id: str) -> None:
        """Give a session back; nothing happens when another run has it."""
        with self._lock:
            if self._running.get(session_id) == run_id:
                del self._running[session_id]
