from __future__ import annotations

import json
from datetime import UTC, datetime

from kagura_kernel.cli.main import main
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.memory.opening import FILE
from tests.support.sample_run import SampleRun


def test_before_anything_has_run_all_is_calm_and_the_journal_to_be_is_named(books, capsys):
    assert main(["status"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Nothing runs, nothing waits.\n")
    assert f"Journal: {books / 'journal.db'}\n" in said.out
    assert not books.exists()


def test_an_empty_journal_is_calm(journal, books, capsys):
    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Nothing runs, nothing waits.",
        "$0.0000 today (UTC).",
        f"Journal: {journal.where}",
        f"Memory: none yet at {books / FILE}",
    ]
    assert not (books / FILE).exists()


def test_a_memory_that_is_down_is_told_since_no_run_can_start(journal, books, monkeypatch, capsys):
    del journal
    monkeypatch.setenv("KAGURA_MEMORY", str(books / "mistyped" / "memory.sqlite3"))
    assert main(["status"]) == 0
    said = capsys.readouterr().out
    assert "NO AGENT CAN START: the memory cannot be used." in said.splitlines()
    assert f"the folder {books / 'mistyped'} does not exist" in said
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory_ok"] is False
    assert not (books / "mistyped").exists()


def test_what_runs_waits_is_lost_and_was_paid_today_is_told(journal, running, gone, capsys):
    today = SampleRun("run-today", at=datetime.now(UTC))
    live = running()
    for event in (
        today.started(),
        today.finished(computed_usd=0.25, source="list 1"),
        SampleRun("run-lost").started(owner=gone),
    ):
        journal.append(event)
    Mailbox(journal).post(SampleRun(live.run_id).request("app-7", title="Push\x1b[2K it"))
    assert main(["status"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert any(line.split()[:2] == ["running", live.run_id] for line in lines)
    assert any(line.split()[:2] == ["lost", "run-lost"] and "kagura-kernel kill run-lost" in line for line in lines)
    assert any(line.split()[:2] == ["waiting", "app-7"] for line in lines)
    assert "Answer with `kagura-kernel approve ID` or `kagura-kernel deny ID`." in lines
    assert "$0.2500 today (UTC)." in lines
    assert "\x1b" not in said
    assert main(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["run_id"] for row in told["running"]] == [live.run_id]
    assert [row["id"] for row in told["pending"]] == ["app-7"]
    assert (told["gone"], told["cost_today_usd"], told["unpriced_today"], told["leases"]) == (["run-lost"], 0.25, 0, 0)
