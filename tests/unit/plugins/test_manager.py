import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import (
    ConfigurationError,
    PluginCallRefused,
    PluginChangedSince,
    PluginNotConfigured,
    PluginRefused,
)
from kagura_kernel.domain.events import PluginAudited
from kagura_kernel.domain.plugins import AuditVerdict, PluginFinding, PluginState, Risk, Severity
from tests.support.plugin_events import one_plugin
from tests.support.plugin_rig import SESSION, PluginRig, names

OTHER = "ses-2"


async def test_a_plugin_goes_its_way_from_discovered_to_disabled(rig: PluginRig) -> None:
    rig.write()
    assert rig.row().state is PluginState.DISCOVERED
    rig.audit()
    row = rig.row()
    assert (row.state, row.risk, row.verdict, row.approved) == (PluginState.AUDITED, "LOW", "approve", False)
    plugin = await rig.enable(values={"greeting": "good day"})
    row = rig.row()
    assert (row.state, row.config) == (PluginState.ENABLED, {"greeting": "good day"})
    assert await plugin.call("greeter", "greet", ["ada"], {}) == ["greeter", "greet", ["ada"], {}]
    assert await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    assert rig.row().state is PluginState.DISABLED
    assert rig.changes() == ["configured", "enabled", "disabled"]
    with pytest.raises(PluginCallRefused, match="'greeter' is off: it was disabled"):
        await plugin.call("greeter", "greet", ["ada"], {})
    assert not await rig.manager.disable(SESSION, "greeter", by="ada", via="test")


async def test_what_is_loaded_is_what_was_examined_with_its_whole_configuration(rig: PluginRig) -> None:
    examined = rig.audit()
    await rig.enable()
    (jail,) = rig.jails.started
    assert jail.order.found.content is examined.found.content or jail.order.found.content == examined.found.content
    assert jail.order.plan.config == {"greeting": "hello"}
    assert jail.order.session_id == SESSION


async def test_everything_that_is_decided_stands_in_the_journal(rig: PluginRig) -> None:
    examined = rig.audit()
    await rig.enable()
    configured, enabled = rig.events("plugin.changed")
    assert (enabled.plugin, enabled.change) == ("greeter", "enabled")
    assert (enabled.state, enabled.version) == ("enabled", "1.0.0")
    assert (enabled.content_hash, enabled.by, enabled.via) == (examined.content_hash, "ada", "test")
    assert (enabled.config, enabled.owner) == ({"greeting": "hello"}, rig.parts.owner)
    assert getattr(configured, "state", "") == "configured"
    assert one_plugin(rig.journal, "greeter", project=str(rig.project)).state(SESSION) is PluginState.ENABLED


async def test_enabling_lasts_for_the_session_alone(rig: PluginRig, tmp_path: Path) -> None:
    rig.audit()
    await rig.enable()
    assert names(rig) == ["greeter"]
    assert names(rig, OTHER) == []
    assert rig.row(session=OTHER).state is PluginState.AUDITED
    later = PluginRig(tmp_path)
    assert names(later) == []
    assert later.row().state is PluginState.AUDITED
    await later.close()


async def test_rediscovery_keeps_state_and_configuration(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable(values={"greeting": "hi"})
    rig.write("another")
    for _ in range(2):
        rig.manager.rows("", rig.project)
    assert (rig.row().state, rig.row().config) == (PluginState.ENABLED, {"greeting": "hi"})
    await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    rig.manager.rows("", rig.project)
    assert (rig.row().state, rig.row().config) == (PluginState.DISABLED, {"greeting": "hi"})
    assert rig.manager.values(SESSION, "greeter") == {"greeting": "hi"}


async def test_enabling_anew_takes_the_new_configuration_and_ends_the_jail_of_the_old_one(rig: PluginRig) -> None:
    rig.audit()
    first = await rig.enable(values={"greeting": "hi"})
    second = await rig.enable(values={"greeting": "ho"})
    assert [jail.closed for jail in rig.jails.started] == [True, False]
    assert rig.jails.started[1].order.plan.config == {"greeting": "ho"}
    assert list(rig.manager.enabled(SESSION)) == [second]
    with pytest.raises(PluginCallRefused, match="configured anew"):
        await first.call("greeter", "greet", [], {})


async def test_a_wrong_configuration_changes_nothing_and_leaves_what_runs(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    with pytest.raises(PluginNotConfigured, match="greetings"):
        await rig.enable(values={"greetings": "hi"})
    assert names(rig) == ["greeter"]
    assert rig.row().state is PluginState.ENABLED
    assert len(rig.jails.started) == 1


async def test_two_that_enable_one_plugin_at_once_leave_one_jail(rig: PluginRig) -> None:
    rig.audit()
    await asyncio.gather(*(rig.enable(values={"greeting": str(n)}) for n in range(5)))
    assert len(rig.jails.open) == 1
    assert names(rig) == ["greeter"]


async def test_two_sessions_have_a_jail_each(rig: PluginRig) -> None:
    rig.audit()
    await asyncio.gather(rig.enable(), rig.enable(session=OTHER))
    assert len(rig.jails.open) == 2
    await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    assert (names(rig), names(rig, OTHER)) == ([], ["greeter"])


async def test_an_approved_plugin_needs_no_audit_in_a_later_session(rig: PluginRig, tmp_path: Path) -> None:
    rig.approve()
    assert rig.row().approved
    later = PluginRig(tmp_path)
    examined = later.examine()
    record = later.manager.approval(examined)
    assert record is not None
    assert (record.content_hash, record.risk) == (examined.content_hash, Risk.LOW)
    await later.enable(approved=True, session=OTHER)
    assert names(later, OTHER) == ["greeter"]
    await later.close()


async def test_approving_needs_an_audit_of_these_very_files(rig: PluginRig) -> None:
    rig.write()
    with pytest.raises(PluginRefused, match="has not been audited"):
        rig.manager.approve(SESSION, rig.examine(), by="ada", via="test")
    rig.audit()
    rig.write(description="Another one")
    with pytest.raises(PluginChangedSince, match="since it was audited"):
        rig.manager.approve(SESSION, rig.examine(), by="ada", via="test")


CHANGES = {
    "a character of the source": lambda root: (root / "plugin.py").write_text(
        (root / "plugin.py").read_text().replace('" "', '"-"')
    ),
    "a blank at the end": lambda root: (root / "plugin.py").write_bytes((root / "plugin.py").read_bytes() + b" "),
    "the manifest": lambda root: (root / "plugin.json").write_text(
        json.dumps(json.loads((root / "plugin.json").read_text()) | {"description": "x"})
    ),
    "the README": lambda root: (root / "README.md").write_text("# greeter!\n"),
    "a further file": lambda root: (root / "more.txt").write_text(""),
    "a file less": lambda root: (root / "README.md").unlink(),
    "another name for a file": lambda root: (root / "README.md").rename(root / "readme.md"),
    "an execute bit": lambda root: (root / "plugin.py").chmod(0o755),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_one_change_anywhere_voids_approval_and_enablement_for_good(rig: PluginRig, change: str) -> None:
    root = rig.write()
    rig.approve()
    await rig.enable(approved=True)
    before = {path.name: (path.read_bytes(), path.stat().st_mode) for path in root.iterdir()}
    CHANGES[change](root)
    assert not rig.row().approved
    with pytest.raises(PluginRefused, match="not approved"):
        await rig.enable(approved=True)
    (note,) = await rig.manager.refresh(SESSION, rig.project)
    assert note == "greeter is off: its files have changed; enable it again to have it audited"
    assert names(rig) == []
    assert rig.jails.open == []
    assert rig.row().state is PluginState.DISCOVERED
    assert rig.changes()[-2:] == ["unapproved", "changed"]
    for path in root.iterdir():
        path.unlink()
    for name, (data, mode) in before.items():
        (root / name).write_bytes(data)
        (root / name).chmod(mode)
    assert not rig.row().approved
    assert rig.row().state is PluginState.AUDITED


async def test_an_approval_is_kept_where_only_its_owner_reads_it(rig: PluginRig) -> None:
    rig.approve()
    book = rig.home / "trust" / "approvals.json"
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    assert stat.S_IMODE(book.parent.stat().st_mode) == 0o700
    entry = json.loads(book.read_text())["greeter"]
    assert set(entry) == {"contentHash", "approvedAt", "auditRiskLevel", "auditVerdict"}


async def test_a_book_that_others_may_write_approves_nothing_and_says_so(rig: PluginRig) -> None:
    rig.approve()
    assert rig.approvals.problem == ""
    (rig.home / "trust" / "approvals.json").chmod(0o666)
    assert not rig.row().approved
    (problem,) = rig.manager.problems
    assert "approvals.json counts as empty: others may write it. " in problem


async def test_an_approval_that_cannot_be_kept_is_not_told_as_one(rig, monkeypatch):
    examined = rig.audit()

    def full(_: object) -> None:
        raise ConfigurationError("approvals.json", ["the disk is full"])

    monkeypatch.setattr(rig.approvals, "approve", full)
    with pytest.raises(ConfigurationError):
        rig.manager.approve(SESSION, examined, by="ada", via="test")
    assert rig.changes() == ["approved", "unapproved"]
    assert not one_plugin(rig.journal, "greeter", project=str(rig.project)).approved


async def test_taking_an_approval_back_leaves_what_runs_to_its_session(rig: PluginRig) -> None:
    rig.approve()
    await rig.enable(approved=True)
    assert rig.manager.unapprove(SESSION, "greeter", by="ada", via="test")
    assert not rig.manager.unapprove(SESSION, "greeter", by="ada", via="test")
    assert not rig.row().approved
    assert names(rig) == ["greeter"]
    assert await rig.manager.refresh(SESSION, rig.project) == []


WORSE = {
    "another risk": {"risk": Risk.CRITICAL},
    "another verdict": {"verdict": AuditVerdict.REJECT},
    "a danger": {"findings": (PluginFinding(Severity.DANGER, "auditor", "it calls home"),)},
}


@pytest.mark.parametrize("worse", WORSE.values(), ids=WORSE)
async def test_a_worse_audit_of_the_same_files_takes_the_approval_back_in_every_process(rig, tmp_path, worse):
    rig.approve()
    other = PluginRig(tmp_path)
    assert other.row().approved
    examined = rig.audit(**worse)
    for one in (rig, other):
        assert not one.row().approved
        assert one.manager.approval(examined) is None
        with pytest.raises(PluginRefused):
            await one.enable(approved=True, session=OTHER)
    assert rig.changes() == ["approved", "unapproved"]
    assert not one_plugin(rig.journal, "greeter", project=str(rig.project)).approved
    rig.audit()
    assert not rig.row().approved
    await other.close()


async def test_an_approval_that_stands_in_its_file_beside_a_worse_audit_counts_for_nothing(rig: PluginRig) -> None:
    rig.approve()
    examined = rig.examine()
    await rig.clock.advance(60)
    # As a process leaves it that is killed after its audit was stored.
    audit = replace(rig.report(examined), risk=Risk.MEDIUM, verdict=AuditVerdict.REVIEW)
    rig.journal.append(PluginAudited(run_id="", session_id=OTHER, at=rig.clock.now(), audit=audit, by="ada"))
    assert not rig.row().approved
    with pytest.raises(PluginRefused, match="approved at risk LOW, approve, and an audit of the same files says risk"):
        await rig.enable(approved=True)
    rig.audit()
    assert not rig.row().approved, "a better audit later is no person's word"
    assert rig.manager.approval(examined) is None


@pytest.mark.parametrize(
    "facts",
    [{}, {"static_only": True, "risk": Risk.UNKNOWN, "verdict": AuditVerdict.REVIEW}],
    ids=["as good", "the scan alone"],
)
async def test_an_audit_that_says_nothing_worse_leaves_the_approval(rig: PluginRig, facts: dict[str, Any]) -> None:
    rig.approve()
    rig.audit(**facts)
    assert rig.row().approved
    await rig.enable(approved=True)


async def test_what_an_audit_bars_is_off_before_the_next_run_of_every_session(rig: PluginRig, tmp_path: Path) -> None:
    rig.approve()
    await rig.enable(approved=True)
    other = PluginRig(tmp_path)
    other.audit(risk=Risk.CRITICAL)
    (note,) = await rig.manager.refresh(SESSION, rig.project)
    assert note.startswith("greeter is off: by its latest audit it has the risk CRITICAL")
    assert (names(rig), rig.jails.open) == ([], [])
    assert rig.row().state is PluginState.DISABLED
    await other.close()


async def test_a_rejection_is_written_down_and_nothing_else(rig: PluginRig) -> None:
    rig.write()
    rig.manager.reject(SESSION, rig.audit(), by="ada", via="test", why="not today")
    (told,) = rig.events("plugin.changed")
    assert (told.change, told.reason, told.state) == ("rejected", "not today", "")


async def test_logs_tell_what_happened_and_what_it_printed(rig: PluginRig) -> None:
    rig.audit()
    plugin = await rig.enable()
    await plugin.call("greeter", "greet", [], {})
    lines = rig.manager.logs(SESSION, "greeter")
    assert [line.what for line in lines] == ["seen", "audited", "configured", "enabled", "printed"]
    assert lines[-1].text == "called greet"
    await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    assert [line.what for line in rig.manager.logs(SESSION, "greeter")][-2:] == ["disabled", "printed"]
    assert [line.what for line in rig.manager.logs(OTHER, "greeter", limit=2)] == ["enabled", "disabled"]


async def test_what_is_done_elsewhere_can_be_written_down(rig: PluginRig) -> None:
    rig.manager.note("installed", "greeter", by="ada", via="terminal", why="from greeter.zip", content_hash="c" * 64)
    (told,) = rig.events("plugin.changed")
    assert (told.change, told.session_id, told.owner, told.reason) == ("installed", "", "", "from greeter.zip")


async def test_the_end_of_a_process_ends_every_jail_and_says_so(rig: PluginRig) -> None:
    rig.audit()
    plugin = await rig.enable()
    await rig.enable(session=OTHER)
    await rig.manager.close()
    await rig.manager.close()
    assert rig.jails.open == []
    assert rig.changes()[-2:] == ["disabled", "disabled"]
    view = one_plugin(rig.journal, "greeter", project=str(rig.project))
    assert {view.state(SESSION), view.state(OTHER)} == {PluginState.DISABLED}
    with pytest.raises(PluginCallRefused, match="session has ended"):
        await plugin.call("greeter", "greet", [], {})
    with pytest.raises(PluginRefused, match="session has ended"):
        await rig.enable()


async def test_an_audit_that_its_run_has_stored_is_not_stored_twice(rig: PluginRig) -> None:
    rig.write()
    examined = rig.examine()
    rig.manager.audited(SESSION, examined, rig.report(examined), by="ada", stored=True)
    assert rig.events("plugin.audited") == []
    rig.audit()
    assert len(rig.events("plugin.audited")) == 1
    assert rig.manager.cached_audit("greeter", examined.content_hash) == rig.report(examined)


async def test_an_audit_of_new_files_leaves_what_runs_alone(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    rig.write(version="1.1.0")
    rig.audit()
    assert rig.row().state is PluginState.ENABLED
    assert names(rig) == ["greeter"]
