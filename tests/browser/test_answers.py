"""An approval is decided once, wherever the answer comes from, and every other view follows."""

import getpass
import os
import re
import signal
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path

import pexpect
import pytest
from playwright.sync_api import expect

from kagura_kernel.journal import pages, views
from kagura_kernel.views.record import LIVE_MIME, RUN_MIME, WIDGET_MIME
from tests.browser.interrupts import LOAD, host
from tests.browser.lab import running_lab
from tests.browser.notebook import PATIENCE_MS, show, write
from tests.browser.sidebar import Sidebar
from tests.support.model_script import calls, says

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

ASK = "%%kagura --replay ask.jsonl --write none\nLeave a mark."
# More than there is room for: its last line comes into sight only when somebody looks for it.
SCRIPT = "\n".join([*(f": {number}" for number in range(60)), "echo once >> mark"])
ON_THE_HOST = {"command": SCRIPT, "host": True, "reason": "The box cannot see this machine."}
FILES = {"ask.jsonl": host(ON_THE_HOST["command"])}


# A connection that stays would close every comm of that kernel's next cards, whose target it does not know.
RESTART = """async id => {
  const kernel = window.jupyterapp.serviceManager.kernels.connectTo({ model: { id } });
  await kernel.restart();
  kernel.dispose();
}"""


def pending(lab):
    """The one question that is open."""
    with lab.journal() as journal:
        [found] = views.approvals(journal, pending_only=True)
        return found


def decided(lab, approval_id):
    """How a question was answered."""
    with lab.journal() as journal:
        [found] = [row for row in views.approvals(journal) if row.id == approval_id]
        return found.verdict, found.via


@pytest.fixture
def asking(open_notebook, lab):
    """A notebook whose run waits for an answer, and the question's id."""
    notebook = open_notebook(LOAD, ASK, "print('the cell below ran')", files=FILES)
    notebook.done(0)
    notebook.run(1, on=True)
    expect(notebook.output(1).get_by_role("button", name="Allow once")).to_be_visible()
    return notebook, pending(lab).id


@pytest.fixture
def another(open_notebook, asking):
    """A second notebook of the same project, with a kernel of its own."""
    notebook = open_notebook(LOAD, "", folder_name=asking[0].folder.name)
    notebook.done(0)
    return notebook


def ran_once(notebook):
    """The run went on to its end, and what was allowed happened one time."""
    expect(notebook.output(2)).to_contain_text("the cell below ran")
    expect(notebook.output(1).locator(".kg-pill")).to_have_text("Done")
    return (notebook.folder / "mark").read_text() == "once\n"


def allow_when_read(place, text):
    """Press Allow, which cannot be pressed before the end of the text has been on screen."""
    allow = place.get_by_role("button", name=re.compile("^Allow once"))
    expect(allow).to_be_disabled()
    allow.click(force=True)
    place.locator(text).evaluate("text => { text.scrollTop = text.scrollHeight }")
    expect(allow).to_be_enabled()
    allow.click()


def test_a_click_in_the_cell_decides_once_and_a_later_answer_is_told_so(asking, another, lab):
    notebook, ident = asking
    expect(another.tell(1, "%kagura approvals")).to_contain_text(ident)
    allow_when_read(notebook.output(1), ".kg-full")
    expect(notebook.output(1).locator(".kg-verdict")).to_contain_text(f"Allowed by {getpass.getuser()}")
    error = another.tell(1, f"%kagura deny {ident}")
    expect(error).to_contain_text("ERR_APPROVAL_DECIDED")
    assert decided(lab, ident) == ("allow", "cell")
    assert ran_once(notebook)


def test_a_command_in_another_notebook_decides_once_and_the_card_follows(asking, another, lab):
    notebook, ident = asking
    expect(another.tell(1, f"%kagura approve {ident}")).to_contain_text("allowed")
    expect(notebook.output(1).locator(".kg-verdict")).to_contain_text("Allowed by")
    expect(notebook.output(1).get_by_role("button", name="Allow once")).to_have_count(0)
    expect(another.tell(1, f"%kagura deny {ident}")).to_contain_text("ERR_APPROVAL_DECIDED")
    assert decided(lab, ident) == ("allow", "command")
    assert ran_once(notebook)


def test_a_reload_in_the_middle_changes_nothing(asking, another, lab):
    notebook, ident = asking
    run_id = pending(lab).run_id
    notebook.wait_kept(1, LIVE_MIME)
    notebook.save()
    notebook.reload()
    sidebar = Sidebar(notebook.page).open()
    expect(sidebar.approval(ident)).to_contain_text("echo once >> mark")
    attached = another.tell(1, f"%kagura attach {run_id}")
    expect(attached.get_by_role("button", name="Allow once")).to_be_visible()
    allow_when_read(sidebar.approval(ident), ".kgs-exactly >> nth=0")
    expect(attached.locator(".kg-verdict")).to_contain_text("in the sidebar")
    expect(attached.locator(".kg-pill")).to_have_text("Done")
    expect(sidebar.approval(ident)).to_have_count(0)
    assert decided(lab, ident) == ("allow", "sidebar")
    assert (notebook.folder / "mark").read_text() == "once\n"
    stays_over(notebook)


@pytest.mark.parametrize(
    ("how", "saved"),
    [("answered", True), ("answered", False), ("restarted", True), ("killed", False)],
    ids=["answered, saved", "answered", "restarted, saved", "killed"],
)
def test_a_run_that_ended_while_nobody_had_its_page_open_says_so(asking, another, lab, saved, how):
    notebook, ident = asking
    notebook.wait_kept(1, LIVE_MIME)
    if saved:
        notebook.save()
    run_id = pending(lab).run_id
    kernel = notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id")
    notebook.leave()
    if how == "answered":
        expect(another.tell(1, f"%kagura approve {ident}")).to_contain_text("allowed")
        expect(another.tell(1, f"%kagura attach {run_id}").locator(".kg-pill")).to_have_text("Done")
        notebook.reload()
        stays_over(notebook)
        return
    if how == "killed":
        kill_kernel(lab)
    else:
        another.page.evaluate(RESTART, kernel)
    notebook.reload()
    ended_early(notebook)


def test_a_run_of_which_the_file_knows_nothing_is_live_again_after_a_reload(asking, lab):
    notebook, ident = asking
    notebook.reload()
    card = notebook.output(1).get_by_role("region", name="Agent run")
    expect(card.locator(".kg-pill")).to_have_text("Waiting for you")
    allow_when_read(card, ".kg-full")
    expect(card.locator(".kg-verdict")).to_contain_text(f"Allowed by {getpass.getuser()}")
    assert decided(lab, ident) == ("allow", "cell")
    stays_over(notebook)


# Nothing that waits for a second or longer is done any more: what is left is what is heard.
NO_WAITING = """() => {
  window.patient = window.setTimeout;
  window.setTimeout = (act, pause, ...given) => pause >= 1000 ? 0 : window.patient(act, pause, ...given);
}"""


def without_live_card(route):
    """The server's answer, as of a run that no kernel shows a live card of."""
    answer = route.fetch()
    if answer.status != HTTPStatus.OK:
        route.fulfill(response=answer)
        return
    told = answer.json()
    told["data"].pop(WIDGET_MIME, None)
    route.fulfill(response=answer, json=told)


def test_a_card_that_is_not_live_follows_an_answer_at_once(asking, another):
    notebook, ident = asking
    notebook.page.route("**/kagura/api/v1/runs/*/card?*", without_live_card)
    notebook.reload()
    card = notebook.output(1).get_by_role("region", name="Agent run")
    expect(card.locator(".kg-pill")).to_have_text("Waiting for you")
    notebook.page.evaluate(NO_WAITING)
    # Whatever waits by now comes to its end.
    notebook.page.wait_for_timeout(2500)
    expect(card.locator("[data-act]")).to_have_count(0)
    expect(another.tell(1, f"%kagura approve {ident}")).to_contain_text("allowed")
    expect(card.locator(".kg-verdict")).to_contain_text("Allowed by")
    notebook.page.evaluate("() => { window.setTimeout = window.patient; }")


def test_a_cell_that_a_person_has_emptied_stays_empty(asking, another):
    notebook, ident = asking
    expect(another.tell(1, f"%kagura approve {ident}")).to_contain_text("allowed")
    expect(notebook.output(1).locator(".kg-pill")).to_have_text("Done")
    notebook.page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    notebook.save()
    with notebook.page.expect_response(re.compile(r"api/v1/runs\?.*notebook=")):
        notebook.reload()
    expect(notebook.output(1).get_by_role("region")).to_have_count(0)


@pytest.mark.parametrize("how", ["restarted", "killed"])
def test_a_card_whose_kernel_has_ended_before_its_run_gets_a_finished_form(asking, lab, how):
    notebook, _ = asking
    notebook.wait_kept(1, LIVE_MIME)
    if how == "restarted":
        notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    else:
        kill_kernel(lab)
    ended_early(notebook)


def test_runs_that_a_restart_of_the_server_ended_or_found_over_are_shown_so(own_page, model):
    over = {"over.jsonl": '{"kagura_cassette": 1}\n{"done": {"text": "Over."}}'}
    cells = {"saved": ASK, "unsaved": ASK, "over": "%%kagura --replay over.jsonl\nRest."}
    with tempfile.TemporaryDirectory(prefix="restarted-", ignore_cleanup_errors=True) as base:
        with running_lab(Path(base), model) as lab:
            for name, cell in cells.items():
                notebook = show(own_page, lab, write(lab, name, LOAD, cell, files=FILES | over))
                notebook.done(0)
                notebook.run(1)
                expect(notebook.output(1).locator(".kg-pill")).to_have_text(re.compile("Done|Waiting for you"))
                if name == "saved":
                    notebook.wait_kept(1, LIVE_MIME)
                    notebook.save()
            notebook.leave()
        with running_lab(Path(base), model) as lab:
            for name in ("saved", "unsaved"):
                ended_early(show(own_page, lab, lab.root / name / "notebook.ipynb"))
            stays_over(show(own_page, lab, lab.root / "over" / "notebook.ipynb"))


def kill_kernel(lab):
    with lab.journal() as journal:
        os.kill(int(pages.one_run(journal, pending(lab).run_id).owner.split(":")[1]), signal.SIGKILL)


def ended_early(notebook):
    """The card of a run whose kernel is gone says so, and so does what is saved of it."""
    expect(notebook.output(1).locator(".kg-pill")).to_have_text(re.compile("Lost|Stopped"))
    expect(notebook.output(1).locator("[data-act]")).to_have_count(0)
    kept = [one.data[RUN_MIME]["status"] for one in notebook.save().cells[1].outputs if RUN_MIME in one.get("data", {})]
    assert set(kept) <= {"lost", "killed"}


def stays_over(notebook):
    """The card of a run that is over says so, before and after the notebook was saved and loaded again."""
    for again in (False, True):
        if again:
            notebook.reload()
        card = notebook.output(1).get_by_role("region", name="Agent run")
        expect(card.locator(".kg-pill")).to_have_text("Done")
        expect(card).to_contain_text("Over.")
        expect(card.locator("[data-act]")).to_have_count(0)
        notebook.wait_kept(1, '"status":"done"')
        outputs = notebook.save().cells[1].outputs
        assert [one.data[RUN_MIME]["status"] for one in outputs if RUN_MIME in one.get("data", {})] == ["done"]


@pytest.fixture
def console(lab, request):
    """`jupyter console` with a kernel that shares the journal of the server's; its run waits for an answer."""
    folder = lab.root / request.node.name.partition("[")[0]
    folder.mkdir(exist_ok=True)
    lab.model.turns[:] = [calls("bash", ON_THE_HOST), says("It is done.")]
    arguments = ["-m", "jupyter_console", "--kernel=kagura", "--simple-prompt"]
    arguments.append("--ZMQTerminalInteractiveShell.kernel_timeout=60")
    environment = dict(lab.environment) | {"TERM": "dumb"}
    child = pexpect.spawn(
        sys.executable,
        arguments,
        cwd=str(folder),
        env=environment,
        encoding="utf-8",
        timeout=PATIENCE_MS / 1000,
        echo=False,
    )
    child.expect_exact("In [1]: ")
    child.sendline("Leave a mark.")
    child.expect_exact("Allow it once? [y/N]")
    yield child
    child.sendline("%exit")
    child.expect(pexpect.EOF)
    child.close()


def test_a_line_at_a_console_decides_once_and_a_notebook_follows(console, open_notebook, lab):
    notebook = open_notebook(LOAD, "")
    notebook.done(0)
    ident = pending(lab).id
    expect(notebook.tell(1, "%kagura approvals")).to_contain_text(ident)
    console.sendline("y")
    console.expect_exact("Allowed by")
    console.expect_exact("It is done.")
    expect(notebook.tell(1, f"%kagura deny {ident}")).to_contain_text("ERR_APPROVAL_DECIDED")
    assert decided(lab, ident) == ("allow", "cell")
    assert (notebook.folder / "mark").read_text() == "once\n"


def test_a_command_in_a_notebook_decides_once_and_the_console_follows(console, open_notebook, lab):
    notebook = open_notebook(LOAD, "")
    notebook.done(0)
    expect(notebook.tell(1, f"%kagura deny {pending(lab).id}")).to_contain_text("denied")
    # The console itself shows nothing before it has its line, which is no answer any more.
    console.sendline("y")
    console.expect_exact("Denied by")
    console.expect_exact("It is done.")
    assert not (notebook.folder / "mark").exists()


REFUSED = "%%sandbox bash --writable-root\ntouch never"


@pytest.mark.parametrize(
    ("cell", "button", "said"),
    [
        (REFUSED, "Deny", "ERR_RUN_DENIED"),
        (REFUSED, "Stop the run", "was called off"),
        (ASK, "Stop the run", "was called off"),
    ],
    ids=["a start is denied", "a start is called off", "a run is called off"],
)
def test_run_all_stops_with_one_calm_line_where(open_notebook, cell, button, said):
    notebook = open_notebook(LOAD, cell, "print('not reached')", "print('nor this')", files=FILES)
    notebook.run(0, on=True)
    notebook.output(1).get_by_role("button", name=button, exact=True).click()
    error = notebook.error(1)
    expect(error).to_contain_text(said)
    assert len(error.inner_text().strip().splitlines()) == 1
    for index in (2, 3):
        expect(notebook.prompt(index)).to_have_text("[ ]:")
        expect(notebook.output(index)).to_have_text("")
    assert not (notebook.folder / "mark").exists()
