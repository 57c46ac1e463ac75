"""A person corrects a running agent in one sentence: in its card, in the sidebar, and where its brain takes nothing."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.interrupts import LOAD, host
from tests.browser.sidebar import Sidebar
from tests.browser.test_notebook import ADD
from tests.support.model_script import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

HOST = {"command": "touch first", "host": True, "reason": "To begin with the first sheet."}


def obeys(request):
    """The model, which takes the sheet that it was told last."""
    told = "second sheet" in json.dumps(request["messages"])
    return says("I take the second sheet." if told else "I take the first sheet.")


@pytest.fixture
def working(open_notebook, lab):
    """A notebook whose agent is at work until somebody answers its question."""
    lab.model.turns[:] = [calls("bash", HOST), obeys]
    notebook = open_notebook(LOAD, "%%kagura --write none\nSum up the sheet.")
    notebook.done(0)
    output = notebook.run(1)
    expect(output.get_by_role("button", name="Deny")).to_be_visible()
    return notebook, output


def test_one_sentence_in_the_card_corrects_the_agent_at_its_next_turn(working):
    notebook, output = working
    line = output.get_by_role("textbox", name="Say something to this run")
    line.fill("Not that one: the second sheet.")
    line.press("Enter")
    said = output.locator(".kg-said")
    expect(said).to_contain_text("Not that one: the second sheet.")
    expect(said).to_contain_text("in the cell")
    expect(said).to_contain_text("heard at its next turn")
    expect(line).to_have_value("")
    notebook.picture("said")
    output.get_by_role("button", name="Deny").click()
    notebook.wait_done(1)
    expect(output.get_by_text("I take the second sheet.")).to_be_visible()
    expect(said).not_to_contain_text("at its next turn")
    # The card of a run that is over has no line.
    expect(line).to_have_count(0)


def test_one_sentence_in_the_sidebar_reaches_the_agent_and_its_card(working):
    notebook, output = working
    sidebar = Sidebar(notebook.page).open()
    row = sidebar.run("Sum up the sheet.").first
    row.get_by_role("button", name="Say something to").click()
    line = row.get_by_role("textbox", name="Say something to")
    expect(line).to_be_focused()
    line.fill("Not that one: the second sheet.")
    line.press("Enter")
    expect(row).to_contain_text("Told")
    expect(output.locator(".kg-said")).to_contain_text("in the sidebar")
    notebook.window("sidebar-said")
    output.get_by_role("button", name="Deny").click()
    notebook.wait_done(1)
    expect(output.get_by_text("I take the second sheet.")).to_be_visible()


def test_what_goes_on_by_a_command_sees_the_notebook_as_it_is_on_screen(open_notebook, lab):
    seen = []

    def look(request):
        seen.append(json.dumps(request["messages"]))
        return obeys(request)

    lab.model.turns[:] = [calls("bash", HOST), look]
    command = "%kagura say --instead last Take the second sheet."
    notebook = open_notebook(LOAD, "%%kagura --bg --write none\nSum up the sheet.", command)
    notebook.done(0)
    output = notebook.run(1)
    expect(output.get_by_role("button", name="Deny")).to_be_visible()
    added = [["markdown", "# Nobody has saved this", []], ["code", "password = 'correct horse'", ["private"]]]
    notebook.page.evaluate(ADD, [added])
    output = notebook.run(4)
    expect(output.get_by_text("I take the second sheet.")).to_be_visible()
    assert "Nobody has saved this" in seen[0]
    assert "correct horse" not in seen[0]


def test_where_the_brain_takes_nothing_the_cell_goes_on_with_the_sentence(open_notebook, lab):
    lab.model.turns[:] = [obeys]
    cell = "%%kagura --replay ask.jsonl --write none\nSum up the sheet."
    notebook = open_notebook(LOAD, cell, files={"ask.jsonl": host("touch first")})
    notebook.done(0)
    output = notebook.run(1)
    expect(output.get_by_role("button", name="Allow once")).to_be_visible()
    output.get_by_role("textbox", name="Say something to this run").fill("Take the second sheet.")
    output.get_by_role("button", name="Send").click()
    expect(output.locator(".kg-said")).to_contain_text("the replay brain takes nothing while it works")
    output.get_by_role("button", name="Stop and go on with this").click()
    notebook.wait_done(1)
    expect(output.get_by_text("I take the second sheet.")).to_be_visible()
    expect(output.locator(".kg-pill")).to_have_text(["Stopped", "Done"])
    expect(notebook.error(1)).to_have_count(0)


def test_another_model_is_chosen_in_the_card_for_the_next_cell(open_notebook, lab):
    asked = []

    def answer(request):
        asked.append(request["model"])
        return says("Done.")

    lab.model.turns[:] = [calls("bash", HOST), answer, answer]
    notebook = open_notebook(LOAD, "%%kagura --write none\nSum up the sheet.", "%%kagura --write none\nAnd the next.")
    notebook.done(0)
    output = notebook.run(1)
    expect(output.get_by_role("button", name="Deny")).to_be_visible()
    output.get_by_role("button", name="Choose another").click()
    picker = output.get_by_label("Model")
    picker.select_option("haiku")
    notebook.picture("models")
    output.get_by_role("button", name="Use this model").click()
    expect(output).to_contain_text("the next cells here think with haiku")
    output.get_by_role("button", name="Deny").click()
    notebook.wait_done(1)
    # The card of a run that is over has no picker.
    expect(output.get_by_role("button", name="Choose another")).to_have_count(0)
    notebook.done(2)
    assert "haiku" not in asked[0]
    assert "haiku" in asked[-1]


def test_another_model_is_chosen_in_the_sidebar_for_the_next_cell(open_notebook, lab):
    asked = []

    def answer(request):
        asked.append(request["model"])
        return says("Done.")

    lab.model.turns[:] = [answer]
    notebook = open_notebook(LOAD, "%%kagura --write none\nSum up the sheet.")
    notebook.done(0)
    sidebar = Sidebar(notebook.page).open()
    sidebar.panel.get_by_role("button", name="Model", exact=True).click()
    picker = sidebar.panel.get_by_label("Model")
    expect(picker.locator("option[value=opus]")).to_have_count(1)
    picker.select_option("haiku")
    expect(sidebar.panel).to_contain_text("The next cells of this notebook think with haiku.")
    expect(picker).to_have_value("haiku")
    notebook.window("sidebar-models")
    notebook.done(1)
    assert "haiku" in asked[-1]
