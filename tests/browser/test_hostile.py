"""What a box prints and shows does nothing in the browser, and nobody can take it for a part of a card."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

from kagura_kernel.domain.outcome import BothSides, FileChange
from kagura_kernel.render.html import framed, html_of
from kagura_kernel.views.changes import Beside, changes_blocks
from kagura_kernel.views.record import run_html
from kagura_kernel.views.run import RunView
from tests.browser.interrupts import LOAD
from tests.browser.notebook import PATIENCE_MS
from tests.support import gallery
from tests.support.card_page import live_parts
from tests.support.hostile import FAKE_APPROVAL, HOSTILE_DRAWING, HOSTILE_HTML, HOSTILE_TEXT
from tests.support.sample_run import SampleRun

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

OUTSIDE = """() => [...document.querySelectorAll('.kg-card *')].filter((one) => {
  const card = one.closest('.kg-card').getBoundingClientRect();
  const box = one.getBoundingClientRect();
  const clipped = one.closest('.kg-pre, .kg-sideways, .kg-diff, .kg-prose table, .kg-inside, .kg-result-body');
  const beyond = box.left < card.left - 1 || box.right > card.right + 1 || box.bottom > card.bottom + 1;
  return box.width && !clipped && beyond;
}).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture
def watched(own_page: Page):
    """A page of its own, and what it asked the network for; whatever it asks for is refused."""
    asked: list[str] = []

    def refuse(route):
        asked.append(route.request.url)
        route.abort()

    own_page.route("**/*", refuse)
    own_page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    own_page.on("popup", lambda popup: asked.append(f"popup {popup.url}"))
    return own_page, asked


def hostile_events(*, agent: bool = True):
    """A run in which the model, its tools and its box are all hostile."""
    sample = SampleRun()
    events = [sample.started(flavour="agent" if agent else "sandbox", brain_reason=HOSTILE_HTML[0]), sample.boxed()]
    for number, text in enumerate(HOSTILE_TEXT):
        called, answered = sample.tool(number)
        output = {"text": text, "spill": text[:50]}
        events += [called.model_copy(update={"arguments": {"command": text, text[:40]: text}})]
        events += [answered.model_copy(update=output), sample.said(text), sample.noted(text)]
    for text in HOSTILE_TEXT:
        events += [gallery.shown(mime, text, text=text) for mime in ("text/html", "text/markdown")]
    events += [gallery.crossed("df", "in", summary=HOSTILE_HTML[0]), gallery.crossed("x", "out", error=HOSTILE_HTML[1])]
    events += [sample.asked(detail=FAKE_APPROVAL, reason=FAKE_APPROVAL, arguments={"command": FAKE_APPROVAL})]
    return events


SCRIPTED_DRAWING = re.sub(r"<style>.*</style>|<animate[^>]*/>", "", HOSTILE_DRAWING)
"""What may be shown, since an image runs no script and fetches nothing."""


def images():
    """Images of a hostile box: a drawing with scripts, and sizes that no browser could bear."""
    return [
        SampleRun().started(),
        gallery.shown("image/svg+xml", SCRIPTED_DRAWING),
        gallery.shown("image/svg+xml", HOSTILE_DRAWING),
        gallery.shown("image/png", gallery.png(4, 4, claims=(60_000, 60_000))),
        gallery.shown("image/png", SCRIPTED_DRAWING.encode()),
        gallery.shown("image/gif", b"GIF89a\x10\x00\x10\x00" + b"\x00" * 50),
        gallery.shown("text/html", f"<img src='data:image/svg+xml,{HOSTILE_DRAWING}'>"),
        gallery.shown('image/svg+xml"><script>window.canary=1</script>', "x"),
    ]


def poke(page: Page) -> None:
    """Unfold everything, click everything that can be clicked but links, hover, and let timers run."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(
        """() => document.querySelectorAll('.kg-result *, .kg-pre, .kg-prose *').forEach((one) => {
          for (const name of ['mouseover', 'focus', 'pointerdown']) one.dispatchEvent(new Event(name, {bubbles: true}));
          if (!one.closest('a')) one.click();
        })"""
    )
    page.wait_for_timeout(300)


def nothing_came_of_it(page: Page, asked: list[str]) -> None:
    """No script ran, nothing was fetched, nothing of the box acts or lies over anything."""
    assert page.evaluate("window.canary") is None
    assert asked == []
    assert (
        page.locator(
            "script:not([type=module]), iframe, object, embed, form, link, svg, math, base, meta[http-equiv]"
        ).count()
        == 0
    )
    inside = ".kg-result, .kg-pre, .kg-prose, .kg-note"
    acting = "button, input, [data-act], [data-approval], [id], [onclick], details, [style*=position]"
    assert page.locator(inside).locator(acting).count() == 0
    for address in page.locator(".kg-card [src]").evaluate_all("all => all.map((one) => one.getAttribute('src'))"):
        assert address.startswith("data:image/")


@pytest.mark.parametrize("agent", [True, False])
def test_a_saved_card_full_of_hostile_text_does_nothing(watched, agent):
    page, asked = watched
    view = RunView().apply_all(hostile_events(agent=agent))
    page.set_content(gallery.document(run_html(view)))
    poke(page)
    nothing_came_of_it(page, asked)
    assert page.evaluate(OUTSIDE) == []


def test_a_live_card_full_of_hostile_text_does_nothing_and_offers_only_what_is_real(watched):
    page, asked = watched
    page.set_content(gallery.live_document(live_parts(RunView().apply_all(hostile_events()))))
    expect(page.locator(".kg-ask.kg-open")).to_have_count(1)
    poke(page)
    nothing_came_of_it(page, asked)
    acts = page.locator("[data-act]").evaluate_all("all => all.map((one) => one.dataset.act)")
    assert sorted(acts) == ["abort", "allow", "deny", "say", "stop"]
    sent = page.evaluate("window.model.sent")
    assert [message["act"] for message in sent] == ["sync"]


def test_images_of_a_hostile_box_are_images_or_words(watched):
    page, asked = watched
    page.set_content(gallery.document(run_html(RunView().apply_all(images()))))
    poke(page)
    nothing_came_of_it(page, asked)
    assert page.locator("img").count() == 2
    expect(page.get_by_text("it claims 60,000 × 60,000 pixels")).to_be_visible()
    expect(page.get_by_text("it is not what it says, image/png")).to_be_visible()
    expect(page.get_by_text("its style sheet refers to its parts")).to_be_visible()


def test_a_change_card_with_hostile_names_diffs_and_files_does_nothing(watched):
    page, asked = watched
    changes, previews, sides = {}, {}, {}
    for number, text in enumerate(HOSTILE_TEXT[:-1]):
        for suffix in ("py", "svg", "csv", "json", "png"):
            name = f"{text[:60]}/{number}.{suffix}"
            data = text.encode("utf-8", "replace")
            diff = f"@@ -0,0 +1 @@\n+{text[:4000]}\n"
            status, state = ("modified", "conflict") if suffix == "py" else ("added", "proposed")
            changes[name] = FileChange(
                name, status, size=len(data), diff=diff * 2, reason=text[:300], old_sha256="a" * 64, state=state
            )
            previews[name] = data
            if suffix == "py":
                sides[name] = BothSides(diff, diff, can_merge=True, seen=text[:12], why=text[:300])
    changes["a.svg"] = FileChange(path="a.svg", status="added", size=len(HOSTILE_DRAWING))
    previews["a.svg"] = HOSTILE_DRAWING.encode()
    page.set_content(
        gallery.document(
            framed(html_of(changes_blocks(changes, live=True, beside=Beside(previews, previews, sides))), "Changes")
        )
    )
    poke(page)
    nothing_came_of_it(page, asked)
    acts = set(page.locator("[data-act]").evaluate_all("all => all.map((one) => one.dataset.act)"))
    assert acts == {"apply", "discard"}


@pytest.mark.parametrize("between", [" " * 600, " # " + "x" * 600, "\t" * 90], ids=["blanks", "letters", "tabs"])
def test_no_part_of_a_changed_line_lies_beside_the_page(watched, between):
    page, _asked = watched
    change = FileChange("a.py", "added", size=1, diff=f"@@ -0,0 +1 @@\n+x = 1{between}; evil()\n")
    page.set_content(gallery.document(framed(html_of(changes_blocks({"a.py": change}, live=True)), "Changes")))
    beside = page.locator(".kg-diff").evaluate(
        """diff => {
          const range = document.createRange(), text = diff.querySelector('.kg-add .kg-line').firstChild;
          range.setStart(text, text.length - 'evil()'.length);
          range.setEnd(text, text.length);
          return range.getBoundingClientRect().right - diff.getBoundingClientRect().right;
        }"""
    )
    assert beside <= 0


def test_a_fake_approval_of_the_box_is_recognisably_output(watched):
    page, _asked = watched
    view = RunView().apply_all([SampleRun().started(), gallery.shown("text/html", FAKE_APPROVAL)])
    page.set_content(gallery.live_document(live_parts(view)))
    fake = page.locator(".kg-result")
    expect(fake).to_contain_text("Output of the box")
    expect(fake).to_contain_text("Allow once")
    assert fake.get_by_role("button").count() == 0
    assert page.locator(".kg-ask").count() == 0
    assert fake.evaluate("one => getComputedStyle(one).borderTopStyle") == "dashed"
    word = fake.get_by_text("Run a command")
    assert word.evaluate("one => getComputedStyle(one).position") == "static"
    # A screen reader is told whose words these are, and never hears of a question.
    assert fake.get_attribute("aria-label") == "Output of the box: formatted text"
    assert page.locator("#kagura-voice").count() == 0


SHOW = """%%sandbox python
from IPython.display import display
import json
for mime, text in json.load(open("hostile.json")):
    display({mime: text, "text/plain": "plain"}, raw=True)
print(open("text.txt", newline="").read())
"""


def test_a_real_box_in_a_real_notebook_shows_it_all_and_nothing_happens(open_notebook, page):
    fetched: list[str] = []
    page.on("request", note := lambda request: fetched.append(request.url))
    shown = [("text/html", "\n".join(HOSTILE_HTML)), ("text/html", FAKE_APPROVAL), ("image/svg+xml", HOSTILE_DRAWING)]
    shown += [("text/markdown", text) for text in HOSTILE_TEXT[-9:-2]]
    text = "\n".join(HOSTILE_TEXT[:-1])
    notebook = open_notebook(LOAD, SHOW, files={"hostile.json": json.dumps(shown), "text.txt": text})
    notebook.run(0)
    notebook.wait_done(0)
    output = notebook.run(1)
    expect(output.locator(".kg-pill:visible")).to_have_text("Done", timeout=PATIENCE_MS)
    expect(output.locator(".kg-result:visible")).to_have_count(len(shown))
    page.wait_for_timeout(500)
    page.remove_listener("request", note)
    assert page.evaluate("window.canary") is None
    assert [url for url in fetched if "evil.example" in url] == []
    assert output.locator("[data-act], button, iframe, script").count() == 0
    notebook.picture("hostile", cell=1)


def test_a_line_of_a_hundred_megabytes_leaves_the_page_as_light_as_it_was(open_notebook):
    notebook = open_notebook(LOAD, "%%sandbox bash\nhead -c 100000000 /dev/zero | tr '\\0' x")
    notebook.run(0)
    notebook.wait_done(0)
    output = notebook.run(1)
    expect(output.locator(".kg-pill:visible")).to_have_text("Done", timeout=PATIENCE_MS)
    expect(output.locator(".kg-more:visible")).to_contain_text("more")
    assert output.evaluate("one => one.textContent.length") < 60_000
    saved = notebook.save()
    assert len(json.dumps(saved.cells[1].outputs)) < 200_000
