"""Shows a program's objects in their richest form, as files that the host collects; runs in the box."""

from __future__ import annotations

import binascii
import functools
import json
import os
import pathlib
import re
import sys
from typing import Any

from . import pack
from .wire import is_a

RICHEST_FIRST = (
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
)
METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
}
MOST = 200
"""Files of one program; the host shows far fewer, and says so."""

LONGEST_TEXT = 20_000
_EMPTY_WORDS = re.compile(r"<[\w.]+ object( at 0x[0-9a-f]+)?>|")


class Showing:
    """What one program shows.

    Args:
        folder: Where it goes.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0
        self._shown_figures: set[int] = set()
        self._files: dict[str, str] = {}  # By what they are updated with, as `display(…, display_id=…)` names it
        self._clears = False  # Whether the next thing that is shown takes everything else away

    def begin(self, folder: str) -> None:
        """Show in another folder from now on."""
        self._folder, self._count, self._clears = folder, 0, False
        self._files.clear()

    def display(
        self, *objects: Any, raw: bool = False, display_id: Any = None, update: bool = False, **_options: Any
    ) -> Handle | None:
        """Show objects, or with `raw` dictionaries of MIME types; IPython's other options mean nothing here.

        With a `display_id`, or True for a new one, its handle is returned; `update` shows them in the place of what
        this id has shown.
        """
        name = os.urandom(16).hex() if display_id is True else str(display_id or "")
        for one in objects:
            bundle = dict(one) if raw and isinstance(one, dict) else bundle_of(one)
            self._show(one, bundle, name, update)
            if is_a(one, "matplotlib", "Figure"):
                self._shown_figures.add(id(one))
        return Handle(self, name) if name else None

    def show_figures(self) -> None:
        """Show the open figures that were not shown yet, and close all."""
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if id(figure) not in self._shown_figures:
                self.display(figure)
        pyplot.close("all")
        self._shown_figures.clear()

    def show_on_demand(self, pyplot: Any) -> None:
        """Let `plt.show()` show; without a screen it would only warn."""

        def show(*_arguments: Any, **_options: Any) -> None:
            """Show all open figures in the notebook."""
            self.show_figures()

        pyplot.show = show

    def clear_output(self, wait: bool = False) -> None:
        """Take away what was shown, with `wait` only once there is something new. What was printed stays."""
        self._clears = wait
        if not wait:
            self._files.clear()
            for file in pathlib.Path(self._folder).glob("*.shown"):
                file.unlink()
            self._count = 0

    def display_for_ipython(self, module: Any) -> None:
        """Let `from IPython.display import display` be this one, and what goes with it."""
        module.display = self.display
        module.clear_output = self.clear_output
        module.update_display = functools.partial(self.display, update=True)

    def _show(self, value: Any, bundle: dict[str, Any], name: str, update: bool) -> None:
        text = bundle.get("text/plain")
        text = text if isinstance(text, str) else plain_text(value)
        mime = richest(bundle)
        if not mime:
            formula = getattr(value, "_repr_latex_", None)
            if callable(formula) and not says_something(text):
                # Formulas are not set here.
                text = _tried(formula, value) or text
            print(text, flush=True)  # noqa: T201 - what a program prints
            return
        self._write(mime, as_bytes(mime, bundle[mime]), text, name, update)

    def _write(self, mime: str, data: bytes, text: str, name: str, update: bool) -> None:
        head = json.dumps({"mime": mime, "text": text[:LONGEST_TEXT] if says_something(text) else ""}).encode()
        if self._clears:
            self.clear_output()
        before = self._files.get(name) if update else None
        if before is not None:
            pathlib.Path(before).write_bytes(head + b"\n" + data)
            return
        self._count += 1
        if self._count > MOST:
            return
        pathlib.Path(self._folder).mkdir(parents=True, exist_ok=True)
        while True:
            # Processes that the program forked show things too.
            try:
                file = open(f"{self._folder}/{self._count:04d}.shown", "xb")  # noqa: PTH123, SIM115 - closed below
                break
            except FileExistsError:
                self._count += 1
        with file:
            file.write(head + b"\n" + data)
        if name:
            self._files[name] = file.name


class Handle:
    """What shows further objects under one `display_id`, as IPython's does."""

    def __init__(self, showing: Showing, display_id: str) -> None:
        self.display_id = display_id
        self._showing = showing

    def display(self, value: Any, **options: Any) -> None:
        """Show another object below."""
        self._showing.display(value, display_id=self.display_id, **options)

    def update(self, value: Any, **options: Any) -> None:
        """Show it in the place of the last one."""
        self.display(value, update=True, **options)


def bundle_of(value: Any) -> dict[str, Any]:
    """An object's forms by MIME type, as notebooks ask for them; one that fails is told and left out."""
    found: dict[str, Any] = {}
    if not isinstance(value, type):
        image = _tried(lambda: pack.png_of(value), value) if hasattr(type(value), "savefig") else None
        if image is not None:
            return {"image/png": image}
        mimebundle = getattr(value, "_repr_mimebundle_", None)
        if callable(mimebundle):
            made = _tried(lambda: mimebundle(include=None, exclude=None), value)
            found.update(made[0] if isinstance(made, tuple) else made or {})
        for mime, method in METHODS.items():
            made = getattr(value, method, None) if mime not in found else None
            form = _tried(made, value) if callable(made) else None
            form = form[0] if isinstance(form, tuple) else form
            if form is not None:
                found[mime] = form
    return found


def richest(bundle: dict[str, Any]) -> str:
    """The MIME type to show; empty where there is only plain text."""
    fit = [mime for mime in RICHEST_FIRST if isinstance(bundle.get(mime), (str, bytes, bytearray))]
    if len(fit) > 1 and fit[0] == "text/html" and "<script" in str(bundle["text/html"]).lower():
        # Scripts of a box never run, so that the next best form says more.
        return fit[1]
    return fit[0] if fit else ""


def as_bytes(mime: str, data: Any) -> bytes:
    """A form's bytes; notebooks hand raster images on in base64."""
    if not isinstance(data, str):
        return bytes(data)
    if mime.startswith("image/") and mime != "image/svg+xml":
        return binascii.a2b_base64(data)
    return data.encode("utf-8", "replace")


def plain_text(value: Any) -> str:
    """An object as plain text."""
    text = _tried(lambda: repr(value), value)
    return text if isinstance(text, str) else f"<{type(value).__name__}>"


def says_something(text: str) -> bool:
    """Whether a plain form is worth reading beside a richer one."""
    return not _EMPTY_WORDS.fullmatch(text)


def _tried(make: Any, value: Any) -> Any:
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - an object may do anything here
        told = f"A form of this {type(value).__name__} could not be made: {type(error).__name__}: {error}"
        print(told, file=sys.stderr)  # noqa: T201 - for the person
        return None
