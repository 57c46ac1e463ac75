"""Reads what the previews of changed files take, as much of it as one card bears."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.jupyter.cards.previews import wanted

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

FILES = 24
BYTES = 2_000_000
"""Of all previews of one card: images among them end up in the notebook file."""


def previews_of(cockpit: Cockpit, changes: Mapping[str, ChangeRow]) -> dict[str, bytes]:
    """By path, the beginnings of changed files; those that are kept nowhere any more are left out."""
    found: dict[str, bytes] = {}
    left = BYTES
    for change in changes.values():
        size = wanted(change)
        if not size or size > left or not change.new_sha256:
            continue
        data = cockpit.changed_content(change.new_sha256, size)
        if data is None:
            continue
        found[change.path] = data
        left -= size
        if len(found) == FILES:
            break
    return found
