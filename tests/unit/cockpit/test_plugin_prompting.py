import threading

import pytest

from kagura_kernel.cockpit.plugin_talk import (
    AuditPlugin,
    EnablePlugin,
    PluginEnabled,
    TextSurface,
    approved_text,
    enabled_text,
    talk_in_text,
)
from kagura_kernel.domain.errors import BrainLost, PluginRefused
from kagura_kernel.domain.plugins import PluginState, Risk
from kagura_kernel.domain.settings import Settings
from kagura_kernel.testing.patience import wait_until
from tests.support.auditor import FakeAuditor, report, write_audit_cassette
from tests.support.plugin_rig import write_plugin

ASKING = """\
SCHEMA = {
    "greeting": {"type": "string", "description": "What it says first", "promptKey": True, "default": "hello"},
    "times": {"type": "number", "description": "How often", "maximum": 9},
}


def create_host_functions(config):
    return {MODULE: {"greet": lambda name: config["greeting"] + name}}
"""


class Person:
    """Reads what is said, and types lines; an exception among them is raised."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.said = []
        self.prompts = []

    def ask(self, prompt):
        self.prompts.append(prompt)
        line = self.lines.pop(0) if self.lines else EOFError()
        if callable(line):
            line = line()
        if isinstance(line, BaseException):
            raise line
        return line

    def surface(self, **more):
        return TextSurface(
            self.said.append, self.ask, lambda done: self.said.append(done.audit.summary), "ada", "test", **more
        )

    @property
    def text(self):
        return "\n".join(self.said)


@pytest.fixture
def desk(cockpit_with, project, jails, monkeypatch):
    monkeypatch.chdir(project)

    def make(*answers, source=None, brain=None, **options):
        cockpit = cockpit_with(brain or FakeAuditor(*answers), start_jail=jails, **options)
        write_plugin(project / "plugins", **({"source": source} if source else {}))
        return cockpit

    return make


def enabling(cockpit, *words, **more):
    return cockpit.plugins.enable(EnablePlugin(name="greeter", by="ada", words=words, **more))


def test_a_report_a_yes_and_a_form_make_an_enabled_plugin(desk, jails):
    person = Person("e", "", "ten", "3")
    row = talk_in_text(enabling(desk(source=ASKING)), person.surface())
    assert row.state is PluginState.ENABLED
    assert jails.open[0].order.plan.config == {"greeting": "hello", "times": 3}
    assert person.prompts[1:] == ["  greeting [hello]: ", "  times: ", "  times: "]
    assert "'ten' is no number" in person.text
    assert "greeter 1.0.0 is enabled in this session." in person.text


def test_a_quick_audit_is_not_announced_and_a_slow_one_is(desk, monkeypatch):
    person = Person("r")
    with monkeypatch.context() as patience:
        # A loaded machine needs longer than the moment that a person waits for without a word.
        patience.setattr("kagura_kernel.cockpit.plugin_talk._POLL_SECONDS", 30.0)
        with pytest.raises(PluginRefused):
            talk_in_text(enabling(desk(), static=True), person.surface())
    assert "Auditing …" not in person.said
    going_on = threading.Event()

    def slowly(prompt):
        assert going_on.wait(60)
        return report()(prompt)

    person = Person()
    cockpit = desk(slowly)
    talk = cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada"))
    said = person.said.append
    surface = TextSurface(
        lambda text: (said(text), going_on.set() if text == "Auditing …" else None),
        person.ask,
        lambda done: said(done.audit.summary),
        "ada",
        "test",
    )
    talk_in_text(talk, surface)
    assert person.said == ["Auditing …", "It does what it says."]


@pytest.mark.parametrize(("lines", "risk", "turns"), [(["what", "ret"], Risk.LOW, 2), (["s"], Risk.UNKNOWN, 1)])
def test_an_auditor_that_does_not_answer_is_asked_again_or_done_without_as_a_person_says(desk, lines, risk, turns):
    brain = FakeAuditor(BrainLost("fake", "it hung up"), report())
    person = Person(*lines)
    row = talk_in_text(desk(brain=brain).plugins.audit(AuditPlugin(name="greeter", by="ada")), person.surface())
    assert (row.risk, len(brain.turns)) == (risk, turns)
    assert "it hung up" in person.text


def test_the_end_of_input_leaves_a_silent_auditor_to_the_deadline(desk):
    person = Person(EOFError())
    talk = desk(BrainLost("fake", "it hung up"), settings=Settings(approval_deadline=0.3)).plugins.audit(
        AuditPlugin(name="greeter", by="ada")
    )
    assert talk_in_text(talk, person.surface()).risk is Risk.UNKNOWN


@pytest.mark.parametrize("line", ["r", "R", "reject", "n", "no", "", "  ", EOFError()])
def test_a_no_and_the_end_of_input_refuse(desk, jails, line):
    cockpit = desk()
    with pytest.raises(PluginRefused, match="ada said no"):
        talk_in_text(enabling(cockpit), Person(line).surface())
    assert not jails.started
    assert cockpit.pending() == []


def test_what_is_no_answer_is_asked_again(desk):
    person = Person("what?", "q", "YES")
    talk_in_text(enabling(desk()), person.surface())
    assert person.said.count("That is none of the answers.") == 2


@pytest.mark.parametrize("lines", [(), ("e",), ("e", "hi")])
def test_ctrl_c_calls_all_of_it_off(desk, jails, lines):
    cockpit = desk(source=ASKING)
    talk = enabling(cockpit)
    with pytest.raises(KeyboardInterrupt):
        talk_in_text(talk, Person(*lines, KeyboardInterrupt()).surface())
    wait_until(lambda: talk.done)
    assert not jails.started
    wait_until(lambda: cockpit.pending() == [])
    assert cockpit.plugins.row("greeter").state is PluginState.AUDITED


def test_the_form_of_an_approved_plugin_can_be_left(desk, jails):
    cockpit = desk(source=ASKING)
    talk_in_text(enabling(cockpit), Person("a", "hi", "1").surface())
    for end in (EOFError(), KeyboardInterrupt()):
        talk = enabling(cockpit, session="another")
        with pytest.raises((PluginRefused, KeyboardInterrupt)):
            talk_in_text(talk, Person("hi", end).surface())
        wait_until(lambda talk=talk: talk.done)
    assert len(jails.started) == 1
    person = Person("hi", "2")
    talk_in_text(enabling(cockpit, session="another"), person.surface())
    assert "greeter is approved: no audit was needed." in person.text


def test_an_answer_from_elsewhere_is_told_to_who_types_too_late(desk):
    cockpit = desk()
    talk = enabling(cockpit)

    def decided_elsewhere():
        wait_until(lambda: bool(cockpit.pending()))
        (request,) = cockpit.pending()
        cockpit.decide(request.id, allow=True, by="bob", via="sidebar")
        return "r"

    person = Person(decided_elsewhere)
    row = talk_in_text(talk, person.surface())
    assert row.state is PluginState.ENABLED
    assert "bob" in person.text


def test_no_answer_in_time_is_a_no(desk, jails):
    cockpit = desk(settings=Settings(approval_deadline=0.2))
    talk = enabling(cockpit)

    def late():
        wait_until(lambda: talk.done)
        return "e"

    with pytest.raises(PluginRefused, match="nobody answered in time"):
        talk_in_text(talk, Person(late).surface())
    assert not jails.started


def test_a_session_that_was_named_is_told(desk):
    person = Person("e")
    talk_in_text(enabling(desk(), session="later"), person.surface())
    assert "greeter 1.0.0 is enabled in the session later." in person.text


def test_a_surface_that_means_another_session_tells_of_it_itself(desk):
    told = []
    person = Person("e")
    talk_in_text(enabling(desk()), person.surface(enabled=told.append))
    (step,) = told
    assert isinstance(step, PluginEnabled)
    assert "is enabled" not in person.text
    assert enabled_text(step, "is enabled in the session S").startswith(
        "greeter 1.0.0 is enabled in the session S. Code in its boxes calls it by `from kagura_host import greeter`.\n"
    )


@pytest.mark.parametrize("static", [True, False])
def test_an_approval_says_when_no_brain_has_looked(desk, static):
    cockpit = desk()
    cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada", static=static)).result(30)
    row = cockpit.plugins.approve("greeter", by="ada", via="command")
    assert ("No brain has looked" in approved_text(row)) is static


def test_an_approval_says_when_a_recording_was_the_auditor(desk, tmp_path):
    cockpit, tape = desk(), tmp_path / "audit.jsonl"
    examined = cockpit.plugins.examine("greeter")
    write_audit_cassette(tape, examined.found, examined.scan)
    cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada", replay=tape)).result(30)
    assert "Its auditor was a recording" in approved_text(cockpit.plugins.approve("greeter", by="ada", via="command"))
    cockpit.plugins.audit(AuditPlugin(name="greeter", by="ada")).result(30)
    assert "recording" not in approved_text(cockpit.plugins.row("greeter"))
