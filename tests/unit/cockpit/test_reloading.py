"""Enabled plugins whose files change: off at once, audited anew, and asked about."""

import pytest

from kagura_kernel.cockpit import plugin_audit
from kagura_kernel.domain.plugins import PluginState, Risk
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.views import runs
from kagura_kernel.testing.patience import wait_until
from tests.support.auditor import FakeAuditor
from tests.support.plugin_rig import SOURCE, write_plugin
from tests.unit.cockpit.test_plugins import ASKING, desk, enable

__all__ = ["desk"]

OTHER = SOURCE.replace('+ " " +', '+ ", " +')
DANGEROUS = "import subprocess\n" + SOURCE


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(plugin_audit, "LOOK_SECONDS", 0.02)


@pytest.fixture
def cockpit(desk):
    """With the plugin enabled."""
    cockpit = desk()
    enable(cockpit, "greeting=hi", accept=Risk.LOW).result(30)
    return cockpit


def save(project, source=OTHER, **keys):
    write_plugin(project / "plugins", "greeter", source=source, **keys)


def asked(cockpit, *but):
    """The question that waits, once there is one that is none of these."""
    found = []
    wait_until(lambda: found.extend(one for one in cockpit.pending() if one.id not in but) or found)
    return found[0]


def audits(cockpit):
    return [row for row in runs(cockpit.journal) if row.flavour == "audit"]


def state(cockpit):
    return cockpit.plugins.row("greeter").state


def test_changed_files_take_it_off_and_are_audited_and_asked_about_with_what_is_other(cockpit, jails, project):
    save(project, version="1.1.0", permissions={"net": ["example.org"]})
    request = asked(cockpit)
    assert jails.open == []
    assert request.title == "Enable the plugin greeter 1.1.0 anew, risk LOW"
    assert "files: plugin.json changed, plugin.py changed\npermissions: new: reaches example.org" in request.detail
    cockpit.decide(request.id, allow=True, by="ada", via="sidebar")
    wait_until(lambda: state(cockpit) is PluginState.ENABLED)
    assert jails.open[0].order.plan.config == {"greeting": "hi"}
    assert jails.open[0].order.found.content.source == (project / "plugins/greeter/plugin.py").read_bytes()
    assert len(audits(cockpit)) == 2


def test_a_no_leaves_it_off_and_is_the_last_word_until_somebody_enables_it(cockpit, jails, project):
    save(project)
    cockpit.decide(asked(cockpit).id, allow=False, by="ada", via="sidebar")
    wait_until(lambda: not cockpit.plugins.reloading.asking)
    save(project, OTHER + "\n")
    assert cockpit.plugins.row("greeter").state is PluginState.DISCOVERED
    assert (jails.open, cockpit.pending(), len(audits(cockpit))) == ([], [], 2)


def test_no_answer_is_a_no(desk, jails, project):
    cockpit = desk(settings=Settings(approval_deadline=0.05))
    enable(cockpit, "greeting=hi", accept=Risk.LOW).result(30)
    save(project)
    wait_until(lambda: len(audits(cockpit)) == 2 and audits(cockpit)[0].status == "denied")
    assert jails.open == []


def test_many_saves_make_one_question_and_a_later_save_another_in_its_place(cockpit, project):
    for count in range(20):
        save(project, OTHER + "\n" * count)
    first = asked(cockpit)
    save(project, OTHER + "# later\n")
    second = asked(cockpit, first.id)
    assert [one.id for one in cockpit.pending()] == [second.id]
    assert len(audits(cockpit)) == 3


def test_two_sessions_are_asked_each_and_one_audit_is_paid_for(desk, project):
    auditor = FakeAuditor()
    cockpit = desk(brain=auditor)
    for session in ("one", "two"):
        enable(cockpit, "greeting=hi", accept=Risk.LOW, session=session).result(30)
    save(project)
    wait_until(lambda: len(cockpit.pending()) == 2)
    assert len(auditor.turns) == 2


def test_whoever_enables_it_meanwhile_takes_the_question_away(cockpit, project):
    save(project)
    asked(cockpit)
    enable(cockpit, "greeting=hey", accept=Risk.LOW).result(30)
    wait_until(lambda: not cockpit.pending())
    assert state(cockpit) is PluginState.ENABLED


def test_whoever_disables_it_takes_the_question_away(cockpit, project):
    save(project)
    asked(cockpit)
    cockpit.plugins.disable("greeter", by="ada", via="cell")
    wait_until(lambda: not cockpit.pending())


def test_a_danger_is_asked_about_by_nobody_and_looked_at_again_once_it_is_gone(cockpit, jails, project):
    save(project, DANGEROUS)
    wait_until(lambda: len(audits(cockpit)) == 2 and audits(cockpit)[0].status == "denied")
    assert (cockpit.pending(), jails.open) == ([], [])
    save(project)
    asked(cockpit)


def test_a_value_that_is_new_and_missing_is_told_and_not_asked_for(cockpit, jails, project):
    save(project, ASKING.replace('"greeting":', '"word":', 1))
    wait_until(lambda: any("word: it needs a value" in line.text for line in cockpit.plugins.logs("greeter")))
    assert (cockpit.pending(), jails.open) == ([], [])


def test_where_the_settings_say_so_the_scan_alone_looks(desk, project):
    auditor = FakeAuditor()
    cockpit = desk(brain=auditor, settings=Settings(plugin_reload="scan"))
    enable(cockpit, "greeting=hi", accept=Risk.LOW).result(30)
    save(project)
    assert asked(cockpit).title.endswith("risk UNKNOWN")
    assert len(auditor.turns) == 1


def test_where_the_settings_say_no_nothing_happens_before_the_next_run(desk, jails, project):
    cockpit = desk(settings=Settings(plugin_reload="off"))
    enable(cockpit, "greeting=hi", accept=Risk.LOW).result(30)
    save(project)
    assert cockpit.plugins.row("greeter").state is PluginState.ENABLED
    assert len(jails.open) == 1


def test_where_nobody_can_be_asked_it_is_off_and_nothing_is_paid_for(desk, jails, project):
    cockpit = desk()
    enable(cockpit, "greeting=hi", accept=Risk.LOW, headless=True).result(30)
    save(project)
    wait_until(lambda: not jails.open and not cockpit.plugins.reloading.asking)
    assert len(audits(cockpit)) == 1


def test_the_next_run_is_told_that_it_is_off(cockpit, project):
    save(project)
    asked(cockpit)
    told = cockpit._engine.call(cockpit.plugins.manager.refresh(cockpit.session_id, project))
    assert told == ["greeter is off: its files have changed; enable it again to have it audited"]
