"""Plugins of a machine of the test's own: their places, books and journal, and jails without boxes.

rig = PluginRig(tmp_path)
rig.write("greeter")
rig.audit("greeter")
plugin = await rig.enable("greeter")
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kagura_kernel.domain.approvals import Decision, Verdict
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.events import Event
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, PluginPlace, Risk
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.calls import EnabledPlugin, FunctionSpec
from kagura_kernel.plugins.decisions import ApprovalBook, QuarantineBook, TrustBook
from kagura_kernel.plugins.library import Examined, ManagerParts
from kagura_kernel.plugins.manager import PluginManager, PluginRow
from kagura_kernel.plugins.sessions import JailOrder, StartJail
from kagura_kernel.testing.clock import FakeClock
from tests.support import plugin_files

SESSION = "ses-1"

SOURCE = """\
SCHEMA = {"greeting": {"type": "string", "description": "What it says first", "default": "hello"}}


def create_host_functions(config):
    def greet(name):
        return config["greeting"] + " " + name

    return {MODULE: {"greet": greet}}
"""

ASKING = """\
SCHEMA = {
    "greeting": {"type": "string", "description": "What it says first", "promptKey": True},
    "loud": {"type": "boolean", "description": "Whether it shouts", "promptKey": True},
}


def create_host_functions(config):
    def greet(name):
        said = config["greeting"] + " " + name
        return said.upper() if config["loud"] else said

    return {MODULE: {"greet": greet}}
"""
"""One that has a line and a choice to be filled in."""


def write_plugin(
    place: Path, name: str = "greeter", *, source: str = SOURCE, files: Mapping[str, bytes] | None = None, **keys: Any
) -> Path:
    """A plugin's directory; of the usual source with a module of its name, and a manifest with these keys besides."""
    text = source.replace("MODULE", repr(name.replace("-", "_")))
    own = {"plugin.py": text.encode(), "README.md": f"# {name}\n".encode()}
    keys = {"description": f"The plugin {name}"} | keys
    return plugin_files.write_plugin(place, name, files=own | dict(files or {}), **keys)


class FakeJail:
    """A jail without a box: it has what the manifest declares, and answers with what it was asked."""

    def __init__(self, order: JailOrder, answer: Callable[..., Any] | None = None) -> None:
        self.order = order  # What it was started for
        self.closed = False  # Whether it was ended
        # Every call: module, function, arguments, named
        self.calls: list[tuple[str, str, Sequence[Any], Mapping[str, Any]]] = []
        self._answer = answer

    @property
    def modules(self) -> Mapping[str, tuple[FunctionSpec, ...]]:
        """Each declared module, with one function."""
        return {module: (FunctionSpec("greet", "(name)"),) for module in self.order.found.manifest.host_modules}

    @property
    def log(self) -> str:
        """One line for each call."""
        return "".join(f"called {function}\n" for _, function, *_ in self.calls)

    async def call(self, module: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What it was asked, or what the test wants."""
        self.calls.append((module, function, arguments, named))
        if self._answer is None:
            return [module, function, list(arguments), dict(named)]
        return await self._answer(self, module, function, arguments, named)

    async def close(self) -> None:
        """End it."""
        self.closed = True


class FakeJails:
    """A `StartJail`."""

    def __init__(self) -> None:
        self.started: list[FakeJail] = []  # Every jail, in order
        self.failing: list[BaseException] = []  # What the next starts raise, one after the other
        self.before: Callable[[JailOrder], Any] | None = None  # Awaited before each start
        self.answer: Callable[..., Any] | None = None  # How jails answer: awaited with the jail and the call

    def hold(self, until: asyncio.Event | None = None) -> asyncio.Event:
        """Keep what starts from coming up until an event, or for ever; the event that is set once one has begun."""
        begun, let_go = asyncio.Event(), until or asyncio.Event()

        async def wait(_: JailOrder) -> None:
            begun.set()
            await let_go.wait()

        self.before = wait
        return begun

    def break_with(self, why: str) -> None:
        """Have what starts put off before it has come up."""

        async def broken(order: JailOrder) -> None:
            order.quarantine(why)

        self.before = broken

    @property
    def open(self) -> list[FakeJail]:
        """Those that were not ended."""
        return [jail for jail in self.started if not jail.closed]

    async def __call__(self, order: JailOrder) -> FakeJail:
        """Start one."""
        if self.before is not None:
            await self.before(order)
        if self.failing:
            raise self.failing.pop(0)
        self.started.append(FakeJail(order, self.answer))
        return self.started[-1]


class PluginRig:
    """One machine, and one process on it; a second rig on the same root is another process of the same user."""

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock | None = None,
        start_jail: StartJail | None = None,
        max_risk: Risk = Risk.MEDIUM,
        owner: str = "",
    ) -> None:
        self.root = root
        self.home = root / "home"
        self.user = self.home / "plugins"  # The user's place for plugins
        self.project = root / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.clock = clock or FakeClock()
        self.journal = Journal.open(self.home, clock=self.clock)
        self.jails = FakeJails()  # The jails without boxes
        self.approvals = ApprovalBook(self.home / "trust" / "approvals.json", self.clock)
        self.quarantine = QuarantineBook(self.home / "trust" / "quarantine.json", self.clock)
        self.trust = TrustBook(self.home / "trust" / "authors.json", self.clock)
        self.parts = ManagerParts(
            journal=self.journal,
            clock=self.clock,
            owner=owner or process_owner(),
            places=partial(_places, self.user),
            person=root,
            private=(self.home,),
            approvals=self.approvals,
            quarantine=self.quarantine,
            trust=self.trust,
            start_jail=start_jail or self.jails,
            max_risk=max_risk,
        )
        self.manager = PluginManager(self.parts)  # What is tested

    def write(self, name: str = "greeter", *, place: PluginPlace = "project", **more: Any) -> Path:
        """A plugin in the project, or in the user's place; see `write_plugin`."""
        return write_plugin(self.project / "plugins" if place == "project" else self.user, name, **more)

    def remove(self, name: str = "greeter") -> None:
        """Take the project's plugin away."""
        shutil.rmtree(self.project / "plugins" / name)

    def row(self, name: str = "greeter", session: str = SESSION) -> PluginRow:
        """How it stands."""
        return self.manager.row(session, name, self.project)

    def examine(self, name: str = "greeter") -> Examined:
        """Its bytes."""
        return self.manager.examine(name, self.project)

    def audit(self, name: str = "greeter", *, session: str = SESSION, **facts: Any) -> Examined:
        """Have it audited, with low risk unless the test wants it otherwise; the bytes that were.

        The usual plugin is written first where there is none of this name.
        """
        if not any((place / name).exists() for place in (self.project / "plugins", self.user)):
            self.write(name)
        examined = self.examine(name)
        report = replace(self.report(examined), **facts)
        self.manager.audited(session, examined, report, by="ada", stored=False)
        return examined

    def report(self, examined: Examined) -> PluginAudit:
        """An audit that has found nothing."""
        return PluginAudit(
            plugin=examined.name,
            version=examined.found.manifest.version,
            content_hash=examined.content_hash,
            risk=Risk.LOW,
            verdict=AuditVerdict.APPROVE,
            summary="It greets.",
            at=self.clock.now(),
        )

    def approve(self, name: str = "greeter") -> None:
        """Have it audited and approved."""
        self.manager.approve(SESSION, self.audit(name), by="ada", via="test")

    def yes(self) -> Decision:
        """A person's word."""
        return Decision("app-1", Verdict.ALLOW, "ada", "test", self.clock.now())

    async def enable(
        self,
        name: str = "greeter",
        values: Mapping[str, Any] | None = None,
        *,
        session: str = SESSION,
        examined: Examined | None = None,
        approved: bool = False,
    ) -> EnabledPlugin:
        """Have it enabled after its audit, or because it is approved."""
        return await self.manager.enable(
            session,
            examined or self.examine(name),
            values or {},
            project=self.project,
            by="ada",
            via="test",
            decision=None if approved else self.yes(),
        )

    def events(self, *kinds: str) -> list[Event]:
        """What the journal holds, of these kinds or of all."""
        return [row.event for row in self.journal.events(kinds=kinds)]

    def changes(self, name: str = "greeter") -> list[str]:
        """What was done to a plugin, in order."""
        told = self.events("plugin.changed")
        return [getattr(event, "change", "") for event in told if getattr(event, "plugin", "") == name]

    async def close(self) -> None:
        """End its process in order."""
        await self.manager.close()
        self.journal.close()


def names(rig: PluginRig, session: str = SESSION) -> list[str]:
    """What is enabled in a session."""
    return [plugin.name for plugin in rig.manager.enabled(session)]


def _places(user: Path, project: Path | None) -> list[tuple[PluginPlace, Path]]:
    places: list[tuple[PluginPlace, Path]] = [("user", user)]
    return places if project is None else [*places, ("project", project / "plugins")]
