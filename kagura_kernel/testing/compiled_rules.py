"""Compiled rules of redaction that tests share: each has a data directory of its own, and would wait for its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

FOLDER = "redaction"
"""What the folder of compiled rules is called in a data directory; the same as `assembly.kits.REDACTION`."""


def compiled_rules() -> Path:
    """The folder that all tests of this user share; made when needed."""
    shared = Path(tempfile.gettempdir()) / f"kagura-compiled-rules-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    return shared


def share_rules(home: Path) -> None:
    """Let a data directory, which need not exist, have the shared rules."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home / FOLDER).symlink_to(compiled_rules())
