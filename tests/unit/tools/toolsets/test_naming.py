"""Names of toolsets' tools."""

import re

from hypothesis import given, strategies as st

from kagura_kernel.tools.toolsets.foreign_tools import LONGEST, tool_name


def test_a_name_is_the_toolset_and_the_tool():
    assert tool_name("my-time", "get_current_time", ()) == "my_time_get_current_time"
    assert tool_name("docs", "search/by.name", ()) == "docs_search_by_name"
    assert tool_name("docs", "検索", ()) == "docs_tool"


@given(st.lists(st.text(max_size=90), max_size=30))
def test_names_are_short_identifiers_each_once_and_the_same_each_time(tools):
    taken = ["bash", "t_tool"]
    for tool in tools:
        name = tool_name("t", tool, taken)
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name)
        assert len(name) <= LONGEST
        assert name not in taken
        assert tool_name("t", tool, taken) == name
        taken.append(name)
