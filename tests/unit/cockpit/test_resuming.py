"""What a run that goes on is started with: as its cell says, else as the other run was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kagura_kernel.cockpit.resuming import brain_session, continued, left_budget
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.runs.request import RunRequest

STOOD = Checkpoint(
    run_id="run-1",
    session_id="ses-1",
    step=3,
    at=datetime(2026, 1, 5, tzinfo=UTC),
    task="Mend it.",
    brain="claude",
    brain_session="0a$0.1",
    budget_usd=1.0,
    spent_usd=0.25,
    options={
        "project": "/projects/one",
        "agent": "mender",
        "model": "m-1",
        "box": "docker",
        "image": "mine:1",
        "net": ["pypi"],
        "credentials": ["github:read"],
        "writable_root": True,
        "write_mode": "through",
        "command_timeout": 90.0,
        "max_turns": 9,
        "outputs": ["frame"],
        "verify": "pytest -q",
        "workers": "tcp://10.0.0.5:8786",
    },
)


def test_an_empty_cell_goes_on_as_the_other_run_was():
    assert continued(RunRequest(task="", resume="run-1"), STOOD) == RunRequest(
        task="Mend it.",
        resume="run-1",
        brain="claude",
        agent="mender",
        model="m-1",
        box="docker",
        image="mine:1",
        net=("pypi",),
        grants=("github:read",),
        writable_root=True,
        write_mode=WriteMode.THROUGH,
        command_timeout=90.0,
        max_turns=9,
        outputs=("frame",),
        verify="pytest -q",
        workers="tcp://10.0.0.5:8786",
        project=Path("/projects/one"),
    )


def test_what_the_cell_says_counts():
    said = RunRequest(
        task="And be quick.",
        brain="other",
        agent="",
        model="",
        box="bubblewrap",
        net=("none",),
        grants=("aws:read",),
        write_mode=WriteMode.ASK,
        command_timeout=0.0,
        max_turns=1,
        outputs=("other",),
        verify="",
        workers="",
        project=Path("/projects/two"),
    )
    found = continued(said, STOOD)
    assert found.task == "Mend it.\n\nAnd be quick."
    assert found._replace(task=said.task, writable_root=False) == said
    assert found.image is None


def test_options_that_are_none_of_ours_are_left_out():
    broken = replace(
        STOOD, options={"project": "/p", "net": 5, "model": 3, "write_mode": "odd", "writable_root": "yes"}
    )
    found = continued(RunRequest(task="", resume="run-1"), broken)
    assert (found.net, found.model, found.write_mode, found.writable_root) == ((), None, None, False)


@pytest.mark.parametrize(
    ("given", "limit", "spent", "usual", "left"),
    [
        (None, 1.0, 0.25, 5.0, 0.75),
        (None, 1.0, 1.5, 5.0, 0.0),
        (None, 1.0, None, 5.0, 0.0),
        (None, None, 0.25, 5.0, 5.0),
        (None, None, None, None, None),
        (2.0, 1.0, 0.25, 2.0, 2.0),
    ],
)
def test_its_budget_is_what_the_cell_names_else_what_is_left_else_the_usual(given, limit, spent, usual, left):
    stood = replace(STOOD, budget_usd=limit, spent_usd=spent)
    assert left_budget(usual, RunRequest(task="", budget_usd=given), stood) == left


def test_another_brain_does_not_get_the_conversation():
    assert brain_session(STOOD, "claude") == "0a$0.1"
    assert brain_session(STOOD, "other") == ""
