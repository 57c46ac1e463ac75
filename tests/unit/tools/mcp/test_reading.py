"""What an MCP server says, read."""

import base64
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.tools.mcp_client import McpTool, OfferedTool, read_beginning, read_page, read_result, read_tool
from kagura_kernel.tools.toolbox import CallContext
from kagura_kernel.tools.toolsets.foreign_tools import Breach, SchemaRefused, ToolQuestions, ToolsetLimits
from tests.support.gallery import png

LIMITS = ToolsetLimits()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "tools", "name", "inputSchema", "uri", "data", "resource"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_that_a_server_says_is_more_than_a_breach(said):
    for read in (read_result, read_page, read_beginning, lambda one: read_tool(one, LIMITS)):
        try:
            read(said)
        except (Breach, SchemaRefused):
            continue


def test_descriptions_are_bounded_and_readable():
    said = {"name": "t", "description": "a\u202eb\x1b[31m" + "x" * 5000, "inputSchema": {"type": "object"}}
    tool = read_tool(said, LIMITS)
    assert len(tool.description) == LIMITS.description
    assert tool.description.startswith("a?b?[31m")


def test_structured_content_is_told_once():
    said = {"content": [{"type": "text", "text": '{ "a": 1 }'}], "structuredContent": {"a": 1}}
    assert read_result(said).text == '{ "a": 1 }'
    assert (
        read_result({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}}).text
        == 'one\n{"a": 1}'
    )
    assert read_result({"content": []}) == ("(no output)", False, ())


@pytest.mark.parametrize("takes_images", [True, False])
async def test_images_are_shown_to_a_model_that_takes_them_and_told_to_every_other_one(takes_images):
    said = [png(4, 3), b"no image", None]
    blocks = [{"type": "image", "data": base64.b64encode(one).decode() if one else "%", "mimeType": ""} for one in said]
    answer = read_result({"content": [{"type": "text", "text": "Drawn."}, *blocks]})

    async def call(*_):
        return answer

    async def show(call_id, image):
        assert call_id == "c-1"
        return image

    client = SimpleNamespace(name="toy", call=call)
    questions = ToolQuestions("toy", (), None, remote=False)
    tool = McpTool("toy_draw", OfferedTool("draw", "", {}), client, questions, remote=False, redact=lambda one: one)
    tool.show = show if takes_images else None
    result = await tool.call({}, CallContext("c-1"))
    assert [(one.name, one.width) for one in result.images] == ([("toy_draw, image 2", 4)] if takes_images else [])
    why = ["its bytes are no image", "its data is no base64"] if takes_images else ["this model takes no images"] * 3
    remarks = [line for line in result.text.splitlines() if "not shown to you" in line]
    assert [line.rpartition(": ")[2].rstrip("]") for line in remarks] == why


@pytest.mark.parametrize("said", [None, {"content": {}}, {"content": [1]}, {"content": [{"type": 1}]}])
def test_what_is_no_result_is_a_breach(said):
    with pytest.raises(Breach):
        read_result(said)


def test_the_size_of_a_tool_counts_all_that_a_model_reads():
    said = {"name": "t", "description": "d" * 10, "inputSchema": {"properties": {"a": {"description": "x" * 1000}}}}
    assert 1010 < read_tool(said, LIMITS).size < 1200
