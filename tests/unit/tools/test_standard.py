import pytest

from kagura_kernel.domain.policy import PermissionMode
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.runtime.routing import Routing
from kagura_kernel.tools.standard import standard_toolbox

ALL = ["bash", "python", "read_file", "write_file", "edit_file", "list_files", "glob", "grep", "ask_user"]


def names(runtime: Runtime) -> list[str]:
    return [spec.name for spec in standard_toolbox(runtime).specs()]


async def test_a_run_with_a_box_has_every_tool(hand):
    assert names(hand.runtime) == ALL


def test_without_a_box_only_what_asks_is_offered(tmp_path):
    assert names(Runtime(None, HostRunner(tmp_path))) == ["bash", "ask_user"]


def test_full_control_has_every_tool_without_a_box(tmp_path):
    settings = Routing(mode=PermissionMode.FULL_CONTROL)
    assert names(Runtime(None, HostRunner(tmp_path), settings)) == ALL


@pytest.mark.parametrize("tool", ALL)
async def test_a_tool_is_described_shortly_and_its_schema_is_complete(hand, tool):
    spec = next(spec for spec in hand.toolbox.specs() if spec.name == tool)
    assert spec.name.isidentifier()
    assert 40 < len(spec.description) < 700
    assert spec.input_schema["additionalProperties"] is False
    assert set(spec.input_schema["required"]) <= set(spec.input_schema["properties"])
    for field in spec.input_schema["properties"].values():
        assert field["type"]
        assert field["description"]
