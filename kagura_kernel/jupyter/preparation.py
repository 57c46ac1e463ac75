"""What the first run needs, made ready while the person still writes the cell that asks for it.

Two thirds of what a first cell takes are imports. A thread does them one by one, between cells and never beside one.
The process that starts boxes starts at once, where they will be bubblewrap's. Where a kernel loads the extension by
itself, all of it comes after its first answer. Everything else (a journal, a box, an engine) is left to the cell: who
writes none has spent nothing but memory.

The rules of redaction take seconds to compile, once in a data directory. A small process of low priority does it; it
ends with the kernel, by the end of its standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kagura_kernel.domain.imports import trusted_path
from kagura_kernel.journal.place import data_home, read_settings
from kagura_kernel.kit.redaction.known_rules import FOLDER, begin, has_rules, is_taken, scanner
from kagura_kernel.sandbox.supervisor.launched import end_spare

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = """import json, sys
sys.path += [entry for entry in (*json.loads(sys.argv[2]), sys.argv[1]) if entry not in sys.path]
from kagura_kernel.jupyter.preparation import main
main(sys.argv[3])"""
_NICENESS = 10


_MODULES = (
    "kagura_kernel.domain.events",
    "kagura_kernel.kit.redaction.redactor",
    "kagura_kernel.assembly.places",
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "kagura_kernel.runs.order",
    "kagura_kernel.assembly.services",
    "kagura_kernel.journal.sqlite",
    "kagura_kernel.journal.projection",
    "kagura_kernel.journal.verification",
    "kagura_kernel.memory.location",
    "kagura_kernel.brain.claude",
    "kagura_kernel.brain.kagura_brain",
    "kagura_kernel.brain.pydantic_ai",
    "kagura_kernel.brain.sealed",
    "re2",
    "kagura_kernel.sandbox.images.recipes",
    "kagura_kernel.jupyter.cell",
    "kagura_kernel.jupyter.forms",
    "kagura_kernel.jupyter.follow",
    "kagura_kernel.jupyter.live_run",
    "kagura_kernel.sandbox.docker.backend",
    "kagura_kernel.sandbox.bubblewrap",
)
"""What every first run imports, in pieces after each of which a cell can have its turn."""
_CLAUDE = (
    "mcp.types",
    "mcp",
    "claude_agent_sdk",
    "kagura_kernel.brain.claude_talk",
    "anyio._backends._asyncio",
    "kagura_kernel.assembly.brains",
    "kagura_kernel.memory.sqlite.store",
    "genai_prices",
    "markdown_it",
)
"""What runs of the Claude brain import beside, where somebody is signed in or has a key."""
_ANSWERS_WITHIN = 0.3
"""Seconds that a kernel which still starts may take to its first answer, which nothing here is to slow down."""
_CELL_ENDS_WITHIN = 10.0
"""Seconds; where the extension is loaded by no cell, none ends. One that does more after it still imports."""


_preparations: WeakKeyDictionary[InteractiveShell, Preparation] = WeakKeyDictionary()


def prepare(shell: InteractiveShell, environ: Mapping[str, str]) -> Preparation:
    """Begin to import what the first run of this shell needs; returns at once."""
    leave_be(shell)
    preparation = _preparations[shell] = Preparation(shell, environ)
    preparation.start()
    return preparation


def leave_be(shell: InteractiveShell) -> None:
    """Prepare nothing more for this shell."""
    if (preparation := _preparations.pop(shell, None)) is not None:
        preparation.stop()


class Preparation:
    """The imports of one shell's first run; starts nothing else, and nothing of it is ever an error."""

    def __init__(self, shell: InteractiveShell, environ: Mapping[str, str]) -> None:
        self._events = shell.events
        self._environ = environ
        self._free, self._over = threading.Event(), threading.Event()
        # A kernel that loads the extension itself has heard no message by then.
        self._starts = getattr(shell, "parent_header", None) == {}
        self._asked = threading.Event()
        # Two threads that import what imports each other may find one half of it missing.
        self._imports = threading.Lock()
        self._thread = threading.Thread(target=self._prepare, name="kagura-preparation", daemon=True)

    def start(self) -> None:
        """Begin once the cell that loads the extension has ended."""
        self._events.register("pre_execute", self._begun)
        self._events.register("post_execute", self._ended)
        self._thread.start()

    def stop(self) -> None:
        """Import nothing more, and end what was started; may be called twice.

        What is being imported now comes to its end.
        """
        self._over.set()
        self._free.set()
        self._asked.set()
        end_spare()
        for name, callback in (("pre_execute", self._begun), ("post_execute", self._ended)):
            with contextlib.suppress(ValueError):
                self._events.unregister(name, callback)

    def wait(self) -> None:
        """Return when everything is imported, or nothing more will be."""
        self._thread.join()

    def _begun(self) -> None:
        self._asked.set()
        self._free.clear()
        with self._imports:
            pass

    def _ended(self) -> None:
        self._free.set()

    def _prepare(self) -> None:
        # Whatever stands against it is told by the cell that needs it.
        with contextlib.suppress(Exception):
            if self._starts and not self._asked.wait(_ANSWERS_WITHIN):
                self._free.set()
            settings = read_settings(self._environ)
            if not settings.prepare or self._over.is_set():
                return
            # Both work beside the cell that loads us, and beside the first one where that follows at once.
            self._read_rules()
            from kagura_kernel.assembly.first_box import start_supervisor

            start_supervisor(settings, self._environ)
            if self._over.is_set():
                end_spare()
            if not self._free.wait(_CELL_ENDS_WITHIN):
                self._free.set()
            self._import(_MODULES)

            from kagura_kernel.brain.claude_auth import resolve
            from kagura_kernel.brain.provider import AUTO, CLAUDE

            if settings.brain in (AUTO, CLAUDE) and resolve(self._environ).ready:
                self._import(_CLAUDE)

    def _import(self, names: Sequence[str]) -> None:
        for name in names:
            while not self._imported(name):
                self._free.wait()
            if self._over.is_set():
                return
            self._read_rules()

    def _imported(self, name: str) -> bool:
        """Whether it is, or nothing is to be imported any more; False while a cell has its turn."""
        with self._imports:
            if not self._free.is_set():
                return False
            if not self._over.is_set():
                import_module(name)
            return True

    def _read_rules(self) -> None:
        """Begin to read the rules, which takes as long as a third of the imports, beside them.

        Those that are still compiled wait for the next look.
        """
        folder = data_home(self._environ) / FOLDER
        if has_rules(folder):
            begin(folder)


def compile_ahead(environ: Mapping[str, str]) -> threading.Thread:
    """Begin to compile the rules if there are none yet; returns at once, and nothing of it is ever an error."""
    thread = threading.Thread(target=_look_and_compile, args=(environ,), name="kagura-ahead", daemon=True)
    thread.start()
    return thread


def _look_and_compile(environ: Mapping[str, str]) -> None:
    # Whatever stands against it is told by the run that needs the rules, which compiles them itself then.
    with contextlib.suppress(OSError, RuntimeError):
        folder = data_home(environ) / FOLDER
        if has_rules(folder):
            return
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, _ROOT, json.dumps(trusted_path()), str(folder)]
        with subprocess.Popen(  # noqa: S603 - our own module and our own words
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # An interrupt of the kernel is not for it.
            start_new_session=True,
            cwd="/",
            env={},
        ) as child:
            child.wait()


def main(folder: str) -> None:
    """What the process does: compile, unless another one is at it, and end as soon as the kernel has."""
    os.nice(_NICENESS)
    threading.Thread(target=_end_with_kernel, daemon=True).start()
    if not is_taken(Path(folder)):
        scanner(Path(folder))


def _end_with_kernel() -> None:
    os.read(0, 1)
    os._exit(0)
