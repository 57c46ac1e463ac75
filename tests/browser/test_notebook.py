"""What an agent sees of the notebook that is on screen, saved or not."""

import base64
import json
import re

import nbformat
import pytest
from playwright.sync_api import expect

from kagura_kernel.journal import views
from kagura_kernel.journal.pages import run_page
from kagura_kernel.testing.patience import wait_until
from tests.browser.notebook import Notebook, write
from tests.browser.sidebar import Sidebar
from tests.browser.stage import open_by_command
from tests.support.gallery import png
from tests.support.model_script import calls, images_in, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

LOAD = "%load_ext kagura_kernel"

# As a person does it: cells that no file has yet.
ADD = """([cells]) => {
  const { model } = window.jupyterapp.shell.currentWidget.content;
  cells.forEach(([type, source, tags], at) =>
    model.sharedModel.insertCell(1 + at, { cell_type: type, source, metadata: { tags } }));
}"""


def test_the_agent_sees_the_notebook_on_screen_without_its_private_cells(open_notebook, lab):
    seen = []

    def answer(request):
        seen.append(json.dumps(request["messages"]))
        return says("The column is called amount.")

    lab.model.turns[:] = [answer, answer]
    notebook = open_notebook(
        LOAD, "sales = {'amount': 41}\nsales['total']", "%%kagura\nWhy does it fail?", "%%kagura\nAnd now?"
    )
    added = [["markdown", "# Sales of the **north**", []], ["code", "password = 'correct horse'", ["private"]]]
    notebook.page.evaluate(ADD, [added])
    notebook.done(0)
    notebook.done(2)
    notebook.run(3)
    expect(notebook.error(3)).to_contain_text("KeyError")
    card = notebook.done(4)
    expect(card).to_contain_text("Sees 3 cells, 1 error, 1 name, 1 private left out")
    expect(card).to_contain_text("as it is on screen")
    (told,) = seen
    assert "Sales of the **north**" in told
    assert "KeyError: 'total'" in told
    assert "sales: dict, 1" in told
    assert "correct horse" not in told
    # The conversation knows all of it, but for the cell that was asked from.
    notebook.done(5)
    assert seen[1].count("Sales of the **north**") == 1
    assert seen[1].count("Number of cells as you know them") == 1


def test_an_image_pasted_above_and_a_figure_in_an_output_are_shown_to_the_model(open_notebook, lab):
    requests, drawn = [], []

    def look(request):
        requests.append(request)
        return calls("read_notebook", {"cells": drawn})

    def answer(request):
        requests.append(request)
        return says("A slope, and a dot.")

    lab.model.turns[:] = [look, answer]
    draw = f"from IPython.display import Image\nImage(bytes.fromhex('{png(5, 4).hex()}'))"
    notebook = open_notebook(LOAD, draw, "%%kagura\nWhat do you see?")
    pasted = {"dot.png": {"image/png": base64.b64encode(png(8, 6)).decode()}}
    markdown = {"cell_type": "markdown", "source": "![a dot](attachment:dot.png)", "attachments": pasted}
    notebook.page.evaluate(
        "([cell]) => window.jupyterapp.shell.currentWidget.content.model.sharedModel.insertCell(1, cell)", [markdown]
    )
    drawn.append(notebook.page.evaluate(_IDS)[2])
    notebook.done(0)
    notebook.done(2)
    card = notebook.done(3)
    expect(card).to_contain_text("Seen by the model dot.png, 8 × 6")
    expect(card).to_contain_text("1 image")
    assert images_in(requests[0]) == [("user", base64.b64encode(png(8, 6)).decode())]
    assert images_in(requests[1])[1:] == [("tool_result", base64.b64encode(png(5, 4)).decode())]


SOURCES = (
    """() => window.jupyterapp.shell.currentWidget.content.widgets.map(one => one.model.sharedModel.getSource())"""
)
_IDS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(one => one.model.id)"""


def test_proposed_cells_are_applied_to_the_notebook_on_screen_and_undone_by_its_own_undo(open_notebook, lab):
    ids = []

    def proposes(*made):
        return [*(lambda _, one=one: calls(one[0], one[1](ids)) for one in made), says("Proposed.")]

    lab.model.turns[:] = proposes(
        ("edit_cell", lambda at: {"cell": at[1], "source": "total = 1 + 1\ntotal"}),
        ("insert_cell", lambda at: {"below": at[1], "source": "# Result", "kind": "markdown"}),
        ("delete_cell", lambda at: {"cell": at[2]}),
    )
    notebook = open_notebook(LOAD, "total = 1 +", "left = 'over'", "%%kagura\nMend the sum.")
    ids[:] = notebook.page.evaluate(_IDS)
    notebook.done(0)
    card = notebook.done(3)
    expect(card).to_contain_text("3 changed cells")
    expect(card).to_contain_text("not in the notebook yet")
    notebook.picture("cells")
    before = notebook.page.evaluate(SOURCES)
    card.get_by_role("button", name="Apply all changes").click()
    expect(card).to_contain_text("3 applied")
    after = notebook.page.evaluate(SOURCES)
    assert after == [LOAD, "total = 1 + 1\ntotal", "# Result", "%%kagura\nMend the sum."]
    # Nothing was run or saved by that.
    expect(notebook.prompt(1)).to_have_text("[ ]:")
    assert [cell.source for cell in nbformat.read(notebook.path, as_version=4).cells] == before
    notebook.page.locator(".jp-Notebook").click(position={"x": 5, "y": 5})
    notebook.command("notebook:undo-cell-action")
    wait_until(lambda: notebook.page.evaluate(SOURCES) == before)
    notebook.command("notebook:redo-cell-action")
    wait_until(lambda: notebook.page.evaluate(SOURCES) == after)


RENAME = """async () => {
  const { path } = window.jupyterapp.shell.currentWidget.context;
  await window.jupyterapp.serviceManager.contents.rename(path, path.replace(/[^/]+$/, 'another.ipynb'));
}"""


def test_a_renamed_notebook_keeps_its_runs_its_conversation_and_its_proposals(open_notebook, lab):
    ids = []

    def mends(source):
        return [lambda _: calls("edit_cell", {"cell": ids[1], "source": source}), says("Proposed.")]

    lab.model.turns[:] = [*mends("1 + 1"), *mends("1 + 2"), says("It is three.")]
    notebook = open_notebook(
        LOAD, "1 +", "%%kagura\nMend the sum.", "%%kagura\nMake it three.", "%%kagura\nDone?", own_kernel=True
    )
    ids[:] = notebook.page.evaluate(_IDS)
    notebook.done(0)
    card = notebook.done(2)
    costs = Sidebar(notebook.page).open().section("Costs").locator(".kgs-sums")
    notebook.page.evaluate(RENAME)
    renamed = str(notebook.path.with_name("another.ipynb"))
    expect(costs).to_contain_text(re.compile(r"another\.ipynb\$[0-9.]+1 run$"))
    card.get_by_role("button", name="Apply all changes").click()
    expect(card).to_contain_text("1 applied")
    assert notebook.page.evaluate(SOURCES)[1] == "1 + 1"
    after = notebook.done(3)
    after.get_by_role("button", name="Apply all changes").click()
    expect(after).to_contain_text("1 applied")
    assert notebook.page.evaluate(SOURCES)[1] == "1 + 2"
    # The restarted kernel is told the name again that the first one was told.
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.done(0)
    notebook.done(4)
    with lab.journal() as journal:
        recorded = views.runs(journal, limit=3)
        assert [row.notebook for row in recorded] == [renamed, renamed, str(notebook.path)]
        assert len({row.session_id for row in recorded}) == 1
        assert [row.notebook for row in run_page(journal, notebook=renamed).items] == [renamed] * 3


def test_a_cell_runs_in_the_persons_kernel_once_they_have_read_it(open_notebook, lab):
    ids, results = [], []

    def asks(_):
        return calls("run_cell", {"cell": ids[2], "reason": "It tells how many there are."})

    def hears(request):
        results.append(json.dumps(request["messages"][-1]))
        return says("There are three.")

    lab.model.turns[:] = [asks, hears]
    notebook = open_notebook(LOAD, "rows = [1, 2, 3]", "print('looked'); n = len(rows); n", "%%kagura\nCount.", "n")
    ids[:] = notebook.page.evaluate(_IDS)
    notebook.done(0)
    notebook.done(1)
    output = notebook.run(3)
    question = output.get_by_role("group", name="Host command: Run a cell of")
    expect(question).to_contain_text("print('looked'); n = len(rows); n")
    expect(question).to_contain_text("It tells how many there are.")
    notebook.picture("run_cell")
    question.get_by_role("button", name="Allow").click()
    notebook.wait_done(3)
    expect(output).to_contain_text("There are three.")
    assert "looked\\n3" in results[0]
    # What it gave stays, and nothing of it stands in the asking cell's own output.
    expect(notebook.done(4)).to_contain_text("[4]:3")
    expect(notebook.error(3)).to_have_count(0)


def test_a_cell_that_a_person_has_changed_meanwhile_is_left_alone_and_a_very_long_one_is_not(open_notebook, lab):
    ids = []
    lab.model.turns[:] = [
        lambda _: calls("edit_cell", {"cell": ids[1], "source": "mine = 2"}),
        lambda _: calls("edit_cell", {"cell": ids[2], "source": "long = ''"}),
        says("Proposed."),
    ]
    notebook = open_notebook(LOAD, "mine = 1", f"long = '{'a' * 60_000}'", "%%kagura\nMake it two.")
    ids[:] = notebook.page.evaluate(_IDS)
    notebook.done(0)
    card = notebook.done(3)
    notebook.write(1, "mine = 3")
    card.get_by_role("button", name="Apply all changes").click()
    expect(card).to_contain_text("the cell was changed meanwhile and was left alone")
    assert notebook.page.evaluate(SOURCES)[1:3] == ["mine = 3", "long = ''"]


def test_a_cell_that_failed_is_mended_by_its_button_and_works(open_notebook, lab):
    told = []

    def mends(request):
        told.append(json.dumps(request["messages"]))
        return calls(
            "edit_cell", {"cell": told[0].split("Fix cell ")[-1].split()[0], "source": "prices['total'] = 2\nprices"}
        )

    lab.model.turns[:] = [mends, says("The key was missing.")]
    # The extension is not loaded: the button sees to that.
    notebook = open_notebook("prices = {'amount': 1}", "print('row\\n' * 60)\nprices['total']")
    notebook.done(0)
    notebook.run(1)
    expect(notebook.error(1)).to_contain_text("KeyError")
    notebook.cell(1).locator(".cm-content").click()
    notebook.cell(1).get_by_role("button", name="Fix this cell").click()
    card = notebook.output(2)
    expect(card).to_contain_text("The key was missing.")
    expect(card).to_be_in_viewport(ratio=0.9)
    assert "KeyError: 'total'" in told[0]
    notebook.picture("fix", cell=2)
    card.get_by_role("button", name="Apply all changes").click()
    expect(card).to_contain_text("1 applied")
    expect(notebook.done(1)).to_contain_text("{'amount': 1, 'total': 2}")
    expect(notebook.cell(1).get_by_role("button", name="Fix this cell")).to_have_count(0)


def test_the_sidebar_asks_about_the_active_cell_that_failed(open_notebook, lab):
    lab.model.turns[:] = [says("The key is missing.")]
    notebook = open_notebook("1", "{}['total']")
    Sidebar(notebook.page).open()
    failed = notebook.page.locator("#kagura-sidebar").get_by_role("group", name="The active cell failed")
    notebook.done(0)
    expect(failed).to_have_count(0)
    notebook.run(1)
    expect(failed).to_contain_text("KeyError: 'total'")
    expect(failed.get_by_role("button", name="Fix this cell")).to_be_visible()
    # It stands in from the edge of the panel as all that is below it does.
    assert failed.evaluate("it => [getComputedStyle(it).marginLeft, getComputedStyle(it).columnGap]") == ["12px", "6px"]
    failed.get_by_role("button", name="Explain this error").click()
    expect(notebook.output(2)).to_contain_text("The key is missing.")
    assert notebook.page.evaluate(SOURCES)[2].startswith("%kagura explain ")
    expect(failed).to_have_count(0)


def test_the_conversation_goes_on_after_the_page_was_loaded_anew_and_the_kernel_restarted(open_notebook, lab):
    seen = []

    def answer(request):
        seen.append(json.dumps(request["messages"]))
        return says("Noted.")

    lab.model.turns[:] = [answer, answer, answer]
    notebook = open_notebook(
        LOAD, "%%kagura\nThe word is suzu.", "%%kagura\nWhich word?", "%%kagura --new\nWhich word?", own_kernel=True
    )
    notebook.done(0)
    expect(notebook.done(1)).not_to_contain_text("goes on")
    notebook.save()
    notebook.reload()
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.done(0)
    expect(notebook.done(2)).to_contain_text("goes on from [2]")
    expect(notebook.done(3)).not_to_contain_text("goes on")
    assert ["The word is suzu." in told for told in seen] == [True, True, True]
    # Of the first conversation the second run knows what was said, the third the cell alone.
    assert ["Noted." in told for told in seen] == [False, True, False]


def test_a_card_that_goes_on_has_a_button_for_another_conversation_and_asks_nothing_by_it(open_notebook, lab):
    asks = calls("bash", {"command": "true", "host": True, "reason": "Only the host has it."})
    lab.model.turns[:] = [says("Noted."), asks, says("Denied."), says("Anew.")]
    notebook = open_notebook(LOAD, *("%%kagura --write none\nGo on.",) * 3)
    notebook.done(0)
    notebook.done(1)
    card = notebook.run(2)
    expect(card).to_contain_text("goes on from [2]")
    card.get_by_role("button", name="Begin another one").click()
    expect(card).to_contain_text("The next cell begins another conversation.")
    card.get_by_role("button", name="Deny").click()
    notebook.wait_done(2)
    expect(notebook.done(3)).to_contain_text("Anew.")
    expect(notebook.output(3)).not_to_contain_text("goes on from")


def test_of_two_windows_that_one_changes_in_which_a_person_applies_and_neither_loses_a_cell(open_notebook, lab, stage):
    ids = []
    lab.model.turns[:] = [
        lambda _: calls("edit_cell", {"cell": ids[1], "source": "a = 2"}),
        lambda _: calls("insert_cell", {"below": ids[1], "source": "new = 1"}),
        says("Proposed."),
    ]
    one = open_notebook(LOAD, "a = 1", "b = 1", "%%kagura\nChange a.", "")
    ids[:] = one.page.evaluate(_IDS)
    one.done(0)
    card = one.done(3)
    expect(card).to_contain_text("2 changed cells")
    one.save()
    other = Notebook(stage.take(), one.path)
    open_by_command(other.page, str(one.path.relative_to(lab.root)))
    other.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.connectionStatus === 'connected'"
    )
    one.write(2, "b = 'one'")
    other.write(2, "b = 'other'")
    other.tell(4, f"%kagura apply last notebook.ipynb#{ids[1]}")
    expect(card).to_contain_text("1 applied")
    assert [page.evaluate(SOURCES)[1:3] for page in (one.page, other.page)] == [
        ["a = 1", "b = 'one'"],
        ["a = 2", "b = 'other'"],
    ]
    card.get_by_role("button", name="Apply all changes").click()
    # The new cell stands above the card.
    expect(one.output(4)).to_contain_text("2 applied")
    assert one.page.evaluate(SOURCES)[1:4] == ["a = 1", "new = 1", "b = 'one'"]
    assert other.page.evaluate(SOURCES)[1:3] == ["a = 2", "b = 'other'"]
    stage.give_back(other.page, good=True)


def test_a_notebook_that_was_changed_as_a_file_is_changed_on_screen_where_it_is_open(open_notebook, lab):
    program = (
        "import json, pathlib\n"
        "for path in pathlib.Path().glob('*.ipynb'):\n"
        "    whole = json.loads(path.read_text())\n"
        "    whole['cells'][1]['source'] = f'name = \"{path.stem}\"'\n"
        "    whole['cells'][1]['outputs'] = [{'output_type': 'stream', 'name': 'stdout', 'text': 'forged'}]\n"
        "    path.write_text(json.dumps(whole))\n"
    )
    lab.model.turns[:] = [calls("bash", {"command": f"python3 - <<'EOF'\n{program}EOF"}), says("Changed.")]
    own = open_notebook(LOAD, "name = ''", "%%kagura\nName them.")
    beside = write(lab, own.folder.name, "1", "name = ''", "left = 1")
    own.page.evaluate(
        """async path => {
          const { commands, shell } = window.jupyterapp;
          const own = shell.currentWidget;
          const opened = await commands.execute('docmanager:open', { path, factory: 'Notebook' });
          await opened.context.ready;
          shell.activateById(own.id);
        }""",
        str(beside.relative_to(lab.root)),
    )
    own.done(0)
    own.write(0, f"{LOAD}\n")
    card = own.done(2)
    expect(card).to_contain_text("2 changed cells")
    expect(card).to_contain_text("such as outputs, was left out")
    files = {path: path.read_bytes() for path in (own.path, beside)}
    card.get_by_role("button", name="Apply all changes").click()
    expect(card).to_contain_text("2 applied")
    shown = own.page.evaluate(
        """() => [...window.jupyterapp.shell.widgets('main')]
          .filter(one => one.context?.path.endsWith('.ipynb'))
          .map(one => [one.context.path.split('/').pop(), one.content.widgets[1].model.sharedModel.getSource()])"""
    )
    assert dict(shown) == {own.path.name: 'name = "notebook"', beside.name: 'name = "notebook-2"'}
    # Nothing was saved by that.
    assert {path: path.read_bytes() for path in files} == files
    assert own.save().cells[1].outputs == []


def test_a_task_is_written_as_prose_and_turns_into_code_and_back(open_notebook):
    long = "Look for rows and for columns in which something is missing, and not for what is only zero. " * 3
    notebook = open_notebook(LOAD, f"%%kagura\n{long}", "for row in rows: print(row)")
    task, code = (notebook.cell(at).locator(".cm-content") for at in (1, 2))
    prose = "cm-content cm-lineWrapping"
    for shown, is_task in ((task, True), (code, False)):
        expect(shown).to_have_class(prose if is_task else "cm-content")
        expect(shown.locator("span", has_text="for")).to_have_count(0 if is_task else 1)
    notebook.write(1, "for row in rows: print(row)")
    notebook.write(2, f"%%kagura\n{long}")
    for shown, is_task in ((task, False), (code, True)):
        expect(shown).to_have_class(prose if is_task else "cm-content")
        expect(shown.locator("span", has_text="for")).to_have_count(0 if is_task else 1)
