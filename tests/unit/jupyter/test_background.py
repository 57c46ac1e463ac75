"""A run in the background needs its person: who is told, when, and how often."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.domain.errors import JournalUnreadable
from kagura_kernel.jupyter import background, preparation
from kagura_kernel.jupyter.background import Bell, LateCard
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.kit.redaction import redactor
from kagura_kernel.testing.false_home import compiled_rules
from kagura_kernel.testing.patience import wait_until
from tests.support.redactors import shared_redactor
from tests.support.told_run import ToldRun


class Shell:
    """As much of IPython as the bell needs."""

    def __init__(self):
        self.registered = []
        self.events = SimpleNamespace(
            register=lambda _name, call: self.registered.append(call),
            unregister=lambda _name, call: self.registered.remove(call),
        )

    def cell_over(self):
        for call in list(self.registered):
            call(None)


@pytest.fixture
def surface(monkeypatch):
    """Where the cells are; a test may change it."""
    found = SimpleNamespace(now=Surface.NOTEBOOK)
    monkeypatch.setattr(background, "surface_of", lambda _shell: found.now)
    return found


def begun(surface):
    run, shell = ToldRun("run-7"), Shell()
    run.tell(run.sample.started(), run.sample.boxed())
    return run, shell, Bell(run, shell, surface)


LINE = "run-7 waits for you: Run a command on this machine. Answer: %kagura attach run-7\n"


def test_below_the_next_cell_stands_one_line_once(surface, capsys):
    run, shell, _ = begun(surface.now)
    shell.cell_over()
    run.tell(run.sample.asked())
    assert capsys.readouterr().out == ""
    shell.cell_over()
    assert capsys.readouterr().out == LINE
    shell.cell_over()
    run.decide("app-1", allow=True, by="ann", via="cell")
    run.tell(run.sample.asked("app-2"), run.sample.asked("app-3"))
    shell.cell_over()
    assert capsys.readouterr().out == LINE.replace(". Answer", ", and 1 more. Answer")


def test_below_the_cell_that_shows_the_card_nothing_is_said(surface, capsys):
    run, shell, _ = begun(surface.now)
    run.tell(run.sample.asked())
    shell.cell_over()
    assert capsys.readouterr().out == ""


def test_a_question_that_was_answered_before_the_cell_was_over_is_not_told(surface, capsys):
    run, shell, _ = begun(surface.now)
    shell.cell_over()
    run.tell(run.sample.asked())
    run.decide("app-1", allow=False, by="ann", via="sidebar")
    shell.cell_over()
    assert capsys.readouterr().out == ""


def test_a_cell_that_runs_without_a_person_tells_nothing(surface, capsys):
    run, shell, _ = begun(surface.now)
    shell.cell_over()
    run.tell(run.sample.asked())
    surface.now = Surface.HEADLESS
    shell.cell_over()
    assert capsys.readouterr().out == ""


def test_a_run_that_was_begun_without_a_person_listens_to_no_cell(surface):
    _, shell, bell_of_it = begun(Surface.HEADLESS)
    assert surface
    assert shell.registered == []
    assert bell_of_it.status == "running"


def test_a_card_whose_journal_was_closed_before_the_end_of_the_cell_is_shown_as_far_as_it_goes():
    shown = []

    def finish(view):
        shown.append(view.started.run_id)
        raise JournalUnreadable("here", "it was closed")

    run, shell = ToldRun("run-7"), Shell()
    LateCard(run, SimpleNamespace(finish=finish), shell)
    run.tell(run.sample.started(), run.sample.finished())
    shell.cell_over()
    assert (shown, shell.registered) == (["run-7"], [])


def test_in_a_terminal_the_bell_sounds_once_for_each_question(surface, monkeypatch):
    rung = []
    monkeypatch.setattr("kagura_kernel.jupyter.background.ring", lambda: rung.append(1))
    surface.now = Surface.TERMINAL
    run, _, _ = begun(surface.now)
    run.tell(run.sample.asked(), run.sample.asked("app-2"))
    assert len(rung) == 2


def test_after_the_end_no_cell_is_listened_to_any_more(surface, capsys):
    run, shell, found = begun(surface.now)
    run.tell(run.sample.asked(), run.sample.finished())
    shell.cell_over()
    shell.cell_over()
    assert shell.registered == []
    assert capsys.readouterr().out == ""
    assert (found.status, found.waits_for) == ("done", "")


def test_the_status_is_that_of_the_run(surface):
    run, _, found = begun(surface.now)
    assert found.status == "running"
    run.tell(run.sample.asked())
    assert (found.status, found.waits_for) == ("waiting", "Run a command on this machine")
    run.decide("app-1", allow=True, by="ann", via="cell")
    assert found.status == "running"
    run.kill(by="ann")
    assert found.status == "killed"


KERNEL = """import os, time
from pathlib import Path
import kagura_kernel
from kagura_kernel.jupyter.preparation import compile_ahead
compile_ahead(os.environ)
tasks = Path("/proc/self/task")
while not (found := " ".join((one / "children").read_text() for one in tasks.iterdir()).split()):
    time.sleep(0.005)
print(*found, flush=True)
time.sleep(60)"""


def is_ours(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"kagura_kernel.jupyter.preparation" in words


def test_rules_are_compiled_by_a_process_of_low_priority_that_ends_with_a_killed_kernel(tmp_path):
    home = tmp_path / "home"
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL], env={**os.environ, "KAGURA_HOME": str(home)}, stdout=subprocess.PIPE, text=True
    ) as kernel:
        (child,) = map(int, kernel.stdout.readline().split())
        wait_until(lambda: is_ours(child))
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) == min(19, os.nice(0) + preparation._NICENESS))
        wait_until((home / preparation.FOLDER).is_dir)
        assert stat.S_IMODE(home.stat().st_mode) == 0o700, "it is the first that makes it, for one person alone"
        kernel.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_ours(child))
    assert redactor.FOLDER == preparation.FOLDER


def test_nothing_is_started_where_rules_are(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(preparation.subprocess, "Popen", lambda *words, **_: started.append(words))
    folder = tmp_path / preparation.FOLDER
    folder.mkdir()
    (folder / ".compiling").touch()
    assert not preparation.has_rules(folder), "somebody has begun"
    (folder / "0123.vscdb").touch()
    preparation.compile_ahead({"KAGURA_HOME": str(tmp_path)}).join()
    assert started == []


def test_what_stands_against_it_is_left_to_the_run_that_needs_the_rules(tmp_path, monkeypatch):
    failed = []
    monkeypatch.setattr(preparation.threading, "excepthook", failed.append)
    monkeypatch.setattr(preparation.sys, "executable", str(tmp_path / "gone"))
    preparation.compile_ahead({"KAGURA_HOME": str(tmp_path)}).join()
    assert failed == []


def test_the_rules_that_are_found_are_those_of_a_redactor():
    shared_redactor().wait()
    assert preparation.has_rules(compiled_rules())
