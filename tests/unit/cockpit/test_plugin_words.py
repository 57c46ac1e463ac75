"""Words about plugins from other processes that come to nothing: whoever left them can read why."""

from kagura_kernel.domain.plugins import Risk
from kagura_kernel.journal.mailbox import send_plugin_word
from kagura_kernel.journal.views import runs
from kagura_kernel.testing.patience import wait_until
from tests.support.plugin_rig import write_plugin
from tests.unit.cockpit.test_plugins import ASKING, desk, enable

__all__ = ["desk"]


def asked_for(cockpit, deed="enable", **more):
    """Leave the process's own session a word about its plugin."""
    send_plugin_word(cockpit.journal, cockpit.session_id, deed, "greeter", by="eve", via="sidebar", **more)


def failure(cockpit):
    """What was written down about the last one that came to nothing, once it is there."""
    found = []

    def told():
        events = [row.event for row in cockpit.journal.events(kinds=["plugin.changed"])]
        found[:] = [event for event in events if event.change == "failed"]
        return bool(found)

    wait_until(told)
    return found[-1]


def audits(cockpit):
    return [row for row in runs(cockpit.journal) if row.flavour == "audit"]


def test_a_setting_that_nobody_knows_is_told_with_who_asked_and_for_which_session(desk, jails):
    cockpit = desk()
    enable(cockpit, accept=Risk.LOW, headless=True).result(30)
    cockpit.plugins.disable("greeter", by="ada", via="cell")
    shown = cockpit.plugins.row("greeter").content_hash
    asked_for(cockpit, content_hash=shown, words=["greting=hey"])
    told = failure(cockpit)
    assert "greting" in told.reason
    assert (told.by, told.via, told.session_id, told.content_hash) == ("eve", "sidebar", cockpit.session_id, shown)
    assert not jails.open
    assert any("greting" in line.text for line in cockpit.plugins.logs("greeter"))


def test_what_nobody_has_audited_is_not_enabled_because_somebody_says_to_have_seen_it(desk, jails):
    cockpit = desk()
    shown = cockpit.plugins.row("greeter").content_hash
    asked_for(cockpit, content_hash=shown)
    assert "has not been audited" in failure(cockpit).reason
    assert not jails.started
    assert audits(cockpit) == []


def test_an_approved_plugin_that_lacks_a_value_says_so_and_waits_for_no_form(desk, jails, project):
    cockpit = desk()
    write_plugin(project / "plugins", "greeter", source=ASKING)
    enable(cockpit, "greeting=hi", accept=Risk.LOW, headless=True, session="one").result(30)
    row = cockpit.plugins.approve("greeter", by="ada", via="cell")
    asked_for(cockpit, content_hash=row.content_hash)
    assert "greeting" in failure(cockpit).reason
    assert len(jails.started) == 1


def test_an_approval_that_cannot_be_given_says_why(desk):
    cockpit = desk()
    cockpit.plugins.rows()
    asked_for(cockpit, "approve")
    assert "has not been audited" in failure(cockpit).reason
