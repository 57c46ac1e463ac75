"""Words that a brain in a box and what holds the box have in common."""

from __future__ import annotations

PROGRAM_DIR = "/kagura/claude"
"""Where a box has the program of a brain that thinks there."""
