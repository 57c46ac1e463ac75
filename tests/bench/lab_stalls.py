"""How long JupyterLab's tab stands still while a box prints thousands of times a second, and how much a card jumps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.harness import Bench, Bound, Line, Missing
from tests.bench.lab_clicks import PATIENCE, lab, page

if TYPE_CHECKING:
    from playwright.async_api import Page

A_SECOND = 5000
SECONDS = 6
PRINTING = f"""\
%%sandbox python --box bubblewrap --write none
import sys, time
began = time.monotonic()
for number in range({A_SECOND * SECONDS}):
    sys.stdout.write(f"event {{number}}, a line as programs print them\\n")
    sys.stdout.flush()
    while time.monotonic() - began < number / {A_SECOND}:
        pass
"""
IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
# A frame that comes late is a tab that stood still, whatever held it up; the observer names what was one long task.
WATCH = """() => {
  window.frames_ = [];
  window.moved = 0;
  let last = performance.now();
  const step = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(step); };
  requestAnimationFrame(step);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const inside = entry.sources.some(({ node }) => node?.nodeType === 1 && node.closest(".kg-head, .kg-prose"));
      if (inside) window.moved += entry.value;
    }
  }).observe({type: "layout-shift"});
}"""
RUN = """([index]) => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
  void window.jupyterapp.commands.execute("notebook:run-cell");
}"""


async def stalls_while_a_box_prints(bench: Bench) -> list[Line]:
    """A box prints 5,000 lines a second, each flushed, in a real JupyterLab; the last one must be there at the end."""
    program = shutil.which("chromium")
    if program is None:
        raise Missing("there is no Chromium")
    folder = bench.folder / "streaming"
    _write(folder)
    async with lab(folder) as url, page(program) as found:
        await found.goto(url)
        seen = await _watch(found)
    longest, idle = max(seen["frames"]), max(seen["idle"])
    what = f"{A_SECOND:,} prints a second"
    return [
        Line(
            f"longest stall of the tab, {what}",
            figure=longest,
            bound=Bound("≤ 100 ms", 100),
            samples=len(seen["frames"]),
        ),
        # On a busy machine frames come late of a tab that does nothing, too.
        Line("longest stall of the tab, nothing printed", figure=idle, samples=len(seen["idle"])),
        Line(f"jumps of what is read, {what}", figure=seen["moved"], unit="", bound=Bound("≤ 0.01", 0.01), samples=1),
    ]


async def _watch(found: Page) -> dict[str, Any]:
    await found.wait_for_function(IDLE)
    await found.evaluate(RUN, [0])
    await found.wait_for_function(IDLE)
    # What a page does right after it was opened is not what is measured.
    await found.wait_for_timeout(2500)
    await found.evaluate(WATCH)
    await found.wait_for_timeout(SECONDS * 1000)
    idle = await found.evaluate("() => window.frames_.splice(0)")
    await found.evaluate(RUN, [1])
    last = found.locator(".kg-out", has_text=f"event {A_SECOND * SECONDS - 1},")
    await last.wait_for(timeout=(PATIENCE + SECONDS) * 1000)
    await found.locator(".kg-pill", has_text="Done").wait_for()
    seen: dict[str, Any] = await found.evaluate("() => ({frames: window.frames_, moved: window.moved})")
    return seen | {"idle": idle}


def _write(folder: Path) -> None:
    import nbformat

    folder.mkdir()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext kagura_kernel", PRINTING)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    (folder / "bench.ipynb").write_text(json.dumps(notebook), "utf-8")
