"""A real JupyterLab and a real Chromium: each as a person has it, with nothing of this person in it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.lab import CHROMIUM, FLAGS, Lab, Model, running_lab, running_model
from tests.browser.notebook import KERNELS, PICTURES, SIZE, Notebook, prepare, write
from tests.browser.stage import NOTEBOOK, Session, Stage

_FAILED = pytest.StashKey[bool]()
# Sharp pictures have four times the points, and each of them is drawn without a graphics card.
SCALE = 2 if os.environ.get(PICTURES) else 1


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What a test that failed has had in its hands is no other test's."""
    if call.excinfo is not None:
        item.stash[_FAILED] = True


def passed(request: pytest.FixtureRequest) -> bool:
    """Whether nothing has failed in this test so far."""
    return not request.node.stash.get(_FAILED, False)


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
def told(model: Model) -> Iterator[Lab]:
    """A JupyterLab with a journal and a memory of its own, in which nothing happens but what a test tells."""
    with (
        tempfile.TemporaryDirectory(prefix="told-", ignore_cleanup_errors=True) as base,
        running_lab(Path(base), model) as lab,
    ):
        path = lab.root / NOTEBOOK
        path.parent.mkdir()
        cells = [nbformat.v4.new_code_cell(f"# This is cell {number}.", id=f"cell-{number}") for number in range(30)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELS["python3"]}), path)
        yield lab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """Keeps what it has fetched of JupyterLab, which is most of the time that a page takes."""
    context = prepare(browser.new_context(viewport=SIZE, device_scale_factor=SCALE))
    yield context
    context.close()


@contextmanager
def _stage(window: BrowserContext, lab: Lab) -> Iterator[Stage]:
    found = Stage(window, lab)
    yield found
    found.close()


@pytest.fixture(scope="session")
def stage(window: BrowserContext, lab: Lab) -> Iterator[Stage]:
    with _stage(window, lab) as found:
        yield found


@pytest.fixture(scope="session")
def told_stage(window: BrowserContext, told: Lab) -> Iterator[Stage]:
    with _stage(window, told) as found:
        yield found


@pytest.fixture
def page(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page with a JupyterLab in which nothing is open; other tests have had it before."""
    found = stage.take()
    yield found
    stage.give_back(found, good=passed(request))


@pytest.fixture
def told_page(told_stage: Stage, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The like with the JupyterLab of `told`."""
    found = told_stage.take()
    yield found
    told_stage.give_back(found, good=passed(request))


@pytest.fixture
def fresh_told_page(told_stage: Stage) -> Iterator[Page]:
    """One that nobody has had before: it has fetched what there is, and nothing that there was."""
    found = told_stage.load()
    yield found
    found.close()


@pytest.fixture
def own_page(window: BrowserContext) -> Iterator[Page]:
    """A page of its own, with nothing in it: for what is about the loading of a page."""
    found = window.new_page()
    yield found
    found.close()


@pytest.fixture(scope="session")
def _blank(window: BrowserContext) -> Iterator[Page]:
    found = window.new_page()
    yield found
    found.close()


@pytest.fixture
def blank(_blank: Page) -> Iterator[Page]:
    """A page with nothing in it, for cards without a notebook around them."""
    yield _blank
    _blank.unroute_all()
    _blank.emulate_media(reduced_motion="null", forced_colors="null", contrast="null")
    # Whatever a test has put into its window goes with it.
    _blank.goto("about:blank")


@pytest.fixture
def open_notebook(stage: Stage, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[..., Notebook]]:
    """Make a notebook with these cells, open it, wait for its kernel.

    The first one is shown in `page`, each further one in a tab beside it. The kernel is as if it had just been started;
    it really was where `own_kernel` asks for that, and ends with the test.
    """
    opened: list[tuple[Notebook, Session, bool]] = []

    def make(
        *cells: str,
        files: dict[str, str] | None = None,
        folder_name: str = "",
        kernel: str = "python3",
        own_kernel: bool = False,
    ) -> Notebook:
        path = write(stage.lab, folder_name or request.node.name, *cells, files=files, kernel=kernel)
        own = own_kernel or kernel != "python3"
        tab = stage.take() if opened else page
        opened.append((*stage.show(tab, path, own_kernel=own), own))
        return opened[-1][0]

    yield make
    good = passed(request)
    for notebook, session, own in opened:
        stage.take_back(notebook.page, session, good=good and not own)
        if notebook.page is not page:
            stage.give_back(notebook.page, good=good)


@pytest.fixture
def open_file(stage: Stage, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Notebook]]:
    """Open a copy of a notebook together with the folder of its name, as a person who got it from somebody."""
    opened: list[Session] = []

    def make(path: Path) -> Notebook:
        folder = stage.lab.root / request.node.name
        folder.mkdir()
        shutil.copy(path, folder)
        if path.with_suffix("").is_dir():
            shutil.copytree(path.with_suffix(""), folder / path.stem)
        notebook, session = stage.show(page, folder / path.name)
        opened.append(session)
        return notebook

    yield make
    for session in opened:
        stage.take_back(page, session, good=passed(request))
