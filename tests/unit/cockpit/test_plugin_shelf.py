import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kagura_kernel.cockpit import controls
from kagura_kernel.cockpit.controls import LazyPlugins
from kagura_kernel.cockpit.plugin_talk import PluginTalk
from kagura_kernel.cockpit.plugins import PluginShelf
from kagura_kernel.domain.errors import (
    ConfigurationError,
    JournalUnwritable,
    PluginChangedSince,
    PluginRefused,
    SignatureInvalid,
    UnknownName,
)
from kagura_kernel.plugins.signature import make_key
from tests.support.plugin_rig import PluginRig, write_plugin

BY = {"by": "ada", "via": "test"}


@pytest.fixture
async def rig(tmp_path: Path):
    made = PluginRig(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def shelf(rig: PluginRig) -> PluginShelf:
    return PluginShelf(lambda: rig.manager, rig.home)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return write_plugin(tmp_path / "elsewhere", "mine")


@pytest.fixture
def key(shelf: PluginShelf, mine: Path, tmp_path: Path) -> str:
    return shelf.sign(mine, tmp_path / "my.key", "Ada", **BY).key


def full(rig: PluginRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be written down."""

    def refuse(*_: object, **__: object) -> None:
        raise JournalUnwritable("the journal", "the disk is full")

    monkeypatch.setattr(rig.journal, "append", refuse)


def test_what_is_done_is_written_down(rig, shelf, mine, key):
    shelf.install(str(mine), None, **BY)
    shelf.remove("mine", **BY)
    shelf.trust("Ada", key, **BY)
    assert shelf.distrust("Ada", **BY)
    assert not shelf.distrust("Ada", **BY)
    assert rig.changes("mine") == ["signed", "installed", "removed"]
    assert rig.changes("Ada") == ["trusted", "distrusted"]


def test_what_cannot_be_written_down_is_not_installed(rig, shelf, mine, monkeypatch):
    full(rig, monkeypatch)
    with pytest.raises(JournalUnwritable):
        shelf.install(str(mine), None, **BY)
    assert list(rig.user.glob("[!.]*")) == []


def test_what_cannot_be_written_down_is_not_removed(rig, shelf, mine, monkeypatch):
    shelf.install(str(mine), None, **BY)
    full(rig, monkeypatch)
    with pytest.raises(JournalUnwritable):
        shelf.remove("mine", **BY)
    assert (rig.user / "mine" / "plugin.py").exists()


def test_nobody_is_trusted_or_distrusted_whom_nothing_says_it_of(rig, shelf, key, monkeypatch):
    with monkeypatch.context() as now:
        full(rig, now)
        with pytest.raises(JournalUnwritable):
            shelf.trust("Ada", key, **BY)
        assert shelf.authors() == ()
    shelf.trust("Ada", key, **BY)
    full(rig, monkeypatch)
    with pytest.raises(JournalUnwritable):
        shelf.distrust("Ada", **BY)
    assert [author.name for author in shelf.authors()] == ["Ada"]


def test_what_is_written_down_and_fails_is_taken_back_there_too(rig, shelf, key, monkeypatch):
    def refuse(*_: object) -> None:
        raise ConfigurationError("trusted-authors.json", ["it cannot be written: the disk is full"])

    monkeypatch.setattr(rig.trust, "add", refuse)
    with pytest.raises(ConfigurationError):
        shelf.trust("Ada", key, **BY)
    assert rig.changes("Ada") == ["trusted", "distrusted"]
    told = rig.events("plugin.changed")[-1]
    assert "the disk is full" in told.reason
    assert told.by == "kagura"


def test_a_key_that_is_none_or_another_s_leaves_no_trace(rig, shelf, key, tmp_path):
    shelf.trust("Ada", key, **BY)
    other = tmp_path / "other.key"
    make_key(other)
    for author, told in (("Bob", key), ("Bob", "nothing"), ("Ada", "ed25519:" + "A" * 43 + "=")):
        with pytest.raises(SignatureInvalid):
            shelf.trust(author, told, **BY)
    assert rig.changes("Bob") == []
    assert rig.changes("Ada") == ["trusted"]


@pytest.mark.parametrize("name", ["greeter", "..", ".", "../project", ".hidden", ""])
def test_only_one_s_own_are_removed(rig, shelf, name):
    rig.write()
    with pytest.raises(UnknownName):
        shelf.remove(name, **BY)
    assert rig.events("plugin.changed") == []
    assert rig.project.exists()


def test_a_plugin_of_that_name_stays_where_an_install_fails_to_be_written_down(rig, shelf, mine, monkeypatch):
    shelf.install(str(mine), None, **BY)
    with pytest.raises(PluginRefused):
        shelf.install(str(mine), None, **BY)
    (mine / "README.md").write_text("another\n")
    full(rig, monkeypatch)
    with pytest.raises(JournalUnwritable):
        shelf.install(str(mine), None, replace=True, **BY)
    assert (rig.user / "mine" / "plugin.py").exists()


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
    monkeypatch.setattr(controls, "HEAR_SECONDS", 0.01)
    desk.go_on.set()
    assert await access.refresh("ses-1", Path("project")) == ("ses-1 in project",)
    assert not desk.talk.done
