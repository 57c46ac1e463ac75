import json
import threading
from uuid import uuid4

import pytest

from kagura_kernel.brain.provider import AuthContext
from kagura_kernel.cockpit.plugin_talk import (
    AuditBegun,
    AuditDone,
    AuditPlugin,
    EnablePlugin,
    PluginAsked,
    PluginEnabled,
    PluginFailure,
)
from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import (
    ApprovalAlreadyDecided,
    ApprovalUnknown,
    BrainNotConfigured,
    PluginChangedSince,
    PluginNotConfigured,
    PluginRefused,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.plugins import PluginState, Risk
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.mailbox import send_plugin_word
from kagura_kernel.journal.views import runs
from kagura_kernel.testing.brain import Hang
from kagura_kernel.testing.patience import wait_until
from tests.support.auditor import FakeAuditor, report
from tests.support.plugin_rig import write_plugin

ASKING = """\
SCHEMA = {"greeting": {"type": "string", "description": "What it says first"}}


def create_host_functions(config):
    return {MODULE: {"greet": lambda name: config["greeting"] + name}}
"""


READING = """\
SCHEMA = {
    "folder": {"type": "string", "description": "What it reads"},
    "url": {"type": "string", "description": "Where else"},
}


def create_host_functions(config):
    return {MODULE: {"names": lambda: config["folder"]}}
"""


@pytest.fixture
def desk(cockpit_with, project, jails, monkeypatch):
    monkeypatch.chdir(project)

    def make(*answers, brain=None, **options):
        cockpit = cockpit_with(brain or FakeAuditor(*answers), start_jail=jails, **options)
        write_plugin(project / "plugins", "greeter")
        return cockpit

    return make


@pytest.fixture
def cockpit(desk):
    return desk()


def enable(cockpit, *words, **more):
    return cockpit.plugins.enable(EnablePlugin(name="greeter", by="ada", words=words, **more))


def question(talk):
    found = []
    talk.subscribe(lambda step: found.append(step.question) if isinstance(step, PluginAsked) else None)
    wait_until(lambda: found or talk.done)
    assert found, talk.steps
    return found[0]


def kinds(talk):
    return [type(step).__name__ for step in talk.steps]


def test_a_person_reads_the_report_says_enable_and_the_jail_comes_up(cockpit, jails):
    talk = enable(cockpit, "greeting=hi there")
    asked = question(talk)
    assert (asked.audit.risk, asked.choices) == (Risk.LOW, ("Enable", "Approve", "Reject"))
    assert not jails.started
    asked.answer("Enable", {}, by="ada", via="cell")
    row = talk.result(30)
    assert (row.state, row.approved, row.config) == (PluginState.ENABLED, False, {"greeting": "hi there"})
    assert kinds(talk) == ["PluginExamined", "AuditBegun", "AuditDone", "PluginAsked", "PluginEnabled"]
    assert jails.open[0].order.plan.config == {"greeting": "hi there"}


def test_an_answer_that_comes_the_moment_the_question_is_shown_counts(desk):
    refused = []

    def answer(step):
        if isinstance(step, PluginAsked):
            try:
                step.question.answer("Enable", {}, by="ada", via="cell")
            except ApprovalUnknown as error:
                refused.append(error)

    talk = enable(desk())
    talk.subscribe(answer)
    row = talk.result(30)
    assert (row.state, refused) == (PluginState.ENABLED, [])


def test_approve_enables_and_spares_later_sessions_the_audit(cockpit, jails):
    talk = enable(cockpit)
    question(talk).answer("Approve", {}, by="ada", via="cell")
    assert talk.result(30).approved
    later = enable(cockpit, session="another")
    assert later.result(30).state is PluginState.ENABLED
    assert kinds(later) == ["PluginExamined", "PluginEnabled"]
    assert later.steps[-1].fast
    assert len(jails.open) == 2


def test_reject_enables_nothing_and_is_written_down(cockpit, jails):
    talk = enable(cockpit)
    question(talk).answer("Reject", {}, by="ada", via="cell")
    with pytest.raises(PluginRefused, match="ada said no"):
        talk.result(30)
    assert isinstance(talk.steps[-1], PluginFailure)
    assert not jails.started
    [run] = [row for row in runs(cockpit.journal) if row.flavour == "audit"]
    assert (run.status, run.error_code) == ("denied", "ERR_PLUGIN_REFUSED")
    assert any("rejected" in line.what for line in cockpit.plugins.logs("greeter"))


def test_an_answer_from_elsewhere_counts_and_the_cell_s_own_comes_too_late(cockpit):
    talk = enable(cockpit)
    asked = question(talk)
    cockpit.decide(asked.approval_id, allow=True, by="eve", via="sidebar")
    assert talk.result(30).state is PluginState.ENABLED
    with pytest.raises(ApprovalAlreadyDecided):
        asked.answer("Reject", {}, by="ada", via="cell")


def test_what_a_person_remarks_on_a_no_is_told(cockpit):
    talk = enable(cockpit)
    cockpit.decide(question(talk).approval_id, allow=False, by="eve", via="sidebar", answer="it reads too much")
    with pytest.raises(PluginRefused, match=r"not enabled: eve said no \(it reads too much\)"):
        talk.result(30)


def test_the_word_approve_from_elsewhere_approves(cockpit):
    talk = enable(cockpit)
    cockpit.decide(question(talk).approval_id, allow=True, by="eve", via="terminal", answer="approve")
    assert talk.result(30).approved


def test_where_nobody_can_be_asked_policy_says_no_and_how_to_say_yes(desk, jails):
    talk = enable(desk(), headless=True)
    with pytest.raises(
        PluginRefused, match=r"not enabled: nobody can be asked here, so the policy says no. Say `--accept-risk"
    ):
        talk.result(30)
    assert not jails.started


@pytest.mark.parametrize(
    ("accept", "risk", "enabled"), [("LOW", "LOW", True), ("LOW", "MEDIUM", False), ("HIGH", "MEDIUM", True)]
)
def test_a_risk_that_was_accepted_beforehand_needs_no_question(desk, accept, risk, enabled):
    talk = enable(desk(report(riskLevel=risk)), accept=Risk[accept], headless=True)
    if enabled:
        assert talk.result(30).state is PluginState.ENABLED
    else:
        with pytest.raises(PluginRefused):
            talk.result(30)
    assert not any(isinstance(step, PluginAsked) for step in talk.steps)


def test_an_audit_is_by_nobody_else_than_is_locked(desk, jails):
    cockpit = desk("LOW", settings=Settings(locked=("model",)))
    with pytest.raises(UsageError, match="the setting `model` says"):
        enable(cockpit, model="dearer").result(30)
    assert not jails.started


def test_an_unknown_risk_counts_as_medium(desk):
    talk = enable(desk(), accept=Risk.LOW, headless=True, static=True)
    with pytest.raises(PluginRefused, match=r"Its risk, UNKNOWN, which counts as MEDIUM, is above the LOW accepted"):
        talk.result(30)
    assert enable(desk(), accept=Risk.MEDIUM, headless=True, static=True).result(30).risk is Risk.UNKNOWN


def test_a_risk_above_the_highest_allowed_cannot_be_accepted_by_anybody(desk, jails):
    talk = enable(desk(report(riskLevel="HIGH")), accept=Risk.HIGH)
    with pytest.raises(PluginRefused):
        talk.result(30)
    assert not any(isinstance(step, PluginAsked) for step in talk.steps)
    assert not jails.started
    allowed = enable(desk(report(riskLevel="HIGH"), settings=Settings(plugin_max_risk=Risk.HIGH)), accept=Risk.HIGH)
    assert allowed.result(30).state is PluginState.ENABLED


def test_a_form_is_checked_field_by_field_and_its_values_arrive(cockpit, project, jails):
    write_plugin(project / "plugins", "greeter", source=ASKING)
    talk = enable(cockpit)
    asked = question(talk)
    assert [field.name for field in asked.fields] == ["greeting"]
    assert asked.problems({"greeting": ""}) == {"greeting": "it needs a value; it has no default"}
    with pytest.raises(PluginNotConfigured):
        asked.answer("Enable", {}, by="ada", via="cell")
    assert not talk.done
    asked.answer("Enable", {"greeting": "servus"}, by="ada", via="cell")
    assert talk.result(30).config == {"greeting": "servus"}
    assert jails.open[0].order.plan.config == {"greeting": "servus"}


def test_who_decides_is_shown_what_the_command_says_and_not_what_was_configured_before(cockpit, project):
    write_plugin(project / "plugins", "greeter", source=READING, permissions={"read": ["{folder}"], "net": ["{url}"]})
    for folder in ("./plugins", "."):
        talk = enable(cockpit, f"folder={folder}", "url=postgresql://ada:pass@example.org/shop")
        asked = question(talk)
        [done] = [step for step in talk.steps if isinstance(step, AuditDone)]
        assert done.config == {"folder": folder, "url": "postgresql://ada:***@example.org/shop"}
        wait_until(cockpit.approvals)
        asked.answer("Enable", {}, by="ada", via="cell")
        talk.result(30)
        assert f"reads: {folder} (folder)" in cockpit.approvals()[0].detail.splitlines()


def test_an_approved_plugin_that_needs_a_value_asks_for_that_alone(cockpit, project):
    write_plugin(project / "plugins", "greeter", source=ASKING)
    talk = enable(cockpit, "greeting=hi")
    question(talk).answer("Approve", {}, by="ada", via="cell")
    talk.result(30)
    later = enable(cockpit, session="another")
    asked = question(later)
    assert (asked.audit, asked.approval_id, asked.choices) == (None, "", ("Enable", "Cancel"))
    asked.answer("Enable", {"greeting": "hello"}, by="ada", via="cell")
    assert later.result(30).state is PluginState.ENABLED
    again = enable(cockpit, session="third")
    question(again).answer("Cancel", {}, by="ada", via="cell")
    with pytest.raises(PluginRefused, match="not filled in"):
        again.result(30)


def test_a_yes_from_elsewhere_without_the_values_that_are_needed_says_which(cockpit, project):
    write_plugin(project / "plugins", "greeter", source=ASKING)
    talk = enable(cockpit)
    cockpit.decide(question(talk).approval_id, allow=True, by="eve", via="sidebar")
    with pytest.raises(PluginNotConfigured, match="greeting") as failed:
        talk.result(30)
    assert failed.value.missing == ("greeting",)


def test_wrong_words_are_told_before_anybody_audits(cockpit):
    talk = enable(cockpit, "greetin=hi")
    with pytest.raises(PluginNotConfigured, match="greeting"):
        talk.result(30)
    assert not any(isinstance(step, AuditBegun) for step in talk.steps)


def test_a_path_that_no_jail_can_open_is_told_before_anybody_audits(cockpit, project):
    write_plugin(project / "plugins", "greeter", source=ASKING, permissions={"read": ["{greeting}"]})
    talk = enable(cockpit, "greeting=./nowhere")
    with pytest.raises(PluginNotConfigured, match="nowhere"):
        talk.result(30)
    assert not any(isinstance(step, AuditBegun) for step in talk.steps)


def test_an_audit_of_the_same_files_is_not_paid_for_twice(desk):
    cockpit = desk(report(summary="Once."), report(summary="Twice."))
    first = enable(cockpit)
    question(first).answer("Reject", {}, by="ada", via="cell")
    with pytest.raises(PluginRefused):
        first.result(30)
    second = enable(cockpit)
    asked = question(second)
    assert asked.audit.summary == "Once."
    [done] = [step for step in second.steps if isinstance(step, AuditDone)]
    assert done.cached
    asked.answer("Enable", {}, by="ada", via="cell")
    second.result(30)
    anew = cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada"))
    assert anew.result(30).risk is Risk.LOW
    assert [step.audit.summary for step in anew.steps if isinstance(step, AuditDone)] == ["Twice."]


def test_a_scan_alone_does_not_stand_for_what_a_brain_says_once_there_is_one(desk):
    cockpit = desk(report(summary="Read by a brain."))
    cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada", static=True)).result(30)
    again = enable(cockpit, static=True)
    assert question(again).audit.static_only
    assert [step.cached for step in again.steps if isinstance(step, AuditDone)] == [True]
    again.kill("ada")
    assert question(enable(cockpit)).audit.summary == "Read by a brain."


def test_what_a_cassette_said_of_a_plugin_does_not_stand_for_what_a_brain_says(desk, project):
    cockpit = desk(report(summary="Read by a brain."))
    examined = cockpit.plugins.examine("greeter")
    ids = [str(uuid4()), str(uuid4())]
    said = {
        "riskLevel": "LOW",
        "summary": "Said by a cassette.",
        "descriptionAccurate": True,
        "verdict": "approve",
        "injectionAttempts": ids,
    }
    lines = [
        {"kagura_cassette": 1, "task": f"{examined.content_hash} {ids}"},
        {"text": json.dumps(said)},
        {"done": {"text": json.dumps(said)}},
    ]
    tape = project / "tape.jsonl"
    tape.write_text("".join(json.dumps(line) + "\n" for line in lines))
    played = cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada", replay=tape))
    assert played.result(30).risk is Risk.LOW
    again = enable(cockpit, replay=tape)
    assert question(again).audit.summary == "Said by a cassette."
    again.kill("ada")
    with pytest.raises(PluginRefused):
        again.result(30)
    later = enable(cockpit)
    assert question(later).audit.summary == "Read by a brain."
    later.kill("ada")
    with pytest.raises(PluginRefused):
        later.result(30)


def test_one_changed_character_needs_a_new_audit(cockpit, project):
    talk = enable(cockpit)
    question(talk).answer("Approve", {}, by="ada", via="cell")
    talk.result(30)
    readme = project / "plugins" / "greeter" / "README.md"
    readme.write_text(readme.read_text() + "!")
    later = enable(cockpit, session="another")
    assert question(later).audit is not None
    later.kill("ada")
    with pytest.raises(PluginRefused):
        later.result(30)


def test_a_danger_is_refused_whatever_anybody_accepts_and_no_brain_is_paid_for_it(desk, project, jails):
    brain = FakeAuditor()
    cockpit = desk(brain=brain)
    source = ASKING.replace("SCHEMA", "import subprocess\n\nSCHEMA", 1)
    write_plugin(project / "plugins", "greeter", source=source)
    talk = enable(cockpit, "greeting=hi", accept=Risk.HIGH)
    with pytest.raises(PluginRefused):
        talk.result(30)
    assert not jails.started
    assert not any(isinstance(step, PluginAsked) for step in talk.steps)
    assert not brain.turns


def test_one_that_is_called_off_before_its_audit_is_known_of_is_never_enabled(desk, jails):
    cockpit = desk(Hang())
    talk = enable(cockpit, "greeting=hi", accept=Risk.MEDIUM)
    stop = talk._stop
    wait_until(lambda: talk.handle)
    # As when it was asked to stop a moment before there was a run to be killed.
    stop()
    with pytest.raises(UsageError, match="called off"):
        talk.result(30)
    wait_until(lambda: talk.handle.done)
    [run] = [row for row in runs(cockpit.journal) if row.flavour == "audit"]
    assert run.status == "killed"
    assert not jails.started


def test_killing_the_audit_ends_the_talk_and_leaves_no_question(desk):
    cockpit = desk(Hang())
    talk = enable(cockpit)
    wait_until(lambda: talk.handle)
    talk.kill("ada")
    with pytest.raises(PluginRefused, match="not audited"):
        talk.result(30)
    assert not cockpit.pending()


def test_without_a_brain_the_scan_alone_counts_and_the_report_says_so(cockpit_with, jails, project, monkeypatch):
    monkeypatch.chdir(project)
    brain = FakeAuditor()
    monkeypatch.setattr(brain, "resolve_auth", lambda: AuthContext(ready=False, method="", reason="no key"))
    cockpit = cockpit_with(brain, start_jail=jails)
    write_plugin(project / "plugins", "greeter")
    audit = question(enable(cockpit)).audit
    assert (audit.risk, audit.static_only) == (Risk.UNKNOWN, True)
    assert "brain" in audit.remark
    with pytest.raises(BrainNotConfigured):
        enable(cockpit, brain="fake")


def test_an_unknown_plugin_is_told_with_the_near_one(desk):
    with pytest.raises(UnknownName, match="greeter"):
        desk().plugins.enable(EnablePlugin(name="greetr", by="ada")).result(30)


def test_what_was_decided_in_the_sidebar_is_done_here(cockpit, jails):
    shown = enable(cockpit, static=True)
    hash_ = question(shown).audit.content_hash
    shown.kill("ada")
    with pytest.raises(PluginRefused):
        shown.result(30)
    session = cockpit.session_id
    send_plugin_word(
        cockpit.journal,
        session,
        "enable",
        "greeter",
        by="eve",
        via="sidebar",
        content_hash=hash_,
        words=["greeting=hey"],
    )
    wait_until(lambda: jails.open)
    assert jails.open[0].order.plan.config == {"greeting": "hey"}
    wait_until(lambda: cockpit.plugins.row("greeter").state is PluginState.ENABLED)
    send_plugin_word(cockpit.journal, session, "disable", "greeter", by="eve", via="sidebar")
    wait_until(lambda: not jails.open)


def test_what_was_shown_in_the_sidebar_and_has_changed_since_is_not_enabled(cockpit, project, jails):
    enable(cockpit, accept=Risk.LOW, headless=True).result(30)
    cockpit.plugins.disable("greeter", by="ada", via="cell")
    old = cockpit.plugins.row("greeter").content_hash
    (project / "plugins" / "greeter" / "README.md").write_text("other")
    talk = cockpit.plugins.enable(EnablePlugin(name="greeter", by="eve", via="sidebar", seen=old))
    with pytest.raises(PluginChangedSince):
        talk.result(30)
    assert not jails.open


def test_a_session_s_plugins_are_its_own(cockpit, jails):
    enable(cockpit, accept=Risk.LOW, headless=True, session="one").result(30)
    assert cockpit.plugins.row("greeter", "one").state is PluginState.ENABLED
    assert cockpit.plugins.row("greeter", "two").state is not PluginState.ENABLED
    assert cockpit.plugins.disable("greeter", by="ada", via="cell", session="one")
    assert not cockpit.plugins.disable("greeter", by="ada", via="cell", session="one")
    assert not jails.open


def test_closing_the_cockpit_ends_jails_and_open_questions(cockpit, jails):
    enable(cockpit, accept=Risk.LOW, headless=True).result(30)
    waiting = enable(cockpit, session="another")
    asked = question(waiting)
    cockpit.close()
    assert not jails.open
    assert waiting.done
    assert asked.approval_id


def test_many_threads_may_answer_and_one_is_heard(cockpit):
    talk = enable(cockpit)
    asked = question(talk)
    heard, late = [], []

    def answer(who):
        try:
            asked.answer("Enable", {}, by=who, via="cell")
            heard.append(who)
        except ApprovalAlreadyDecided:
            late.append(who)

    threads = [threading.Thread(target=answer, args=(f"p{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    talk.result(30)
    assert (len(heard), len(late)) == (1, 7)
    decided = cockpit.approvals()[0]
    assert (decided.verdict, decided.by) == (Verdict.ALLOW, heard[0])


def test_the_enabled_step_gives_words_that_enable_it_once_more(cockpit):
    talk = enable(cockpit, "greeting=hi, you", accept=Risk.LOW, headless=True)
    talk.result(30)
    [step] = [step for step in talk.steps if isinstance(step, PluginEnabled)]
    again = enable(cockpit, *step.words, session="another", accept=Risk.LOW, headless=True)
    assert again.result(30).config == {"greeting": "hi, you"}
    assert json.dumps(step.words)
