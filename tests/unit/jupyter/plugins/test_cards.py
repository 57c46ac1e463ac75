"""The card of an audit: what it says in each state, live and saved, and what it leaves in the notebook file."""

import asyncio
import json
from collections import deque

import pytest

from kagura_kernel.domain.errors import PluginRefused, RunKilled
from kagura_kernel.domain.plugins import CanaryStatus, PluginFinding, PluginPermissions, PluginState, Risk, Severity
from kagura_kernel.jupyter import plugin_card
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.testing.patience import eventually
from kagura_kernel.views.audit import APPROVE, CANCEL, ENABLE, REJECT, FormField
from kagura_kernel.views.audit_card import AUDIT_MIME, audit_bundle, audit_html, card_metadata, card_record, card_text
from tests.support.auditor import report
from tests.support.card_page import audit_parts
from tests.support.sample_audit import SampleAudit, fooled, sample_report, sample_subject


def live(view):
    return "".join(audit_parts(view, left=100.0).values())


def test_while_the_auditor_writes_its_words_are_folded_away_and_it_can_be_stopped():
    html = live(SampleAudit().auditing(text='{"risk": "<b>LOW'))
    assert "<details" in html
    assert "&lt;b&gt;LOW" in html
    assert 'data-act="stop"' in html
    assert "ANTHROPIC_API_KEY is set" in html
    assert "data-final" not in html


def test_what_the_auditor_wrote_is_gone_with_its_report_and_never_saved():
    sample = SampleAudit()
    sample.auditing(text="something about canaries")
    assert "something about canaries" not in audit_html(sample.view)
    sample.view.take_dirty()
    parts = audit_parts(sample.audited(), left=0)
    assert parts["said"] == ""
    assert "Medium risk" in parts["report"]


def test_a_very_long_answer_keeps_its_latest_part():
    sample = SampleAudit()
    sample.auditing(text="a" * 200_000 + "the end")
    assert len(sample.view.said) < 50_000
    assert sample.view.said.endswith("the end")


def test_every_finding_has_its_rule_its_place_and_its_line():
    html = live(SampleAudit().audited())
    for piece in ("file-system", "plugin.py:14", "with open(path, encoding=&#x27;utf-8&#x27;) as file:", "web.py:3"):
        assert piece in html


def test_many_findings_are_folded_and_very_many_are_counted():
    many = tuple(PluginFinding(Severity.WARNING, "r", f"finding {number}") for number in range(300))
    html = live(SampleAudit().audited(sample_report(findings=many)))
    assert "188 more findings" in html
    assert "100 more that a card has no room for" in html
    assert "finding 199" in html
    assert "finding 200" not in html


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (CanaryStatus.OK, "reported both planted instructions"),
        (CanaryStatus.COMPROMISED, "something has talked it round"),
        (CanaryStatus.UNRELIABLE, "nobody has shown it"),
        (CanaryStatus.NOT_RUN, "Nobody was tested"),
    ],
)
def test_the_planted_instructions_are_told_in_words(status, words):
    view = SampleAudit().audited(sample_report(canaries=status))
    assert words in live(view)
    assert words in card_text(view)


def test_what_the_jail_would_open_is_told_with_what_was_configured():
    sample = SampleAudit()
    view = sample.asked()
    assert 'what <code class="kg-path">base_dir</code> says' in live(view)
    assert "read what base_dir says; reach what hosts says, api.example.org" in card_text(view)
    sample.decided()
    view = sample.enabled(config={"base_dir": "./sales", "hosts": "[a.example]"})
    assert "read ./sales (base_dir); reach [a.example] (hosts), api.example.org" in card_text(view)


def test_a_plugin_that_asks_for_nothing_is_told_so():
    view = SampleAudit().audited(sample_report(permissions=PluginPermissions()))
    assert "Nothing: no files, no network." in live(view)
    assert "Its jail would open: nothing" in card_text(view)


def test_a_static_report_says_why_no_brain_has_looked():
    report = sample_report(
        static_only=True, auditor="", risk=Risk.UNKNOWN, remark="No brain has looked: none is there."
    )
    html = live(SampleAudit().audited(report))
    for piece in ("Risk unknown", "none, the static scan alone", "No brain has looked: none is there."):
        assert piece in html


def test_a_report_that_was_made_earlier_says_so():
    assert "These very files were audited before" in live(SampleAudit().audited(cached=True))


def test_the_author_s_signature_and_the_place_are_told():
    sample = SampleAudit(sample_subject(signed_by="Ada <L.>", place="user"))
    html = live(sample.view)
    assert "one of your own plugins, signed by Ada &lt;L.&gt;, whom you trust" in html


@pytest.mark.parametrize(
    ("field", "pieces"),
    [
        (FormField("it", "string", "Where"), ['type="text"', 'aria-required="true"', "Where."]),
        (FormField("it", "number", "How many", "5", 1), ['inputmode="decimal"', 'value="5"', "At least 1."]),
        (FormField("it", "boolean", "Whether"), ["<select", ">Choose<", ">Yes<"]),
        (FormField("it", "boolean", "Whether", "y"), ['<option value="y" selected>']),
        (FormField("it", "array", "Which", "[]"), ["Several with commas."]),
        (FormField("it", "string", "Which?", ""), ["Which? May be empty."]),
    ],
)
def test_every_type_has_an_input_that_fits_it(field, pieces):
    html = live(SampleAudit().asked(fields=(field,)))
    for piece in pieces:
        assert piece in html
    assert '<label for="kg-app-7-it">it</label>' in html


def test_what_is_wrong_stands_beside_its_field_and_is_tied_to_it():
    view = SampleAudit().asked()
    view.wrong({"most": "'many' is no number"})
    html = live(view)
    assert '<div class="kg-wrong" id="kg-app-7-most-wrong">&#x27;many&#x27; is no number.</div>' in html
    assert 'aria-describedby="kg-app-7-most-help kg-app-7-most-wrong"' in html
    assert html.count("aria-invalid") == 1


def test_a_form_alone_has_no_approve_and_enter_sends_it():
    html = live(SampleAudit().asked_for_its_form())
    assert "approved earlier?" in html
    assert "data-enter" in html
    assert "Approve" not in html
    assert "data-enter" not in live(SampleAudit().asked())


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "Enabled by ada"),
        ({"via": "sidebar"}, "Enabled by ada in the sidebar"),
        ({"via": "terminal"}, "Enabled by ada in a terminal"),
        ({"via": "command"}, "Enabled by ada by command"),
    ],
)
def test_where_it_was_decided_is_told(facts, words):
    sample = SampleAudit()
    sample.asked()
    sample.decided(**facts)
    assert words in audit_html(sample.enabled())


@pytest.mark.parametrize(
    ("verdict", "facts", "words", "status"),
    [
        ("deny", {}, "Rejected by ada", "rejected"),
        ("timeout", {"by": "deadline", "via": "deadline"}, "nobody answered in time", "refused"),
        ("deny", {"by": "policy", "via": "policy"}, "Denied by policy", "refused"),
    ],
)
def test_a_no_is_told_with_whose_it_was(verdict, facts, words, status):
    sample = SampleAudit()
    sample.asked()
    sample.decided(verdict, **facts)
    view = sample.failed()
    assert words in card_text(view)
    assert card_record(view)["status"] == status


def test_a_saved_card_has_nothing_to_press_and_says_how_it_ended():
    for view in (SampleAudit().asked(), SampleAudit().audited(fooled())):
        html = audit_html(view)
        assert "<button" not in html
        assert "<input" not in html
    assert "Not answered" in audit_html(SampleAudit().asked())


def test_the_record_holds_the_report_and_what_differs_every_time_is_metadata():
    sample = SampleAudit()
    sample.asked()
    sample.decided()
    data, metadata = audit_bundle(sample.enabled())
    record = data[AUDIT_MIME]
    assert json.loads(json.dumps(record)) == record
    assert record["audit"]["findings"][0]["rule"] == "file-system"
    assert record["modules"] == ["sales_reader"]
    for private in ("run-1", "app-7", "2026", "3f3f", "ada"):
        assert private not in json.dumps(record)
    told = metadata["kagura"]
    assert (told["run_id"], told["by"], told["content_hash"]) == ("run-1", "ada", "3f" * 32)
    assert card_metadata(SampleAudit().view) == {"cost_usd": None}


def test_parts_are_sent_only_when_they_changed():
    sample = SampleAudit()
    view = sample.asked()
    audit_parts(view, left=10)
    assert audit_parts(view, left=9) == {}
    sample.decided()
    assert set(audit_parts(view, left=9)) == {"head", "form"}


def test_words_that_are_no_words_are_written_out_in_text_and_html():
    sample = SampleAudit(sample_subject(description="a\u202eb"))
    sample.audited(sample_report(summary="x\x1b[31m\u202e<script>"))
    view = sample.failed(PluginRefused("a", "b\u202e"))
    for text in (audit_html(view), card_text(view)):
        assert "\u202e" not in text
        assert "\x1b" not in text
        assert "⟨U+202E⟩" in text
    assert "<script>" not in audit_html(view)


def test_the_buttons_are_the_choices_of_the_cockpit_s_question():
    from kagura_kernel.cockpit import plugin_talk

    assert (plugin_talk.ENABLE, plugin_talk.APPROVE) == (ENABLE, APPROVE)
    assert (plugin_talk.REJECT, plugin_talk.CANCEL) == (REJECT, CANCEL)


class Typist:
    """Types its next line whenever it is asked for one; None ends the input."""

    def __init__(self, *lines):
        self.prompts = []
        self._lines = deque(lines)
        self._typed = deque()

    def ask(self, prompt):
        self.prompts.append(prompt)
        if self._lines:
            self._typed.append(self._lines.popleft())

    def take(self):
        if not self._typed:
            return None
        line = self._typed.popleft()
        if line is None:
            raise EOFError
        return line


@pytest.fixture
def types(monkeypatch):
    """Has somebody type these lines."""

    def make(*lines):
        typist = Typist(*lines)
        monkeypatch.setattr(plugin_card, "lines_of", lambda _surface: typist)
        return typist

    return make


async def test_a_person_reads_the_report_answers_and_fills_in_the_form(cell, fields, types, capsys):
    here = cell(report(summary="It greets \x1b[31mloudly"), source=fields)
    typist = types("a", "./data", "many", "7", "y", "")
    row = await here.enable(surface=Surface.CONSOLE)
    assert (row.state, row.approved) == (PluginState.ENABLED, True)
    assert row.config["most"] == "7"
    shown = capsys.readouterr().out
    assert "Low risk. The audit has nothing against it" in shown
    assert "It greets ⟨U+001B⟩[31mloudly" in shown
    assert "Its jail would open: nothing" in shown
    assert "is no number" in shown
    assert "is enabled in this session" in shown
    assert "approved for later sessions" in shown
    assert typist.prompts[0].startswith("Enable greeter?")


async def test_a_decision_from_elsewhere_takes_the_prompt_away(cell, types, capsys):
    here = cell()
    typist = types()
    task = here.enable(surface=Surface.CONSOLE)
    await eventually(lambda: typist.prompts)
    [request] = here.cockpit.pending()
    here.cockpit.decide(request.id, allow=True, by="eve", via="sidebar")
    assert (await task).state is PluginState.ENABLED
    assert "Answered elsewhere, or too late" in capsys.readouterr().out


async def test_an_interrupt_calls_it_off_and_the_prompting_thread_ends(cell, types):
    here = cell()
    typist = types()
    talk_made = here.enable(surface=Surface.CONSOLE)
    await eventually(lambda: typist.prompts)
    talk_made.cancel()
    with pytest.raises(RunKilled):
        await talk_made
    await eventually(lambda: here.talk.done)
    await eventually(lambda: not _prompting())
    assert not here.jails.started


async def test_a_report_is_printed_once_for_an_audit(cell, types, capsys):
    here = cell()
    types()
    await asyncio.wait_for(here.audit(surface=Surface.TERMINAL), 30)
    assert capsys.readouterr().out.count("Low risk") == 1


def _prompting():
    import threading

    return [one for one in threading.enumerate() if one.name == "kagura plugin prompts" and one.is_alive()]
