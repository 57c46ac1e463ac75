"""Results of a box in a real notebook: shown in the cell, saved with it, and readable where there is no kernel."""

import base64
import getpass
import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from playwright.sync_api import expect

from kagura_kernel.render import blocks as ui
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.views.body import result_block
from kagura_kernel.views.record import RUN_MIME
from tests.browser.conftest import passed
from tests.browser.interrupts import LOAD
from tests.browser.stage import show_without_kernel
from tests.support.gallery import DRAWING, png, shown
from tests.support.model_script import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

FRAME = """\
import pandas as pd
regions = ["north", "south", "north"]
sales = pd.DataFrame({"day": ["Mon", "Tue", "Wed"], "region": regions, "amount": [120.5, 88.0, 61.25]})
"""
SHOW = f"""\
%%sandbox python -i sales -o totals
import base64
from IPython.display import display
display(sales)
display({{"image/png": {base64.b64encode(png(420, 160)).decode()!r}, "text/plain": "A slope"}}, raw=True)
display({{"image/svg+xml": {DRAWING!r}, "text/plain": "Bars"}}, raw=True)
text = "**North leads** with 181.75:\\n\\n| region | total |\\n|---|---:|\\n| north | 181.75 |\\n"
display({{"text/markdown": text}}, raw=True)
totals = sales.groupby("region")["amount"].sum().to_dict()
"""
MAKE = f"""\
%%sandbox python
import base64
open("plot.png", "wb").write(base64.b64decode({base64.b64encode(png(420, 160)).decode()!r}))
open("rows.csv", "w").write("day,amount\\n" + "".join(f"2026-01-{{day:02d}},{{day * 10}}\\n" for day in range(1, 20)))
open("bars.svg", "w").write({DRAWING!r})
open("model.bin", "wb").write(bytes(range(256)) * 40)
"""


def test_results_of_a_box_stand_in_its_cell_like_the_kernels_own_and_in_the_file(open_notebook, own_page):
    notebook = open_notebook(LOAD, FRAME, SHOW, "totals", "sales", folder_name="results")
    for index in range(3):
        notebook.done(index)
    tables_images_and_markdown_stand_there(notebook)
    a_data_frame_looks_like_one_of_the_kernel(notebook)
    the_file_shows_them_without_a_kernel_and_without_widgets(notebook, own_page)


def tables_images_and_markdown_stand_there(shown):
    """What the box displayed, each as what it is, and what went in and out."""
    output = shown.output(2)
    results = output.locator(".kg-result:visible")
    expect(results).to_have_count(4)
    expect(results.nth(0).locator("tbody tr")).to_have_count(3)
    picture, drawing = results.nth(1).locator("img"), results.nth(2).locator("img")
    assert picture.evaluate("one => [one.naturalWidth, one.naturalHeight, one.alt]") == [420, 160, "A slope"]
    assert drawing.evaluate("one => [one.naturalWidth, one.clientWidth]") == [320, 320]
    expect(results.nth(3).locator("strong")).to_have_text("North leads")
    expect(output.locator(".kg-vars")).to_contain_text("sales (DataFrame, 3 rows × 3 columns")
    expect(output.locator(".kg-vars")).to_contain_text("totals (dict")
    expect(shown.done(3)).to_contain_text("{'north': 181.75, 'south': 88.0}")
    shown.picture("results", cell=2)


def a_data_frame_looks_like_one_of_the_kernel(shown):
    """The same table, shown by a box and by the kernel."""
    theirs = shown.done(4).locator("table.dataframe")
    ours = shown.output(2).locator(".kg-result table").first
    look = """one => {
      const [head, cell] = [one.querySelector("thead th:last-child"), one.querySelector("tbody td:last-child")];
      const names = ["textAlign", "fontWeight", "fontSize", "borderTopStyle", "color"];
      return [head, cell].flatMap((each) => names.map((name) => getComputedStyle(each)[name]));
    }"""
    assert ours.evaluate(look) == theirs.evaluate(look)


def the_file_shows_them_without_a_kernel_and_without_widgets(shown, own_page):
    """What is saved, and the page that is made of it."""
    saved = shown.save()
    data = saved.cells[2].outputs[0].data
    assert "[image 420×160, " in data["text/plain"]
    assert "[image 320×90, " in data["text/plain"]
    assert "north" in data["text/plain"]
    steps = data[RUN_MIME]["steps"]
    assert [step["mime"] for step in steps if step["kind"] == "result"] == [
        "text/html",
        "image/png",
        "image/svg+xml",
        "text/markdown",
    ]
    assert len(json.dumps(data[RUN_MIME])) < 5000
    web = shown.path.with_suffix(".html")
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", "--output", str(web), str(shown.path)]
    subprocess.run(convert, check=True, capture_output=True)
    own_page.goto(web.as_uri())
    expect(own_page.locator(".kg-result")).to_have_count(4)
    assert own_page.locator(".kg-result img").evaluate_all("all => all.map((one) => one.naturalWidth)") == [420, 320]
    expect(own_page.locator(".kg-result tbody tr")).to_have_count(4)


HEADS, FIGURES = ([f"{word}_{number}" for number in range(30)] for word in ("long_column", "0.158151"))
WIDE = pd.DataFrame([FIGURES], columns=HEADS)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(result_block(shown("text/html", WIDE.to_html(index=False))), id="a frame of the box"),
        pytest.param(
            ui.Rich("\n".join(f"|{'|'.join(row)}|" for row in (HEADS, ["-"] * len(HEADS), FIGURES))), id="an answer"
        ),
    ],
)
@pytest.mark.parametrize("width", [1440, 700])
def test_a_table_that_is_too_wide_is_scrolled_and_breaks_no_word(blank, block, width):
    blank.set_viewport_size({"width": width, "height": 900})
    blank.set_content(framed(html_of([ui.Group((block,), "body")]), "Wide"))
    # A line is about twenty pixels.
    assert all(box.bounding_box()["height"] < 32 for box in blank.locator("th, td").all())
    assert blank.evaluate("document.documentElement.scrollWidth <= innerWidth")


SIDES = """one => {
  const [box, words] = [one, document.createRange()];
  words.selectNodeContents(one);
  const [outer, inner] = [box.getBoundingClientRect(), words.getBoundingClientRect()];
  return [inner.left - outer.left < 1, outer.right - inner.right < 1];
}"""


def test_each_paragraph_of_an_answer_begins_on_the_side_on_which_its_language_does(blank):
    blank.set_content(framed(html_of([ui.Group((ui.Rich("Two words.\n\nكلمتان `report.md` هنا."),), "body")]), "Two"))
    assert [one.evaluate(SIDES) for one in blank.locator(".kg-prose p").all()] == [[True, False], [False, True]]


def test_files_that_a_run_made_have_a_size_and_a_preview(open_notebook):
    notebook = open_notebook(LOAD, MAKE, folder_name="files")
    notebook.done(0)
    output = notebook.done(1)
    files = output.locator(".kg-file:visible")
    expect(files).to_have_count(4)
    output.locator(".kg-file details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    plot, rows, model = (files.filter(has_text=name) for name in ("plot.png", "rows.csv", "model.bin"))
    assert plot.locator("img").evaluate("one => one.naturalWidth") == 420
    assert files.filter(has_text="bars.svg").locator("img").evaluate("one => one.naturalWidth") == 320
    expect(rows.locator("tbody tr")).to_have_count(8)
    expect(model).to_contain_text("Binary file, 10,240 bytes")
    expect(model).to_contain_text("10.2 kB")
    notebook.picture("files", cell=1)
    plot.get_by_role("button", name="Apply plot.png").click()
    expect(plot.locator(".kg-chip")).to_have_text("applied")
    assert (notebook.folder / "plot.png").read_bytes() == png(420, 160)
    assert plot.locator("img").evaluate("one => one.naturalWidth") == 420


HEIGHTS = """([index]) => {
  window.heights = [];
  const area = document.querySelectorAll(".jp-Notebook .jp-Cell")[index].querySelector(".jp-Cell-outputArea");
  const look = () => { window.heights?.push(area.clientHeight); if (window.heights) requestAnimationFrame(look); };
  look();
}"""


def test_the_cell_does_not_collapse_when_the_live_card_becomes_the_saved_one(open_notebook):
    notebook = open_notebook(LOAD, "%%sandbox bash\nseq 1 30; sleep 1; seq 1 30", "1 + 1")
    notebook.done(0)
    output = notebook.run(1)
    expect(output.locator(".kg-out:visible")).to_contain_text("30")
    notebook.page.evaluate(HEIGHTS, [1])
    notebook.wait_done(1)
    expect(output.locator(".kg-live")).to_have_count(0)
    notebook.page.wait_for_timeout(300)
    heights = notebook.page.evaluate("window.heights")
    assert min(heights) >= 0.9 * heights[0]


def on_the_host(command):
    """What the model asks for when it wants this."""
    return {"command": command, "host": True, "reason": f"Only this machine can do {command}."}


TALK = (
    calls("bash", {"command": "wc -l notes.txt"}, first="I count the lines **first**."),
    calls("bash", on_the_host("touch denied-mark")),
    calls("bash", on_the_host("touch allowed-mark"), first="Then I do without it."),
    calls("bash", on_the_host("touch open-mark"), first="And there is one thing more."),
)
END = says("It has **two** lines; the last thing was left alone.")
PERSON = getpass.getuser()
DECIDED = (
    "I count the lines first.",
    "Denied by " + PERSON,
    "touch denied-mark",
    "Allowed by " + PERSON,
    "allowed-mark",
)
OPEN = ("And there is one thing more.", "touch open-mark", "Only this machine can do touch open-mark.")
COST = "$0.0"


@pytest.fixture
def waiting(open_notebook, lab):
    """A run in the middle: it has counted, was denied one thing, was allowed another, and waits for a third."""
    lab.model.turns[:] = [*TALK, END]
    notebook = open_notebook(LOAD, "%%kagura --budget 2\nCount the lines.", files={"notes.txt": "one\ntwo\n"})
    notebook.done(0)
    output = notebook.run(1)
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("denied-mark")
    notebook.wait_kept(1, "touch denied-mark")
    output.locator(".kg-live").evaluate("card => { card.dataset.same = 'yes' }")
    output.get_by_role("button", name="Deny", exact=True).click()
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("allowed-mark")
    output.get_by_role("button", name="Allow once").click()
    expect(output.locator(".kg-ask.kg-open")).to_contain_text("open-mark")
    return notebook


@pytest.fixture
def another(stage, request):
    """A page beside the notebook's."""
    found = stage.take()
    yield found
    stage.give_back(found, good=passed(request))


def read_by_others(notebook, lab, own_page, another):
    """Its text as a page without widgets, and in a JupyterLab without its kernel."""
    copy = lab.root / f"{notebook.folder.name}-given-on" / notebook.path.name
    copy.parent.mkdir()
    shutil.copy(notebook.path, copy)
    web = copy.with_suffix(".html")
    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", "--output", str(web), str(copy)],
        check=True,
        capture_output=True,
        env=dict(lab.environment),
    )
    # As from a mail: nothing can be fetched, and no script of the page's own is needed to read it.
    own_page.route("http*://**", lambda route: route.abort())
    own_page.goto(web.as_uri(), wait_until="domcontentloaded")
    outputs = own_page.locator(".jp-Cell-outputArea")
    yield outputs.nth(0 if outputs.count() == 1 else 1)
    yield show_without_kernel(another, lab, copy).output(1)


def test_what_was_saved_in_the_middle_can_be_read(waiting, lab, own_page, another):
    waiting.wait_kept(1, "And there is one thing more.")
    # The card that a person works with was not drawn anew for it.
    expect(waiting.output(1).locator(".kg-live")).to_have_attribute("data-same", "yes")
    waiting.save()
    for reader in read_by_others(waiting, lab, own_page, another):
        for text in (*DECIDED, *OPEN, COST):
            expect(reader).to_contain_text(text)
        for fault in ("Error displaying widget", "Loading widget"):
            expect(reader.get_by_text(fault).locator("visible=true")).to_have_count(0)
        expect(reader.get_by_role("button", name="Allow once")).to_have_count(0)


def test_what_was_saved_at_the_end_can_be_read(waiting, lab, own_page, another):
    waiting.output(1).get_by_role("button", name="Deny", exact=True).click()
    waiting.wait_done(1)
    waiting.save()
    for reader in read_by_others(waiting, lab, own_page, another):
        for text in (*DECIDED, *OPEN, COST, "It has two lines"):
            expect(reader).to_contain_text(text)
