"""A kit in a real JupyterLab: its line on the card of a run, and the card in which its files are opened."""

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from kagura_kernel.jupyter.kit import KIT_MIME
from tests.browser.lab import Lab
from tests.support.model_script import calls, says, tool_results
from tests.support.sample_kit import SECRET

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

ANALYST = """\
name: data-analyst
description: Looks at tables
skills: [csv-tools]
add_prompt_files: [AGENTS.md]
"""
TASK = """\
%%kagura --agent ./analyst.yaml --box bubblewrap
Where is the data?"""
KEYS = "skills/csv-tools/references/keys.md"

# What `%%kagura` launches in this kernel is the run that the test tells.
BEGIN = """\
%load_ext kagura_kernel
import kagura_kernel.assembly as assembly
from tests.support.sample_kit import SampleKit
from tests.support.told_run import ToldRun
run = ToldRun()
assembly.get_cockpit = lambda: run
say, kit = run.sample, SampleKit(run.run_id, run.session_id, run.sample.at)
run.tell(say.started(task="Look at the tables", brain_reason="a key of your account is set"), kit.staged(), say.boxed())
run.tell(kit.started(), say.said("I read the skill first."))
"""


@pytest.fixture
def skill(lab: Lab):
    """A skill in the home of the lab's kernels, in which a secret stands."""
    folder = Path(lab.environment["HOME"]) / ".agents" / "skills" / "csv-tools"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: csv-tools\ndescription: Reads, cleans and joins CSV files\n---\n# CSV tools\n\n"
        "Where the data is stands in `references/keys.md`.\n"
    )
    (folder / "references" / "keys.md").write_text(
        "# Where the data is\n\n"
        f"The staging database is postgres://app:{SECRET}@db.example.org/app and read-only.\n\n"
        "Ask the team for another one.\n"
    )
    yield folder
    shutil.rmtree(folder.parents[1])


@pytest.mark.usefixtures("skill")
def test_a_run_with_a_kit_and_its_files_opened_by_click_and_by_keyboard(open_notebook, model, lab):
    model.turns[:] = [
        calls("skill", {"name": "csv-tools", "file": "references/keys.md"}),
        lambda request: says(f"It says: {tool_results(request)[-1][0].splitlines()[0]}"),
    ]
    show = "kit = %kagura kit show --run last\nkit"
    notebook = open_notebook(
        "%load_ext kagura_kernel", TASK, show, files={"analyst.yaml": ANALYST, "AGENTS.md": "Be brief.\n"}
    )
    notebook.done(0)
    card = notebook.done(1)
    line = card.locator(".kg-kit > details > summary").filter(has_text="Kit of")
    expect(line).to_have_text("Kit of data-analyst: 1 skill, AGENTS.md, 1 redaction")
    expect(card.get_by_text("It says: # Where the data is")).to_be_visible()
    expect(card.get_by_text("Reads, cleans and joins CSV files")).to_be_hidden()
    line.click()
    card.locator(".kg-skill > summary").click()
    expect(card.locator(".kg-skill tr", has_text="references/keys.md").locator(".kg-chip")).to_have_text("1 redaction")
    notebook.picture("kit-run", cell=1)

    files = notebook.done(2)
    expect(files.get_by_text("Choose a file.")).to_be_visible()
    files.get_by_role("button", name="references/keys.md").click()
    block = files.locator(".kg-staged mark.kg-redacted")
    expect(block).to_have_text(re.compile(r"^\[REDACTED:[a-z-]+\]$"))
    expect(files.locator(".kg-kit-file-top")).to_contain_text("1 redaction")
    expect(files.locator(".kg-kit-file-top")).to_contain_text("in line 3")
    expect(files.locator("[aria-current]")).to_have_text("references/keys.md")
    notebook.picture("kit-file", cell=2)

    # The buttons are free again at once, and the keyboard does the same.
    other = files.get_by_role("button", name="SKILL.md")
    expect(other).to_be_enabled()
    other.focus()
    notebook.page.keyboard.press("Enter")
    expect(files.locator(".kg-staged")).to_contain_text("# CSV tools")
    expect(block).to_have_count(0)
    expect(other).to_be_focused()

    # What is saved is the list and the file that is open, and no secret is anywhere.
    notebook.wait_kept(2, "# CSV tools")
    saved = notebook.save()
    kept = next(output.data for output in saved.cells[2].outputs if KIT_MIME in output.get("data", {}))
    assert {one["place"] for one in kept[KIT_MIME]["files"]} == {KEYS, "skills/csv-tools/SKILL.md"}
    assert SECRET not in json.dumps(saved)
    with lab.journal() as journal:
        run_id = saved.cells[1].outputs[0].metadata["kagura"]["run_id"]
        assert SECRET not in "".join(row.event.model_dump_json() for row in journal.events(run_id=run_id))


def test_a_live_card_tells_of_its_kit_and_of_a_toolset_that_is_gone(open_notebook):
    notebook = open_notebook(
        BEGIN,
        "%%kagura --agent ./analyst.yaml --bg\nLook at the tables",
        "run.tell(kit.ended());",
        "run.tell(say.finished());",
    )
    notebook.done(0)
    card = notebook.done(1)
    line = card.locator(".kg-kit > details > summary")
    expect(line).to_contain_text("Kit of data-analyst: 2 skills, AGENTS.md and CLAUDE.md, 1 sub-agent, 4 redactions")
    line.focus()
    notebook.page.keyboard.press("Enter")
    expect(card.get_by_text("it is no file but a pipe")).to_be_visible()
    notebook.done(2)
    expect(card.locator(".kg-kit > .kg-refused")).to_contain_text("Gone docs")
    # What the reader unfolded stays so.
    expect(card.get_by_text("it is no file but a pipe")).to_be_visible()
    notebook.picture("kit-card", cell=1)
    notebook.done(3)
    expect(card.locator(".kg-pill")).to_have_text("Done")
    expect(card.locator(".kg-kit > .kg-refused")).to_contain_text("Gone docs")
