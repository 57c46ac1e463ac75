"""What the tables of the views must hold, counted anew from the events, in memory.

The same rules as in `projection`, without a database: that one is told each event as it comes, this one all of them.
"""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    BoxStarted,
    ChangesCollected,
    Event,
    RunFinished,
    RunPlanned,
    RunStarted,
    TurnCounted,
)
from kagura_kernel.journal.encoding import decode
from kagura_kernel.journal.projection import (
    answer_values,
    blank_run,
    ledger_values,
    new_run,
    question_values,
    turn_values,
)

_CALLED = "tool.called"
_KINDS = frozenset(
    {
        "run.started",
        "run.planned",
        "run.finished",
        "box.started",
        "changes.collected",
        "turn.counted",
        "approval.requested",
        "approval.decided",
    }
)
_ADDED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_UNDECIDED = {"verdict": None, "decided_by": None, "via": None, "decided_at": None, "answer": None}


class Recount:
    """The tables as the events so far make them.

    Attributes:
        runs: Rows of `journal_runs` by run id.
        approvals: Rows of `journal_approvals` by approval id, undecided unless an event decided them.
        asked_at: Number of the event that asked, by approval id.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.approvals: dict[str, dict[str, Any]] = {}
        self.asked_at: dict[str, int] = {}

    def add(self, seq: int, kind: str, run_id: str, body: str) -> None:
        """Count one stored row; one that no view shows changes nothing.

        Raises:
            ValueError: it is no event.
        """
        if kind == _CALLED:
            # By far the most frequent, and nothing in it matters.
            if run_id in self.runs:
                self.runs[run_id]["tool_calls"] += 1
        elif kind in _KINDS:
            self._event(seq, decode(body))

    def may_hold_a_decision(self, run_id: str) -> bool:
        """Whether a decision that no event has stored may lie in the mailbox for this run.

        While the run goes on it may come any moment. A run that was lost can have had nobody to take it out.
        """
        return run_id in self.runs and self.runs[run_id]["status"] in {"running", "lost"}

    def goes_on(self, run_id: str) -> bool:
        """Whether the run has started and not finished."""
        return run_id in self.runs and self.runs[run_id]["status"] == "running"

    def _event(self, seq: int, event: Event) -> None:
        match event:
            case RunStarted():
                self.runs.setdefault(event.run_id, new_run(seq, event))
            case ApprovalRequested():
                self._ask(seq, event)
            case ApprovalDecided():
                if event.approval_id in self.approvals:
                    self.approvals[event.approval_id].update(answer_values(event))
            case RunFinished():
                self._finish(self.runs.setdefault(event.run_id, blank_run(seq, event)), event)
            case _ if event.run_id in self.runs:
                _note(self.runs[event.run_id], event)

    def _ask(self, seq: int, event: ApprovalRequested) -> None:
        if event.approval_id not in self.approvals:
            owner = self.runs[event.run_id]["owner"] if event.run_id in self.runs else ""
            self.approvals[event.approval_id] = question_values(event) | {"owner": owner} | _UNDECIDED
            self.asked_at[event.approval_id] = seq

    @staticmethod
    def _finish(run: dict[str, Any], event: RunFinished) -> None:
        ledger = ledger_values(event)
        kept = {name: run[name] for name in ("brain", "model") if not ledger[name]}
        if ledger["changed_files"] is None:
            kept["changed_files"] = run["changed_files"]
        run.update(ledger | kept)


def _note(run: dict[str, Any], event: Event) -> None:
    match event:
        case RunPlanned() if event.by:
            run["budget_usd"] = event.agreed_usd
        case BoxStarted():
            run["box"] = event.backend
        case ChangesCollected():
            run["changed_files"] += len(event.changes)
        case TurnCounted():
            turn = turn_values(event)
            before, price = run["computed_usd"], turn["computed_usd"]
            if run["turns"]:
                # Unknown stays unknown, as a sum in SQL has it.
                price = None if before is None or price is None else before + price
            run.update({name: run[name] + turn[name] for name in _ADDED})
            run.update(
                computed_usd=price,
                turns=run["turns"] + 1,
                model=turn["model"] or run["model"],
                cost_source=turn["cost_source"],
            )
