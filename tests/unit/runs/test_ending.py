from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import (
    ApprovalAborted,
    BrainLost,
    BudgetExhausted,
    RunKilled,
    SandboxDied,
    TurnsExhausted,
)
from kagura_kernel.runs.ending import ending_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunKilled("run-1", "ann"), "killed"),
        (ApprovalAborted("a command"), "killed"),
        (BudgetExhausted(1, 1), "stopped"),
        (TurnsExhausted(3), "stopped"),
        (SandboxDied("box-1", "out of memory"), "failed"),
        (BrainLost("claude", "it ended"), "failed"),
    ],
)
def test_what_ended_a_run_decides_its_status_and_code(error, status):
    ending = ending_of(error)
    assert (ending.status, ending.error_code) == (status, error.code)  # type: ignore[attr-defined]
    assert ending.error_text == error.args[0]


def test_an_unforeseen_error_is_named_by_its_type_and_its_text_is_kept_back():
    ending = ending_of(KeyError("a secret"))
    assert (ending.status, ending.error_code) == ("failed", "ERR_INTERNAL")
    assert "KeyError" in ending.error_text
    assert "secret" not in ending.error_text
