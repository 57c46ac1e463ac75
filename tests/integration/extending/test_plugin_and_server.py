"""The examples that run behind walls of their own: a plugin in its jail, an MCP server in the run's box."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import PluginFailed, PluginNotConfigured, PluginRefused
from kagura_kernel.plugins.scan.scanner import scan_path
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from kagura_kernel.testing.plugin import jailed_plugin
from tests.integration.extending.conftest import EXAMPLES

GREETING = EXAMPLES / "greeting"


def test_the_scan_has_nothing_against_the_plugin():
    scan = scan_path(GREETING)
    assert scan.severity in (None, "info"), scan.findings


async def test_the_plugin_answers_from_its_jail():
    async with jailed_plugin(GREETING, "word=Hi") as jail:
        assert await jail.call("greeting", "greet", ["Ada"], {}) == "Hi, Ada!"


@pytest.mark.parametrize(
    ("line", "value", "error"),
    [
        ("import subprocess", "word=Hi", PluginRefused),
        ("raise KeyError('x')", "word=Hi", PluginFailed),
        ("pass", "wrod=Hi", PluginNotConfigured),
    ],
)
async def test_what_would_not_be_enabled_is_not_loaded_for_a_test(tmp_path, line, value, error):
    plugin = tmp_path / "greeting"
    shutil.copytree(GREETING, plugin)
    source = (plugin / "plugin.py").read_text()
    (plugin / "plugin.py").write_text(source.replace("def create", f"{line}\n\n\ndef create"))
    with pytest.raises(error):
        async with jailed_plugin(plugin, value):
            pass


@pytest.fixture
def cockpit_of(tmp_path: Path) -> Iterator[Callable[[FakeBrain], Cockpit]]:
    made: list[Cockpit] = []

    def make(brain: FakeBrain) -> Cockpit:
        made.append(fake_cockpit(tmp_path / "home", backend=BubblewrapBackend(), brains=[brain]))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def test_the_server_answers_from_the_run_s_box(cockpit_of, project, tmp_path):
    for name in ("words_server.py", "mcp.json"):
        shutil.copy(EXAMPLES / name, project)
    if os.geteuid() == 0:
        for folder in (project, tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
    read: list[str] = []
    brain = FakeBrain(
        [Ask("words_longest", {"text": "a plain sentence"}), lambda results: read.append(results[-1].text) or "Done."]
    )
    cockpit = cockpit_of(brain)
    task = RunRequest(task="Go.", project=project, net=("none",), mcp_config=project / "mcp.json")
    handle = cockpit.launch(task)
    wait_until(lambda: handle.done or cockpit.pending())
    for request in cockpit.pending():
        cockpit.decide(request.id, allow=True, by="ada", via="cell")
    outcome = handle.result(120)
    assert outcome.status == "done", outcome.error
    assert "words_longest" in [spec.name for spec in brain.turns[0].tools]
    assert "sentence" in read[0]
