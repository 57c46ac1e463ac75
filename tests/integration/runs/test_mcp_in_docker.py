"""A toolset's server in a container answers as those in other boxes do."""

from __future__ import annotations

import pytest

from kagura_kernel.domain.events import ToolFinished, ToolsetEnded
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.definitions.definition import AgentDefinition
from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.runs.order import AgentOrder
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.integration.runs.conftest import Runs
from tests.support.docker_images import PYTHON
from tests.support.plugins import FakePlugins
from tests.support.toy_mcp import SOURCE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


async def test_a_server_in_a_container_answers_and_is_cut_off(docker_backend, project, tmp_path):
    (project / "toy.py").write_text(SOURCE)
    (project / "toy.py").chmod(0o644)
    journal = Journal.open(tmp_path / "home")
    toy = McpToolset(type="mcp", name="toy", command="python3", args=("toy.py",))
    agent = ResolvedAgent(AgentDefinition(name="tester"), "tester", "own", None, trusted=True, digest="0" * 64)
    ended = await Runs(docker_backend, journal, tmp_path / "home", project).brain(
        FakePlugins(),
        FakeBrain([Ask("toy_echo", {"text": "x" * 20_000}), Ask("toy_stop"), "Done."]),
        agent=AgentOrder(agent, "tester", (toy,)),
        spec=BoxSpec(workspace=project, image=PYTHON),
    )
    journal.close()
    said, stopped = [event.text for event in ended.events if isinstance(event, ToolFinished)]
    assert said == "x" * 20_000
    assert "its program ended with exit code 3" in stopped
    (gone,) = [event for event in ended.events if isinstance(event, ToolsetEnded)]
    assert gone.stderr.strip() == "it hurts"
    assert ended.outcome.status == "done"
