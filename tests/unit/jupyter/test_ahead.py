"""The rules of redaction are compiled before they are needed, beside the kernel, and no longer than it lives."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from kagura_kernel.jupyter import ahead
from kagura_kernel.kit.redaction import redactor
from kagura_kernel.testing.false_home import compiled_rules
from kagura_kernel.testing.patience import wait_until
from tests.support.redactors import shared_redactor

KERNEL = """import os, time
from pathlib import Path
import kagura_kernel
from kagura_kernel.jupyter.ahead import compile_ahead
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
    return b"kagura_kernel.jupyter.ahead" in words


def test_rules_are_compiled_by_a_process_of_low_priority_that_ends_with_a_killed_kernel(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        env={**os.environ, "KAGURA_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as kernel:
        (child,) = map(int, kernel.stdout.readline().split())
        wait_until(lambda: is_ours(child))
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) == min(19, os.nice(0) + ahead._NICENESS))
        kernel.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_ours(child))
    assert redactor.FOLDER == ahead.FOLDER


def test_nothing_is_started_where_rules_are(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(ahead.subprocess, "Popen", lambda *words, **_: started.append(words))
    folder = tmp_path / ahead.FOLDER
    folder.mkdir()
    (folder / ".compiling").touch()
    assert not ahead.has_rules(folder), "somebody has begun"
    (folder / "0123.vscdb").touch()
    ahead.compile_ahead({"KAGURA_HOME": str(tmp_path)}).join()
    assert started == []


def test_what_stands_against_it_is_left_to_the_run_that_needs_the_rules(tmp_path, monkeypatch):
    failed = []
    monkeypatch.setattr(ahead.threading, "excepthook", failed.append)
    monkeypatch.setattr(ahead.sys, "executable", str(tmp_path / "gone"))
    ahead.compile_ahead({"KAGURA_HOME": str(tmp_path)}).join()
    assert failed == []


def test_the_rules_that_are_found_are_those_of_a_redactor():
    shared_redactor().wait()
    assert ahead.has_rules(compiled_rules())
