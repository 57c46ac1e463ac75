"""What an agent sees of the notebook that is on screen, saved or not."""

import json

import pytest
from playwright.sync_api import expect

from tests.support.model_script import says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

LOAD = "%load_ext kagura_kernel"

# As a person does it: cells that no file has yet.
_ADD = """([cells]) => {
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
    notebook.page.evaluate(_ADD, [added])
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
    assert seen[1].count("Cells as you know them") == 1
