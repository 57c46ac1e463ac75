"""A JupyterLab that stands open from test to test: its pages, its kernels, and how both are cleared in between.

A page that has loaded costs a test nothing more, and neither does a kernel that has imported what a run needs. Both go
on only behind a test that passed: what failed may have left them in any state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Error as BrowserError, Page

from tests.browser.lab import TOKEN, Lab
from tests.browser.notebook import SIZE, Notebook

NOTEBOOK = "sales/analysis.ipynb"
"""The one notebook of a JupyterLab in which nothing happens but what a test tells."""

_SIGNED_IN = {"Authorization": f"token {TOKEN}"}

# Everything is undone in the kernel that a notebook may have done to it: the next one begins with its first prompt, in
# its own folder, and with an extension that was never loaded.
_FORGET = """
import gc, importlib, os, sys
shell = get_ipython()
if "kagura_kernel" in shell.extension_manager.loaded:
    shell.extension_manager.unload_extension("kagura_kernel")
if "ipywidgets" in sys.modules:
    sys.modules["ipywidgets"].Widget.close_all()
if "kagura_kernel.assembly" in sys.modules:
    assembly = sys.modules["kagura_kernel.assembly"]
    # Tests put their own functions in the place of its, which it looks up anew each time.
    for name in assembly._HOMES:
        vars(assembly).pop(name, None)
    assembly.close_cockpit()
if "kagura_kernel.assembly.services" in sys.modules:
    importlib.reload(sys.modules["kagura_kernel.assembly.services"])
with open("/proc/self/environ", encoding="utf-8", errors="surrogateescape") as begun:
    before = dict(line.split("=", 1) for line in begun.read().split("\\0") if "=" in line)
for name in [name for name in os.environ if name.startswith("KAGURA") and name not in before]:
    del os.environ[name]
os.environ.update(before)
shell.reset(new_session=True)
gc.collect()
"""
# Nothing lies before the notebook, whenever it came, and the page's focus is in it even if something else, since gone,
# took that from it. What a kernel told before the page listened, it has to tell again.
_READY = """([path]) => {
  const { shell } = window.jupyterapp;
  const panel = [...shell.widgets('main')].find(one => one.context?.path === path);
  if (!panel) return false;
  for (const other of [...shell.widgets('main')]) if (other !== panel) other.dispose();
  const kernel = panel.sessionContext.session?.kernel;
  if (kernel?.connectionStatus === 'connected' && kernel.status === 'unknown' && !(Date.now() < window.asked)) {
    window.asked = Date.now() + 3000;
    void kernel.requestKernelInfo();
  }
  if (shell.currentWidget !== panel) shell.activateById(panel.id);
  return shell.currentWidget === panel && kernel?.status === 'idle';
}"""
_STATE = """() => {
  const { shell } = window.jupyterapp;
  const said = one => {
    const { session, isReady } = one.sessionContext ?? {};
    const kernel = session?.kernel;
    const states = [kernel?.connectionStatus, kernel?.status];
    return [one.context?.path, one === shell.currentWidget, isReady, ...states].join(' ');
  };
  const dialog = document.querySelector('.jp-Dialog')?.textContent ?? 'no dialog';
  return [...[...shell.widgets('main')].map(said), dialog].join('; ');
}"""
_MOVE = """
import os
os.chdir({folder!r})
os.environ["JPY_SESSION_NAME"] = {path!r}
"""

# A cell that still runs has until then to come to its end.
_TELL = """async code => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  if (!kernel) return 'there is no kernel';
  const late = new Promise(resolve => setTimeout(resolve, 30_000));
  const told = kernel.requestExecute({ code, silent: true, store_history: false }).done;
  const reply = await Promise.race([told, late]);
  return reply?.content.status === 'ok' ? '' : JSON.stringify(reply?.content ?? kernel.status);
}"""

# The panel is put in its place anew, which draws it anew: what was unfolded in it is folded again.
_CLEAR = """async () => {
  const { shell, commands } = window.jupyterapp;
  for (const button of document.querySelectorAll('.jp-Dialog .jp-mod-reject')) button.click();
  for (const widget of [...shell.widgets('main')]) widget.dispose();
  const panel = ['left', 'right'].flatMap(area => [...shell.widgets(area)]).find(one => one.id === 'kagura-sidebar');
  const set = (control, value) => {
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(control), 'value').set.call(control, value);
    control.dispatchEvent(new Event(control.tagName === 'SELECT' ? 'change' : 'input', { bubbles: true }));
  };
  for (const heading of panel.node.querySelectorAll(".kgs-heading [aria-expanded='false']")) heading.click();
  await new Promise(resolve => setTimeout(resolve));
  panel.node.querySelector("[role='tab'][aria-selected='false']:first-child")?.click();
  await new Promise(resolve => setTimeout(resolve));
  for (const button of panel.node.querySelectorAll('button')) if (button.ariaLabel === 'Close') button.click();
  const filled = [...panel.node.querySelectorAll("input[type='search'], select")].filter(one => one.value);
  filled.forEach(one => set(one, ''));
  // What is typed is looked for once typing is over.
  if (filled.length) await new Promise(resolve => setTimeout(resolve, 400));
  shell.add(panel, 'right', { rank: 120 });
  shell.collapseLeft();
  shell.collapseRight();
  for (const toast of document.querySelectorAll('.Toastify__toast')) {
    toast.querySelector('.jp-Notification-Toast-Close, .Toastify__close-button')?.click();
  }
  if (document.body.dataset.jpThemeName !== 'JupyterLab Light') {
    await commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
  }
  // An empty window opens a launcher by itself, a little later: it must not come before what the next test opens.
  for (let turn = 0; turn < 100 && ![...shell.widgets('main')].length; turn++) {
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  for (const name of ['asked', 'canary', 'owned', 'seen', 'heights', 'stall']) delete window[name];
  getSelection().removeAllRanges();
  document.activeElement?.blur();
}"""


@dataclass(frozen=True)
class Session:
    """A kernel and what the server knows it by."""

    id: str  # The session's
    kernel: str  # The kernel's


class Stage:
    """The pages and kernels of one JupyterLab that tests share.

    Args:
        window: Where its pages are opened.
        lab: The JupyterLab.
    """

    def __init__(self, window: BrowserContext, lab: Lab) -> None:
        self.lab = lab
        self._window = window
        self._free: list[Page] = []
        self._kernels: list[Session] = []
        self._opened = 0

    def take(self) -> Page:
        """A page that has loaded, with nothing open in it."""
        return self._free.pop() if self._free else self.load()

    def give_back(self, page: Page, *, good: bool) -> None:
        """The page is free again, or gone unless it is `good` and can be cleared."""
        if good and self._clear(page):
            self._free.append(page)
        else:
            page.close()

    def show(self, page: Page, path: Path, *, own_kernel: bool = False) -> tuple[Notebook, Session]:
        """Open a notebook in such a page and wait for its kernel: one that is free, unless it is to have its own."""
        place = str(path.relative_to(self.lab.root))
        lent = not own_kernel and self._lend(place)
        open_by_command(page, place)
        try:
            page.wait_for_function(_READY, arg=[place])
        except BrowserError as error:
            message = f"{place} is not ready, with {'a lent' if lent else 'a new'} kernel: {page.evaluate(_STATE)}"
            raise AssertionError(message) from error
        ids = page.evaluate(
            """() => {
              const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
              return [session.id, session.kernel.id];
            }"""
        )
        if lent:
            told = page.evaluate(_TELL, _within(_MOVE.format(folder=str(path.parent), path=str(path))))
            assert told == ""
        return Notebook(page, path), Session(*ids)

    def take_back(self, page: Page, session: Session, *, good: bool) -> None:
        """The kernel is free again, or ends unless it is `good`, this page shows its notebook and it can be cleared."""
        if good and self._forgets(page, session):
            self._kernels.append(session)
        else:
            self.end(session)

    def end(self, session: Session) -> None:
        self._window.request.delete(f"{self.lab.url}api/sessions/{session.id}", headers=_SIGNED_IN)

    def close(self) -> None:
        """Close its pages and end its kernels."""
        for page in self._free:
            page.close()
        for session in self._kernels:
            self.end(session)

    def _lend(self, place: str) -> bool:
        """Have a kernel that is free wait for whoever opens this notebook; without one, opening it starts one."""
        if not self._kernels:
            return False
        answer = self._window.request.patch(
            f"{self.lab.url}api/sessions/{self._kernels.pop().id}",
            headers=_SIGNED_IN,
            data={"path": place, "name": place.rpartition("/")[2], "type": "notebook"},
        )
        assert answer.ok, answer.text()
        return True

    def _forgets(self, page: Page, session: Session) -> bool:
        try:
            shown = page.evaluate(
                "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.id ?? ''"
            )
            return shown == session.kernel and page.evaluate(_TELL, _within(_FORGET)) == ""
        except BrowserError:
            return False

    def load(self) -> Page:
        """A page that has just loaded, which is the caller's own."""
        page = self._window.new_page()
        self._opened += 1
        page.goto(f"{self.lab.url}lab/workspaces/stage-{self._opened}?token={TOKEN}&reset")
        page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        page.wait_for_selector("#kagura-sidebar", state="attached")
        # JupyterLab opens its files beside; a notebook is as wide here as in a page that others have had.
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        return page

    def _clear(self, page: Page) -> bool:
        """Whether it is as it was when it had loaded."""
        try:
            page.unroute_all()
            page.emulate_media(reduced_motion="null", forced_colors="null", contrast="null", media="null")
            page.set_viewport_size(SIZE)
            page.keyboard.press("Escape")
            # Another program's page may stand here.
            if re.match(rf"{re.escape(self.lab.url)}lab\b", page.url) is None:
                return False
            page.evaluate(_CLEAR)
        except BrowserError:
            return False
        return True


def _within(code: str) -> str:
    """This code with names of its own, which the notebook does not see."""
    return f"exec({code!r}, {{'get_ipython': get_ipython}})"


def open_by_command(page: Page, place: str, **how: Any) -> None:
    """Have the JupyterLab of a page open a file and nothing beside it."""
    page.evaluate(
        """async ([path, how]) => {
          const { shell, commands } = window.jupyterapp;
          const opened = await commands.execute('docmanager:open', { path, factory: 'Notebook', ...how });
          for (const widget of [...shell.widgets('main')]) if (widget !== opened) widget.dispose();
        }""",
        [place, how],
    )


def show_without_kernel(page: Page, lab: Lab, path: Path) -> Notebook:
    """Open a notebook file to read it; no kernel is started."""
    place = str(path.relative_to(lab.root))
    open_by_command(page, place, kernelPreference={"shouldStart": False, "canStart": False})
    page.wait_for_function(
        "path => window.jupyterapp.shell.currentWidget?.context?.path === path "
        "&& window.jupyterapp.shell.currentWidget.context.isReady",
        arg=place,
    )
    return Notebook(page, path)
