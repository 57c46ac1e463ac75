"""Names of files below a directory, as far as they are typed; hidden ones only for who asks for them."""

from __future__ import annotations

import os
from pathlib import Path

from kagura_kernel.cockpit.lines.lookup import Name
from kagura_kernel.domain.grammar import Kind

MOST = 200
"""So many names are given."""

LOOKED_AT = 5000
"""So many entries of a folder are looked at: one may hold millions."""


def files(base: Path, prefix: str, kind: Kind, *, outside: bool) -> list[Name]:
    """Names that begin like this, folders first and with a slash behind them; sorted.

    Args:
        base: Where a relative name begins.
        prefix: What is typed so far, with slashes.
        kind: `DIRECTORY` for folders alone, `NOTEBOOK` for notebooks and folders.
        outside: Whether names outside `base` may be typed.

    Raises:
        OSError: the folder cannot be read.
    """
    folder, _, begin = prefix.rpartition("/")
    place = base / os.path.expanduser(f"{folder}/" if folder or prefix.startswith("/") else "")  # noqa: PTH111
    if not outside and not place.resolve().is_relative_to(base.resolve()):
        return []
    head = prefix[: len(prefix) - len(begin)]
    found: list[tuple[bool, str]] = []
    with os.scandir(place) as entries:
        for count, entry in enumerate(entries):
            if count == LOOKED_AT:
                break
            if not entry.name.startswith(begin) or (entry.name.startswith(".") and not begin.startswith(".")):
                continue
            is_folder = entry.is_dir()
            if is_folder or _fits(entry.name, kind):
                found.append((not is_folder, f"{head}{entry.name}{'/' if is_folder else ''}"))
    # A name that cannot be typed is not offered.
    return [Name(text) for _, text in sorted(found) if text.isprintable()][:MOST]


def _fits(name: str, kind: Kind) -> bool:
    if kind is Kind.NOTEBOOK:
        return name.endswith(".ipynb")
    return kind is not Kind.DIRECTORY
