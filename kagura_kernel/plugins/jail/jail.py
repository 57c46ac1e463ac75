"""One plugin's jail: the functions that it gives, and calls of them, over as many boxes as that takes.

A call that takes too long, and a process that ends, cost the plugin its box; the next call starts another from the
same bytes. What no jailer would send, and trouble in a row, put the plugin off for good (`plugins.quarantine`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Self

from kagura_kernel.domain.errors import (
    PluginBusy,
    PluginCallRefused,
    PluginError,
    PluginFailed,
    PluginJailBroken,
    PluginQuarantined,
    PluginRefused,
    PluginTimeout,
)
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.calls import FunctionSpec
from kagura_kernel.plugins.frames import FrameError
from kagura_kernel.plugins.jail.box import Answer, Ending, Gone, JailLog, JailParts, Running, Table, Trouble
from kagura_kernel.plugins.jailer import ARGUMENTS, DEFECT, VALUE
from kagura_kernel.plugins.sessions import JailOrder, RunningJail

if TYPE_CHECKING:
    from kagura_kernel.membrane.postgres.service import PostgresService
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.manifest import Manifest
    from kagura_kernel.plugins.permissions import JailPlan
    from kagura_kernel.sandbox.backend import Box

MAX_DEATHS = 3
"""Times in a row that its process may end, or have to be ended, before the plugin is put off."""

MAX_DEFECTS = 5
"""Unhandled errors of its code in a row, likewise."""


class Outcome(Enum):
    """What came of a call, or befell a jail."""

    ANSWER = auto()  # A value, or an error with which a plugin answers
    DEFECT = auto()  # An error that its code did not mean to raise
    DEATH = auto()  # Its process ended, or took too long and was ended
    BREACH = auto()  # It sent what no jailer would


@dataclass(slots=True)
class Troubles:
    """What has happened to one plugin since it last answered."""

    deaths: int = 0  # In a row
    defects: int = 0  # In a row

    def note(self, outcome: Outcome, why: str = "") -> str:
        """Count it; why the plugin has to go into quarantine, half a sentence, or an empty text."""
        match outcome:
            case Outcome.ANSWER:
                self.deaths = self.defects = 0
            case Outcome.DEFECT:
                self.defects += 1
            case Outcome.DEATH:
                self.deaths += 1
            case Outcome.BREACH:
                return f"it broke out of the protocol of its jail: {why}"
        if self.deaths >= MAX_DEATHS:
            return f"it failed {self.deaths} times in a row, at last because {why}"
        if self.defects >= MAX_DEFECTS:
            return f"its code went wrong {self.defects} times in a row, at last with {why}"
        return ""


_CREATE = "create_host_functions"


class Jail:
    """A plugin in a jail; made by `start`, belongs to one loop."""

    def __init__(self, name: str, content: PluginContent, manifest: Manifest, plan: JailPlan, parts: JailParts) -> None:
        self.name = name  # The plugin's
        self.modules: Mapping[str, tuple[FunctionSpec, ...]] = {}  # What guest code may import, and the functions there
        self.broken = ""  # Why it has to go into quarantine, half a sentence; empty while it has not
        self._content = content
        self._declared = tuple(manifest.host_modules)
        self._plan = plan
        self._parts = parts
        self._log = JailLog(parts.limits.log_bytes, parts.clock)
        self._running: Running | None = None
        self._closed = False
        self._troubles = Troubles()
        self._starting = asyncio.Lock()
        self._places = asyncio.Semaphore(parts.limits.calls)
        self._under_way = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    async def start(
        cls, name: str, content: PluginContent, manifest: Manifest, plan: JailPlan, parts: JailParts
    ) -> Self:
        """A jail whose plugin has been loaded and has said what it gives; raises as `StartJail` says."""
        jail = cls(name, content, manifest, plan, parts)
        try:
            await jail._ensure()
        except BaseException:
            await asyncio.shield(jail.close())
            raise
        return jail

    @property
    def log(self) -> str:
        """The last of what the plugin has printed, the tracebacks of its defects and what became of its boxes."""
        return self._log.text

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """See `EnabledPlugin.call`. When the caller stops waiting, the call still takes its place until its deadline.

        One that takes too long costs the box, and calls beside it end as broken. Raises
        `PluginQuarantined`, too: it has failed too often.
        """
        self._require(module, function)
        limits = self._parts.limits
        if self._under_way >= limits.calls + limits.waiting:
            raise PluginBusy(self.name, limits.waiting)
        self._under_way += 1
        # In a task of its own: a call that is given up has still to be answered, and counted.
        task = self._spawn(self._call(module, function, arguments, named))
        task.add_done_callback(self._returned)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End everything in the jail; may be called twice. Calls under way end as broken."""
        self._closed = True
        if self._running is not None:
            self._running.end(Ending("it was closed"))
        while self._tasks:
            await asyncio.wait(self._tasks)

    # ---------------------------------------------------------------- calls

    def _require(self, module: str, function: str) -> None:
        if self.broken:
            raise PluginQuarantined(self.name, self.broken)
        if self._closed:
            raise PluginCallRefused(f"The plugin {self.name!r} is off.")
        given = self.modules.get(module)
        if given is None:
            there = ", ".join(self.modules)
            raise PluginCallRefused(f"The plugin {self.name!r} has no module {module!r}; it has {there}.")
        names = [spec.name for spec in given]
        if function not in names:
            raise PluginCallRefused(f"{module} has no function {function!r}; it has {', '.join(names)}.")

    async def _call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        async with self._places:
            self._require(module, function)
            running = await self._ensure()
            try:
                answer = await running.ask(module, function, arguments, named)
            except FrameError as error:
                raise PluginCallRefused(f"The arguments of {module}.{function} cannot be sent: {error}.") from error
            except TimeoutError as error:
                seconds = self._parts.limits.call_seconds
                running.end(Ending(f"{module}.{function} did not answer within {seconds:g} s"))
                raise PluginTimeout(self.name, f"{module}.{function}", seconds) from error
            except Gone as gone:
                raise PluginJailBroken(self.name, gone.ending.why) from gone
        return self._value(answer, f"{module}.{function}")

    def _value(self, answer: Answer, function: str) -> Any:
        trouble = answer.trouble
        if trouble is None:
            self._note(Outcome.ANSWER)
            return answer.value
        if trouble.code == ARGUMENTS:
            raise PluginCallRefused(f"{function} cannot be called like this: {trouble.message}.")
        defect = trouble.code in (DEFECT, VALUE)
        self._note(Outcome.DEFECT if defect else Outcome.ANSWER, trouble.kind or "an answer that cannot be sent")
        raise PluginFailed(self.name, trouble.kind, trouble.message)

    def _returned(self, task: asyncio.Task[Any]) -> None:
        self._under_way -= 1
        if not task.cancelled():
            # Whoever has left does not ask; the loop shall not complain about it.
            task.exception()

    # ---------------------------------------------------------------- boxes

    async def _ensure(self) -> Running:
        async with self._starting:
            if self.broken:
                raise PluginQuarantined(self.name, self.broken)
            if self._closed:
                raise PluginCallRefused(f"The plugin {self.name!r} is off.")
            if self._running is None:
                running = Running(self._content, self._plan, self._parts, self._log, self._over)
                self._running = running
                try:
                    await self._begin(running)
                except BaseException as error:
                    # What keeps a box from being had is nothing that the plugin did.
                    own = isinstance(error, PluginError)
                    running.end(Ending("it could not be started", own=own))
                    raise
            return self._running

    async def _begin(self, running: Running) -> None:
        seconds = self._parts.limits.start_seconds
        try:
            said = await running.start()
        except FrameError as error:
            raise PluginRefused(self.name, f"cannot be sent into its jail: {error}") from error
        except TimeoutError as error:
            running.end(Ending(f"{_CREATE} did not return within {seconds:g} s"))
            raise PluginTimeout(self.name, _CREATE, seconds) from error
        except Gone as gone:
            raise PluginJailBroken(self.name, gone.ending.why) from gone
        if isinstance(said, Trouble) and said.code == VALUE:
            raise PluginRefused(self.name, f"gives no functions: {said.message}")
        if isinstance(said, Trouble):
            raise PluginFailed(self.name, said.kind, said.message, loading=True)
        modules = self._checked(said)
        if self.modules and modules != self.modules:
            raise PluginRefused(self.name, "gives other functions than when it was enabled")
        self.modules = modules

    def _checked(self, table: Table) -> Table:
        for module in table:
            if module not in self._declared:
                raise PluginRefused(self.name, f"gives the module {module!r}, which its manifest does not declare")
        for module in self._declared:
            if module not in table:
                raise PluginRefused(self.name, f"declares the module {module!r} and does not give it")
        return dict(table)

    def _over(self, running: Running, ending: Ending) -> None:
        """A box is over, for whatever reason; told once for each."""
        self._spawn(running.close())
        if running is self._running:
            self._running = None
        if self._closed:
            return
        self._log.note(f"The jail was closed: {ending.why}.")
        if ending.own:
            self._note(Outcome.BREACH if ending.breach else Outcome.DEATH, ending.why)

    def _note(self, outcome: Outcome, why: str = "") -> None:
        reason = self._troubles.note(outcome, why)
        if not reason or self.broken or self._closed:
            return
        self.broken = reason
        self._log.note(f"The plugin is put off: {reason}.")
        if self._running is not None:
            self._running.end(Ending(reason))
        self._parts.failed(self.name, reason)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


RecordEgress = Callable[[EgressDecided | EgressClosed], None]
Serve = Callable[["Box", "PostgresService", str, str, RecordEgress], Awaitable[int]]
"""Puts a database into a jail (box, database, plugin, session, where its connections are written down): the port."""


class JailStarter:
    """A `StartJail`; each jail tells of its own connections and faults."""

    def __init__(self, parts: JailParts, journal: Journal, serve: Serve | None = None) -> None:
        self._parts = parts
        self._journal = journal
        self._serve = serve

    async def __call__(self, order: JailOrder) -> RunningJail:
        """Start a jail; raises as `StartJail` says."""

        def record(event: EgressDecided | EgressClosed) -> None:
            self._journal.append(event.model_copy(update={"session_id": order.session_id}))

        def failed(_name: str, why: str) -> None:
            order.quarantine(why)

        parts = replace(self._parts, record_egress=record, failed=failed)
        if (serve := self._serve) is not None:

            async def open_service(box: Box, service: PostgresService) -> int:
                return await serve(box, service, order.found.name, order.session_id, record)

            parts = replace(parts, open_service=open_service)
        found = order.found
        return await Jail.start(found.name, found.content, found.manifest, order.plan, parts)
