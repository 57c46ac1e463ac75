"""Variables and results in containers: with the packages they need, and without."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.jupyter.variables import value_of
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.runs.box_runner.packing import pack
from kagura_kernel.runs.exchange import ExchangeDirectory, Results
from kagura_kernel.runs.redacting import Redacting
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.variables import collect_outputs, make_exchange
from kagura_kernel.sandbox.backend import BoxSpec
from tests.support.docker_images import BASE, PYTHON

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

FRAME = pd.DataFrame({"city": ["Oslo", "Rome"], "n": [1, 2]})


class Rows(list):
    def record(self, _kind, /, **fields):
        self.append(SimpleNamespace(**fields))


@pytest.fixture
async def stage(docker_backend, request):
    box = await docker_backend.start(BoxSpec(image=getattr(request, "param", BASE)))
    packed = [(name, pack(value, 2**20)) for name, value in (("df", FRAME), ("n", 3))]
    inputs = tuple(PackedVariable(name, p.form, p.data, dict(p.details), p.summary) for name, p in packed)
    order = SimpleNamespace(
        request=RunRequest(inputs=inputs, outputs=("result",)), room=2**20, spec=SimpleNamespace(env={})
    )
    membrane = SimpleNamespace(scrubber=Scrubber(list))
    yield SimpleNamespace(box=box, order=order, recorder=Rows(), membrane=membrane)
    await box.close()


async def run(stage, exchange: ExchangeDirectory, code: str):
    path = f"{exchange.scratch}/cell.py"
    await stage.box.files.write(path, code.encode())
    return await stage.box.run(Command(exchange.python(path, "cell"), env=exchange.environment("cell")))


async def test_plain_values_and_results_cross_without_any_package(stage, tmp_path):
    exchange = await make_exchange(stage, for_shell=True)
    code = "class A:\n    def _repr_html_(self): return '<b>'\nresult = [n, None]\nA()"
    ended = await run(stage, exchange, code)
    assert (ended.exit_code, ended.stderr.text) == (0, "")
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(None)).collect("cell")
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
    await Results(exchange, stage.recorder, stage.membrane.scrubber, Redacting(None)).collect("cell")
    assert [row.mime for row in stage.recorder[-2:]] == ["text/html", "image/png"]
    [brought] = (await collect_outputs(stage, exchange)).outputs
    pd.testing.assert_frame_equal(value_of(brought, tmp_path), FRAME.assign(n=[3, 6]))
