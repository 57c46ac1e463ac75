"""A person reviews what a run changed, in a real JupyterLab: what they press is what the project gets."""

import json

import pytest
from playwright.sync_api import expect

from kagura_kernel.render.html import html_of
from tests.browser.test_cards import LOAD, SALES, call, cassette
from tests.support import gallery
from tests.support.gallery import live_document, png, reviewed

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

OLD = "".join(f"def step_{number}(rows):\n    return rows[{number}:]\n\n\n" for number in range(12))
NEW = (
    OLD.replace("rows[1:]", "rows[2:]")
    .replace("def step_5(rows)", "def step_5(rows, head=1)")
    .replace("    return rows[11:]\n", "    return rows[11:]  # the last\n")
)
NOTES = call("write_file", path="notes.md", content="# Notes\n")
TASK = "%%kagura --replay change.jsonl\nMend the steps."


def test_each_part_of_a_file_is_decided_by_itself_by_keyboard_too(open_notebook):
    entries = [call("write_file", path="steps.py", content=NEW), NOTES]
    notebook = open_notebook(LOAD, TASK, files={"steps.py": OLD, "change.jsonl": cassette(*entries)})
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    steps = output.locator(".kg-file:visible", has_text="steps.py")
    second = steps.get_by_role("button", name="Apply hunk 2, lines 18–24 of steps.py")
    notebook.picture("hunks", cell=1)
    second.focus()
    notebook.page.keyboard.press("Enter")
    expect(steps.get_by_role("group", name="Hunk 2").locator(".kg-chip")).to_have_text("applied")
    half = OLD.replace("def step_5(rows)", "def step_5(rows, head=1)")
    assert (notebook.folder / "steps.py").read_text() == half
    # A second press of the key decides nothing: the focus is on the file.
    assert notebook.page.evaluate("() => document.activeElement.dataset.of") == "steps.py"
    steps.get_by_role("button", name="Discard hunk 1,").click()
    expect(steps.get_by_role("group", name="Hunk 1").locator(".kg-chip")).to_have_text("discarded")
    notebook.picture("hunks-decided", cell=1)
    steps.get_by_role("button", name="Apply steps.py").click()
    expect(steps.locator("summary .kg-chip").first).to_have_text("applied")
    whole = half.replace("    return rows[11:]\n", "    return rows[11:]  # the last\n")
    assert (notebook.folder / "steps.py").read_text() == whole
    steps.get_by_role("button", name="Undo steps.py").click()
    expect(steps.get_by_role("button", name="Apply hunk 3,")).to_be_visible()
    assert (notebook.folder / "steps.py").read_text() == half
    steps.get_by_role("button", name="Undo steps.py").click()
    expect(steps.get_by_role("button", name="Apply hunk 2,")).to_be_visible()
    assert (notebook.folder / "steps.py").read_text() == OLD


def test_a_conflict_shows_both_sides_and_is_merged_or_taken(open_notebook):
    files = {
        "steps.py": OLD,
        "notes.md": "# Old\n",
        "change.jsonl": cassette(call("write_file", path="steps.py", content=NEW), NOTES),
    }
    notebook = open_notebook(LOAD, TASK, files=files)
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    mine = OLD.replace("rows[8:]", "rows[-8:]")
    (notebook.folder / "steps.py").write_text(mine)
    (notebook.folder / "notes.md").write_text("# Mine\n")
    output.get_by_role("button", name="Apply all changes").click()
    steps, notes = (output.locator(".kg-file:visible", has_text=name) for name in ("steps.py", "notes.md"))
    expect(steps.get_by_role("group", name="In the project since the run began")).to_contain_text(
        "+    return rows[-8:]"
    )
    expect(steps.get_by_role("group", name="What the run changed")).to_contain_text("head=1")
    expect(notes.get_by_role("button", name="Merge with markers of conflict notes.md")).to_be_visible()
    notebook.picture("conflict", cell=1)
    steps.get_by_role("button", name="Merge both changes of steps.py").click()
    expect(steps.locator("summary .kg-chip").first).to_have_text("applied")
    assert (notebook.folder / "steps.py").read_text() == NEW.replace("rows[8:]", "rows[-8:]")
    # What is saved now was not on the card when it was drawn.
    (notebook.folder / "notes.md").write_text("# Newer\n")
    notes.get_by_role("button", name="Take theirs, the run’s notes.md").click()
    expect(output.locator(".kg-told:visible")).to_contain_text("notes.md was saved since both sides were shown")
    assert (notebook.folder / "notes.md").read_text() == "# Newer\n"
    notes.get_by_role("button", name="Take theirs, the run’s notes.md").click()
    expect(notes.locator("summary .kg-chip").first).to_have_text("applied")
    assert (notebook.folder / "notes.md").read_text() == "# Notes\n"
    notes.get_by_role("button", name="Undo notes.md").click()
    notes.get_by_role("button", name="Keep mine, the project’s notes.md").click()
    expect(notes.locator("summary .kg-chip").first).to_have_text("discarded")
    assert (notebook.folder / "notes.md").read_text() == "# Newer\n"


MANY = """\
mkdir -p src/steps docs
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "step = $n" > src/steps/step_$n.py; echo "# $n" > docs/page_$n.md; done
sed -i 's/east,40/east,41.5/; /south,61/d' sales.csv; echo 2026-01-09,west,12 >> sales.csv
cp new.png plot.png; rm new.png
"""


def test_many_files_are_decided_by_folder_and_tables_and_images_compared_as_such(open_notebook):
    files = {"sales.csv": SALES.replace("north,61", "south,61"), "change.jsonl": cassette(call("bash", command=MANY))}
    notebook = open_notebook(LOAD, TASK, files=files)
    (notebook.folder / "plot.png").write_bytes(png(200, 120))
    (notebook.folder / "new.png").write_bytes(png(260, 90))
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    output.get_by_role("group", name="docs/").locator("summary").first.click()
    for name in ("sales.csv", "plot.png"):
        output.locator(".kg-file:visible", has_text=name).locator("summary").first.click()
    sides = output.locator(".kg-file:visible", has_text="plot.png").locator("img")
    assert sides.evaluate_all("all => all.map(one => one.naturalWidth)") == [200, 260]
    expect(output.get_by_role("group", name="Rows that differ")).to_contain_text("40 → 41.5")
    notebook.picture("folders", cell=1)
    output.get_by_role("button", name="Apply docs/", exact=True).click()
    expect(output.get_by_role("button", name="Undo docs/", exact=True)).to_be_visible()
    assert len(list((notebook.folder / "docs").iterdir())) == 12
    assert not (notebook.folder / "src").exists()
    output.get_by_role("button", name="Undo docs/", exact=True).click()
    expect(output.get_by_role("button", name="Apply docs/", exact=True)).to_be_visible()
    assert not (notebook.folder / "docs").exists()


def test_commits_of_a_branch_are_applied_by_their_own_button(blank):
    blank.set_content(live_document({"all": html_of(reviewed())}, label="Changes of a run"))
    main = blank.get_by_role("group", name="Commits on main")
    expect(main.locator("summary").first).to_contain_text("3f3f3f3f Say how often each is counted +2 −0")
    expect(main.get_by_text("Of all that is in stock.")).to_be_hidden()
    main.locator("summary").first.click()
    expect(main.get_by_text("Of all that is in stock.")).to_be_visible()
    main.get_by_role("button", name="Apply commits on main").click()
    assert blank.evaluate("window.model.sent.at(-1)") == {"act": "apply-commits", "id": "main", "path": None}


NEW_NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Sales of the year\n"]},
        {
            "cell_type": "code",
            "id": "sum",
            "metadata": {},
            "source": "total = 61",
            "outputs": [],
            "execution_count": None,
        },
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def test_a_new_notebook_is_told_by_cells_and_undo_goes_when_the_file_has_changed(open_notebook):
    entries = [call("write_file", path="new.ipynb", content=json.dumps(NEW_NOTEBOOK, indent=1)), NOTES]
    notebook = open_notebook(LOAD, TASK, files={"change.jsonl": cassette(*entries)})
    notebook.run(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    new, notes = (output.locator(".kg-file:visible", has_text=name) for name in ("new.ipynb", "notes.md"))
    expect(new.get_by_role("group", name="markdown cell intro")).to_contain_text("# Sales of the year")
    expect(new.get_by_role("group", name="code cell sum")).to_contain_text("total = 61")
    notebook.picture("new-notebook", cell=1)
    output.get_by_role("button", name="Apply all changes").click()
    expect(output.get_by_role("button", name="Undo all changes")).to_be_visible()
    (notebook.folder / "notes.md").write_text("# Mine\n")
    notes.get_by_role("button", name="Undo notes.md").click()
    expect(output.locator(".kg-told:visible")).to_contain_text("it has changed since it was applied")
    expect(notes.get_by_role("button")).to_have_count(0)
    expect(output.get_by_role("button", name="Undo all changes")).to_have_count(0)
    new.get_by_role("button", name="Undo new.ipynb").click()
    expect(new.get_by_role("button", name="Apply new.ipynb")).to_be_visible()
    assert not (notebook.folder / "new.ipynb").exists()


CUT_OFF = """() => {
  const card = document.querySelector('.kg-card').getBoundingClientRect();
  const places = all =>
    [...document.querySelectorAll(all)].map(one => one.getBoundingClientRect()).filter(one => one.width);
  const out = places('.kg-btn, .kg-chip, .kg-path').filter(one => one.right > card.right || one.left < card.left);
  const torn = places('.kg-path').filter(one => one.height > 60);
  const under = places('summary .kg-path, summary .kg-chip').filter(one => places('.kg-acts .kg-btn').some(
    other => other.left < one.right && one.left < other.right && other.top < one.bottom && one.top < other.bottom));
  return [out.length, torn.length, under.length];
}"""


@pytest.mark.parametrize("width", [320, 480, 800])
def test_a_narrow_card_breaks_no_name_letter_by_letter_and_has_all_its_buttons(blank, width):
    card = gallery.cards()["reviewed changes"]
    blank.set_content(gallery.document(f'<div style="width: {width}px">{card}</div>'))
    blank.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert blank.evaluate(CUT_OFF) == [0, 0, 0]


def test_a_saved_card_is_as_wide_as_the_live_one_whose_place_it_takes(open_notebook):
    notebook = open_notebook(LOAD, TASK, files={"change.jsonl": cassette(NOTES)})
    notebook.run(0)
    cards = notebook.run(1).locator(".kg-card:visible")
    notebook.wait_done(1)
    widths = "all => all.map(one => one.getBoundingClientRect().width)"
    live = cards.evaluate_all(widths)
    assert live
    notebook.save()
    notebook.reload()
    expect(cards).to_have_count(len(live))
    # The frame of the page's own output is one pixel on each side.
    assert cards.evaluate_all(widths) == pytest.approx(live, abs=2)
