"""What the bridge itself says, on its standard error, beside what its program says there."""

from __future__ import annotations

import sys


def complain(text: str) -> None:
    """One line for whoever reads why a server did not start."""
    sys.stderr.write(f"[kagura] {text}\n")
    sys.stderr.flush()
