"""Writes docs/commands.md from the list of commands."""

from __future__ import annotations

from pathlib import Path

from kagura_kernel.cockpit.lines.reference import commands_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

if __name__ == "__main__":
    PAGE.write_text(commands_page(), "utf-8")
    print(f"{PAGE} was written.")
