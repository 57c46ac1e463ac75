"""Agents and files of kits as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kagura_kernel.jupyter.tables import table_of

if TYPE_CHECKING:
    import pandas as pd

    from kagura_kernel.cockpit.kits import NamedAgent
    from kagura_kernel.domain.kit import StagedFile

_FILES = {
    "file": ("target", "string"),
    "bytes": ("size", "Int64"),
    "redactions": ("redactions", "Int64"),
    "kinds": ("kinds", "string"),
}
_AGENTS = {
    "agent": ("name", "string"),
    "from": ("origin", "string"),
    "description": ("description", "string"),
}
_PROBLEM = {"problem": ("problem", "string")}


@dataclass(frozen=True, slots=True)
class _FileLine:
    target: str
    size: int
    redactions: int
    kinds: str


def files_table(files: Sequence[StagedFile]) -> pd.DataFrame:
    """One line for each file of a kit; `kinds` is what its redactions were of."""
    lines = [_FileLine(one.target, one.size, one.redactions, ", ".join(one.kinds)) for one in files]
    return table_of(lines, _FILES)


def agents_table(agents: Sequence[NamedAgent]) -> pd.DataFrame:
    """One line for each agent that has a name; where one cannot be used, `problem` says why, NA for the others."""
    broken = any(one.problem for one in agents)
    return table_of(agents, _AGENTS | _PROBLEM if broken else _AGENTS)
