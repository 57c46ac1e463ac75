"""A real JupyterLab and a real Chromium: each as a person has it, with nothing of this person in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from kagura_kernel.testing.model_script import Answer, says
from kagura_kernel.testing.model_server import ModelServer

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"
TOKEN = "a-token-for-one-test-session"
PATIENCE_MS = 60_000
"""A ceiling for hanging, not a measure: the machine may be busy."""

SIZE = {"width": 1180, "height": 980}

SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
}


@dataclass
class Model:
    """The scripted model behind the brain of the server's kernels.

    Attributes:
        server: What listens.
        turns: What it answers next; each a step of `kagura_kernel.testing.model_script`.
    """

    server: ModelServer
    turns: list[Any] = field(default_factory=list)


@dataclass
class Lab:
    """A running JupyterLab.

    Attributes:
        url: Where it listens.
        root: Its files; every notebook gets a folder of its own.
        model: What the kernels' brain speaks to.
    """

    url: str
    root: Path
    model: Model


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    turns: list[Any] = []

    def answer(request: Mapping[str, Any]) -> Answer:
        step = turns.pop(0) if turns else says("The script is used up.")
        return step(request) if callable(step) else step

    with ModelServer(answer) as server:
        yield Model(server, turns)


@pytest.fixture(scope="session")
def lab(model: Model) -> Iterator[Lab]:
    # Short, because it can be read on the pictures.
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as base:
        yield from _run_lab(Path(base), model)


def _run_lab(base: Path, model: Model) -> Iterator[Lab]:
    root = base / "work"
    root.mkdir()
    settings = base / "config" / "lab" / "user-settings"
    for name, values in SETTINGS.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    environment = os.environ | {
        "HOME": str(base / "home"),
        "KAGURA_HOME": str(base / "kagura"),
        "CLAUDE_CONFIG_DIR": str(base / "claude"),
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "IPYTHONDIR": str(base / "ipython"),
        "ANTHROPIC_BASE_URL": model.server.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DOCKER_HOST": "unix:///run/no-docker-for-tests.sock",
    }
    for name in ("home", "kagura", "claude", "data", "runtime", "ipython"):
        (base / name).mkdir(mode=0o700)
    arguments = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.port=0",
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={root}",
        "--LabApp.expose_app_in_browser=True",
        f"--LabApp.user_settings_dir={settings}",
        f"--LabApp.workspaces_dir={base / 'workspaces'}",
        "--LabApp.extension_manager=readonly",
    ]
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *arguments], env=environment, cwd=root, stdout=log, stderr=log
        )
    try:
        url = _listening(process, base / "runtime", base / "log")
        yield Lab(url, root, model)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listening(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        for path in runtime.glob("jpserver-*.json"):
            text = path.read_text()
            if text.endswith("}"):
                return str(json.loads(text)["url"])
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window of its own for each test: what one leaves open must not be what the next one looks at."""
    context = browser.new_context(viewport=SIZE, device_scale_factor=2)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield context.new_page()
    context.close()


class Notebook:
    """A notebook that is open in the browser, with a kernel of its own."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path

    @property
    def folder(self) -> Path:
        """The kernel's working directory: the project."""
        return self.path.parent

    def run(self, index: int) -> Locator:
        """Start a cell and return its output area; does not wait for its end."""
        self.page.evaluate(
            """([index]) => {
              const panel = window.jupyterapp.shell.currentWidget;
              panel.content.deselectAll();
              panel.content.activeCellIndex = index;
              void window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            [index],
        )
        return self.output(index)

    def output(self, index: int) -> Locator:
        """The output area of a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def wait_done(self, index: int) -> None:
        """Wait until a cell has its number."""
        prompt = self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-InputPrompt")
        expect(prompt).not_to_have_text("[*]:")
        expect(prompt).not_to_have_text("[ ]:")

    def theme(self, name: str) -> None:
        """`JupyterLab Light`, `JupyterLab Dark`, or one of its themes of high contrast."""
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        dark = "false" if "Dark" in name else "true"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{dark}']", state="attached")

    def save(self) -> Any:
        """Save it, and return what is in the file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return nbformat.read(self.path, as_version=4)

    def picture(self, name: str, *, cell: int | None = None) -> None:
        """A screenshot in both themes: of one cell, or of all of them without the frame around them."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        # High enough for nothing to be cut off.
        self.page.set_viewport_size(SIZE | {"height": 4000} if cell is not None else SIZE)
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        for theme, suffix in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
            self.theme(theme)
            self.page.wait_for_timeout(250)
            (cells.first if cell is None else cells.nth(cell)).scroll_into_view_if_needed()
            first = (cells.first if cell is None else cells.nth(cell)).bounding_box()
            last = (cells.last if cell is None else cells.nth(cell)).bounding_box()
            frame = self.page.locator(".jp-NotebookPanel-notebook").bounding_box()
            assert first
            assert last
            assert frame
            top = max(frame["y"], first["y"] - 14)
            height = min(frame["y"] + frame["height"], last["y"] + last["height"] + 14) - top
            clip = {"x": frame["x"], "y": top, "width": frame["width"], "height": height}
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{suffix}.png", clip=clip)
        self.page.set_viewport_size(SIZE)


def show(page: Page, lab: Lab, path: Path) -> Notebook:
    """Open a notebook file and wait for its kernel."""
    place = path.relative_to(lab.root)
    page.goto(f"{lab.url}lab/workspaces/auto-{place.parent.name[:40]}/tree/{place}?token={TOKEN}&reset")
    page.wait_for_function(
        """([path]) => {
          const panel = window.jupyterapp?.shell.currentWidget;
          return panel?.context?.path === path && panel.sessionContext.session?.kernel?.status === 'idle';
        }""",
        arg=[str(place)],
    )
    page.evaluate("() => window.jupyterapp.shell.leftCollapsed || window.jupyterapp.shell.collapseLeft()")
    return Notebook(page, path)


@pytest.fixture
def open_notebook(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[..., Notebook]]:
    """Make a notebook with these cells, open it, wait for its kernel, which ends with the test."""
    opened: list[Notebook] = []

    def make(*cells: str, files: dict[str, str] | None = None, folder_name: str = "") -> Notebook:
        folder = lab.root / (folder_name or request.node.name)
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        )
        path = folder / "notebook.ipynb"
        nbformat.write(notebook, path)
        opened.append(show(page, lab, path))
        return opened[-1]

    yield make
    for notebook in opened:
        notebook.page.evaluate(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.shutdown?.().catch(() => undefined)"
        )


@pytest.fixture
def open_file(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Callable[[Path], Notebook]:
    """Open a copy of a notebook together with the folder of its name, as a person who got it from somebody."""

    def make(path: Path) -> Notebook:
        folder = lab.root / request.node.name
        folder.mkdir()
        shutil.copy(path, folder)
        if path.with_suffix("").is_dir():
            shutil.copytree(path.with_suffix(""), folder / path.stem)
        return show(page, lab, folder / path.name)

    return make
