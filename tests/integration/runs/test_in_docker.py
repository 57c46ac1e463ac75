"""Programs in containers call plugins as those in other boxes do."""

from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.events import ToolFinished, ToolsetEnded
from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.variables import value_of
from kagura_kernel.kit.definitions.definition import AgentDefinition
from kagura_kernel.kit.definitions.references import ResolvedAgent
from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.runs.box_runner.pack import pack
from kagura_kernel.runs.exchange import ExchangeDirectory, Results
from kagura_kernel.runs.order import AgentOrder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.variables import collect_outputs, make_exchange
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.redaction import BlindRedactor
from tests.integration.runs.conftest import Runs
from tests.support.docker_images import BASE, PYTHON
from tests.support.plugins import FakePlugin, FakePlugins
from tests.support.toy_mcp import SOURCE

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


FRAME = pd.DataFrame({"city": ["Oslo", "Rome"], "n": [1, 2]})


class Rows(list):
    def record(self, _kind, /, **fields):
        self.append(SimpleNamespace(**fields))

    async def ready_for(self, *_texts):
        pass


@pytest.fixture
async def stage(docker_backend, request):
    box = await docker_backend.start(BoxSpec(image=getattr(request, "param", BASE)))
    packed = [(name, pack(value, 2**20)) for name, value in (("df", FRAME), ("n", 3))]
    inputs = tuple(PackedVariable(name, p.form, p.data, dict(p.details), p.summary) for name, p in packed)
    order = SimpleNamespace(
        request=RunRequest(inputs=inputs, outputs=("result",)),
        room=2**20,
        spec=SimpleNamespace(env={}),
        keep_seconds=0.0,
    )
    membrane = SimpleNamespace(scrubber=Scrubber(list))
    yield SimpleNamespace(box=box, order=order, recorder=Rows(), membrane=membrane, kept=None)
    await box.close()


async def run(stage, exchange: ExchangeDirectory, code: str):
    path = f"{exchange.scratch}/cell.py"
    await stage.box.files.write(path, code.encode())
    return await stage.box.run(Command(await exchange.python(path, "cell"), env=exchange.environment("cell")))


async def test_plain_values_and_results_cross_without_any_package(stage, tmp_path):
    exchange = await make_exchange(stage, for_shell=True)
    code = "class A:\n    def _repr_html_(self): return '<b>'\nresult = [n, None]\nA()"
    ended = await run(stage, exchange, code)
    assert (ended.exit_code, ended.stderr.text) == (0, "")
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(BlindRedactor())).collect("cell")
    assert (stage.recorder[-1].mime, stage.recorder[-1].data) == ("text/html", "<b>")
    [brought] = (await collect_outputs(stage, exchange)).outputs
    assert value_of(brought, tmp_path) == [3, None]


async def test_a_frame_in_an_image_without_pandas_names_the_package_and_the_file_for_a_shell(stage):
    exchange = await make_exchange(stage, for_shell=True)
    ended = await run(stage, exchange, "print(df)")
    assert ended.exit_code == 1
    assert "df cannot be used here: a DataFrame travels by pandas, which this box does not have" in ended.stderr.text
    assert "--image python" in ended.stderr.text
    assert "/tmp/kagura/in/df.csv" in ended.stderr.text
    shown = await stage.box.run(Command(("bash", "-c", 'cat "$df"'), env=exchange.environment("cell")))
    assert shown.stdout.text == "city,n\nOslo,1\nRome,2\n"


@pytest.mark.parametrize("stage", [PYTHON], indirect=True)
async def test_frames_and_figures_cross_where_the_image_has_the_packages(stage, tmp_path):
    exchange = await make_exchange(stage, for_shell=False)
    code = "import matplotlib.pyplot as plt\nplt.plot(df['n'])\nresult = df.assign(n=df['n'] * n)\nresult"
    ended = await run(stage, exchange, code)
    assert (ended.exit_code, ended.stderr.text) == (0, "")
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(BlindRedactor())).collect("cell")
    assert [row.mime for row in stage.recorder[-2:]] == ["text/html", "image/png"]
    [brought] = (await collect_outputs(stage, exchange)).outputs
    pd.testing.assert_frame_equal(value_of(brought, tmp_path), FRAME.assign(n=[3, 6]))


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
