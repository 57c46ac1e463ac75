"""What the tables of the views must hold, counted anew from the events, in memory.

The same rules as in `projection`, without a database: that one is told each event as it comes, this one all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
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
from kagura_kernel.journal.encoding import check_columns, decode
from kagura_kernel.journal.projection import (
    MOST,
    TOKENS,
    UNDECIDED,
    answer_values,
    blank_run,
    check_values,
    ledger_values,
    new_run,
    question_values,
    turn_values,
)
from kagura_kernel.journal.rows import CALLED, COUNTED, COUNTED_KINDS, StoredRow

_TEXT = r'"([^"\\\x00-\x1f\x7f]*)"'
_COUNT = r"(-?\d{1,18})"
_PLAIN_TURN = re.compile(
    rf'\{{"kind":"turn\.counted","run_id":{_TEXT},"session_id":"[^"\\\x00-\x1f\x7f]*","at":"([0-9T:.-]+Z)",'
    rf'"model":{_TEXT},"input_tokens":{_COUNT},"output_tokens":{_COUNT},"cache_read_tokens":{_COUNT},'
    rf'"cache_write_tokens":{_COUNT},"computed_usd":(null|-?\d+\.\d+(?:e[+-]?\d+)?),"source":{_TEXT}\}}',
    re.ASCII,
)
"""A turn as it is written now, if it needs no escape: the check of a whole event costs several times as much, and there
is one for each answer of a brain."""


class Recount:
    """The tables as the events so far make them."""

    def __init__(self, *, anybodys: bool = False) -> None:
        self._anybodys = anybodys  # Whether anybody may have written these rows, and not this program alone
        self.runs: dict[str, dict[str, Any]] = {}  # Rows of `journal_runs` by run id
        # Rows of `journal_approvals` by approval id, undecided unless an event decided them
        self.approvals: dict[str, dict[str, Any]] = {}
        self.asked_at: dict[str, int] = {}  # Number of the event that asked, by approval id

    def add(self, row: StoredRow) -> None:
        """Count one stored row; one that no view shows changes nothing.

        Raises:
            ValueError: it is no event.
        """
        kind, body = row[2], row[5]
        if kind == CALLED:
            # By far the most frequent, and nothing in it matters.
            if (run := self.runs.get(row[3].decode("utf-8", "surrogateescape"))) is not None:
                run["tool_calls"] += 1
        elif kind == COUNTED and body.isascii() and (found := _PLAIN_TURN.fullmatch(body.decode())) is not None:
            run_id, at, model, *counts, price, source = found.groups()
            datetime.fromisoformat(at)
            if run_id.encode() != row[3]:
                raise ValueError("the row is not what its columns say")
            tokens, usd = [*map(int, counts)], None if price == "null" else float(price)
            if self._anybodys and max(map(abs, (*tokens, usd or 0.0))) > MOST:
                raise ValueError("its numbers fit no table")
            if (run := self.runs.get(run_id)) is not None:
                _add_turn(run, tokens, usd, model, source)
        elif bytes(kind) in COUNTED_KINDS:
            event = decode(body.decode("utf-8", "surrogateescape"))
            check_columns(event, kind.decode("utf-8", "surrogateescape"), row[3].decode("utf-8", "surrogateescape"))
            if self._anybodys:
                check_values(event)
            self._event(row[0], event)

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
                asked = self.approvals.get(event.approval_id)
                # A run answers for its own questions alone.
                if asked is not None and asked["run_id"] == event.run_id:
                    asked.update(answer_values(event))
            case RunFinished():
                self._finish(self.runs.setdefault(event.run_id, blank_run(seq, event)), event)
            case _ if event.run_id in self.runs:
                _note(self.runs[event.run_id], event)

    def _ask(self, seq: int, event: ApprovalRequested) -> None:
        if event.approval_id not in self.approvals:
            owner = self.runs[event.run_id]["owner"] if event.run_id in self.runs else ""
            self.approvals[event.approval_id] = question_values(event) | {"owner": owner} | UNDECIDED
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
            counts = (turn[name] for name in TOKENS)
            _add_turn(run, counts, turn["computed_usd"], turn["model"], turn["cost_source"])


def _add_turn(run: dict[str, Any], counts: Iterable[int], price: float | None, model: str, source: str) -> None:
    if run["turns"]:
        # Unknown stays unknown, as a sum in SQL has it.
        before = run["computed_usd"]
        price = None if before is None or price is None else before + price
    for name, count in zip(TOKENS, counts, strict=True):
        run[name] += count
    run["computed_usd"] = price
    run["turns"] += 1
    run["cost_source"] = source
    if model:
        run["model"] = model
