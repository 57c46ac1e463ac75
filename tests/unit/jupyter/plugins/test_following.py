"""An audit and an enabling in a notebook's cell: what is shown, what buttons do, how it ends."""

import asyncio
import json

import pytest

from kagura_kernel.domain.errors import PluginNotConfigured, PluginRefused, RunKilled
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.jupyter import plugin_card
from kagura_kernel.jupyter.errors import calm_lines
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.testing.brain import Hang
from kagura_kernel.testing.patience import eventually
from kagura_kernel.views.audit_card import AUDIT_MIME
from kagura_kernel.views.record import LIVE_MIME
from tests.support.auditor import report
from tests.support.plain_page import WIDGET_MIME
from tests.support.plugin_rig import write_plugin

DANGER = "import subprocess\nSCHEMA = {}\n\n\ndef create_host_functions(config):\n    return {MODULE: {}}\n"


async def test_a_person_reads_the_report_presses_enable_and_the_card_becomes_static(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    assert "Low risk" in here.parts["report"]
    assert "Waiting for you" in here.parts["head"]
    assert WIDGET_MIME in here.final
    here.press("allow", "Enable")
    row = await task
    assert (row.state, row.approved) == (PluginState.ENABLED, False)
    final = here.final
    assert not {WIDGET_MIME, LIVE_MIME} & set(final)
    assert "<button" not in final["text/html"]
    assert "Enabled by ada" in final["text/html"]
    assert "from kagura_host import greeter" in final["text/plain"]
    record = final[AUDIT_MIME]
    assert (record["status"], record["verdict"], record["via"]) == ("enabled", "allow", "cell")
    assert (record["approved"], record["audit"]["risk"]) == (False, "LOW")
    assert here.outputs[-1][1]["kagura"]["by"] == "ada"


async def test_the_question_shows_what_the_command_says_and_not_what_was_configured_before(cell):
    here = cell()
    schema = "SCHEMA = {'folder': {'type': 'string', 'description': 'Where'}}"
    source = f"{schema}\n\n\ndef create_host_functions(config):\n    return {{MODULE: {{'names': lambda: 1}}}}\n"
    write_plugin(here.project / "plugins", source=source, permissions={"read": ["{folder}"]})
    for folder in ("./plugins", "./plugins/greeter"):
        task = here.enable(f"folder={folder}")
        await here.asked()
        assert f">{folder}</code>" in here.parts["report"]
        here.press("allow", "Enable")
        await task


async def test_approve_is_told_on_the_card_and_the_next_session_needs_no_question(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    here.press("allow", "Approve")
    assert (await task).approved
    assert "approved for later sessions, by ada" in here.final["text/html"]
    shown = len(here.outputs)
    assert (await here.enable(session="later")).state is PluginState.ENABLED
    assert "no audit was needed" in here.final["text/plain"]
    assert here.final[AUDIT_MIME]["audit"] is None
    assert len(here.outputs) > shown


async def test_reject_ends_the_cell_with_one_calm_error_and_enables_nothing(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    here.press("deny", "Reject")
    with pytest.raises(PluginRefused, match="ada said no"):
        await task
    assert not here.jails.started
    record = here.final[AUDIT_MIME]
    assert (record["status"], record["error_code"]) == ("rejected", "ERR_PLUGIN_REFUSED")
    assert "Rejected by ada" in here.final["text/plain"]


async def test_a_decision_from_elsewhere_is_shown_as_such(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    here.cockpit.decide(here.ident, allow=True, by="eve", via="sidebar")
    await task
    assert "Enabled by eve in the sidebar" in here.final["text/html"]
    assert here.final[AUDIT_MIME]["via"] == "sidebar"


async def test_a_danger_is_shown_without_any_button(cell):
    here = cell(source=DANGER)
    with pytest.raises(PluginRefused):
        await here.enable()
    html = here.final["text/html"]
    assert "Danger" in html
    assert "import subprocess" in html
    assert 'data-act="allow"' not in str(here.parts)
    assert here.final[AUDIT_MIME]["status"] == "refused"


async def test_the_form_fits_the_fields_and_its_values_reach_the_jail(cell, fields):
    here = cell(source=fields)
    task = here.enable()
    await here.asked()
    form = here.parts["form"]
    assert 'data-field="base_dir"' in form
    assert 'inputmode="decimal"' in form
    assert "<select" in form
    assert "Several with commas." in form
    assert form.count("aria-required") == 1
    here.press("allow", "Enable", fields={"base_dir": "./data", "most": "7", "hidden": "y", "names": "a, b"})
    row = await task
    assert row.config == {"base_dir": "./data", "most": "7", "hidden": "y", "names": "[a, b]"}
    assert here.jails.open[0].order.plan.config["names"] == ["a", "b"]
    assert here.final[AUDIT_MIME]["config"]["base_dir"] == "./data"


async def test_a_wrong_form_says_so_beside_the_fields_and_stays_open(cell, fields):
    here = cell(source=fields)
    task = here.enable()
    await here.asked()
    before = here.parts["form"]
    here.press("allow", "Enable", fields={"most": "many"})
    form = here.parts["form"]
    assert form.count('aria-invalid="true"') == 2
    assert "It needs a value; it has no default." in form
    assert "is no number" in form
    assert here.told == ["Not sent: 2 fields above need another value."]
    assert before != form
    assert not here.jails.started
    here.press("allow", "Enable", fields={"base_dir": "x", "most": "2", "hidden": "", "names": ""})
    assert (await task).config["most"] == "2"


async def test_an_approved_plugin_asks_for_its_form_alone_and_cancel_ends_it(cell, fields):
    here = cell(source=fields)
    task = here.enable()
    await here.asked()
    here.press("allow", "Approve", fields={"base_dir": "x"})
    await task
    again = here.enable(session="later")
    await eventually(lambda: here.ident == "form")
    assert "approved earlier" in here.parts["form"]
    assert "Reject" not in here.parts["form"]
    here.press("deny", "Cancel")
    with pytest.raises(PluginRefused, match="form was not filled in"):
        await again
    assert "Cancelled" in here.final["text/plain"]


async def test_a_button_that_the_question_does_not_have_does_nothing(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    here.press("allow", "Give me everything")
    assert here.told == ["This card has no such button."]
    assert not task.done()
    here.press("deny", "Reject")
    with pytest.raises(PluginRefused):
        await task


async def test_stop_calls_an_audit_off_while_the_auditor_thinks(cell):
    here = cell(Hang())
    task = here.enable()
    await eventually(lambda: "Stop" in here.parts.get("head", "") and here.talk.handle is not None)
    here.press("stop")
    with pytest.raises(RunKilled, match="was stopped by") as raised:
        await task
    assert here.final[AUDIT_MIME]["status"] == "stopped"
    # The cell's error says by whom, calmly, and the card above it says no more than that.
    assert "\x1b" not in calm_lines(raised.value)[0]
    assert "Stopped" in here.final["text/html"]
    assert all("was stopped by" not in here.final[mime] for mime in ("text/html", "text/plain"))


async def test_an_interrupt_calls_it_off_and_the_card_is_finished_afterwards(cell):
    here = cell(Hang())
    task = here.enable()
    await eventually(lambda: here.talk.handle is not None and bool(here.parts))
    task.cancel()
    with pytest.raises(RunKilled):
        await task
    await eventually(lambda: AUDIT_MIME in here.final and WIDGET_MIME not in here.final)
    assert here.final[AUDIT_MIME]["status"] == "stopped"
    assert here.talk.done


async def test_an_interrupt_of_a_form_alone_enables_nothing(cell, fields):
    here = cell(source=fields)
    first = here.enable()
    await here.asked()
    here.press("allow", "Approve", fields={"base_dir": "x"})
    await first
    started = len(here.jails.started)
    task = here.enable(session="later")
    await eventually(lambda: here.ident == "form")
    task.cancel()
    with pytest.raises(RunKilled, match="called off"):
        await task
    await eventually(lambda: here.talk.done)
    assert len(here.jails.started) == started


async def test_a_silent_auditor_is_asked_about_on_the_card(cell, monkeypatch):
    monkeypatch.setattr("kagura_kernel.runs.audit_run.SILENCE_SECONDS", 0.2)
    here = cell(Hang(), report())
    task = here.audit()
    await eventually(lambda: "Static only" in here.parts.get("asks", ""))
    assert "Waiting for you" in here.parts["head"]
    ident = here.parts["asks"].partition('data-approval="')[2].partition('"')[0]
    here.press("answer", "Retry", id=ident)
    await task
    assert here.final[AUDIT_MIME]["audit"]["risk"] == "LOW"
    assert here.final[AUDIT_MIME]["status"] == "audited"


async def test_the_finished_form_is_kept_beside_the_live_card_while_it_waits(cell):
    here = cell()
    task = here.enable()
    await here.asked()
    here.card._hear(None, {"act": "hosted"}, [])
    await eventually(lambda: "Not answered" in here.final["text/plain"])
    assert WIDGET_MIME in here.final
    assert "<button" not in here.final["text/html"]
    here.press("deny", "Reject")
    with pytest.raises(PluginRefused):
        await task


@pytest.mark.parametrize("surface", [Surface.HEADLESS, Surface.INSIDE])
async def test_without_a_person_the_card_is_written_once_at_its_end(cell, surface):
    from kagura_kernel.domain.plugins import Risk

    here = cell()
    row = await here.enable(surface=surface, accept=Risk.MEDIUM)
    assert row.state is PluginState.ENABLED
    assert len(here.outputs) == 1
    assert here.final[AUDIT_MIME]["status"] == "enabled"


async def test_without_a_person_policy_says_no_on_the_card_and_in_the_error(cell):
    here = cell()
    with pytest.raises(PluginRefused, match="--accept-risk"):
        await here.enable(surface=Surface.HEADLESS)
    assert len(here.outputs) == 1
    assert "Denied by policy" in here.final["text/plain"]


async def test_two_of_the_same_leave_the_same_in_the_notebook(cell):
    from kagura_kernel.domain.plugins import Risk

    here = cell()
    await here.enable(surface=Surface.HEADLESS, accept=Risk.MEDIUM, session="one")
    first = here.final
    here.cockpit.plugins.unapprove("greeter", by="ada", via="test")
    await asyncio.create_task(_again(here))
    second = here.final
    assert first[AUDIT_MIME] | {"cached": True} == second[AUDIT_MIME]
    assert json.dumps(first[AUDIT_MIME])


async def test_a_yes_from_elsewhere_without_what_the_form_asks_for_says_what_is_missing(cell, fields):
    here = cell(source=fields)
    task = here.enable()
    await here.asked()
    here.cockpit.decide(here.ident, allow=True, by="eve", via="sidebar")
    with pytest.raises(PluginNotConfigured, match="base_dir"):
        await task
    assert "Allowed by eve in the sidebar" in here.final["text/plain"]
    assert here.final[AUDIT_MIME]["status"] == "refused"


async def test_a_jail_that_does_not_start_is_told_on_the_card(cell):
    here = cell()
    here.jails.failing = [PluginRefused("greeter", "has a jail that does not start")]
    task = here.enable()
    await here.asked()
    here.press("allow", "Enable")
    with pytest.raises(PluginRefused, match="does not start"):
        await task
    assert "does not start" in here.final["text/html"]
    assert here.final[AUDIT_MIME]["status"] == "refused"


async def test_a_front_end_without_widgets_is_told_how_to_answer(cell, monkeypatch):
    monkeypatch.setattr(plugin_card, "WIDGET_SECONDS", 0.0)
    here = cell()
    task = here.enable()
    await here.asked()
    how = f"In another kernel: %kagura approve {here.ident}, or %kagura deny {here.ident}."
    await eventually(lambda: any(how in data["text/plain"] for data, _ in here.outputs))
    here.cockpit.decide(here.ident, allow=False, by="eve", via="command")
    with pytest.raises(PluginRefused):
        await task


async def test_an_audit_alone_ends_with_its_report_and_asks_nothing(cell):
    here = cell(report(riskLevel="HIGH", verdict="reject"))
    row = await here.audit()
    assert row.state is PluginState.AUDITED
    assert here.final[AUDIT_MIME]["status"] == "audited"
    assert '<strong class="kg-pill kg-bad">Audited</strong>' in here.final["text/html"]
    assert "data-approval" not in str(here.parts)


async def _again(here):
    from kagura_kernel.domain.plugins import Risk

    await here.enable(surface=Surface.HEADLESS, accept=Risk.MEDIUM, session="two")
