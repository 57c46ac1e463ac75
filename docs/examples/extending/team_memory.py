"""A memory of one's own: `team://NAME` is a file in a folder that a team shares."""

import os
import re
from pathlib import Path

from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.memory.sqlite.store import SqliteMemory


def open_team(where, clock):
    name = where.removeprefix("team://")
    folder = os.environ.get("TEAM_MEMORIES", "")
    if not re.fullmatch(r"[a-z]+", name) or not folder or not Path(folder).is_dir():
        raise MemoryUnavailable(where, "no such team, or no folder", "Set TEAM_MEMORIES to the team's folder.")
    return SqliteMemory(Path(folder) / f"{name}.sqlite3", clock=clock)
