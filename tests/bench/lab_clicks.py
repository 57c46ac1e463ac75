"""From a click on Allow to the run going on, and from a call to its cell on screen: JupyterLab in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kagura_kernel.journal import views
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.store import Journal
from tests.bench.harness import WARM_UP, Bench, Bound, Line, Missing
from tests.browser.lab import FLAGS

if TYPE_CHECKING:
    from playwright.async_api import Page

PATIENCE = 60.0
REPLAY = "%%kagura --replay calls.jsonl --box bubblewrap --write none --context cells\nGo on and on."
# A host command that is allowed tells when it ran; browser and command read the same clock.
CALL = {
    "name": "bash",
    "arguments": {"command": "date +%s%3N >> went-on", "host": True, "reason": "Only the host knows the time."},
}
# A pause between two of them, so that each is drawn by itself.
PROPOSE = (
    {"name": "insert_cell", "arguments": {"source": "total = 1", "below": "^"}},
    {"name": "bash", "arguments": {"command": "sleep 0.4"}},
)
WATCH_CELLS = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const count = document.querySelectorAll('.kg-file').length;
    while (window.seen.length < count) window.seen.push(Date.now());
  }).observe(document.body, { childList: true, subtree: true });
}"""
WATCH_CLICKS = "() => { window.clicks = []; addEventListener('click', () => window.clicks.push(Date.now()), true); }"


async def click_to_going_on(bench: Bench) -> list[Line]:
    """A replayed run asks for one host command after the other, and each is allowed by a click."""
    folder, times = bench.folder / "clicking", WARM_UP + bench.samples
    async with replaying(folder, [CALL] * times) as found:
        waited = await click_and_wait(found, folder / "went-on", times)
    return [_line_of(bench, "click on Allow to the run going on", waited)]


async def proposal_to_screen(bench: Bench) -> list[Line]:
    """A replayed run proposes one new cell after the other, each timed by its call's row in the journal."""
    times = WARM_UP + bench.samples
    async with replaying(bench.folder / "proposing", [*PROPOSE] * times) as found:
        await _run_all(found, WATCH_CELLS)
        await found.wait_for_function("times => window.seen.length >= times", arg=times)
        seen = await found.evaluate("() => window.seen")
    waited = [at - called for at, called in zip(seen, _called(), strict=False)]
    return [_line_of(bench, "call that proposes a cell to the cell on screen", waited)]


@asynccontextmanager
async def replaying(folder: Path, calls: Sequence[Mapping[str, Any]]) -> AsyncIterator[Page]:
    """A page that shows a notebook whose cell replays these calls."""
    program = shutil.which("chromium")
    if program is None:
        raise Missing("there is no Chromium")
    write_notebook(folder, calls)
    async with lab(folder) as url, page(program) as found:
        await found.goto(url)
        yield found


def _line_of(bench: Bench, what: str, waited: Sequence[float]) -> Line:
    bound = Bound("≤ 300 ms", 300)
    return Line(what, figure=median(waited[WARM_UP:]), bound=bound, samples=bench.samples)


def _called() -> list[float]:
    """When each cell of the latest run was proposed, in milliseconds."""
    journal = Journal.open(data_home(os.environ))
    try:
        run_id = views.runs(journal, limit=1)[0].run_id
        rows = journal.events(run_id=run_id, kinds=("tool.called",))
        return [row.event.at.timestamp() * 1000 for row in rows if getattr(row.event, "tool", "") == "insert_cell"]
    finally:
        journal.close()


def write_notebook(folder: Path, calls: Sequence[Mapping[str, Any]]) -> None:
    """A notebook and a cassette with these calls."""
    import nbformat

    folder.mkdir()
    lines = [
        {"kagura_cassette": 1, "task": "bench"},
        *({"call": call} for call in calls),
        {"done": {"text": "done", "turns": 1}},
    ]
    (folder / "calls.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext kagura_kernel", REPLAY)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "bench.ipynb")


async def click_and_wait(page: Page, went_on: Path, times: int) -> list[float]:
    """Milliseconds from each click to the moment at which its command ran."""
    await _run_all(page, WATCH_CLICKS)
    waited = []
    for number in range(times):
        # The one that was pressed before is disabled. This one takes a click once all that is asked has been on screen.
        allow = page.locator("[data-act=allow]:not([disabled])").last
        await allow.scroll_into_view_if_needed()
        await allow.click()
        ran = await _line(went_on, number)
        clicked = await page.evaluate("() => window.clicks.at(-1)")
        waited.append(ran - clicked)
    return waited


async def _run_all(page: Page, watch: str) -> None:
    await page.wait_for_function(
        "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )
    await page.evaluate(watch)
    await page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")


async def _line(file: Path, number: int) -> float:
    async with asyncio.timeout(PATIENCE):
        while True:
            if len(lines := _lines(file)) > number:
                return float(lines[number])
            await asyncio.sleep(0.005)


def _lines(file: Path) -> list[str]:
    return file.read_text("ascii").split("\n")[:-1] if file.exists() else []


@asynccontextmanager
async def lab(folder: Path) -> AsyncIterator[str]:
    """JupyterLab in this folder; the address of its notebook."""
    token = secrets.token_hex(16)
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    words = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"),
        *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220 - ended below
    try:
        async with asyncio.timeout(PATIENCE):
            while not (url := _address(runtime)):
                if server.poll() is not None:
                    raise Missing("JupyterLab does not start")
                await asyncio.sleep(0.1)
        yield f"{url}lab/tree/bench.ipynb?token={token}"
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


def _address(runtime: Path) -> str:
    for path in runtime.glob("jpserver-*.json"):
        text = path.read_text("utf-8")
        if text.endswith("}"):
            return str(json.loads(text)["url"])
    return ""


@asynccontextmanager
async def page(program: str) -> AsyncIterator[Page]:
    """A page of a fresh browser."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        found = await browser.new_page()
        found.set_default_timeout(PATIENCE * 1000)
        yield found
        await browser.close()
