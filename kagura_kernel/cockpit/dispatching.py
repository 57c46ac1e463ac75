"""Work handed on by a program: one session's runs, one after the other or many at once under one budget.

::

    session = kagura_kernel.session("nightly")
    outcomes = await session.dispatch(["check the links", "check the code samples"], budget_usd=1.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.dispatched import Dispatched, SessionParts
from kagura_kernel.cockpit.handed import delegation_terms
from kagura_kernel.cockpit.intents import LaunchRun
from kagura_kernel.cockpit.naming import working_directory
from kagura_kernel.cockpit.ordering import login_name
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import MemoryChanged
from kagura_kernel.domain.identity import new_session_id
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.domain.patterns import HANDOFF, HANDOFF_KEPT, Handoff
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.patterns.dispatch import LEAST_SHARE_USD, below
from kagura_kernel.runs.order import ChildOrder

if TYPE_CHECKING:
    from kagura_kernel.cockpit.handles import RunHandle


MOST_AT_ONCE = 64


class Session:
    """A session, for programs. From any thread; nothing here waits for a run.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, parts: SessionParts) -> None:
        self.name = name
        self._parts = parts

    def run(self, task: str, **options: Any) -> RunHandle:
        """Set one run of this session going: to await, or to wait for with `result()`.

        Args:
            task: What to do.
            options: Fields of `LaunchRun`: `agent`, `model`, `budget_usd`, `verify`, `project`, …

        Raises:
            SessionBusy: the session has a run already.
            KaguraError: as every launch does.
        """
        return self._parts.launch(LaunchRun(**{"task": task, "session": self.name, "origin": "program", **options}))

    def dispatch(
        self,
        tasks: Sequence[str],
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
            options: `model`, `brain`, `verify`, `net`, `grants`, `write_mode`, `box`, `image`, `project`, `headless`.

        Raises:
            UsageError: something in it cannot be understood.
            MemoryUnavailable: the context cannot be kept.
        """
        places = self._places(at_once)
        if budget_usd is not None and not LEAST_SHARE_USD <= budget_usd < 10**6:
            raise UsageError(f"budget_usd takes an amount in USD above 0, not {budget_usd:g}.")
        if isinstance(tasks, str) or not all(task.strip() for task in tasks):
            raise UsageError("dispatch takes a list of tasks, each a text that says what should be done.")
        order = self._order(agent, workers, options)
        if context.strip():
            order = replace(order, handoff=replace(order.handoff, memory_id=self._kept(context)))
        number = new_session_id()
        orders = [replace(order, task=task, session_id=f"{number}.task-{at}") for at, task in enumerate(tasks, start=1)]
        return Dispatched(orders, budget_usd, places, self._parts)

    def _kept(self, context: str) -> str:
        """What the runs of a set should know: a program's words, which nobody has promoted."""
        parts = self._parts
        if parts.memory is None:
            raise UsageError("There is no memory here to hand a context over in: write what matters into the tasks.")
        now = parts.clock.now()
        draft = Draft(
            text=context if parts.redactor is None else parts.redactor.redact(context).text,
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
        places = self._parts.settings.delegate_at_once if at_once is None else at_once
        if not 1 <= places <= MOST_AT_ONCE:
            raise UsageError(f"at_once takes a whole number from 1 to {MOST_AT_ONCE}, not {places}.")
        return places

    def _order(self, agent: str | None, workers: str | None, options: dict[str, Any]) -> ChildOrder:
        settings, more = self._parts.settings, dict(options)
        terms = delegation_terms(settings, workers, None)
        handoff = Handoff(
            net=tuple(more.pop("net", ())),
            credentials=tuple(more.pop("grants", ())),
            write_mode=WriteMode(more.pop("write_mode", None) or settings.write),
            # A task at a worker hands its own work on there; here the settings say how.
            delegation=below(terms) if terms.workers else None,
        )
        project = Path(more.pop("project", None) or working_directory()).resolve()
        known = {"model", "brain", "verify", "box", "image", "headless"}
        if unknown := sorted(more.keys() - known):
            raise UsageError(f"dispatch takes no {', '.join(unknown)}.")
        return ChildOrder(
            task="",
            handoff=handoff,
            parent="",
            session_id="",
            project=project,
            agent=agent or settings.agent,
            workers=terms.workers,
            origin="program",
            **{name: value for name, value in more.items() if value is not None},
        )
