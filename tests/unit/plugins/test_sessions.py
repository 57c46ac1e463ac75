from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import (
    PluginChangedSince,
)
from kagura_kernel.domain.events import PluginChanged
from kagura_kernel.journal.mailbox import send_plugin_word
from tests.support.plugin_rig import SESSION, PluginRig, names

OTHER = "ses-2"


def word(rig: PluginRig, deed: Any, **more: Any) -> None:
    send_plugin_word(rig.journal, more.pop("session", SESSION), deed, "greeter", by="bob", via="sidebar", **more)


async def test_changed_files_are_noticed_at_the_next_run_and_the_plugin_is_off_until_it_is_audited(rig):
    for name in ("greeter", "waver"):
        rig.write(name)
        rig.audit(name)
        await rig.enable(name)
    assert await rig.manager.refresh(SESSION, rig.project) == []
    rig.write(version="1.1.0")
    assert names(rig) == ["greeter", "waver"]
    (note,) = await rig.manager.refresh(SESSION, rig.project)
    assert note.startswith("greeter is off")
    assert names(rig) == ["waver"]
    assert [event.version for event in rig.events("plugin.seen") if event.plugin == "greeter"] == ["1.0.0", "1.1.0"]
    with pytest.raises(PluginChangedSince):
        await rig.enable()
    rig.audit()
    await rig.enable()
    assert rig.jails.started[-1].order.found.manifest.version == "1.1.0"
    assert await rig.manager.refresh(SESSION, rig.project) == []


@pytest.mark.parametrize("gone", ["directory", "manifest", "replaced by a link"])
async def test_a_plugin_whose_files_are_none_any_more_is_off_at_the_next_run(rig, tmp_path, gone):
    root = rig.write()
    rig.audit()
    await rig.enable()
    if gone == "manifest":
        (root / "plugin.json").unlink()
    elif gone == "directory":
        rig.remove()
    else:
        root.rename(tmp_path / "moved")
        root.symlink_to(tmp_path / "moved")
    (note,) = await rig.manager.refresh(SESSION, rig.project)
    assert note == "greeter is off: its files are gone, or no plugin any more"
    assert names(rig) == []


async def test_a_run_in_another_project_keeps_what_its_session_has(rig: PluginRig, tmp_path: Path) -> None:
    rig.audit()
    await rig.enable()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert await rig.manager.refresh(SESSION, elsewhere) == []
    assert names(rig) == ["greeter"]


async def test_the_briefing_follows_whatever_changes_and_nothing_else(rig: PluginRig) -> None:
    manager = rig.manager
    assert manager.briefing(SESSION) == ""
    rig.audit()
    assert manager.briefing(SESSION) == ""
    await rig.enable()
    first = manager.briefing(SESSION)
    assert "greeter" in first
    assert manager.briefing(SESSION) == first
    assert manager.briefing(OTHER) == ""
    await manager.disable(SESSION, "greeter", by="ada", via="test")
    assert manager.briefing(SESSION) == ""
    await rig.enable()
    assert manager.briefing(SESSION) == first
    rig.write(version="2.0.0")
    await manager.refresh(SESSION, rig.project)
    assert manager.briefing(SESSION) == ""


async def test_a_word_to_disable_is_heard_by_its_session_alone(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    await rig.enable(session=OTHER)
    word(rig, "disable")
    assert await rig.manager.hear([SESSION]) == ()
    assert (names(rig), names(rig, OTHER)) == ([], ["greeter"])
    last = rig.events("plugin.changed")[-1]
    assert isinstance(last, PluginChanged)
    assert (last.change, last.by, last.via, last.session_id) == ("disabled", "bob", "sidebar", SESSION)


async def test_a_session_with_a_plugin_is_listened_for_even_if_nobody_names_it(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    word(rig, "disable")
    await rig.manager.hear([])
    assert names(rig) == []


async def test_words_are_heard_at_the_latest_before_the_next_run(rig: PluginRig) -> None:
    rig.approve()
    await rig.enable()
    word(rig, "disable")
    word(rig, "unapprove")
    word(rig, "enable", content_hash="a" * 64)
    await rig.manager.refresh(SESSION, rig.project)
    assert names(rig) == []
    assert not rig.row().approved
    (left,) = await rig.manager.hear([SESSION])
    assert (left.deed, left.content_hash) == ("enable", "a" * 64)
    assert await rig.manager.hear([SESSION]) == ()


async def test_what_a_person_must_be_asked_about_is_left_to_whoever_can(rig: PluginRig) -> None:
    for deed in ("enable", "audit", "approve"):
        word(rig, deed)
    assert [left.deed for left in await rig.manager.hear([SESSION])] == ["enable", "audit", "approve"]


async def test_a_no_from_elsewhere_is_written_down(rig: PluginRig) -> None:
    word(rig, "reject", content_hash="b" * 64)
    assert await rig.manager.hear([SESSION]) == ()
    (told,) = rig.events("plugin.changed")
    assert isinstance(told, PluginChanged)
    assert (told.change, told.content_hash, told.by) == ("rejected", "b" * 64, "bob")
