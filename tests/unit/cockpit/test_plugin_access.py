from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kagura_kernel.cockpit import plugin_access
from kagura_kernel.cockpit.plugin_access import LazyPlugins
from kagura_kernel.cockpit.plugin_talk import PluginTalk
from kagura_kernel.domain.errors import PluginChangedSince


class Manager:
    """Has nothing to refresh."""

    async def refresh(self, session_id: str, project: Path) -> Sequence[str]:
        return (f"{session_id} in {project}",)


class Desk:
    """Takes one word, carries it out when it is let, and finds no further one."""

    def __init__(self) -> None:
        self.talk = PluginTalk()  # What the word begins
        self.go_on = asyncio.Event()  # Lets it begin
        self.taken = asyncio.Event()  # Set when the word is taken

    async def hear(self, _session_ids: Sequence[str]) -> tuple[PluginTalk, ...]:
        if self.taken.is_set():
            return ()
        self.taken.set()
        await self.go_on.wait()
        return (self.talk,)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def access(desk: Desk) -> LazyPlugins:
    made = LazyPlugins(lambda: cast("Any", Manager()), lambda: cast("Any", desk), cast("Any", None), lambda: None)
    made.manager()
    return made


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_run_waits_for_a_word_that_was_taken_a_moment_before(access, desk):
    listening = asyncio.ensure_future(access.hear(["ses-1"]))
    await desk.taken.wait()
    run = asyncio.ensure_future(access.refresh("ses-1", Path("project")))
    await settled()
    assert not run.done()
    desk.go_on.set()
    await listening
    await settled()
    assert not run.done()
    desk.talk.over(cast("Any", None))
    assert await run == ("ses-1 in project",)


async def test_what_failed_elsewhere_does_not_hold_a_run_up(access, desk):
    desk.go_on.set()
    await access.hear(["ses-1"])
    desk.talk.failed(PluginChangedSince("greeter", "shown"))
    assert await access.refresh("ses-1", Path("project")) == ("ses-1 in project",)


async def test_a_run_waits_for_what_others_decided_only_so_long(access, desk, monkeypatch):
    monkeypatch.setattr(plugin_access, "HEAR_SECONDS", 0.01)
    desk.go_on.set()
    assert await access.refresh("ses-1", Path("project")) == ("ses-1 in project",)
    assert not desk.talk.done
