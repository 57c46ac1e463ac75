"""What an MCP server says, read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.tools.mcp_client import read_beginning, read_page, read_result, read_tool
from kagura_kernel.tools.toolsets.cutting import Breach, SchemaRefused, ToolsetLimits

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
    assert read_result(said) == ('{ "a": 1 }', False)
    assert read_result({"content": [{"type": "text", "text": "one"}], "structuredContent": {"a": 1}}) == (
        'one\n{"a": 1}',
        False,
    )
    assert read_result({"content": []}) == ("(no output)", False)


@pytest.mark.parametrize("said", [None, {"content": {}}, {"content": [1]}, {"content": [{"type": 1}]}])
def test_what_is_no_result_is_a_breach(said):
    with pytest.raises(Breach):
        read_result(said)


def test_the_size_of_a_tool_counts_all_that_a_model_reads():
    said = {"name": "t", "description": "d" * 10, "inputSchema": {"properties": {"a": {"description": "x" * 1000}}}}
    assert 1010 < read_tool(said, LIMITS).size < 1200
