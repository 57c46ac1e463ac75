"""Writes docs/plugin-rules.md from the catalogue of the scan's rules."""

from __future__ import annotations

from pathlib import Path

from kagura_kernel.plugins.scan.catalogue import rules_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "plugin-rules.md"

if __name__ == "__main__":
    PAGE.write_text(rules_page(), "utf-8")
    print(f"{PAGE} was written.")
