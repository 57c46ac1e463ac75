"""Cards for everybody: by keyboard, by ear, in every theme, with its own colours, and without jumps."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kagura_kernel.domain.events import OutputStreamed, TextStreamed
from kagura_kernel.views.run import RunView
from tests.browser.interrupts import LOAD
from tests.browser.notebook import Notebook
from tests.support import gallery
from tests.support.card_page import live_parts
from tests.support.sample_run import SampleRun

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = (gallery.LIGHT, gallery.DARK, gallery.CONTRAST)
GRAVE = {"serious", "critical"}
HOST = {"host": True, "reason": "The box does not show me the version of this computer."}


def faults(page: Page, within: str = ".kg-card") -> list[str]:
    """What axe-core finds in the cards of a page, as far as it is serious."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("within => axe.run({include: [[within]]}, {resultTypes: ['violations']})", within)
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


NO_FAULTS: dict[str, list[str]] = {name: [] for name in gallery.NAMES.values()}


def faults_by_theme(notebook: Notebook, within: str = ".jp-Cell-outputArea") -> dict[str, list[str]]:
    found = {}
    for name in NO_FAULTS:
        notebook.theme(name)
        found[name] = faults(notebook.page, within)
    return found


@pytest.fixture
def live(blank: Page):
    """A live card with three questions, a running command and a growing answer, and the view behind it."""
    view = RunView().apply_all(gallery.story(live=True))
    blank.set_content(gallery.live_document(live_parts(view)))
    expect(blank.locator(".kg-ask.kg-open")).to_have_count(3)
    return blank, view


def deliver(page: Page, parts: dict[str, str]) -> None:
    """What the kernel sends when parts changed."""
    page.evaluate("parts => window.model.deliver({kind: 'parts', parts})", parts)


def base() -> dict[str, Any]:
    """What all events of the sample run have."""
    sample = SampleRun()
    return {"run_id": sample.run_id, "session_id": sample.session_id, "at": sample.at}


@pytest.mark.parametrize("theme", THEMES)
def test_no_card_has_a_serious_fault_folded_or_unfolded(blank, theme):
    documents = {name: gallery.document(body, theme) for name, body in gallery.cards().items()}
    documents["live"] = gallery.live_document(gallery.live_story_parts(), theme)
    for name, html in documents.items():
        blank.set_content(html)
        expect(blank.locator(".kg-card")).to_be_visible()
        # A question that has just come is not to be clicked for a moment; that is not how it looks.
        expect(blank.locator(".kg-settling")).to_have_count(0)
        assert (name, faults(blank)) == (name, [])
        # What has nothing to unfold looks as it did.
        if blank.locator("details:not([open])").count():
            blank.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert (name, faults(blank)) == (name, [])


def test_the_search_for_faults_finds_one(blank):
    blank.set_content(gallery.document('<div class="kg-card"><img src="data:,"><input></div>'))
    assert {fault.partition(":")[0] for fault in faults(blank)} == {"image-alt", "label"}


def test_no_card_in_a_real_notebook_has_a_serious_fault_in_any_theme(open_notebook):
    calls = [{"name": "write_file", "arguments": {"path": "a.md", "content": "# A\n"}}]
    calls += [{"name": "bash", "arguments": {"command": "uname -r", **HOST}}]
    lines = [{"kagura_cassette": 1, "task": "t"}, {"text": "I look **first**."}, *({"call": call} for call in calls)]
    cassette = "\n".join(json.dumps(line) for line in [*lines, {"done": {"text": "", "turns": 1}}])
    notebook = open_notebook(LOAD, "%%kagura --replay a.jsonl\nLook.", files={"a.jsonl": cassette})
    notebook.run(0)
    output = notebook.run(1)
    allow = output.get_by_role("button", name="Allow once")
    expect(allow).to_be_visible()
    expect(output.locator(".kg-settling")).to_have_count(0)
    assert faults_by_theme(notebook) == NO_FAULTS
    allow.click()
    notebook.wait_done(1)
    expect(output.locator(".kg-file:visible")).to_have_count(1)
    assert faults_by_theme(notebook) == NO_FAULTS


def test_the_keyboard_gets_everywhere_in_the_order_of_reading(live):
    page, _view = live
    seen = []
    for _ in range(80):
        page.keyboard.press("Tab")
        place = page.evaluate(
            """() => {
              const one = document.activeElement;
              const box = one.getBoundingClientRect();
              const ring = getComputedStyle(one).outlineStyle;
              const key = one.outerHTML.slice(0, 160);
              return one === document.body ? null : {key, row: Math.round((box.top + scrollY) / 24), ring};
            }"""
        )
        if place is None or (seen and place["key"] == seen[0]["key"]):
            break
        seen.append(place)
    controls = page.locator(".kg-card :is(button, summary, a, input, [tabindex='0'])").evaluate_all(
        "all => all.filter((one) => one.checkVisibility()).length"
    )
    assert len(seen) == controls
    assert all(one["ring"] != "none" for one in seen)
    rows = [one["row"] for one in seen]
    assert rows == sorted(rows)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_button_is_pressed_by_key(live, key):
    page, _view = live
    allow = page.get_by_role("button", name="Allow once")
    # The focus brings it, and the end of what it allows, onto the screen, however tall the letters of this machine are.
    allow.focus()
    expect(allow).to_be_enabled()
    page.keyboard.press(key)
    assert page.evaluate("window.model.sent.at(-1)") == {"act": "allow", "id": "app-1", "path": None}


def test_escape_folds_what_was_unfolded(live):
    page, _view = live
    summary = page.locator(".kg-call summary").first
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".kg-call").first).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    expect(page.locator(".kg-call").first).not_to_have_attribute("open", "")
    assert summary.evaluate("one => one === document.activeElement")


def test_whoever_has_a_button_in_focus_keeps_it_while_the_card_is_drawn_again(live):
    page, view = live
    deny = page.locator('[data-approval="app-1"] [data-act="deny"]')
    deny.focus()
    page.evaluate("window.before = document.activeElement")
    for number in range(20):
        view.apply(TextStreamed(**base(), text=f" word {number}"))
        view.apply(SampleRun().counted())
        view.take_dirty()
        keys = {item.key for item in view.items} | {"head", "many", "net", "leases"}
        view._dirty.update(keys)
        deliver(page, live_parts(view))
        assert page.evaluate("document.activeElement === window.before")
    # Its question is answered elsewhere: the focus goes to what became of it, not to another question's button.
    view.apply(SampleRun().decided())
    deliver(page, live_parts(view))
    assert page.evaluate("document.activeElement.className") == "kg-ask kg-closed"


def test_what_was_unfolded_selected_and_scrolled_stays_while_output_comes(live):
    page, view = live
    call = page.locator(".kg-call").nth(1)
    call.locator("summary").click()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.kg-prose p'))")
    output = call.locator("[data-follow]")
    output.evaluate("one => { one.scrollTop = 5; }")
    page.wait_for_timeout(50)
    for number in range(10):
        view.apply(OutputStreamed(**base(), call_id="call-2", stream="stdout", text=f"line {number}\n"))
        deliver(page, live_parts(view))
    expect(output).to_contain_text("line 9")
    assert output.evaluate("one => one.scrollTop") == 5
    expect(call).to_have_attribute("open", "")
    assert page.evaluate("getSelection().toString()").startswith("I add the amounts up")


def test_what_somebody_types_is_not_lost_when_the_question_is_drawn_again(blank):
    view = RunView().apply_all([SampleRun().started(), SampleRun().asked(kind="question", detail="Which currency?")])
    blank.set_content(gallery.live_document(live_parts(view)))
    blank.get_by_label("Your answer").fill("Swiss fr")
    view._dirty.update({"head", view.items[0].key})
    deliver(blank, live_parts(view))
    blank.keyboard.type("ancs")
    expect(blank.get_by_label("Your answer")).to_have_value("Swiss francs")


def test_a_question_is_announced_once_and_nothing_chatters_while_the_run_streams(blank):
    view = RunView().apply_all(gallery.story(live=True)[:-6])
    blank.set_content(gallery.live_document(live_parts(view)))
    blank.evaluate(
        """() => {
          window.said = [];
          new MutationObserver((all) => {
            for (const { target } of all) {
              const element = target instanceof Element ? target : target.parentElement;
              const voice = element?.closest("[aria-live], [role=status], [role=alert]");
              if (voice?.textContent) window.said.push(voice.textContent);
            }
          }).observe(document.body, {subtree: true, childList: true, characterData: true});
        }"""
    )
    view.apply(SampleRun().asked())
    for number in range(30):
        view.apply(TextStreamed(**base(), text=f"word {number} "))
        view.apply(SampleRun().counted())
        deliver(blank, live_parts(view))
        blank.wait_for_timeout(20)
    question = "Host command: Run a command on this machine. It waits for your answer"
    assert set(blank.evaluate("window.said")) == {question}
    expect(blank.get_by_role("status").first).to_have_text(question)
    view.apply(SampleRun().decided())
    view.apply(SampleRun().finished())
    deliver(blank, live_parts(view))
    expect(blank.locator("#kagura-voice")).to_have_text("Agent run: Done")


def test_a_saved_card_speaks_and_blinks_no_more_and_has_no_buttons(blank):
    blank.set_content(gallery.document(gallery.cards()["run"]))
    assert blank.locator(".kg-card :is([aria-live], [role=status], [role=alert], button, input)").count() == 0
    moving = "all => all.filter((one) => one.getAnimations({subtree: true}).length).length"
    assert blank.locator(".kg-card").evaluate_all(moving) == 0


def test_nothing_moves_for_those_who_asked_for_that(blank):
    moving = "() => document.getAnimations().length"
    view = RunView().apply_all([SampleRun().started(), SampleRun().boxed()])
    blank.set_content(gallery.live_document(live_parts(view)))
    expect(blank.locator(".kg-pill")).to_have_text("Running")
    assert blank.evaluate(moving) == 1
    blank.emulate_media(reduced_motion="reduce")
    assert blank.evaluate(moving) == 0


def test_with_the_colours_of_the_system_nothing_is_told_by_a_background_alone(blank):
    blank.emulate_media(forced_colors="active")
    blank.set_content(gallery.live_document(gallery.live_story_parts()))
    for selector in (".kg-pill", ".kg-chip", ".kg-bar"):
        assert blank.locator(selector).first.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    primary, plain = (blank.get_by_role("button", name=name).first for name in ("Allow once", "Extend"))
    width = "one => getComputedStyle(one).borderTopWidth"
    assert primary.evaluate(width) > plain.evaluate(width)


def test_more_contrast_is_given_where_it_is_asked_for(blank):
    blank.set_content(gallery.document(gallery.cards()["run"]))
    colour = "one => getComputedStyle(one).color"
    places, name = blank.locator(".kg-places").first, blank.locator(".kg-name").first
    assert places.evaluate(colour) != name.evaluate(colour)
    blank.emulate_media(contrast="more")
    assert places.evaluate(colour) == name.evaluate(colour)


SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      // Figures and chips tell a new state where the old one stood, and the last line what is waited for.
      const told = (node) => node.closest(".kg-chips, .kg-figures, [data-slot=sign]");
      const read = (node) => node?.nodeType === 1 && node.closest(".kg-card") && !told(node);
      const moved = entry.sources.filter(({ node }) => read(node));
      if (moved.length) window.shifts.push([entry.value, moved.map(({ node }) => node.className)]);
    }
  }).observe({type: "layout-shift", buffered: true});
}"""


def test_nothing_that_is_being_read_jumps_while_a_run_streams(blank):
    events = gallery.story(live=True)[:5]
    view = RunView().apply_all(events)
    blank.set_content(gallery.live_document(live_parts(view)))
    blank.evaluate(SHIFTS)
    for number in range(60):
        view.apply(TextStreamed(**base(), text=f"A sentence with the number {number}, **bold** in the middle. "))
        view.apply(SampleRun().counted())
        deliver(blank, live_parts(view))
        blank.evaluate("() => new Promise(requestAnimationFrame)")
    called, answered = SampleRun().tool(7)
    for event in (called, *_printing("call-7"), answered, gallery.shown("image/png", gallery.png(320, 120))):
        view.apply(event)
        deliver(blank, live_parts(view))
        blank.evaluate("() => new Promise(requestAnimationFrame)")
    blank.wait_for_timeout(200)
    assert blank.evaluate("window.shifts") == []


def _printing(call_id: str) -> list[OutputStreamed]:
    return [OutputStreamed(**base(), call_id=call_id, stream="stdout", text=f"line {n}\n") for n in range(40)]
