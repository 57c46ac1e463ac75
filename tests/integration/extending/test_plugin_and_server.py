"""The examples that run behind walls of their own: a plugin in its jail, an MCP server in the run's box."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.plugins.configuration import complete, read_schema
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.jail.running import JailParts
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.permissions import Ground, plan_jail
from kagura_kernel.plugins.scan.scanning import scan_path
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.integration.extending.conftest import EXAMPLES
from tests.support.included_plugins import kagura_plugin_importable

GREETING = EXAMPLES / "greeting"


def test_the_scan_has_nothing_against_the_plugin():
    scan = scan_path(GREETING)
    assert scan.severity in (None, "info"), scan.findings


async def test_the_plugin_answers_from_its_jail(tmp_path):
    found = load_found(GREETING, "user")
    source: dict[str, object] = {}
    with kagura_plugin_importable():
        exec(compile(found.content.source, "plugin.py", "exec"), source)
    schema = read_schema(source["SCHEMA"], "greeting")
    values = complete(schema, {"word": "Hi"}, "greeting").values
    (tmp_path / "project").mkdir()
    plan = plan_jail(
        found.manifest.permissions,
        schema,
        values,
        Ground(tmp_path / "project", tmp_path, ()),
        plugin="greeting",
    )
    backend = BubblewrapBackend()
    try:
        jail = await Jail.start("greeting", found.content, found.manifest, plan, JailParts(backend.start))
        assert await jail.call("greeting", "greet", ["Ada"], {}) == "Hi, Ada!"
        await jail.close()
    finally:
        await backend.close()


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
