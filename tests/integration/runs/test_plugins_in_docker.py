"""Programs in containers call plugins as those in other boxes do."""

from __future__ import annotations

import pytest

from kagura_kernel.journal.store import Journal
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.integration.runs.conftest import Runs
from tests.support.docker_images import PYTHON
from tests.support.plugins import FakePlugin, FakePlugins

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

TEXT = "from kagura_host import words; print(words.upper('abc'))"


@pytest.fixture
def plugins():
    return FakePlugins(
        FakePlugin("words-plugin", {"words": {"upper": lambda text: text.upper(), "fail": lambda: 1 / 0}})
    )


@pytest.fixture
async def in_docker(docker_backend, project, tmp_path):
    journal = Journal.open(tmp_path / "home")
    yield Runs(docker_backend, journal, tmp_path / "home", project)
    journal.close()


@pytest.mark.parametrize(
    "line",
    [
        f'python3 -c "{TEXT}"',
        f'cd /tmp; echo "{TEXT}" > s.py; python3 s.py',
        f'echo "raise SystemExit" > kagura_host.py; python3 -c "{TEXT}"; rm kagura_host.py',
        f'bash -lc \'python3 -c "$0"\' "{TEXT}"',
        "kagura-host words upper '[\"abc\"]' --raw; echo",
        "bash -lc 'kagura-host words upper \"$0\" --raw' '[\"abc\"]'; echo",
        "cd /tmp; echo '[\"abc\"]' | kagura-host words upper - --raw; echo",
    ],
)
async def test_a_container_finds_the_package_and_the_program(in_docker, plugins, line):
    ended = await in_docker.cell(plugins, line, "bash")
    assert ended.text == "ABC\n"
    assert [row.ok for row in ended.calls] == [True]


async def test_a_cell_and_the_tools_of_an_agent_call_from_a_container(in_docker, plugins):
    ended = await in_docker.cell(plugins, TEXT)
    assert ended.text == "ABC\n"
    brain = FakeBrain([Ask("python", {"code": TEXT}), Ask("bash", {"command": "kagura-host words fail"}), "Done."])
    ended = await in_docker.brain(plugins, brain)
    assert [row.ok for row in ended.calls] == [True, False]
    assert "ERR_PLUGIN_FAILED: ZeroDivisionError: division by zero" in ended.text


async def test_an_environment_in_a_container_finds_it_too(in_docker, plugins, project):
    line = f'python3 -m venv --without-pip /tmp/env && . /tmp/env/bin/activate && python -c "{TEXT}"'
    ended = await in_docker.cell(plugins, line, "bash", spec=BoxSpec(workspace=project, image=PYTHON))
    assert ended.text == "ABC\n"
