"""Runs a program as an ordinary user, on the system's Python: what root's own tests cannot show."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534


def as_nobody(program: str, place: Path, lines: Sequence[str]) -> Any:
    """What the program prints, as JSON; it is given the package's directory, a place and the lines.

    Skips the test where this is no root, which runs everything as an ordinary user anyway, and where there is no Python
    that every user may run.
    """
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.access(path, os.X_OK)), None)
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one: the tests before this one say the same")
    if python is None:
        pytest.skip("needs a Python that every user may run: apt install python3")
    result = subprocess.run(
        [python, "-I", "-S", "-B", "-c", program, str(ROOT), str(place), json.dumps(list(lines))],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
