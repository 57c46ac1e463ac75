import asyncio
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import PluginCallRefused, PluginJailBroken, PluginRefused
from kagura_kernel.plugins.permissions import JailPlan, NetRule, ShownPath
from kagura_kernel.plugins.sessions import FAILED_STARTS, IDLE_SECONDS, JailedPlugin, JailOrder
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from tests.support.plugin_rig import FakeJail, FakeJails
from tests.support.sample_plugin import sample_plugin


class Enabled:
    """One plugin, and what it was put off for."""

    def __init__(self, plan: JailPlan | None = None) -> None:
        self.found, _ = sample_plugin()
        self.clock = FakeClock()
        self.jails = FakeJails()
        self.put_off: list[str] = []
        order = JailOrder("ses-1", self.found, plan or JailPlan(), self.put_off.append)
        self.plugin = JailedPlugin(order, self.jails, self.clock)

    async def greet(self) -> Any:
        return await self.plugin.call("greeting", "greet", ["ada"], {})


@pytest.fixture
async def one() -> Any:
    enabled = Enabled()
    yield enabled
    await enabled.plugin.close("is over")
    assert enabled.jails.open == []


async def test_it_is_what_was_loaded(one: Enabled) -> None:
    await one.plugin.open()
    plugin = one.plugin
    assert (plugin.name, plugin.version) == ("greeter", "1.2.0")
    assert plugin.content_hash == one.found.content.content_hash
    assert [spec.name for spec in plugin.modules["greeting"]] == ["greet"]
    assert one.jails.started[0].order.found.content is one.found.content


async def test_a_jail_that_nobody_calls_ends_and_the_next_call_starts_another_of_the_same_bytes(one: Enabled) -> None:
    await one.plugin.open()
    await one.clock.advance(IDLE_SECONDS - 1)
    assert one.jails.open
    await one.greet()
    await one.clock.advance(IDLE_SECONDS - 1)
    assert one.jails.open
    await one.clock.advance(2)
    assert one.jails.open == []
    assert one.plugin.log == "called greet\n"
    assert await one.greet() == ["greeting", "greet", ["ada"], {}]
    first, second = one.jails.started
    assert second.order is first.order
    await one.clock.advance(IDLE_SECONDS + 1)
    assert one.jails.open == []


@pytest.mark.parametrize(
    "plan",
    [
        JailPlan(net=(NetRule("name", "example.org"),)),
        JailPlan(shown=(ShownPath(Path("/data"), "/plugin/write/0", writable=True),)),
    ],
)
async def test_a_jail_that_writes_or_reaches_hosts_stays_since_another_would_begin_its_budgets_anew(plan):
    one = Enabled(plan)
    await one.plugin.open()
    await one.clock.advance(3 * IDLE_SECONDS)
    assert one.jails.open
    await one.greet()
    assert len(one.jails.started) == 1
    await one.plugin.close("is over")
    assert one.jails.open == []


async def test_a_long_call_is_not_taken_for_idleness(one: Enabled) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answering(*_: Any) -> str:
        return await answer

    one.jails.answer = answering
    await one.plugin.open()
    call = asyncio.create_task(one.greet())
    await one.clock.advance(3 * IDLE_SECONDS)
    assert one.jails.open
    answer.set_result("done")
    assert await call == "done"
    await one.clock.advance(IDLE_SECONDS - 1)
    assert one.jails.open
    await one.clock.advance(2)
    assert one.jails.open == []


async def test_of_many_calls_at_once_to_one_that_rests_one_starts_the_jail(one: Enabled) -> None:
    await one.plugin.open()
    await one.clock.advance(IDLE_SECONDS + 1)
    assert len(await asyncio.gather(*(one.greet() for _ in range(20)))) == 20
    assert len(one.jails.started) == 2


async def test_calls_after_its_end_are_refused_and_nothing_starts_again(one: Enabled) -> None:
    await one.plugin.open()
    await one.plugin.close("was disabled")
    with pytest.raises(PluginCallRefused, match="'greeter' was disabled"):
        await one.greet()
    await one.plugin.close("for another reason")
    with pytest.raises(PluginCallRefused, match="was disabled"):
        await one.greet()
    assert len(one.jails.started) == 1


async def test_closing_cuts_a_start(one: Enabled) -> None:
    one.jails.hold()
    opening = asyncio.create_task(one.plugin.open())
    await asyncio.sleep(0)
    await one.plugin.close("was disabled")
    with pytest.raises(PluginCallRefused, match="was disabled"):
        await opening


async def test_whoever_stops_waiting_for_a_start_ends_it_and_is_told_nothing_else(one: Enabled) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(_: JailOrder) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    one.jails.before = never
    opening = asyncio.create_task(one.plugin.open())
    await begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await ended.wait()
    one.jails.before = None
    await one.plugin.open()
    assert one.jails.open


async def test_one_that_does_not_come_up_again_and_again_is_put_off(one: Enabled) -> None:
    await one.plugin.open()
    await one.clock.advance(IDLE_SECONDS + 1)
    one.jails.failing = [PluginJailBroken("greeter", "it ended") for _ in range(FAILED_STARTS + 1)]
    for number in range(1, FAILED_STARTS + 2):
        with pytest.raises(PluginJailBroken):
            await one.greet()
        assert len(one.put_off) == (1 if number >= FAILED_STARTS else 0)
    assert "3 times in a row" in one.put_off[0]


async def test_failed_starts_count_only_in_a_row(one: Enabled) -> None:
    for _ in range(FAILED_STARTS):
        one.jails.failing = [PluginRefused("greeter", "has other modules")]
        with pytest.raises(PluginRefused):
            await one.greet()
        await one.greet()
        await one.clock.advance(IDLE_SECONDS + 1)
    assert one.put_off == []


async def resting(one: Enabled) -> asyncio.Event:
    """Let its jail rest; the jail does not end before the event is set."""

    class Slow(FakeJail):
        async def close(self) -> None:
            await go_on.wait()
            await super().close()

    go_on = asyncio.Event()
    await one.plugin.open()
    one.jails.started[0].__class__ = Slow
    await one.clock.advance(IDLE_SECONDS + 1)
    return go_on


async def test_a_call_that_comes_while_the_jail_ends_waits_and_has_the_next_one(one: Enabled) -> None:
    go_on = await resting(one)
    call = asyncio.create_task(one.greet())
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(one.jails.started) == 1
    go_on.set()
    await call
    assert [jail.closed for jail in one.jails.started] == [True, False]


async def test_ending_one_whose_jail_ends_just_now_leaves_none(one: Enabled) -> None:
    go_on = await resting(one)
    closing = asyncio.create_task(one.plugin.close("was disabled"))
    await asyncio.sleep(0)
    go_on.set()
    await closing
    await eventually(lambda: one.jails.started[0].closed)


def test_the_rig_and_the_sample_are_plugins(tmp_path: Path) -> None:
    from kagura_kernel.plugins.manifest import load_found
    from tests.support.plugin_rig import write_plugin

    assert load_found(write_plugin(tmp_path, "fs-like"), "user").manifest.host_modules == ("fs_like",)
