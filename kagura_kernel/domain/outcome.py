"""What a run comes back with."""

from __future__ import annotations

from dataclasses import dataclass, field

from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.variables import PackedVariable


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The end of a run, as the cell's value.

    Attributes:
        run_id: `run-…`.
        session_id: The session it belonged to.
        status: `done`, `failed`, `stopped`, `killed`, `denied` or `lost`.
        text: The final answer, Markdown; for `%%sandbox` what the program printed.
        cost: Money, unknown is None.
        usage: Tokens.
        changes: Files it changed, with what became of each.
        duration: Seconds.
        error_code: Stable code when it did not end well.
        error: That error, for reading.
        exit_code: Of a `%%sandbox` program.
        outputs: Variables that it brought back, still packed.
        missing: Names of those that did not come, each with the reason.
        verified: Whether its work passed its verification; None where there was none.
        memories: Ids of memories that it left, its summary first.
        children: How many runs it handed work on to.
        children_usd: What these cost with what they handed on themselves; None when that of one is unknown. `cost` is
            without it.
    """

    run_id: str
    session_id: str
    status: str
    text: str = ""
    cost: Cost = field(default_factory=Cost)
    usage: Usage = field(default_factory=Usage)
    changes: tuple[FileChange, ...] = ()
    duration: float = 0.0
    error_code: str = ""
    error: str = ""
    exit_code: int | None = None
    outputs: tuple[PackedVariable, ...] = field(default=(), repr=False)
    missing: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verified: bool | None = None
    memories: tuple[str, ...] = field(default=(), repr=False)
    children: int = 0
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
