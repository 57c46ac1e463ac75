"""Runs the scan in a process of its own: a source that is too much for Python's parser ends that process alone."""

from __future__ import annotations

import ast
import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = str(Path(__file__).resolve().parent)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from reader.main import main; main()"
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """What the process answered.

    Attributes:
        findings: Rule, message, file and line of each.
        uses: What the sources reach for themselves.
        library: What they reach for through `kagura_plugin`.
        schema: The value of `SCHEMA`.
        failed: Why there is no answer; empty when there is one.
    """

    findings: Sequence[tuple[str, str, str, int]] = ()
    uses: frozenset[str] = frozenset()
    library: frozenset[str] = frozenset()
    schema: Any | None = None
    failed: str = ""


def read_sources(files: Mapping[str, bytes], source: str, *, seconds: float = _SECONDS) -> Read:
    """Scan sources; blocks until the process has answered, or is ended.

    Args:
        files: Bytes of every Python file, by its path in the plugin's directory.
        source: Which of them is `plugin.py`.
        seconds: When to end the process.
    """
    request = {"source": source, "files": {path: base64.b64encode(data).decode() for path, data in files.items()}}
    try:
        answer = subprocess.run(  # noqa: S603 - our own program; what is scanned goes in as data
            [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", _PROGRAM, _FOLDER],
            input=json.dumps(request).encode(),
            capture_output=True,
            check=False,
            timeout=seconds,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Read(failed=f"It took longer than {seconds:g} s and was ended.")
    if answer.returncode != 0:
        return Read(failed=_why(answer.returncode, answer.stderr))
    told = json.loads(answer.stdout)
    return Read(
        [(rule, message, file, line) for rule, message, file, line in told["findings"]],
        frozenset(told["uses"]),
        frozenset(told["library"]),
        None if told["schema"] is None else ast.literal_eval(told["schema"]),
    )


def _why(status: int, words: bytes) -> str:
    if b"MemoryError" in words:
        return "It needed more memory than a scan may have."
    if b"RecursionError" in words:
        return "It is nested deeper than a scan follows."
    return f"Its process ended with status {status}."
