"""A plan in a real JupyterLab: what the like of a task has cost, what went wrong in it, and a person's word on it.

The brain is the real Claude program, with a model of the test's own behind it; boxes, memory and journal are real.
"""

import re
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import expect

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.events import ApprovalDecided, BoxStarted, MemoryChanged, RunPlanned
from kagura_kernel.domain.memory import Tier
from kagura_kernel.journal import views
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.views.run import RunView
from tests.browser.interrupts import LOAD
from tests.browser.test_accessibility import NO_FAULTS, faults_by_theme
from tests.support import gallery
from tests.support.card_page import live_parts
from tests.support.model_script import calls, says
from tests.support.sample_run import SampleRun

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

TRAP = """\
if [ -z "$REGION" ]; then echo "ERROR: REGION is not set" >&2; exit 3; fi
echo "$REGION" > deployed.txt
"""
FIRST = """\
%%kagura --write through --verify "grep -q eu deployed.txt"
Deploy the billing service to staging"""
SECOND = """\
%%kagura --plan --write through
Deploy the search service to staging"""
BELOW = "print('the cell below ran')"


@pytest.fixture
def asked(open_notebook, lab):
    """A notebook in which a run failed and a similar one waits with its plan; with it the card and the question."""
    lab.model.turns[:] = [
        calls("bash", {"command": "bash deploy.sh"}),
        says("I ran the script."),
        calls("bash", {"command": "REGION=eu bash deploy.sh"}),
        says("It is deployed."),
    ]
    notebook = open_notebook(LOAD, FIRST, SECOND, BELOW, files={"deploy.sh": TRAP})
    notebook.done(0)
    expect(notebook.done(1).locator(".kg-check")).to_contain_text("Not verified")
    output = notebook.run(2, on=True)
    question = output.get_by_role("group", name="Plan: Plan:")
    expect(question).to_be_visible()
    expect(output.locator(".kg-settling")).to_have_count(0)
    # It takes a click once the end of what is asked has been on screen.
    for end in output.locator("[data-end]").all():
        end.scroll_into_view_if_needed()
    yield notebook, output, question
    lab.model.turns.clear()


def begun(lab: Any, kind: type[Any]) -> list[Any]:
    """What the journal holds of the run that had a plan: its events of this kind."""
    with lab.journal() as journal:
        [row, *_] = views.runs(journal)
        assert row.task == SECOND.partition("\n")[2]
        return [row.event for row in journal.events(run_id=row.run_id) if isinstance(row.event, kind)]


def lessons(lab: Any) -> list[str]:
    """The tier of each lesson that the plan showed."""
    with closing(SqliteMemory(lab.home / FILE)) as memory:
        return [memory.reference(ident).tier for ident in begun(lab, RunPlanned)[-1].lessons]


def finished(notebook: Any, output: Any) -> None:
    """The run came to its end, and the cell below it ran."""
    expect(output.locator(".kg-pill")).to_have_text("Done")
    expect(notebook.output(3)).to_contain_text("the cell below ran")
    assert (notebook.folder / "deployed.txt").read_text() == "eu\n"


def test_a_plan_shows_what_it_rests_on_and_its_budget_can_be_another_one(asked, lab):
    notebook, output, question = asked
    [planned] = begun(lab, RunPlanned)
    expected = planned.estimate
    assert expected.failed >= 1
    assert expected.usd > 0
    assert planned.agreed_usd is None
    expect(question).to_contain_text(f"Similar runs: {expected.runs}, of which {expected.failed} did not go well")
    expect(question).to_contain_text(re.compile(r"Plan: about \$0\.\d+"))
    line = output.locator(".kg-learned details", has_text="Expected: $0.")
    expect(line).to_contain_text(f"from 1 similar run, which failed; {len(planned.lessons)} lesson")
    # What a person may let the agent read lies open.
    expect(line.get_by_text("REGION is not set")).to_be_visible()
    for row in line.locator("tr").all():
        assert row.bounding_box()["height"] < 60
    expect(line.locator(".kg-chip", has_text="not trusted")).to_have_count(len(planned.lessons))
    field = question.get_by_label("Budget, USD")
    expect(field).to_have_value(f"{planned.budget_usd:.2f}")
    notebook.picture("plan", cell=2)
    field.fill("0.75")
    question.get_by_role("button", name="Begin", exact=True).click()
    finished(notebook, output)
    assert begun(lab, RunPlanned)[-1].agreed_usd == 0.75
    assert "Your budget is $0.75." in lab.model.server.turns[-1].system
    assert "REGION is not set" not in lab.model.server.turns[-1].system
    assert set(lessons(lab)) == {Tier.QUARANTINE}
    expect(output.locator(".kg-ask")).to_contain_text("0.75")
    notebook.picture("plan-begun", cell=2)


def test_begin_with_its_lessons_trusts_them_and_the_agent_reads_them(asked, lab):
    notebook, output, question = asked
    assert faults_by_theme(notebook) == NO_FAULTS
    question.get_by_role("button", name="Begin with its lessons").click()
    finished(notebook, output)
    [planned, agreed] = begun(lab, RunPlanned)
    assert agreed.agreed_usd == planned.budget_usd
    assert set(lessons(lab)) == {Tier.TRUSTED}
    assert {event.change for event in begun(lab, MemoryChanged)} == {"promoted"}
    assert "REGION is not set" in lab.model.server.turns[-1].system
    expect(output.locator(".kg-learned")).to_contain_text("shown to the brain")
    output.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert faults_by_theme(notebook) == NO_FAULTS


def test_enter_in_the_field_begins_and_an_empty_one_is_no_budget(asked, lab):
    notebook, output, question = asked
    field = question.get_by_label("Budget, USD")
    field.fill("")
    # As for a button, the end of what it begins has to have been on the screen.
    expect(question.get_by_role("button", name="Begin", exact=True)).to_be_enabled()
    field.press("Enter")
    finished(notebook, output)
    assert [event.answer for event in begun(lab, ApprovalDecided)] == ["no budget"]
    assert begun(lab, RunPlanned)[-1].agreed_usd is None
    assert set(lessons(lab)) == {Tier.QUARANTINE}


def test_what_is_no_budget_is_asked_about_again_and_says_why(asked, lab):
    notebook, output, question = asked
    question.get_by_label("Budget, USD").fill("plenty")
    question.get_by_role("button", name="Begin", exact=True).click()
    again = output.locator(".kg-ask.kg-open")
    expect(again).to_contain_text("The answer was no budget")
    again.get_by_label("Budget, USD").fill("0.50")
    again.get_by_role("button", name="Begin", exact=True).click()
    finished(notebook, output)
    assert begun(lab, RunPlanned)[-1].agreed_usd == 0.5


def test_cancel_denies_the_run_before_anything_is_spent_and_stops_the_cells_below(asked, lab):
    notebook, output, question = asked
    before = len(lab.model.server.turns)
    question.get_by_role("button", name="Cancel", exact=True).click()
    notebook.wait_done(2)
    expect(notebook.error(2)).to_contain_text("ERR_RUN_DENIED")
    expect(output.get_by_role("button")).to_have_count(0)
    expect(notebook.prompt(3)).to_have_text("[ ]:")
    expect(notebook.output(3)).to_have_text("")
    assert len(lab.model.server.turns) == before
    assert begun(lab, BoxStarted) == []
    assert not (notebook.folder / "deployed.txt").exists()
    assert set(lessons(lab)) == {Tier.QUARANTINE}


def test_the_keyboard_comes_to_the_plan_then_its_budget_then_its_buttons(blank):
    sample = SampleRun()
    arguments = {"budget_usd": 0.8, "lessons": ["mem-4"]}
    asked = sample.asked(kind=ApprovalKind.PLAN, title="Plan: about $0.42", arguments=arguments)
    blank.set_content(gallery.live_document(live_parts(RunView().apply_all([sample.started(), asked]))))
    question = blank.get_by_role("group", name="Plan: Plan:")
    question.focus()
    blank.keyboard.press("Tab")
    expect(question.locator("summary")).to_be_focused()
    blank.keyboard.press("Tab")
    expect(question.get_by_label("Budget, USD")).to_be_focused()
    for name in ("Begin", "Begin with its lessons", "Cancel", "Stop the run"):
        blank.keyboard.press("Tab")
        expect(question.get_by_role("button", name=name, exact=True)).to_be_focused()
