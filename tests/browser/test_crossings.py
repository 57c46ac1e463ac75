"""What crosses the wall, on cards in a real JupyterLab: questions about hosts, leases that tick, the board of leases.

The run is told event by event; the cards, the widgets, the kernel and the browser are real.
"""

import os
import re
import signal
from typing import Any

import pytest
from playwright.sync_api import expect

from kagura_kernel.views.record import RUN_MIME
from tests.support import gallery

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

# What `%%kagura` launches in this kernel is the run that the test tells.
BEGIN = """\
%load_ext kagura_kernel
import kagura_kernel.assembly as assembly
from tests.support.told_run import ToldRun
run = ToldRun()
assembly.get_cockpit = lambda: run
say = run.sample
"""
TASK = """\
%%kagura --net python-packages,api.github.com --grant github:read,registry:publish --bg
Build the wheel and read the issues."""
STARTED = """\
run.tell(say.started(task="Build the wheel", brain_reason="ANTHROPIC_API_KEY is set"), say.boxed())
"""


def begin(open_notebook, story: str, *cells: str, **where: Any):
    """A notebook that shows the told run in cell 1, and `cells` from cell 2 on; returns it and the card's output."""
    notebook = open_notebook(BEGIN + story, TASK, *cells, **where)
    notebook.run(0)
    notebook.wait_done(0)
    output = notebook.run(1)
    notebook.wait_done(1)
    return notebook, output


def place_in_card(row):
    """Where a row is, counted from the top of its card: the page itself may scroll."""
    return row.evaluate("row => row.getBoundingClientRect().top - row.closest('.kg-card').getBoundingClientRect().top")


ONE_HOST = (
    STARTED + 'run.tell(say.said("I install the tools that `build` needs."), say.egress_asked("index.example.org"))\n'
)


@pytest.mark.parametrize(
    ("button", "said"),
    [
        ("Allow for this run", "('allow', 'this run')"),
        ("Allow for this session", "('allow', 'this session')"),
        ("Deny", "('deny', '')"),
        ("Never in this session", "('deny', 'never')"),
    ],
)
def test_each_answer_to_a_question_about_a_host_reaches_the_cockpit(open_notebook, button, said):
    notebook, output = begin(open_notebook, ONE_HOST, "(run.told[-1].verdict, run.told[-1].answer)")
    expect(output.locator(".kg-target")).to_have_text("index.example.org:443")
    output.get_by_role("button", name=button, exact=True).click()
    expect(output.locator(".kg-brief .kg-verdict")).to_be_visible()
    expect(output.locator(".kg-open")).to_have_count(0)
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text(said)


def test_the_keyboard_comes_to_the_question_before_its_buttons_and_decides_nothing_there(open_notebook):
    notebook, output = begin(open_notebook, ONE_HOST, "(run.told[-1].verdict, run.told[-1].answer)")
    question = output.get_by_role("group", name="Network: Let the box connect to index.example.org:443")
    expect(question).to_be_visible()
    output.get_by_role("button", name="Send", exact=True).focus()
    keyboard = notebook.page.keyboard
    keyboard.press("Tab")
    expect(question).to_be_focused()
    for key in ("Enter", "Escape", " "):
        keyboard.press(key)
    expect(question).to_be_visible()
    question.focus()
    for _ in range(3):
        keyboard.press("Tab")
    expect(output.get_by_role("button", name="Deny", exact=True)).to_be_focused()
    keyboard.press("Enter")
    expect(output.locator(".kg-verdict")).to_contain_text("Denied by")
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("('deny', '')")


HOSTS = ("index.example.org", "files.example.org", "api.example.net", "cdn.example.net", "telemetry.example.com")
SEVERAL = (
    STARTED
    + f"""\
run.tell(say.said("I install the tools that `build` needs."))
for number, host in enumerate({HOSTS!r}):
    run.tell(say.egress_asked(host, number=number))
"""
)
VERDICTS = (
    "[(event.approval_id, event.verdict, event.answer) for event in run.told if event.kind == 'approval.decided']"
)


def test_several_questions_are_lines_and_yes_to_all_takes_two_clicks(open_notebook):
    notebook, output = begin(open_notebook, SEVERAL, VERDICTS)
    expect(output.locator(".kg-ask.kg-open")).to_have_count(5)
    expect(output.locator(".kg-ask.kg-open.kg-brief")).to_have_count(4)
    notebook.picture("asking", cell=1)
    sure = output.get_by_role("button", name="Yes, allow these 5 for this run")
    expect(sure).to_be_hidden()
    output.get_by_text("Allow all for this run …").click()
    expect(sure).to_be_visible()
    for host in HOSTS:
        expect(output.locator(".kg-all li", has_text=f"{host}:443")).to_be_visible()
    notebook.picture("asking-all", cell=1)
    sure.click()
    expect(output.locator(".kg-ask.kg-open")).to_have_count(0)
    expect(output.locator(".kg-many")).to_have_count(0)
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("'app-net-4', 'allow', 'this run'")


def test_in_the_moment_a_question_appears_no_click_allows_anything(open_notebook):
    notebook, output = begin(open_notebook, ONE_HOST, "run.tell(say.egress_asked('evil.example', number=9));")
    settling = output.locator(".kg-settling")
    expect(output.get_by_role("button", name="Allow for this run")).to_be_visible()
    expect(settling).to_have_count(0)
    notebook.page.evaluate(
        """() => {
          const card = document.querySelector(".kg-live");
          new MutationObserver((_, observer) => {
            const buttons = [...card.querySelectorAll('[data-act="allow"]')];
            if (buttons.length !== 4) return;
            window.seen = buttons.map((button) => getComputedStyle(button).pointerEvents);
            observer.disconnect();
          }).observe(card, { childList: true, subtree: true });
        }"""
    )
    notebook.run(2)
    notebook.page.wait_for_function("() => window.seen !== undefined")
    assert notebook.page.evaluate("() => window.seen") == ["none"] * 4
    expect(settling).to_have_count(0)


def test_what_an_agent_says_does_not_choose_which_button_a_click_presses(open_notebook):
    notebook, output = begin(open_notebook, SEVERAL, "run.tell(say.said('zebra'));")
    output.get_by_text("Allow all for this run …").click()
    expect(output.get_by_role("button", name="Yes, allow these 5")).to_be_visible()
    expect(output.locator(".kg-settling")).to_have_count(0)
    notebook.page.evaluate(
        """() => {
          const card = document.querySelector(".kg-live");
          const button = () => card.querySelector('[data-act="allow-all"]');
          const place = () => button().getBoundingClientRect().top - card.getBoundingClientRect().top;
          const before = place();
          new MutationObserver((_, observer) => {
            if (!card.textContent.includes("zebra")) return;
            window.seen = [place() > before, getComputedStyle(button()).pointerEvents];
            observer.disconnect();
          }).observe(card, { childList: true, subtree: true });
        }"""
    )
    notebook.run(2)
    notebook.page.wait_for_function("() => window.seen !== undefined")
    assert notebook.page.evaluate("() => window.seen") == [True, "none"]
    expect(output.locator(".kg-settling")).to_have_count(0)


def test_one_more_question_folds_yes_to_all_away_again(open_notebook):
    notebook, output = begin(open_notebook, SEVERAL, "run.tell(say.egress_asked('evil.example', number=9));", VERDICTS)
    output.get_by_text("Allow all for this run …").click()
    expect(output.get_by_role("button", name="Yes, allow these 5")).to_be_visible()
    notebook.run(2)
    expect(output.get_by_text("6 questions wait.")).to_be_visible()
    expect(output.get_by_role("button", name="Yes, allow these 6")).to_be_hidden()
    output.get_by_role("button", name="Deny all 6").click()
    expect(output.locator(".kg-ask.kg-open")).to_have_count(0)
    notebook.run(3)
    expect(notebook.output(3)).to_contain_text("'app-net-9', 'deny', ''")


GONE = "The kernel is gone; this card is as it was."


def test_a_card_whose_kernel_was_restarted_says_so_and_its_buttons_are_off(open_notebook):
    notebook, output = begin(open_notebook, ONE_HOST, own_kernel=True)
    allow = output.get_by_role("button", name="Allow for this run", exact=True)
    expect(allow).to_be_enabled()
    expect(output.get_by_text(GONE)).to_have_count(0)
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(output.get_by_text(GONE)).to_be_visible()
    for button in output.get_by_role("button").all():
        expect(button).to_be_disabled()
    notebook.picture("kernel-gone", cell=1)


def test_a_kernel_that_does_not_answer_is_said_not_to_until_it_does(open_notebook):
    process = "import os\nprint(f'process {os.getpid()}')"
    notebook, output = begin(open_notebook, ONE_HOST, process, own_kernel=True)
    found = re.search(r"process (\d+)", notebook.done(2).inner_text())
    assert found
    deny = output.get_by_role("button", name="Deny", exact=True)
    expect(deny).to_be_enabled()
    # As a whole: while a cell keeps the main thread busy, ipykernel may still hear a card on one of its subshells.
    os.kill(int(found[1]), signal.SIGSTOP)
    try:
        deny.click()
        silence = output.get_by_text("The kernel does not answer.")
        expect(silence).to_be_visible()
        expect(deny).to_be_enabled()
    finally:
        os.kill(int(found[1]), signal.SIGCONT)
    expect(output.locator(".kg-verdict")).to_contain_text("Denied by")
    expect(silence).to_have_count(0)


def test_an_answer_that_is_given_while_a_cell_blocks_the_kernel_counts_and_is_shown_after_it(open_notebook):
    busy = "import os, time\nwhile not os.path.exists('enough'): time.sleep(0.05)"
    notebook, output = begin(open_notebook, ONE_HOST, busy)
    deny = output.get_by_role("button", name="Deny", exact=True)
    expect(deny).to_be_enabled()
    notebook.run(2)
    notebook.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'busy'"
    )
    deny.click()
    # Off with the click, and on again whether it was heard or not.
    expect(deny).to_be_enabled()
    (notebook.folder / "enough").touch()
    expect(output.locator(".kg-verdict")).to_contain_text("Denied by")
    expect(output.get_by_text("The kernel does not answer.")).to_have_count(0)


LEASED = (
    STARTED
    + """\
run.tell(
    say.granted(credentials=("github:read", "registry:publish")), say.lease(),
    say.said("The wheel is built, and **three issues** ask for the same thing; I compare them now."),
    say.lease(lease_id="lea-2", provider="registry", scope="publish", way="file", place="/run/kagura/token"),
    say.lease("on hold", lease_id="lea-2", provider="registry", scope="publish"),
    *[say.used(f"/repos/ada/sales/issues/{n}") for n in range(3)], say.used("/user/keys", status=403),
    *say.reached("pypi.org", 1), *say.reached("wheels.example.org", 2, bytes_in=2_410_000, duration=1.9),
    *say.reached("downloads.example.org", 3, bytes_in=2_000_000_000, duration=41, ended="limit"),
    *say.reached("mirror.example.net", 4, bytes_in=0, bytes_out=0, ended="unreachable",
                 detail="mirror.example.net:443 did not answer within 10 s."),
    say.refused("example.com", times=4), say.refused("198.51.100.9", 8443),
)
"""
)


def seconds_of(face: str) -> int:
    minutes, seconds = face.split(":")
    return 60 * int(minutes) + int(seconds)


def test_the_time_of_a_lease_ticks_in_the_browser_alone(open_notebook):
    notebook, output = begin(open_notebook, LEASED, "run.intents[0].net, run.intents[0].grants")
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text(
        "(('python-packages', 'api.github.com'), ('github:read', 'registry:publish'))"
    )
    row = output.get_by_role("group", name="Lease github:read")
    face = row.locator("[data-expires]")
    expect(face).to_be_visible()
    sent = face.get_attribute("data-expires")
    first = seconds_of(face.inner_text())
    assert 0 < first <= 900
    notebook.page.wait_for_function(
        """([first]) => {
          const [minutes, seconds] = document.querySelector("[data-expires]").textContent.split(":").map(Number);
          return 60 * minutes + seconds <= first - 2;
        }""",
        arg=[first],
    )
    assert face.get_attribute("data-expires") == sent


def test_a_clock_goes_on_where_it_was_when_its_card_is_shown_again(open_notebook):
    notebook, output = begin(open_notebook, LEASED)
    page = notebook.page
    face = output.locator("[data-expires]")
    began, first = page.evaluate("() => Date.now()"), seconds_of(face.inner_text())
    # Long enough for a clock that began anew to be told from one that goes on.
    expect(face).to_have_text(re.compile(rf"^{(first - 4) // 60}:{(first - 4) % 60:02d}$"))
    notebook.save()
    notebook.load_anew()
    page.wait_for_function(
        """([began, first]) => {
          const faces = [...document.querySelectorAll(".jp-Notebook [data-expires]")];
          const face = faces.find((one) => one.checkVisibility());
          if (!face) return false;
          const [minutes, seconds] = face.textContent.split(":").map(Number);
          return 60 * minutes + seconds <= first - (Date.now() - began) / 1000 + 2;
        }""",
        arg=[began, first],
    )


def test_revoke_now_revokes_and_the_row_says_so_in_its_place(open_notebook):
    notebook, output = begin(
        open_notebook, LEASED, "[event.change for event in run.told if event.kind == 'lease.changed']"
    )
    row = output.get_by_role("group", name="Lease github:read")
    expect(row).to_contain_text("4 requests, the last: 403")
    expect(output.locator(".kg-net")).to_contain_text("Connected to 3 places")
    notebook.picture("leases", cell=1)
    before = place_in_card(row)
    row.get_by_role("button", name="Revoke now: github:read").click()
    expect(row.locator(".kg-chip")).to_have_text("revoked")
    expect(row).to_contain_text("revoked by")
    expect(row.get_by_role("button")).to_have_count(0)
    assert place_in_card(row) == before
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("['acquired', 'acquired', 'on hold', 'released']")


def test_extend_raises_a_question_in_the_runs_card(open_notebook):
    notebook, output = begin(open_notebook, LEASED)
    row = output.get_by_role("group", name="Lease registry:publish")
    row.get_by_role("button", name="Extend registry:publish").click()
    expect(output.get_by_role("group", name="Credential: Hold registry:publish again")).to_be_visible()
    expect(row.get_by_role("button", name="Extend registry:publish")).to_be_enabled()
    notebook.picture("extend", cell=1)


def test_what_was_allowed_beyond_the_budget_shows_at_once(open_notebook):
    _, output = begin(open_notebook, LEASED)
    row = output.get_by_role("group", name="Lease registry:publish")
    row.get_by_role("button", name="Extend registry:publish").click()
    question = output.get_by_role("group", name="Credential: Hold registry:publish again")
    # Nothing is allowed before its end was on screen.
    question.scroll_into_view_if_needed()
    question.get_by_role("button", name="Allow", exact=True).click()
    expect(row.locator(".kg-chip")).to_have_text("live")
    expect(row).to_contain_text("then 1 h of budget, 6 renewals left")


def test_a_renewal_updates_its_row_and_what_was_unfolded_stays_so(open_notebook):
    notebook, output = begin(
        open_notebook,
        LEASED,
        "run.tell(run.sample.lease('renewed', renewals_left=4, seconds_left=1800.0));",
    )
    row = output.get_by_role("group", name="Lease github:read")
    row.locator("summary").click()
    expect(row.get_by_text("/user/keys")).to_be_visible()
    top = place_in_card(row)
    notebook.run(2)
    expect(row).to_contain_text("4 renewals left")
    expect(row.get_by_text("/user/keys")).to_be_visible()
    assert place_in_card(row) == top


def test_the_board_shows_all_leases_lives_with_them_and_stays_readable(open_notebook):
    notebook, output = begin(open_notebook, LEASED, "%kagura leases", "run.tell(run.sample.finished());")
    notebook.run(2)
    board = notebook.output(2)
    expect(board.get_by_role("group", name="Lease github:read")).to_contain_text("held by run-1")
    notebook.picture("board", cell=2)
    board.get_by_role("button", name="Revoke now: github:read").click()
    expect(board.get_by_role("group", name="Lease github:read")).to_have_count(0)
    expect(board.get_by_text("1 credential held")).to_be_visible()
    expect(output.get_by_role("group", name="Lease github:read")).to_contain_text("revoked by")
    board.get_by_role("button", name="Revoke now: registry:publish").click()
    expect(board.get_by_text("no run holds a credential")).to_be_visible()
    notebook.run(3)
    notebook.wait_done(3)
    expect(output.locator(".kg-pill")).to_have_text("Done")
    expect(output.locator(".kg-leases")).to_contain_text("revoked by")
    expect(board.locator(".kg-live")).to_have_count(0)
    notebook.picture("leases-over", cell=1)
    saved = notebook.save()
    [data] = [one.data for one in saved.cells[1].outputs if RUN_MIME in one.data]
    record = data[RUN_MIME]
    assert [lease["provider"] for lease in record["leases"]] == ["github", "registry"]
    assert {one["host"] for one in record["egress"]["refused"]} == {"example.com", "198.51.100.9"}
    assert "text/html" in saved.cells[2].outputs[0].data


def test_the_leases_can_be_worked_with_while_a_person_is_there(open_notebook):
    work = "leases = %kagura leases\nprint(len(leases), list(leases.state))"
    notebook, _ = begin(open_notebook, LEASED, work, "leases")
    notebook.run(2)
    expect(notebook.output(2)).to_contain_text("2 ['live', 'on hold']")
    expect(notebook.output(2).locator(".kg-card")).to_have_count(0)
    notebook.run(3)
    expect(notebook.output(3).get_by_role("group", name="Lease github:read")).to_be_visible()
    expect(notebook.output(3).locator("table.dataframe")).to_have_count(0)


def test_a_lease_of_another_kernel_says_where_it_is_held_and_has_no_buttons(open_notebook):
    notebook, _ = begin(open_notebook, "run.here = False\n" + LEASED, "%kagura leases")
    notebook.run(2)
    row = notebook.output(2).get_by_role("group", name="Lease github:read")
    expect(row).to_contain_text("held by run-1, in another kernel: process 4711 on elsewhere")
    expect(row.get_by_role("button")).to_have_count(0)


# Contrast of each text with what lies behind it (WCAG 2), and controls without a name.
READABLE = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(rgba(getComputedStyle(at).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = [];
  for (const card of document.querySelectorAll(".kg-card")) {
    for (const element of card.querySelectorAll("*")) {
      const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
      const words = texts.map((node) => node.data).join("").trim();
      if (!words || !element.checkVisibility() || element.closest(":disabled")) continue;
      const below = behind(element);
      const pair = [light(over(rgba(getComputedStyle(element).color), below)), light(below)].sort((a, b) => b - a);
      const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
      if (contrast < 4.5) faults.push(`${contrast.toFixed(2)} ${words}`);
    }
    for (const control of card.querySelectorAll("button, summary, [role=group], [role=timer]")) {
      if (!(control.getAttribute("aria-label") ?? control.textContent).trim()) faults.push(control.outerHTML);
    }
  }
  return faults;
}"""


def test_every_word_can_be_read_and_every_control_has_a_name_in_any_theme(open_notebook):
    notebook, output = begin(open_notebook, SEVERAL + LEASED.removeprefix(STARTED))
    expect(output.get_by_role("group", name="Lease github:read")).to_be_visible()
    output.get_by_text("Allow all for this run …").click()
    output.get_by_text("4 requests").click()
    output.get_by_text("Connected to 3 places").click()
    expect(output.get_by_role("button", name="Yes, allow these 5")).to_be_enabled()
    for theme in gallery.NAMES.values():
        notebook.theme(theme)
        assert (theme, notebook.page.evaluate(READABLE)) == (theme, [])


def test_a_program_in_a_real_box_waits_for_the_answer(open_notebook):
    notebook = open_notebook(
        "%load_ext kagura_kernel",
        "%%sandbox bash\nfor n in 1 2; do curl -sS http://index.example.org/; done; echo over",
    )
    notebook.run(0)
    output = notebook.run(1)
    expect(output.locator(".kg-target")).to_have_text("index.example.org:80")
    expect(output.locator(".kg-out")).to_have_count(0)
    output.get_by_role("button", name="Deny", exact=True).click()
    notebook.wait_done(1)
    expect(output.locator(".kg-out")).to_contain_text("over")
    expect(output.locator(".kg-refused")).to_have_count(1)
    expect(output.locator(".kg-refused")).to_contain_text("index.example.org:80 (not approved)")
    expect(output.locator(".kg-verdict")).to_contain_text("Denied by")
