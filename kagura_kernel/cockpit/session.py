"""Work handed on by a program: one session's runs, one after the other or many at once under one budget.

::

    session = kagura_kernel.session("nightly")
    outcomes = await session.dispatch(["check the links", "check the code samples"], budget_usd=1.0)
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.agents import delegation_terms
from kagura_kernel.cockpit.orders import check_seconds, login_name
from kagura_kernel.cockpit.run_names import working_directory
from kagura_kernel.domain.errors import BudgetExhausted, JournalError, KaguraError, RunKilled, UsageError
from kagura_kernel.domain.events import MemoryChanged
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.domain.identity import new_session_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.domain.outcome import EndStatus, RunOutcome
from kagura_kernel.domain.patterns import HANDOFF, HANDOFF_KEPT, Handoff
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.journal.place import expanded
from kagura_kernel.patterns.dispatch import LEAST_SHARE_USD, below, charged, even_share
from kagura_kernel.render.figures import counted
from kagura_kernel.runs.delegation import to_the_end
from kagura_kernel.runs.order import ChildOrder, Children
from kagura_kernel.runs.request import OPTIONS, RunRequest

if TYPE_CHECKING:
    from kagura_kernel.cockpit.engine import Engine
    from kagura_kernel.cockpit.handles import RunHandle
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.kit.redaction.redactor import Redactor
    from kagura_kernel.memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session for programs works with."""

    engine: Engine  # Where runs live
    journal: Journal  # The record
    settings: Settings  # The user's
    children: Children  # Runs what is dispatched
    launch: Callable[[RunRequest], RunHandle]  # Sets a run of the session going
    clock: Clock  # The time
    redactor: Redactor  # Takes secrets out of what is kept
    memory: Callable[[], MemoryStore] | None  # Opens what is remembered; None where there is no memory


class Dispatched:
    """A set of runs that goes on; any thread and any loop may wait for it.

    Waiting gives one outcome for each task, in their order; a run that did not end well raises nothing, its outcome
    says why. Cancelling or interrupting the wait ends the whole set, and nothing of it stays behind.
    """

    def __init__(self, orders: list[ChildOrder], budget_usd: float | None, places: int, parts: SessionParts) -> None:
        self._orders = orders
        self._limit = budget_usd
        self._spent = 0.0
        self._waiting = len(orders)
        self._places = places
        self._parts = parts
        self._tasks: list[asyncio.Task[RunOutcome]] = []
        self._killed = ""
        self._runs: list[str] = []
        self._result = parts.engine.submit(self._all())

    def __repr__(self) -> str:
        """What somebody who meets it in a notebook can do with it."""
        state = "over" if self.done else "under way"
        return f"<{counted(len(self._orders), 'run')}, {state}; await them, or wait with .result()>"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Runs that have begun, in the order in which they did."""
        return tuple(self._runs)

    @property
    def done(self) -> bool:
        """Whether all of them are over."""
        return self._result.done()

    def kill(self, by: str) -> None:
        """End all that goes on and begin nothing more; returns at once."""
        self._killed = self._killed or by
        self._parts.engine.post(self._cancel)

    async def wait(self) -> list[RunOutcome]:
        """One outcome for each task.

        Raises:
            JournalError: facts could not be stored; everything was stopped.
        """
        result = asyncio.wrap_future(self._result)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            self.kill("whoever waited for it")
            await asyncio.wait({result})
            raise

    def __await__(self) -> Generator[Any, None, list[RunOutcome]]:
        """The same as `wait`."""
        return self.wait().__await__()

    def result(self, timeout: float | None = None) -> list[RunOutcome]:
        """The same for callers without a loop; blocks, and never from the engine's own thread.

        Raises:
            TimeoutError: they are not over yet, and go on.
        """
        try:
            return self._result.result(timeout)
        except KeyboardInterrupt:
            self.kill("whoever waited for it")
            concurrent.futures.wait([self._result])
            raise

    async def _all(self) -> list[RunOutcome]:
        room = asyncio.Semaphore(self._places)
        self._tasks = [asyncio.create_task(self._one(order, room)) for order in self._orders]
        if self._killed:
            self._cancel()
        if self._tasks:
            try:
                # Of what goes wrong, only what must end everything is raised.
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                self._cancel()
                await asyncio.wait(self._tasks)
        return [
            _outcome(order, "killed", RunKilled("The task", self._killed)) if task.cancelled() else task.result()
            for order, task in zip(self._orders, self._tasks, strict=True)
        ]

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _one(self, order: ChildOrder, room: asyncio.Semaphore) -> RunOutcome:
        async with room:
            share = even_share(self._limit, self._spent, self._waiting)
            self._waiting -= 1
            if share is not None and share < LEAST_SHARE_USD:
                return _outcome(order, "stopped", BudgetExhausted(self._spent, self._limit or 0.0))
            reserved = share or 0.0
            self._spent += reserved
            usd: float | None = None
            try:
                outcome = await self._run(replace(order, handoff=replace(order.handoff, budget_usd=share)))
            except JournalError:
                raise
            except KaguraError as error:
                return _outcome(order, "failed", error)
            else:
                usd = outcome.cost.usd
                return outcome
            finally:
                # What nobody knows the cost of has cost all of its share.
                self._spent += charged(share, usd) - reserved

    async def _run(self, order: ChildOrder) -> RunOutcome:
        return await to_the_end(
            self._parts.children, order, self._parts.journal, lambda run_id, _worker: self._runs.append(run_id)
        )


def _outcome(order: ChildOrder, status: EndStatus, error: KaguraError) -> RunOutcome:
    """Of a task that has not begun, or was ended from outside."""
    return RunOutcome(run_id="", session_id=order.session_id, status=status, error_code=error.code, error=error.message)


MOST_AT_ONCE = 64

_OPTIONS = {option.name: option for option in OPTIONS}
_DISPATCHED = frozenset(
    {"model", "brain", "verify", "net", "grants", "write_mode", "policy", "command_timeout", "idle_timeout", "box"}
    | {"image", "project", "headless"}
)


def _understood(caller: str, options: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """A program's options as a request has them; those that are None are left out.

    A path may be text, a choice is one of its words, and where there may be several one text is the only one. What
    stands in no line of a cell, but for the project and `headless`, is handed on as it is.

    Raises:
        UsageError: there is no such option, or it takes something else.
    """
    if unknown := sorted(options.keys() - taken):
        raise UsageError(f"{caller} takes no {', '.join(unknown)}; `help(session.{caller})` says what it takes.")
    return {name: _value(name, value) for name, value in options.items() if value is not None}


def _value(name: str, value: Any) -> Any:
    option = _OPTIONS.get(name)
    if name == "headless" or (option is not None and option.kind is None):
        return _must_be(name, value, bool, "True or False")
    if name == "project":
        return expanded(_must_be(name, value, (str, os.PathLike), "a path"))
    if option is None or option.kind is Kind.EXPRESSION:
        return value
    if option.many:
        several = (value,) if isinstance(value, str | os.PathLike) else value
        return tuple(_one(name, option.kind, one) for one in _must_be(name, several, Iterable, "a list of texts"))
    if option.choices and value not in option.choices:
        raise UsageError(f"{name} takes {', '.join(option.choices[:-1])} or {option.choices[-1]}, not {value!r}.")
    return WriteMode(value) if name == "write_mode" else _one(name, option.kind, value)


def _one(name: str, kind: Kind | None, value: Any) -> Any:
    match kind:
        case Kind.FILE:
            return expanded(_must_be(name, value, (str, os.PathLike), "a path"))
        case Kind.COUNT:
            return _must_be(name, value, int, "a whole number")
        case Kind.USD | Kind.SECONDS:
            return _must_be(name, value, (int, float), "a number")
    return _must_be(name, value, str, "a text")


def _must_be(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise UsageError(f"{name} takes {what}, not {value!r}.")
    return value


class Session:
    """A session, for programs. From any thread; nothing here waits for a run."""

    def __init__(self, name: str, parts: SessionParts) -> None:
        self.name = name
        self._parts = parts

    def __repr__(self) -> str:
        """What somebody who meets it in a notebook can do with it."""
        return f"<session {self.name}; .run(task) sets one run going, .dispatch(tasks) many>"

    def run(self, task: str, **options: Any) -> RunHandle:
        """Set one run of this session going: to await, or to wait for with `result()`.

        Options are those of `dispatch`, and beside them `agent`, `budget_usd`, `max_turns`, `context`, `pictures`,
        `mcp_config`, `resume`, `record`, `replay`, `plan`, `keep` and other fields of `RunRequest`. A path may be text.

        Raises:
            UsageError: something in it cannot be understood.
            SessionBusy: the session has a run already.
            KaguraError: as every launch does.
        """
        _must_be("run", task, str, "a text that says what should be done")
        understood = _understood("run", options, RunRequest._fields)
        return self._parts.launch(RunRequest(**{"task": task, "session": self.name, "origin": "program", **understood}))

    def dispatch(
        self,
        tasks: Iterable[str],
        *,
        budget_usd: float | None = None,
        agent: str | None = None,
        at_once: int | None = None,
        workers: str | None = None,
        context: str = "",
        **options: Any,
    ) -> Dispatched:
        """Set many runs going, each in a session of its own: to await, or to wait for with `result()`.

        Args:
            tasks: What to do, a run each.
            budget_usd: What all of them together may spend; None is no limit beside each run's own.
            agent: Who does them, a reference; None is the settings' choice.
            at_once: How many at the same time; None is the settings' choice.
            workers: Where: a Dask scheduler such as `tcp://10.0.0.5:8786`, `""` for this process; None is the
                settings' choice.
            context: What every one of them should know beside its task; kept as a memory in quarantine for a day.
            options: `model`, `brain`, `verify`, `net`, `grants`, `write_mode`, `policy`, `command_timeout`,
                `idle_timeout`, `box`, `image`, `project`, `headless`.

        Raises:
            UsageError: something in it cannot be understood.
            MemoryUnavailable: the context cannot be kept.
        """
        places = self._places(at_once)
        if budget_usd is not None and not LEAST_SHARE_USD <= _value("budget_usd", budget_usd) < 10**6:
            raise UsageError(f"budget_usd takes an amount in USD above 0, not {budget_usd:g}.")
        todo: list[Any] = list(tasks)
        if isinstance(tasks, str) or not all(isinstance(task, str) and task.strip() for task in todo):
            raise UsageError("dispatch takes a list of tasks, each a text that says what should be done.")
        order = self._order(agent, workers, _understood("dispatch", options, _DISPATCHED))
        if context and context.strip():
            order = replace(order, handoff=replace(order.handoff, memory_id=self._kept(context)))
        number = new_session_id()
        orders = [replace(order, task=task, session_id=f"{number}.task-{at}") for at, task in enumerate(todo, start=1)]
        return Dispatched(orders, budget_usd, places, self._parts)

    def _kept(self, context: str) -> str:
        """What the runs of a set should know: a program's words, which nobody has promoted."""
        parts = self._parts
        if parts.memory is None:
            raise UsageError("There is no memory here to hand a context over in: write what matters into the tasks.")
        now = parts.clock.now()
        draft = Draft(
            text=parts.redactor.redact(context).text,
            source=Source(Author.HUMAN, login_name()),
            type=HANDOFF,
            scope=f"session:{self.name}",
            expires_at=now + HANDOFF_KEPT,
        )
        kept = parts.memory().remember(draft)
        parts.journal.append(
            MemoryChanged(
                run_id="",
                session_id=self.name,
                at=now,
                memory_id=kept.id,
                change="written",
                by=login_name(),
                via="program",
            )
        )
        return kept.id

    def _places(self, at_once: int | None) -> int:
        what = f"a whole number from 1 to {MOST_AT_ONCE}"
        places: int = (
            self._parts.settings.delegate_at_once if at_once is None else _must_be("at_once", at_once, int, what)
        )
        if not 1 <= places <= MOST_AT_ONCE:
            raise UsageError(f"at_once takes {what}, not {places}.")
        return places

    def _order(self, agent: str | None, workers: str | None, more: dict[str, Any]) -> ChildOrder:
        settings = self._parts.settings
        terms = delegation_terms(settings, workers, None)
        for name in ("command_timeout", "idle_timeout"):
            check_seconds(name, more.get(name))
        handoff = Handoff(
            net=more.pop("net", ()),
            credentials=more.pop("grants", ()),
            write_mode=more.pop("write_mode", settings.write),
            policy=more.pop("policy", ""),
            command_timeout=more.pop("command_timeout", None),
            idle_timeout=more.pop("idle_timeout", None),
            # A task at a worker hands its own work on there; here the settings say how.
            delegation=below(terms) if terms.workers else None,
        )
        project = more.pop("project", None)
        return ChildOrder(
            task="",
            handoff=handoff,
            parent="",
            session_id="",
            project=(working_directory() if project is None else project).resolve(),
            agent=agent or settings.agent,
            workers=terms.workers,
            origin="program",
            **more,
        )
