"""A notebook in the browser: what a person does with it, and what they see."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.lab import TOKEN, Lab

SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"
PATIENCE_MS = 120_000
"""A ceiling for hanging, not a measure: the machine may be busy."""

PICTURES = "KAGURA_TEST_PICTURES"
"""Variable that has the tests take their screenshots, which takes a quarter of their time."""

SIZE = {"width": 1180, "height": 980}
THEMES = (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light"))

KERNELS = {
    "python3": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "gated": {"name": "gated", "display_name": "Python 3 (gated)", "language": "python"},
    "kagura": {"name": "kagura", "display_name": "kagura", "language": "python"},
}

_IDLE = """([path]) => {
  const panel = window.jupyterapp?.shell.currentWidget;
  return panel?.context?.path === path && panel.sessionContext.session?.kernel?.status === 'idle';
}"""
_RUN = """([index, command]) => {
  const panel = window.jupyterapp.shell.currentWidget;
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  void window.jupyterapp.commands.execute(command);
}"""


class Notebook:
    """A notebook that is open in the browser, with a kernel of its own."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.path = path
        self._address = ""

    @property
    def folder(self) -> Path:
        """The kernel's working directory: the project."""
        return self.path.parent

    def run(self, index: int, *, on: bool = False) -> Locator:
        """Start a cell, with `on` also all below it, and return its output area; does not wait for its end."""
        self.page.evaluate(_RUN, [index, "notebook:run-all-below" if on else "notebook:run-cell"])
        return self.output(index)

    def done(self, index: int) -> Locator:
        """Run a cell to its end, and return its output area."""
        self.run(index)
        self.wait_done(index)
        return self.output(index)

    def write(self, index: int, source: str) -> None:
        """Type something else into a cell."""
        self.page.evaluate(
            "([index, source]) => "
            "window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(source)",
            [index, source],
        )

    def tell(self, index: int, source: str) -> Locator:
        """Type something into a cell and run it to its end."""
        self.write(index, source)
        return self.done(index)

    def clear(self) -> None:
        """Empty all outputs."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """The output area of a cell."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def error(self, index: int) -> Locator:
        """The error below a cell."""
        return self.output(index).locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']")

    def prompt(self, index: int) -> Locator:
        """A cell's number: `[ ]:` before it ran, `[*]:` meanwhile."""
        return self.cell(index).locator(".jp-InputPrompt")

    def wait_done(self, index: int) -> None:
        """Wait until a cell has its number. Its code raised nothing: errors of ours are calm, and have no traceback."""
        expect(self.prompt(index)).not_to_have_text("[*]:")
        expect(self.prompt(index)).not_to_have_text("[ ]:")
        assert self.output(index).get_by_text("Traceback (most recent call last)").count() == 0

    def command(self, name: str) -> None:
        """What a menu entry or a button of JupyterLab does; does not wait for its end."""
        self.page.evaluate("name => void window.jupyterapp.commands.execute(name)", name)

    def interrupt(self) -> None:
        """What the interrupt button does."""
        self.command("notebook:interrupt-kernel")

    def theme(self, name: str) -> None:
        """`JupyterLab Light`, `JupyterLab Dark`, or one of its themes of high contrast."""
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        dark = "false" if "Dark" in name else "true"
        self.page.wait_for_selector(
            f"body[data-jp-theme-light='{dark}'][data-jp-theme-name='{name}']", state="attached"
        )

    def wait_kept(self, index: int, text: str) -> None:
        """Wait until what would be saved of a cell's outputs holds this text."""
        self.page.wait_for_function(
            """([index, text]) => {
              const { outputs } = window.jupyterapp.shell.currentWidget.content.widgets[index].model;
              return JSON.stringify(outputs.toJSON()).includes(text);
            }""",
            arg=[index, text],
        )

    def save(self) -> Any:
        """Save it, and return what is in the file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return nbformat.read(self.path, as_version=4)

    def leave(self) -> None:
        """Leave the page, as somebody who closes it; the kernel goes on. `reload` comes back."""
        self._address = self.page.url
        self.page.goto("about:blank")

    def load_anew(self) -> None:
        """Load the page anew, as its address has it: with this notebook."""
        place = f"{self.path.parent.name}/{self.path.name}"
        address, self._address = self._address or self.page.url, ""
        self.page.goto(re.sub(r"(/workspaces/[^/?]+).*", rf"\1/tree/{place}", address))

    def reload(self) -> None:
        """The like; waits for the notebook and the socket of its kernel, which may be busy."""
        self.load_anew()
        self.page.wait_for_function(
            """([path]) => {
              const panel = window.jupyterapp?.shell.currentWidget;
              const kernel = panel?.sessionContext?.session?.kernel;
              return panel?.context?.path === path && panel.context.isReady && kernel?.connectionStatus === 'connected';
            }""",
            arg=[f"{self.path.parent.name}/{self.path.name}"],
        )

    def shut(self) -> None:
        """End its kernel."""
        self.page.evaluate(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.shutdown?.().catch(() => undefined)"
        )

    def picture(self, name: str, *, cell: int | None = None) -> None:
        """A screenshot in both themes, where they are asked for: of one cell, or of all, without what is around."""
        if not os.environ.get(PICTURES):
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        # High enough for nothing to be cut off.
        self.page.set_viewport_size(SIZE | {"height": 4000} if cell is not None else SIZE)
        cells = self.page.locator(".jp-Notebook .jp-Cell")
        for theme, suffix in THEMES:
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

    def window(self, name: str, themes: Iterable[tuple[str, str]] = THEMES) -> None:
        """A screenshot of the whole window in both themes, where they are asked for."""
        if not os.environ.get(PICTURES):
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for theme, suffix in themes:
            self.theme(theme)
            self.page.wait_for_timeout(250)
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{suffix}.png")


def prepare(context: BrowserContext) -> BrowserContext:
    """A window whose waits are as patient as ours."""
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return context


def write(
    lab: Lab, folder_name: str, *cells: str, files: dict[str, str] | None = None, kernel: str = "python3"
) -> Path:
    """A notebook with these cells in a folder of its own, beside `files`."""
    # Part of an address, and of what can be read on a picture.
    folder = lab.root / re.sub(r"\W+", "-", folder_name).strip("-")
    folder.mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells], metadata={"kernelspec": KERNELS[kernel]}
    )
    # One folder may hold several: each is a session of its own, the project is the same.
    count = len(list(folder.glob("*.ipynb")))
    path = folder / (f"notebook-{count + 1}.ipynb" if count else "notebook.ipynb")
    nbformat.write(notebook, path)
    return path


def show(page: Page, lab: Lab, path: Path) -> Notebook:
    """Open a notebook file in a page of its own and wait for its kernel."""
    place = path.relative_to(lab.root)
    workspace = f"auto-{place.parent.name[:40]}-{path.stem}"
    page.goto(f"{lab.url}lab/workspaces/{workspace}/tree/{place}?token={TOKEN}&reset")
    page.wait_for_function(_IDLE, arg=[str(place)])
    page.evaluate("() => window.jupyterapp.shell.leftCollapsed || window.jupyterapp.shell.collapseLeft()")
    return Notebook(page, path)
