"""From a program in one box to a plugin in another, and back: nothing in between is a fake."""

import pytest
import pytest_asyncio

from kagura_kernel.plugins.jail.box import JailLimits, JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.permissions import JailPlan
from tests.support.jails import NAME, one_module, small_content, small_manifest
from tests.support.plugins import FakePlugins, UnmanagedPlugin

pytestmark = pytest.mark.timeout(300)

SOURCE = one_module(
    {
        "echo(value, *, times=1)": "[value] * times",
        "fail(text)": "{}[text]",
        "seen()": "sorted(os.environ), os.path.exists('/workspace/data.txt')",
        "hang()": "time.sleep(600)",
        "leave()": "os._exit(3)",
    },
    before="import os, time",
)


@pytest_asyncio.fixture(loop_scope="module")
async def jailed(runs):
    made = []

    async def start(**limits):
        parts = JailParts(runs.backend.start, limits=JailLimits(**limits))
        jail = await Jail.start(NAME, small_content(SOURCE), small_manifest(), JailPlan(), parts)
        made.append(jail)
        return FakePlugins(UnmanagedPlugin(jail))

    yield start
    for jail in made:
        await jail.close()


async def test_values_and_errors_come_through_both_walls(runs, jailed, project):
    (project / "data.txt").write_text("of the project")
    plugins = await jailed()
    code = """
import os
from kagura_host import PluginError, small
print(small.echo({"é": [1, None]}, times=2))
names, project = small.seen()
print(project, [name for name in names if name.startswith("KAGURA_SHOW")], os.path.exists("/workspace/data.txt"))
try:
    small.fail("lost")
except PluginError as error:
    print(error.code, error.kind, error)
"""
    ended = await runs.cell(plugins, code)
    assert ended.text.splitlines() == [
        "[{'é': [1, None]}, {'é': [1, None]}]",
        "False [] True",
        "ERR_PLUGIN_FAILED KeyError 'lost'",
    ]
    ended = await runs.cell(plugins, "kagura-host small echo '[\"a\"]'; kagura-host --list", "bash")
    assert ended.text.splitlines()[:2] == ['["a"]', "small echo(value, *, times=1)"]


async def test_many_programs_call_at_once(runs, jailed):
    code = """
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from kagura_host import small
with ThreadPoolExecutor(16) as pool:
    assert list(pool.map(small.echo, range(400))) == [[number] for number in range(400)]
def one(number):
    return small.echo(number)
with ProcessPoolExecutor(4, get_context("fork")) as pool:
    assert list(pool.map(one, range(50))) == [[number] for number in range(50)]
print(len(small.echo("x" * 2_000_000)[0]))
"""
    ended = await runs.cell(await jailed(), code)
    assert ended.text == "2000000\n"
    assert len(ended.calls) == 451


async def test_a_plugin_that_hangs_or_ends_is_told_and_the_next_call_finds_it_again(runs, jailed):
    code = """
from kagura_host import PluginError, small
for function in (small.hang, small.leave):
    try:
        function()
    except PluginError as error:
        print(error.code)
    print(small.echo(1))
"""
    ended = await runs.cell(await jailed(call_seconds=0.5), code)
    assert ended.text.splitlines() == ["ERR_PLUGIN_TIMEOUT", "[1]", "ERR_PLUGIN_JAIL", "[1]"]
    assert ended.outcome.status == "done"
