"""Plugins enabled for a session, in real jails: what is loaded, what is off, and what is left."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import (
    PluginCallRefused,
    PluginChangedSince,
    PluginFailed,
    PluginJailBroken,
    PluginQuarantined,
    PluginRefused,
)
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import JailStarter
from kagura_kernel.plugins.sessions import JailOrder, RunningJail
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from tests.support.plugin_rig import SESSION, PluginRig

SAYS = """\
SCHEMA = {}


def create_host_functions(config):
    def say():
        return "WORD"

    return {MODULE: {"say": say}}
"""
BASE = """\
SCHEMA = {"base": {"type": "string", "description": "Where", "promptKey": True}}


def create_host_functions(config):
    def look():
        return config["base"]

    return {MODULE: {"look": look}}
"""
BROKEN = {
    "no module": "SCHEMA = {}\n\n\ndef create_host_functions(config):\n    return {}\n",
    "another module": "SCHEMA = {}\n\n\ndef create_host_functions(config):\n    return {'other': {'f': len}}\n",
    "an error": "SCHEMA = {}\n\n\ndef create_host_functions(config):\n    return 1 / 0\n",
}
DEFECT = """\
SCHEMA = {}


def create_host_functions(config):
    def fail():
        return [][1:].nothing

    return {MODULE: {"fail": fail}}
"""


def says(word: str) -> str:
    return SAYS.replace("WORD", word)


class Machine(PluginRig):
    """A rig whose jails are real."""

    def __init__(self, root: Path) -> None:
        self.backend = BubblewrapBackend()
        self.ends: list[asyncio.Task[str]] = []  # For each box that was started, its end
        self.before_box: Callable[[], object] = lambda: None  # Called before each of them
        super().__init__(root, start_jail=self._jail, clock=FakeClock())

    async def call(self, function: str, name: str = "greeter", session: str = SESSION) -> object:
        (plugin,) = [plugin for plugin in self.manager.enabled(session) if plugin.name == name]
        return await plugin.call(name, function, [], {})

    async def boxes(self, many: int) -> None:
        """Wait until so many boxes live, of those that were started."""
        await eventually(lambda: sum(not end.done() for end in self.ends) == many)

    async def close(self) -> None:
        await super().close()
        await self.boxes(0)
        await self.backend.close()

    async def _jail(self, order: JailOrder) -> RunningJail:
        return await JailStarter(JailParts(start_box=self._box), self.journal)(order)

    async def _box(self, spec: BoxSpec) -> Box:
        self.before_box()
        box = await self.backend.start(spec)
        self.ends.append(asyncio.create_task(box.wait_closed()))
        return box


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    yield made
    await made.close()


async def test_a_boxed_function_answers_until_its_plugin_is_disabled(machine):
    machine.write(source=says("hello"))
    machine.audit()
    plugin = await machine.enable()
    assert [spec.name for spec in plugin.modules["greeter"]] == ["say"]
    assert await machine.call("say") == "hello"
    await machine.manager.disable(SESSION, "greeter", by="ada", via="test")
    await machine.boxes(0)
    with pytest.raises(PluginCallRefused):
        await plugin.call("greeter", "say", [], {})


async def test_a_configured_path_is_another_one_in_the_jail_and_stands_in_the_journal(machine, tmp_path):
    (tmp_path / "data").mkdir()
    machine.write(source=BASE, permissions={"read": ["{base}"]})
    machine.audit()
    await machine.enable(values={"base": str(tmp_path / "data")})
    assert await machine.call("look") == "/plugin/read/0"
    row = machine.row()
    assert row.config == {"base": str(tmp_path / "data")}
    assert row.opens.read == (str(tmp_path / "data"),)
    assert row.permissions.read == ("{base}",)


async def test_files_that_are_swapped_between_hashing_and_compiling_are_never_loaded(machine):
    root = machine.write(source=says("audited"))
    machine.audit()
    machine.before_box = lambda: machine.write(source=says("swapped"))
    await machine.enable()
    assert "swapped" in (root / "plugin.py").read_text()
    assert await machine.call("say") == "audited"
    (note,) = await machine.manager.refresh(SESSION, machine.project)
    assert note.startswith("greeter is off")


async def test_a_directory_that_is_swapped_for_a_link_is_never_loaded(machine, tmp_path):
    root = machine.write(source=says("audited"))
    examined = machine.audit()
    evil = tmp_path / "evil"
    root.rename(evil)
    root.symlink_to(evil)
    with pytest.raises(PluginChangedSince):
        await machine.enable(examined=examined)
    assert "link" in machine.row().problem


@pytest.mark.parametrize("fault", BROKEN)
async def test_one_that_cannot_be_loaded_disables_itself_and_the_others_go_on(machine, fault):
    machine.write("sound", source=says("hello"))
    machine.write(source=BROKEN[fault])
    for name in ("sound", "greeter"):
        machine.audit(name)
    await machine.enable("sound")
    with pytest.raises((PluginRefused, PluginFailed, PluginJailBroken)):
        await machine.enable()
    assert machine.row().state is PluginState.DISABLED
    assert machine.changes() == ["configured", "failed"]
    assert await machine.call("say", "sound") == "hello"
    await machine.boxes(1)


async def test_one_that_goes_wrong_again_and_again_is_put_off_in_every_session(machine):
    machine.write(source=DEFECT)
    machine.write("sound", source=says("hello"))
    for name in ("sound", "greeter"):
        machine.audit(name)
        await machine.enable(name)
    await machine.enable(session="ses-2")
    for _ in range(5):
        with pytest.raises(PluginFailed):
            await machine.call("fail")
    logged = [line.text for line in machine.manager.logs(SESSION, "greeter")]
    await eventually(lambda: machine.changes().count("quarantined") == 2)
    await eventually(lambda: len(machine.manager.enabled("ses-2")) == 0)
    row = machine.row()
    assert row.state is PluginState.QUARANTINED
    assert "5 times in a row" in row.quarantine
    assert any("AttributeError" in text for text in logged)
    with pytest.raises(PluginQuarantined):
        await machine.enable()
    assert await machine.call("say", "sound") == "hello"


async def test_disabling_cuts_a_call_that_is_under_way(machine):
    machine.write(source="import time\n\n" + SAYS.replace('return "WORD"', "time.sleep(60)"))
    machine.audit()
    await machine.enable()
    call = asyncio.create_task(machine.call("say"))
    await asyncio.sleep(0)
    await machine.manager.disable(SESSION, "greeter", by="ada", via="test")
    with pytest.raises((PluginJailBroken, PluginCallRefused)):
        await call
    await machine.boxes(0)
