"""Several processes with one data home, one of them killed: the books hold."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.plugin_talk import EnablePlugin
from kagura_kernel.domain.events import Noted, RunFinished
from kagura_kernel.domain.plugins import PluginState, Risk
from kagura_kernel.journal.mailbox import send_plugin_word
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.run import NONE_ENABLED
from kagura_kernel.testing.false_home import share_rules
from kagura_kernel.testing.patience import wait_until
from tests.support.plugin_rig import SESSION, PluginRig, write_plugin

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
    assert (rig.approvals.problem, rig.quarantine.problem) == ("", "")
    for book in ("approvals", "quarantine"):
        kept = json.loads((rig.home / "trust" / f"{book}.json").read_text())
        assert {entry.partition(" ")[0] for entry in kept} <= set(NAMES)
    for name in NAMES[:3]:
        assert rig.changes(name).count("approved") == rounds
    assert rig.journal.verify().rows > 0
    rig.journal.close()


GREETS = "from kagura_host import greeter\nprint(greeter.greet('ada'))"


class Session:
    """A cockpit with a plugin in its project."""

    def __init__(self, root: Path, cockpit: Cockpit, home: Path) -> None:
        self.cockpit = cockpit
        self.plugin = write_plugin(root / "plugins")  # The plugin's directory
        self.elsewhere = Journal.open(home)  # The journal as another process has it open

    def enable(self, *words: str) -> None:
        intent = EnablePlugin(name="greeter", static=True, headless=True, accept=Risk.MEDIUM, words=words)
        assert self.cockpit.plugins.enable(intent).result(60).state is PluginState.ENABLED

    def run(self, code: str = GREETS) -> tuple[RunFinished, list[str]]:
        handle = self.cockpit.launch(RunRequest(language="python", task=code))
        handle.result(60)
        rows = [row.event for row in self.cockpit.journal.events(run_id=handle.run_id)]
        notes = [event.text for event in rows if isinstance(event, Noted)]
        (end,) = (event for event in rows if isinstance(event, RunFinished))
        return end, notes

    def say(self, deed: str, **more: object) -> None:
        send_plugin_word(self.elsewhere, self.cockpit.session_id, deed, "greeter", by="bob", via="sidebar", **more)

    @property
    def state(self) -> PluginState:
        return self.cockpit.plugins.row("greeter").state


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    environ = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
        "KAGURA_HOME": str(home),
        "KAGURA_CONFIG": str(tmp_path / "none.toml"),
        "KAGURA_BOX": "bubblewrap",
        "KAGURA_POOL_SIZE": "0",
    }
    share_rules(home)
    cockpit = make_cockpit(environ)
    made = Session(project, cockpit, home)
    yield made
    made.elsewhere.close()
    cockpit.close()


def test_a_boxed_program_calls_what_its_session_has_enabled(session):
    assert session.run()[0].status == "failed"
    session.enable("greeting=good day")
    end, notes = session.run()
    assert (end.status, end.text, notes) == ("done", "good day ada\n", [])


def test_a_word_from_another_process_is_heard_while_a_run_goes_on(session):
    session.enable()
    handle = session.cockpit.launch(RunRequest(language="python", task="import time\ntime.sleep(100)"))
    session.say("disable")
    wait_until(lambda: session.state is PluginState.DISABLED)
    assert not handle.done
    handle.kill("test")
    handle.result(60)


def test_changed_files_are_off_at_the_next_run_which_says_so(session):
    session.enable()
    assert session.run()[0].status == "done"
    source = (session.plugin / "plugin.py").read_text()
    (session.plugin / "plugin.py").write_text(source.replace('" "', '"-"'))
    end, notes = session.run()
    assert end.status == "failed"
    assert notes == ["greeter is off: its files have changed; enable it again to have it audited", NONE_ENABLED]
    session.enable()
    assert session.run()[0].text == "hello-ada\n"
