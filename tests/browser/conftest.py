"""A real JupyterLab and a real Chromium: each as a person has it, with nothing of this person in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.lab import CHROMIUM, FLAGS, Lab, Model, running_lab, running_model
from tests.browser.notebook import SIZE, Notebook, prepare, show, write


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with running_model() as found:
        yield found


@pytest.fixture(scope="session")
def lab(model: Model) -> Iterator[Lab]:
    # Short, because it can be read on the pictures.
    with (
        tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as base,
        running_lab(Path(base), model) as found,
    ):
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """Keeps what it has fetched of JupyterLab, which is most of the time that a page takes."""
    context = prepare(browser.new_context(viewport=SIZE, device_scale_factor=2))
    yield context
    context.close()


@pytest.fixture
def page(window: BrowserContext) -> Iterator[Page]:
    """A page of its own for each test, in a window that remembers nothing of the one before but what it fetched."""
    yield window.new_page()
    for page in window.pages:
        page.close()
    window.clear_cookies()


@pytest.fixture
def open_notebook(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[..., Notebook]]:
    """Make a notebook with these cells, open it, wait for its kernel, which ends with the test.

    The first one is shown in `page`, each further one in a tab beside it.
    """
    opened: list[Notebook] = []

    def make(
        *cells: str, files: dict[str, str] | None = None, folder_name: str = "", kernel: str = "python3"
    ) -> Notebook:
        path = write(lab, folder_name or request.node.name, *cells, files=files, kernel=kernel)
        tab = page.context.new_page() if opened else page
        opened.append(show(tab, lab, path))
        return opened[-1]

    yield make
    for notebook in opened:
        notebook.shut()


@pytest.fixture
def open_file(lab: Lab, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Notebook]]:
    """Open a copy of a notebook together with the folder of its name, as a person who got it from somebody."""
    opened: list[Notebook] = []

    def make(path: Path) -> Notebook:
        folder = lab.root / request.node.name
        folder.mkdir()
        shutil.copy(path, folder)
        if path.with_suffix("").is_dir():
            shutil.copytree(path.with_suffix(""), folder / path.stem)
        opened.append(show(page, lab, folder / path.name))
        return opened[-1]

    yield make
    for notebook in opened:
        notebook.shut()
