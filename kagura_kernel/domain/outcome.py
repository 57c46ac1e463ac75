"""What a run comes back with."""

from __future__ import annotations

from dataclasses import dataclass, field

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.variables import PackedVariable


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run, as the cell's value."""

    run_id: str
    session_id: str  # The session it belonged to
    status: str  # `done`, `failed`, `stopped`, `killed`, `denied` or `lost`
    text: str = ""  # The final answer, Markdown; for `%%sandbox` what the program printed
    cost: Cost = field(default_factory=Cost)  # Money, unknown is None
    usage: Usage = field(default_factory=Usage)  # Tokens
    changes: tuple[FileChange, ...] = ()  # Files it changed, with what became of each
    duration: float = 0.0  # Seconds
    error_code: str = ""  # Stable code when it did not end well
    error: str = ""  # That error, for reading
    exit_code: int | None = None  # Of a `%%sandbox` program
    outputs: tuple[PackedVariable, ...] = field(default=(), repr=False)  # Variables that it brought back, still packed
    # Names of those that did not come, each with the reason
    missing: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verified: bool | None = None  # Whether its work passed its verification; None where there was none
    memories: tuple[str, ...] = field(default=(), repr=False)  # Ids of memories that it left, its summary first
    children: int = 0  # How many runs it handed work on to
    # What these cost with what they handed on themselves; None when that of one is unknown. `cost` is without it.
    children_usd: float | None = 0.0

    @property
    def ok(self) -> bool:
        """Whether the run ended as it was meant to."""
        return self.status == "done"

    @property
    def total_usd(self) -> float | None:
        """What it cost with all that it handed on; None when a part is unknown."""
        usd = self.cost.usd
        return None if usd is None or self.children_usd is None else usd + self.children_usd

    @property
    def changed_files(self) -> list[str]:
        """Paths of the changes, relative to the project."""
        return [change.path for change in self.changes]
