"""The rules of redaction, compiled before the first run asks for them.

That takes seconds, once in a data directory. A small process of low priority does it while the person still writes the
first cell; it ends with the kernel, by the end of its standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.domain.imports import trusted_path
from kagura_kernel.journal.place import data_home

FOLDER = "redaction"
"""Where compiled rules are kept in a data directory; the same as `kit.redaction.redactor`."""

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = """import json, sys
sys.path += [entry for entry in (*json.loads(sys.argv[2]), sys.argv[1]) if entry not in sys.path]
from kagura_kernel.jupyter.ahead import main
main(sys.argv[3])"""
_NICENESS = 10


def compile_ahead(environ: Mapping[str, str]) -> threading.Thread:
    """Begin to compile the rules if there are none yet; returns at once, and nothing of it is ever an error."""
    thread = threading.Thread(target=_look_and_compile, args=(environ,), name="kagura-ahead", daemon=True)
    thread.start()
    return thread


def has_rules(folder: Path) -> bool:
    """Whether rules were compiled there by anybody. Those of an older release count: runs make them anew."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return any(not entry.name.startswith(".") for entry in entries)
    return False


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
    from kagura_kernel.kit.redaction.engine import is_taken
    from kagura_kernel.kit.redaction.redactor import Redactor

    os.nice(_NICENESS)
    threading.Thread(target=_end_with_kernel, daemon=True).start()
    if not is_taken(Path(folder)):
        Redactor(Path(folder)).wait()


def _end_with_kernel() -> None:
    os.read(0, 1)
    os._exit(0)
