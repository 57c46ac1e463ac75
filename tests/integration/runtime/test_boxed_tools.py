"""The tools in a box with real walls."""

import os

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, use_approver
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.tools.standard import standard_toolbox


@pytest.fixture
async def project(tmp_path, project):
    (project / "a.py").write_text("value = 1\n")
    # As root the box's own user has to be able to look in.
    for folder in (project, tmp_path, *tmp_path.parents[:2]):
        if os.geteuid() == 0:
            folder.chmod(0o755)
    return project


@pytest.fixture
async def call(project, tmp_path):
    backend = BubblewrapBackend()
    runtime = Runtime(await backend.start(BoxSpec(workspace=project)), HostRunner(project))
    toolbox = standard_toolbox(runtime, spill_dir=tmp_path / "spill")

    async def use(tool, **arguments):
        return await toolbox.call(ToolCall("call-1", tool, arguments))

    yield use
    await runtime.close()
    await backend.close()


async def test_every_tool_works_in_the_box_and_the_project_stays_as_it_is(call, project):
    assert (await call("bash", command="pwd")).text == "/workspace"
    assert (await call("python", code="import sys; print(sys.version_info[0])")).text == "3"
    assert (await call("read_file", path="/workspace/a.py")).text == "     1\tvalue = 1"
    assert (await call("edit_file", path="a.py", old="1", new="2")).text == "Changed a.py: 1 passage."
    assert (await call("write_file", path="d/b.txt", content="new")).text.startswith("Created")
    assert (await call("list_files")).text == "a.py  10\nd/"
    assert (await call("glob", pattern="**/*.txt")).text == "d/b.txt"
    assert (await call("grep", pattern=r"value = \d")).text == "a.py:1:value = 2"
    assert (await call("write_file", path="/tmp/x", content="scratch")).is_error is False
    assert (await call("bash", command="cat /tmp/x")).text == "scratch"
    assert (project / "a.py").read_text() == "value = 1\n"
    assert not (project / "d").exists()


async def test_no_tool_reads_the_host(call, tmp_path):
    (tmp_path / "secret").write_text("key")
    assert (await call("read_file", path=str(tmp_path / "secret"))).is_error
    assert "key" not in (await call("bash", command=f"cat {tmp_path}/secret")).text
    await call("bash", command=f"ln -s {tmp_path}/secret link")
    assert "key" not in (await call("read_file", path="link")).text
    assert "key" not in (await call("grep", pattern="key")).text


async def test_an_approved_host_command_sees_the_project_and_not_the_view(call, project):
    await call("bash", command="echo changed > a.py")
    with use_approver(ScriptedApprover(Verdict.ALLOW)):
        result = await call("bash", command="pwd; cat a.py", host=True, reason="to compare")
    assert (result.text, result.route) == (f"{project}\nvalue = 1", "host")
