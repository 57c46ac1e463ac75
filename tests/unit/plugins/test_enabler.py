import asyncio
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.approvals import Decision, Verdict
from kagura_kernel.domain.errors import (
    ConfigurationError,
    JournalError,
    PluginCallRefused,
    PluginChangedSince,
    PluginFailed,
    PluginJailBroken,
    PluginNotConfigured,
    PluginQuarantined,
    PluginRefused,
    SandboxError,
)
from kagura_kernel.domain.plugins import PluginFinding, PluginState, Risk, Severity
from kagura_kernel.plugins.sessions import JailOrder
from kagura_kernel.testing.patience import eventually
from tests.support.plugin_events import one_plugin
from tests.support.plugin_rig import SESSION, SOURCE, PluginRig, names

OTHER = "ses-2"
GOES_ON = "The one that is enabled goes on as it was."


async def test_nothing_is_enabled_that_nobody_has_audited(rig: PluginRig) -> None:
    rig.write()
    with pytest.raises(PluginRefused, match="has not been audited"):
        await rig.enable()
    assert rig.jails.started == []
    assert rig.changes() == []


async def test_nothing_is_enabled_that_nobody_has_decided_about(rig: PluginRig) -> None:
    rig.audit()
    with pytest.raises(PluginRefused, match="nobody has decided"):
        await rig.enable(approved=True)
    no = Decision("app-1", Verdict.DENY, "ada", "test", rig.clock.now())
    with pytest.raises(PluginRefused, match="ada said no"):
        await rig.manager.enable(SESSION, rig.examine(), {}, project=rig.project, by="ada", via="test", decision=no)
    assert rig.jails.started == []


async def test_a_danger_in_the_source_keeps_it_out_whatever_the_audit_and_the_person_say(rig: PluginRig) -> None:
    rig.write(source="import subprocess\n" + SOURCE)
    examined = rig.audit()
    assert "may not be loaded" in rig.manager.barred(examined, rig.report(examined))
    for approved in (False, True):
        with pytest.raises(PluginRefused, match=r"may not be loaded: .*plugin.py:1"):
            await rig.enable(approved=approved)
    with pytest.raises(PluginRefused):
        rig.manager.approve(SESSION, examined, by="ada", via="test")
    assert rig.jails.started == []
    assert not rig.row().approved


async def test_a_danger_that_the_audit_found_keeps_it_out(rig: PluginRig) -> None:
    rig.write()
    danger = PluginFinding(Severity.DANGER, "canary", "The auditor was talked round.")
    rig.audit(findings=(danger,))
    with pytest.raises(PluginRefused, match="talked round"):
        await rig.enable()


@pytest.mark.parametrize(
    ("risk", "let_in"), [(Risk.LOW, True), (Risk.UNKNOWN, True), (Risk.MEDIUM, True), (Risk.HIGH, False)]
)
async def test_a_risk_above_the_highest_that_is_allowed_is_refused(rig: PluginRig, risk: Risk, *, let_in: bool) -> None:
    examined = rig.audit(risk=risk)
    if let_in:
        await rig.enable()
        rig.manager.approve(SESSION, examined, by="ada", via="test")
        return
    with pytest.raises(PluginRefused, match="risk HIGH, and MEDIUM is the highest"):
        await rig.enable()
    with pytest.raises(PluginRefused, match="plugin_max_risk"):
        rig.manager.approve(SESSION, examined, by="ada", via="test")
    assert rig.row().why_out.startswith("kept out: it has the risk HIGH, and MEDIUM is the highest")


async def test_the_highest_risk_holds_for_what_was_approved_before_too(tmp_path: Path) -> None:
    lax = PluginRig(tmp_path, max_risk=Risk.HIGH)
    lax.write()
    lax.manager.approve(SESSION, lax.audit(risk=Risk.HIGH), by="ada", via="test")
    assert lax.row().approved
    await lax.close()
    strict = PluginRig(tmp_path, max_risk=Risk.LOW)
    assert not strict.row().approved
    assert strict.manager.approval(strict.examine()) is None
    with pytest.raises(PluginRefused, match="approved at the risk HIGH, and LOW is the highest"):
        await strict.enable(approved=True)
    await strict.close()


async def test_one_module_cannot_be_two_plugins(rig: PluginRig, tmp_path: Path) -> None:
    rig.audit()
    await rig.enable()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    rig.project = elsewhere
    rig.write("other", hostModules=["greeter"])
    rig.audit("other")
    with pytest.raises(PluginRefused, match="module 'greeter', which 'greeter' has"):
        await rig.enable("other")


async def test_files_that_are_swapped_after_the_audit_are_never_loaded(rig: PluginRig) -> None:
    root = rig.write()
    examined = rig.audit()
    (root / "plugin.py").write_text(SOURCE.replace("MODULE", "'greeter'") + "\nimport subprocess\n")
    with pytest.raises(PluginChangedSince):
        await rig.enable(examined=examined)
    assert rig.jails.started == []


async def test_files_that_are_swapped_while_the_jail_starts_are_never_loaded(rig: PluginRig) -> None:
    root = rig.write()
    examined = rig.audit()
    evil = b"import subprocess\n"

    async def swap(_: JailOrder) -> None:
        (root / "plugin.py").write_bytes(evil)

    rig.jails.before = swap
    await rig.enable(examined=examined)
    (jail,) = rig.jails.started
    assert jail.order.found.content.source == SOURCE.replace("MODULE", "'greeter'").encode()
    assert all(evil not in data for data in jail.order.found.content.files.values())
    (note,) = await rig.manager.refresh(SESSION, rig.project)
    assert "have changed" in note


async def test_files_that_are_swapped_while_a_jail_rests_are_never_loaded(rig: PluginRig) -> None:
    root = rig.write()
    rig.audit()
    plugin = await rig.enable()
    await rig.clock.advance(601)
    (root / "plugin.py").write_bytes(b"import subprocess\n")
    await plugin.call("greeter", "greet", [], {})
    first, second = rig.jails.started
    assert second.order.found.content is first.order.found.content


async def test_bytes_that_are_other_than_their_hash_says_are_never_loaded(rig: PluginRig) -> None:
    examined = rig.audit()
    files = dict(examined.found.content.files)
    object.__setattr__(examined.found.content, "files", files | {"plugin.py": b"import subprocess\n"})
    with pytest.raises(PluginChangedSince):
        await rig.enable(examined=examined)
    assert rig.jails.started == []


async def test_an_audit_of_other_bytes_says_nothing_about_these(rig: PluginRig) -> None:
    rig.write()
    before = rig.examine()
    report = rig.report(before)
    rig.write(description="Another")
    with pytest.raises(PluginChangedSince):
        rig.manager.audited(SESSION, rig.examine(), report, by="ada", stored=False)
    assert rig.events("plugin.audited") == []
    assert "other files" in rig.manager.barred(rig.examine(), report)


async def test_one_that_fails_disables_itself_and_the_others_go_on(rig: PluginRig) -> None:
    for name in ("greeter", "waver"):
        rig.write(name)
        rig.audit(name)
    await rig.enable("waver")
    rig.jails.failing = [PluginFailed("greeter", "KeyError", "greeting")]
    with pytest.raises(PluginFailed):
        await rig.enable()
    row = rig.row()
    assert (row.state, row.config) == (PluginState.DISABLED, {"greeting": "hello"})
    assert rig.changes() == ["configured", "failed"]
    failed = rig.events("plugin.changed")[-1]
    assert (failed.reason, failed.by) == ("KeyError: greeting", "kagura")
    assert names(rig) == ["waver"]
    await rig.enable()
    assert names(rig) == ["greeter", "waver"]


async def test_one_that_is_disabled_while_it_starts_does_not_come_up(rig: PluginRig) -> None:
    rig.audit()
    begun = rig.jails.hold()
    enabling = asyncio.create_task(rig.enable())
    await begun.wait()
    assert await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    with pytest.raises(PluginCallRefused):
        await enabling
    assert rig.row().state is PluginState.DISABLED
    assert names(rig) == []


async def test_whoever_calls_an_enabling_off_leaves_no_jail(rig: PluginRig) -> None:
    rig.audit()
    begun = rig.jails.hold()
    enabling = asyncio.create_task(rig.enable())
    await begun.wait()
    enabling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await enabling
    assert names(rig) == []
    rig.jails.before = None
    await rig.enable()
    assert names(rig) == ["greeter"]


async def test_a_plugin_that_is_put_off_is_off_in_every_session_and_stays_so(rig: PluginRig, tmp_path: Path) -> None:
    rig.approve()
    plugin = await rig.enable()
    await rig.enable(session=OTHER)
    rig.jails.started[0].order.quarantine("it broke out of its protocol")
    assert (names(rig), names(rig, OTHER)) == ([], [])
    await eventually(lambda: rig.jails.open == [])
    await eventually(lambda: rig.row().quarantine)
    assert (names(rig), names(rig, OTHER)) == ([], [])
    row = rig.row()
    assert (row.state, row.approved) == (PluginState.QUARANTINED, False)
    assert row.quarantine == "it broke out of its protocol"
    assert rig.changes().count("quarantined") == 2
    with pytest.raises(PluginCallRefused, match="protocol"):
        await plugin.call("greeter", "greet", [], {})
    later = PluginRig(tmp_path)
    assert later.row().state is PluginState.QUARANTINED
    for approved in (True, False):
        with pytest.raises(PluginQuarantined, match="protocol"):
            await later.enable(approved=approved)
    with pytest.raises(PluginQuarantined):
        later.manager.approve(SESSION, later.examine(), by="ada", via="test")
    await later.close()


async def test_a_fresh_audit_is_the_way_out_of_quarantine(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    rig.jails.started[0].order.quarantine("it failed 3 times in a row")
    assert rig.row().state is PluginState.QUARANTINED
    await eventually(lambda: rig.changes()[-1] == "quarantined")
    assert "`plugin audit greeter` examines it anew" in rig.manager.barred(rig.examine(), None)
    rig.audit()
    assert (rig.row().state, rig.row().quarantine) == (PluginState.AUDITED, "")
    assert rig.changes()[-2:] == ["quarantined", "released"]
    await rig.enable()
    assert names(rig) == ["greeter"]


@pytest.mark.parametrize("mode", [0o600, 0o666])
async def test_a_broken_file_of_the_quarantine_lets_nothing_out(rig: PluginRig, mode: int) -> None:
    rig.audit()
    await rig.enable()
    rig.jails.started[0].order.quarantine("it failed")
    await eventually(lambda: rig.changes()[-1] == "quarantined")
    book = rig.home / "trust" / "quarantine.json"
    book.chmod(mode)
    if mode == 0o600:
        book.write_text("{")
    assert rig.row().quarantine == "it failed"
    with pytest.raises(PluginQuarantined):
        await rig.enable()
    # A later entry begins a new book.
    rig.quarantine.put("another", "0" * 64, "it failed too")
    assert rig.row().quarantine == "it failed"
    rig.audit()
    assert rig.row().quarantine == ""
    await rig.enable()


async def test_other_files_are_in_no_quarantine_and_their_audit_lets_nothing_out(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    rig.jails.started[0].order.quarantine("it failed")
    await eventually(lambda: rig.quarantine.reason("greeter", rig.row().content_hash))
    rig.write(description="Another")
    assert rig.row().state is PluginState.DISCOVERED
    rig.audit()
    rig.write()
    assert rig.row().state is PluginState.QUARANTINED


async def test_one_that_is_put_off_while_it_comes_up_is_not_enabled(rig: PluginRig) -> None:
    rig.audit()
    rig.jails.break_with("it sent what no jailer would")
    rig.jails.failing = [PluginFailed("greeter", "", "it ended")]
    with pytest.raises(PluginFailed):
        await rig.enable()
    await eventually(lambda: rig.row().state is PluginState.QUARANTINED)
    await eventually(lambda: rig.changes()[-1] == "quarantined")


async def test_one_that_is_put_off_just_before_it_is_enabled_is_not(rig: PluginRig) -> None:
    rig.audit()
    rig.jails.break_with("it said hello twice")
    with pytest.raises(PluginQuarantined, match="hello twice"):
        await rig.enable()
    assert names(rig) == []
    assert rig.jails.open == []


async def test_what_another_process_put_off_is_off_at_the_next_run(rig: PluginRig) -> None:
    examined = rig.audit()
    await rig.enable()
    rig.quarantine.put("greeter", examined.content_hash, "it failed elsewhere")
    assert await rig.manager.refresh(SESSION, rig.project) == ["greeter is in quarantine and off: it failed elsewhere"]
    assert rig.jails.open == []
    assert names(rig) == []


async def test_a_journal_that_cannot_be_written_lets_nothing_in(rig, monkeypatch):
    rig.audit()
    append = rig.journal.append

    def refuse(event: Any) -> int:
        if getattr(event, "change", "") == "enabled":
            raise JournalError("The disk is full.")
        return append(event)

    monkeypatch.setattr(rig.journal, "append", refuse)
    with pytest.raises(JournalError):
        await rig.enable()
    assert names(rig) == []
    assert rig.jails.open == []


async def test_a_quarantine_that_cannot_be_kept_holds_here_and_says_so(rig, monkeypatch):
    rig.audit()
    await rig.enable()

    def full(*_: object) -> None:
        raise ConfigurationError("quarantine.json", ["the disk is full"])

    monkeypatch.setattr(rig.quarantine, "put", full)
    rig.jails.started[0].order.quarantine("it failed")
    await eventually(lambda: rig.jails.open == [])
    last = rig.events("plugin.changed")[-1]
    assert (last.change, "could not be kept" in last.reason) == ("quarantined", True)
    assert names(rig) == []
    with pytest.raises(PluginQuarantined):
        await rig.enable()
    rig.audit()
    await rig.enable()
    assert names(rig) == ["greeter"]


async def test_a_plugin_is_off_even_if_that_cannot_be_written_down(rig, monkeypatch):
    rig.audit()
    await rig.enable()

    def refuse(_: object) -> int:
        raise JournalError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(rig.journal, "append", refuse)
        with pytest.raises(JournalError):
            await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    assert names(rig) == []
    assert rig.jails.open == []


FAULTS = {
    "its own code": PluginFailed("greeter", "KeyError", "greeting"),
    "its jail": PluginJailBroken("greeter", "it ended"),
    "its box": SandboxError("No box could be started."),
    "undeclared modules": PluginRefused("greeter", "has modules that it does not declare"),
}


async def check_goes_on_with(rig: PluginRig, plugin: Any, greeting: str) -> None:
    """Make sure that it is enabled as it was, that it answers, and that the journal says so."""
    assert list(rig.manager.enabled(SESSION)) == [plugin]
    (jail,) = rig.jails.open
    assert await plugin.call("greeter", "greet", ["ada"], {}) == ["greeter", "greet", ["ada"], {}]
    assert jail.order.plan.config == {"greeting": greeting}
    assert (rig.row().state, rig.row().config) == (PluginState.ENABLED, {"greeting": greeting})
    assert rig.manager.values(SESSION, "greeter") == {"greeting": greeting}
    (use,) = one_plugin(rig.journal, "greeter", project=str(rig.project)).uses
    assert (use.state, use.config) == (PluginState.ENABLED, {"greeting": greeting})


@pytest.mark.parametrize("fault", FAULTS)
async def test_one_that_cannot_be_loaded_anew_goes_on_as_it_was(rig: PluginRig, fault: str) -> None:
    rig.audit()
    plugin = await rig.enable(values={"greeting": "hi"})
    told = rig.manager.briefing(SESSION)
    error = FAULTS[fault]
    rig.jails.failing = [type(error)(*_made_of(error))]
    with pytest.raises(type(error)) as raised:
        await rig.enable(values={"greeting": "ho"})
    assert str(raised.value).count(GOES_ON) == 1
    assert not raised.value.message.startswith(GOES_ON)
    await check_goes_on_with(rig, plugin, "hi")
    assert rig.manager.briefing(SESSION) == told
    assert rig.changes() == ["configured", "enabled", "failed"]
    failed = rig.events("plugin.changed")[-1]
    assert (failed.state, failed.reason, failed.session_id) == ("", raised.value.message, SESSION)


def _made_of(error: Exception) -> tuple[Any, ...]:
    match error:
        case PluginFailed():
            return error.plugin, error.kind, error.text
        case PluginJailBroken() | PluginRefused():
            return error.plugin, error.why
        case _:
            return error.args


async def test_values_that_are_refused_leave_the_enabled_one_as_it_was_and_are_written_down(rig: PluginRig) -> None:
    rig.audit()
    plugin = await rig.enable(values={"greeting": "hi"})
    with pytest.raises(PluginNotConfigured) as raised:
        await rig.enable(values={"greetings": "ho"})
    assert raised.value.message.splitlines()[-1] == GOES_ON
    await check_goes_on_with(rig, plugin, "hi")
    assert rig.changes() == ["configured", "enabled", "failed"]
    failed = rig.events("plugin.changed")[-1]
    assert (failed.state, "greetings" in failed.reason) == ("", True)


async def test_values_that_are_refused_at_first_say_nothing_of_one_that_goes_on(rig: PluginRig) -> None:
    rig.audit()
    with pytest.raises(PluginNotConfigured) as raised:
        await rig.enable(values={"greetings": "ho"})
    assert GOES_ON not in raised.value.message
    rig.jails.failing = [PluginFailed("greeter", "KeyError", "greeting")]
    with pytest.raises(PluginFailed) as loaded:
        await rig.enable()
    assert loaded.value.message == "KeyError: greeting"
    assert rig.row().state is PluginState.DISABLED


async def test_the_old_one_answers_until_the_jail_of_the_new_one_is_up(rig: PluginRig) -> None:
    rig.audit()
    first = await rig.enable(values={"greeting": "hi"})
    go = asyncio.Event()
    begun = rig.jails.hold(go)
    enabling = asyncio.create_task(rig.enable(values={"greeting": "ho"}))
    await begun.wait()
    await check_goes_on_with(rig, first, "hi")
    go.set()
    second = await enabling
    await check_goes_on_with(rig, second, "ho")
    with pytest.raises(PluginCallRefused, match="configured anew"):
        await first.call("greeter", "greet", [], {})
    assert rig.changes() == ["configured", "enabled", "enabled"]
    assert rig.manager.logs(SESSION, "greeter")[-2].text == "configured anew with greeting=ho"


async def test_whoever_calls_a_new_configuration_off_keeps_the_old_one(rig: PluginRig) -> None:
    rig.audit()
    plugin = await rig.enable(values={"greeting": "hi"})
    begun = rig.jails.hold()
    enabling = asyncio.create_task(rig.enable(values={"greeting": "ho"}))
    await begun.wait()
    enabling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await enabling
    await check_goes_on_with(rig, plugin, "hi")


async def test_one_that_is_disabled_while_it_is_configured_anew_is_off_in_both_ways(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    begun = rig.jails.hold()
    enabling = asyncio.create_task(rig.enable(values={"greeting": "ho"}))
    await begun.wait()
    assert await rig.manager.disable(SESSION, "greeter", by="ada", via="test")
    with pytest.raises(PluginCallRefused) as raised:
        await enabling
    assert GOES_ON not in raised.value.message
    assert (names(rig), rig.jails.open, rig.row().state) == ([], [], PluginState.DISABLED)
    view = one_plugin(rig.journal, "greeter", project=str(rig.project))
    assert view.state(SESSION) is PluginState.DISABLED


async def test_one_whose_new_jail_breaks_its_protocol_is_off_with_the_old_one(rig: PluginRig) -> None:
    rig.audit()
    await rig.enable()
    rig.jails.break_with("it said hello twice")
    rig.jails.failing = [PluginJailBroken("greeter", "it said hello twice")]
    with pytest.raises(PluginJailBroken) as raised:
        await rig.enable(values={"greeting": "ho"})
    assert GOES_ON not in raised.value.message
    assert names(rig) == []
    await eventually(lambda: rig.jails.open == [])
    assert rig.row().state is PluginState.QUARANTINED


async def test_files_that_changed_take_the_old_one_off_when_the_new_one_cannot_be_loaded(rig: PluginRig) -> None:
    rig.approve()
    await rig.enable(values={"greeting": "hi"})
    rig.write(version="1.1.0")
    rig.audit()
    rig.jails.failing = [PluginFailed("greeter", "KeyError", "greeting")]
    with pytest.raises(PluginFailed) as raised:
        await rig.enable(values={"greeting": "ho"})
    assert GOES_ON not in raised.value.message
    assert (names(rig), rig.jails.open, rig.row().state) == ([], [], PluginState.DISABLED)
    assert rig.changes() == ["approved", "configured", "enabled", "unapproved", "changed", "configured", "failed"]


async def test_files_that_change_under_a_new_configuration_take_the_old_one_off(rig: PluginRig) -> None:
    rig.approve()
    await rig.enable(values={"greeting": "hi"})

    async def swap(_: JailOrder) -> None:
        rig.write(version="1.1.0")

    rig.jails.before = swap
    rig.jails.failing = [PluginFailed("greeter", "KeyError", "greeting")]
    with pytest.raises(PluginFailed) as raised:
        await rig.enable(values={"greeting": "ho"})
    assert GOES_ON not in raised.value.message
    assert (names(rig), rig.jails.open, rig.row().state) == ([], [], PluginState.DISCOVERED)
    assert rig.changes()[-3:] == ["changed", "unapproved", "failed"]
    view = one_plugin(rig.journal, "greeter", project=str(rig.project))
    assert view.state(SESSION) is not PluginState.ENABLED


async def test_a_decision_about_files_that_are_others_by_now_takes_the_old_one_off(rig: PluginRig) -> None:
    examined = rig.audit()
    await rig.enable()
    rig.write(version="1.1.0")
    with pytest.raises(PluginChangedSince) as raised:
        await rig.enable(examined=examined, values={"greeting": "ho"})
    assert GOES_ON not in raised.value.message
    assert (names(rig), rig.jails.open) == ([], [])


async def test_a_new_configuration_that_cannot_be_written_down_is_not_taken(rig, monkeypatch):
    rig.audit()
    plugin = await rig.enable(values={"greeting": "hi"})

    def refuse(_: object) -> int:
        raise JournalError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(rig.journal, "append", refuse)
        with pytest.raises(JournalError, match=GOES_ON):
            await rig.enable(values={"greeting": "ho"})
    await check_goes_on_with(rig, plugin, "hi")
