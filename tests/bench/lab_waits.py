"""What a person waits for in JupyterLab, in a real browser: interrupts, answers given elsewhere, the first word."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.testing.patience import wait_until
from tests.bench.harness import WARM_UP, Bench, Bound, Line, Missing

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from tests.browser.lab import Lab
    from tests.browser.notebook import Notebook

SOON = Bound("≤ 300 ms", 300)
LOAD = "%load_ext kagura_kernel"

# Milliseconds from doing something in the page until its cell's output holds a text.
UNTIL = """([index, text, command]) => new Promise((resolve) => {
  const area = document.querySelectorAll(".jp-Notebook .jp-Cell")[index].querySelector(".jp-Cell-outputArea");
  const began = performance.now();
  const watch = new MutationObserver(() => {
    if (!area.textContent.includes(text)) return;
    watch.disconnect();
    resolve(performance.now() - began);
  });
  watch.observe(area, { childList: true, subtree: true, characterData: true });
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  void window.jupyterapp.commands.execute(command);
})"""

# The same for something that is done elsewhere: the clock of the machine, which all its programs read.
WHEN = """([selector, text, gone]) => {
  const seen = () => {
    const found = [...document.querySelectorAll(selector)].some((element) => element.textContent.includes(text));
    if (found === gone) return;
    watch.disconnect();
    window.seenAt = Date.now();
  };
  const watch = new MutationObserver(seen);
  window.seenAt = null;
  watch.observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


@dataclass
class Desk:
    """JupyterLab and a browser."""

    lab: Lab
    context: BrowserContext

    def open(self, name: str, *cells: str, files: dict[str, str] | None = None) -> Notebook:
        """A notebook with these cells, its extension loaded."""
        from tests.browser.notebook import show, write

        notebook = show(self.context.new_page(), self.lab, write(self.lab, name, LOAD, *cells, files=files))
        notebook.done(0)
        return notebook


@contextmanager
def desk(bench: Bench, name: str) -> Iterator[Desk]:
    """A fresh JupyterLab and a fresh browser.

    Raises:
        Missing: there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import CHROMIUM, FLAGS, running_lab, running_model
    from tests.browser.notebook import SIZE, prepare

    if shutil.which(CHROMIUM) is None:
        raise Missing("there is no Chromium")
    base = bench.folder / name
    base.mkdir()
    with running_model() as model, running_lab(base, model) as lab, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield Desk(lab, prepare(browser.new_context(viewport=SIZE)))
        browser.close()


async def interrupting_a_run(bench: Bench) -> list[Line]:
    """From the interrupt button to the calm line, in ten states of a run."""
    return await asyncio.to_thread(_interrupting, bench)


def _interrupting(bench: Bench) -> list[Line]:
    from tests.browser.interrupts import STATES, Scene

    samples = max(2, bench.samples // 4)
    figures: dict[str, list[float]] = {state.name: [] for state in STATES}
    with desk(bench, "interrupting") as found:
        scene = Scene(found.context.new_page(), found.lab, "interrupts")
        for _ in range(samples):
            for state in STATES:
                at = scene.enter(state)
                words = [at, state.said, "notebook:interrupt-kernel"]
                figures[state.name].append(scene.notebook.page.evaluate(UNTIL, words))
                scene.leave(state)
                wait_until(scene.over)
    by_state = {name: median(values) for name, values in figures.items()}
    slowest = max(by_state, key=lambda name: by_state[name])
    return [
        Line(what, figure=figure, bound=SOON, samples=samples)
        for what, figure in (
            ("interrupt to the calm line, median of ten states", median(by_state.values())),
            (f"interrupt to the calm line, slowest of ten states ({slowest})", by_state[slowest]),
        )
    ]


async def answers_elsewhere(bench: Bench) -> list[Line]:
    """From an answer that is in the journal to the views that show it."""
    return await asyncio.to_thread(_answering, bench)


def _answering(bench: Bench) -> list[Line]:
    from tests.browser.interrupts import cassette
    from tests.browser.sidebar import Sidebar

    times = WARM_UP + bench.samples
    ask = ("bash", {"command": "true", "host": True, "reason": "Only to be asked."})
    card: list[float] = []
    sidebar: list[float] = []
    with desk(bench, "answering") as found, found.lab.journal() as journal:
        cell = "%%kagura --replay ask.jsonl --write none\nAsk."
        notebook = found.open("answering", cell, files={"ask.jsonl": cassette(*[ask] * times)})
        beside = found.context.new_page()
        beside.goto(notebook.page.url.replace("/tree/", "-beside/tree/"))
        panel = Sidebar(beside)
        beside.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        panel.open()
        notebook.run(1)
        for _ in range(times):
            wait_until(lambda: views.approvals(journal, pending_only=True))
            [waits] = views.approvals(journal, pending_only=True)
            panel.approval(waits.id).wait_for()
            notebook.page.locator(f".kg-open[data-approval='{waits.id}']").wait_for()
            notebook.page.evaluate(WHEN, [f".kg-open[data-approval='{waits.id}']", "", True])
            beside.evaluate(WHEN, [f"[data-item][data-approval='{waits.id}']", "", True])
            decision = Mailbox(journal).decide(waits.id, "allow", by="bench", via="command")
            for page, figures in ((notebook.page, card), (beside, sidebar)):
                page.wait_for_function("() => window.seenAt !== null")
                figures.append(page.evaluate("() => window.seenAt") - decision.at.timestamp() * 1000)
    bound = Bound("≤ 500 ms", 500)
    return [
        Line(f"an answer from another process, shown in {where}", figure=median(seen), bound=bound, samples=len(seen))
        for where, seen in (("the cell", card[WARM_UP:]), ("the sidebar", sidebar[WARM_UP:]))
    ]


async def first_word(bench: Bench) -> list[Line]:
    """A replayed run in the browser, from running its cell to its first word, beside a cell that prints one."""
    return await asyncio.to_thread(_first_word, bench)


def _first_word(bench: Bench) -> list[Line]:
    lines = [{"kagura_cassette": 1, "task": "bench"}, {"text": "firstword"}, {"done": {"text": "over", "turns": 1}}]
    text = "\n".join(json.dumps(line) for line in lines)
    cells = ("%%kagura --replay say.jsonl --box bubblewrap\nSay it.", "print('first' + 'word')")
    sides: dict[int, list[float]] = {1: [], 2: []}
    with desk(bench, "saying") as found:
        notebook = found.open("saying", *cells, files={"say.jsonl": text})
        for turn in range(WARM_UP + bench.samples):
            for index in (1, 2) if turn % 2 else (2, 1):
                notebook.clear()
                took = notebook.page.evaluate(UNTIL, [index, "firstword", "notebook:run-cell"])
                notebook.wait_done(index)
                if turn >= WARM_UP:
                    sides[index].append(took)
    figure, floor = median(sides[1]), median(sides[2])
    what = "first word of a replayed run in the browser, box warm"
    # By itself: a person waits for the word, whatever a plain cell takes.
    return [
        Line(what, figure=figure, bound=Bound("≤ 250 ms", 250), samples=bench.samples),
        Line(what, "a cell that prints it", figure, floor, samples=bench.samples),
    ]
