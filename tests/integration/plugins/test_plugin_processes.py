"""Several processes with one data home, one of them killed: the books hold."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.plugin_rig import SESSION, PluginRig

pytestmark = pytest.mark.real_clock

DECIDING = """
import sys
from pathlib import Path
from kagura_kernel.domain.clock import SystemClock
from tests.support.plugin_rig import SESSION, PluginRig
root, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rig = PluginRig(root, clock=SystemClock())
rig.audit(name)
print("ready", flush=True)
sys.stdin.readline()
for number in range(rounds):
    examined = rig.examine(name)
    rig.manager.approve(SESSION, examined, by=name, via="test")
    rig.quarantine.put(name, examined.content_hash, str(number))
    rig.manager.audited(SESSION, examined, rig.report(examined), by=name, stored=False)
    if number % 2 or number == rounds - 1:
        continue
    rig.manager.unapprove(SESSION, name, by=name, via="test")
print("done", flush=True)
sys.stdin.readline()
"""
NAMES = ("one", "two", "three", "four")


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this code; killed in the end."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for stream in (started.stdin, started.stdout):
            stream.close()


def test_processes_that_share_a_home_do_not_lose_each_others_decisions(tmp_path):
    rig = PluginRig(tmp_path)
    for name in NAMES:
        rig.write(name)
    rounds = 9
    with (
        process(DECIDING, tmp_path, NAMES[0], rounds) as first,
        process(DECIDING, tmp_path, NAMES[1], rounds) as second,
        process(DECIDING, tmp_path, NAMES[2], rounds) as third,
        process(DECIDING, tmp_path, NAMES[3], 10_000) as killed,
    ):
        every = (first, second, third, killed)
        assert [one.stdout.readline() for one in every] == ["ready\n"] * 4
        for one in every:
            one.stdin.write("go\n")
            one.stdin.flush()
        assert first.stdout.readline() == "done\n"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert [one.stdout.readline() for one in (second, third)] == ["done\n"] * 2
    rows = {row.name: row for row in rig.manager.rows(SESSION, rig.project)}
    assert [rows[name].approved for name in NAMES[:3]] == [True] * 3
    assert [rows[name].quarantine for name in NAMES[:3]] == [""] * 3
    assert rig.manager.problems == ()
    for book in ("approvals", "quarantine"):
        kept = json.loads((rig.home / "trust" / f"{book}.json").read_text())
        assert {entry.partition(" ")[0] for entry in kept} <= set(NAMES)
    for name in NAMES[:3]:
        assert rig.changes(name).count("approved") == rounds
    assert rig.journal.verify().rows > 0
    rig.journal.close()
