from types import SimpleNamespace

import pytest

from kagura_kernel.domain.errors import CellFailed, RunDenied, RunFailed, RunKilled, RunLost, RunUnknown, UsageError
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.jupyter.errors import KERNEL, calm, calm_lines, check


def test_our_errors_are_shown_as_one_line_without_a_traceback():
    with pytest.raises(UsageError) as caught, calm():
        raise UsageError("That \u202ewas not understood.")
    assert caught.value._render_traceback_() == ["\x1b[1mERR_USAGE\x1b[0m  That ⟨U+202E⟩was not understood."]


def test_a_kagura_kernel_is_told_its_commands_as_they_are_typed_there(monkeypatch):
    error = RunUnknown("run-1")
    assert calm_lines(error) == ["\x1b[1mERR_RUN_UNKNOWN\x1b[0m  There is no run 'run-1'. `%kagura runs` lists them."]
    shell = SimpleNamespace(kernel=SimpleNamespace(implementation=KERNEL))
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    assert calm_lines(error) == ["\x1b[1mERR_RUN_UNKNOWN\x1b[0m  There is no run 'run-1'. `/runs` lists them."]
    assert "`%%kagura --new`" in calm_lines(UsageError("`%%kagura --new` begins anew."))[0]


def test_errors_that_are_not_ours_keep_their_traceback():
    with pytest.raises(ZeroDivisionError) as caught, calm():
        _ = 1 / 0
    assert not hasattr(caught.value, "_render_traceback_")


@pytest.mark.parametrize("status", ["done", "stopped"])
def test_a_run_that_did_part_of_its_work_returns_it(status):
    outcome = RunOutcome("run-1", "ses-1", status)
    assert check(outcome) is outcome


@pytest.mark.parametrize(
    ("status", "fields", "error"),
    [
        ("failed", {"exit_code": 3, "error_code": "ERR_CELL_FAILED"}, CellFailed),
        ("failed", {"error_code": "ERR_BRAIN_LOST"}, RunFailed),
        ("denied", {"error_code": "ERR_APPROVAL_DENIED", "error": "The start was not approved."}, RunDenied),
        ("killed", {}, RunKilled),
        ("lost", {}, RunLost),
    ],
)
def test_a_run_that_did_not_get_to_its_end_stops_run_all(status, fields, error):
    with pytest.raises(error):
        check(RunOutcome("run-1", "ses-1", status, **fields))


def test_a_start_that_was_denied_is_one_line_that_says_why():
    outcome = RunOutcome("run-1", "ses-1", "denied", error_code="ERR_APPROVAL_DENIED", error="It was not approved.")
    with pytest.raises(RunDenied) as caught, calm():
        check(outcome)
    assert caught.value._render_traceback_() == [
        "\x1b[1mERR_RUN_DENIED\x1b[0m  run-1 was denied (ERR_APPROVAL_DENIED): It was not approved."
    ]


def test_a_run_that_was_stopped_is_one_calm_line_that_says_by_whom():
    outcome = RunOutcome("run-1", "ses-1", "killed", error_code="ERR_RUN_KILLED", error="run-1 was stopped by bob.")
    with pytest.raises(RunKilled) as caught, calm():
        check(outcome)
    assert caught.value._render_traceback_() == ["run-1 was stopped by bob."]
