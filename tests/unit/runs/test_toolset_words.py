"""What is said of a run's toolsets."""

from __future__ import annotations

from kagura_kernel.kit.definitions.toolsets import LspToolset, McpToolset
from kagura_kernel.runs.toolsets import briefing_line, command_line, not_wanted, sentence

TIME = McpToolset(type="mcp", name="time", command="mcp-server-time", args=("--zone", "a b"), tools=("get_*",))


def test_what_was_started_is_a_line_and_a_url_keeps_what_may_be_a_key():
    assert command_line(TIME) == "mcp-server-time --zone 'a b'"
    docs = McpToolset(type="mcp", name="docs", url="https://mcp.example.org/mcp?key=k")
    assert command_line(docs) == "https://mcp.example.org/mcp?…"


def test_a_tool_that_is_denied_is_not_offered_even_where_it_is_listed():
    toolset = TIME.model_copy(update={"deny": ("get_secret",)})
    assert not_wanted(toolset, "get_time") == ""
    assert not_wanted(toolset, "get_secret") == "the toolset denies it"
    assert not_wanted(toolset, "set_time") == "the toolset does not list it"


def test_a_brain_is_told_what_a_toolset_is_and_the_first_of_its_tools():
    assert briefing_line(TIME, ["time_a"]) == "- time: an MCP server in the sandbox. Tools: time_a."
    told = briefing_line(TIME, [f"t{number}" for number in range(15)])
    assert told.endswith("t10, t11 and 3 more.")
    python = LspToolset(type="lsp", name="py", command="x", languages={"python": ("*.py",)})
    assert briefing_line(python, []) == "- py: a language server in the sandbox for python. Tools: none."


def test_half_a_sentence_becomes_a_whole_one():
    assert sentence("it left") == "It left."
    assert sentence("It left.") == "It left."
    assert sentence("") == "It hung up."
