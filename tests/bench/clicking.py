"""From a click on Allow in JupyterLab to the run going on, in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.bench.harness import WARM_UP, Bench, Bound, Line, Missing

if TYPE_CHECKING:
    from playwright.async_api import Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60.0
CELLS = ("%load_ext kagura_kernel", "%%kagura --replay calls.jsonl --box bubblewrap --write none\nGo on and on.")
# A host command that is allowed tells when it ran; browser and command read the same clock.
CALL = {
    "name": "bash",
    "arguments": {"command": "date +%s%3N >> went-on", "host": True, "reason": "Only the host knows the time."},
}
WATCH_CLICKS = "() => { window.clicks = []; addEventListener('click', () => window.clicks.push(Date.now()), true); }"


async def click_to_going_on(bench: Bench) -> list[Line]:
    """A replayed run asks for one host command after the other, and each is allowed by a click."""
    program = shutil.which("chromium")
    if program is None:
        raise Missing("there is no Chromium")
    folder = bench.folder / "clicking"
    times = WARM_UP + bench.samples
    write_notebook(folder, times)
    async with lab(folder) as url, page(program) as found:
        await found.goto(url)
        waited = await click_and_wait(found, folder / "went-on", times)
    figure = median(waited[WARM_UP:])
    bound = Bound("≤ 300 ms", 300)
    return [Line("click on Allow to the run going on", figure=figure, bound=bound, samples=bench.samples)]


def write_notebook(folder: Path, times: int) -> None:
    """A notebook and a cassette that asks so many times."""
    import nbformat

    folder.mkdir()
    lines = [{"kagura_cassette": 1, "task": "bench"}, *[{"call": CALL}] * times, {"done": {"text": "done", "turns": 1}}]
    (folder / "calls.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "bench.ipynb")


async def click_and_wait(page: Page, went_on: Path, times: int) -> list[float]:
    """Milliseconds from each click to the moment at which its command ran."""
    await page.wait_for_function(
        "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
    )
    await page.evaluate(WATCH_CLICKS)
    await page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    waited = []
    for number in range(times):
        await page.get_by_role("button", name="Allow once").last.click()
        ran = await _line(went_on, number)
        clicked = await page.evaluate("() => window.clicks.at(-1)")
        waited.append(ran - clicked)
    return waited


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
