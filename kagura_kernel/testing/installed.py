"""A package that is installed for one test: entry points that lead to files of the test."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def installed_package(
    site: Path, entry_points: Mapping[str, Mapping[str, str]], modules: Path | None = None, *, name: str = "house"
) -> Iterator[Path]:
    """Let a package be installed while the block lasts; the folder where its modules lie.

    Args:
        site: Where it is installed; made when it is missing, and left to whoever owns the folder.
        entry_points: Names and what they lead to, by group.
        modules: A folder whose Python files become its modules.
        name: The package's name; its version is 1.0.
    """
    site.mkdir(parents=True, exist_ok=True)
    before = set(sys.modules)
    for path in modules.glob("*.py") if modules is not None else ():
        shutil.copy(path, site)
    described = site / f"{name}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in entry_points.items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (described / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        for module in set(sys.modules) - before:
            if str(site) in str(getattr(sys.modules[module], "__file__", "") or ""):
                del sys.modules[module]
        importlib.invalidate_caches()
