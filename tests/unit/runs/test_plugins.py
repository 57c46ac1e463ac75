import ast
from types import SimpleNamespace

import pytest

from kagura_kernel.kit.definitions.toolsets import LspToolset, McpToolset
from kagura_kernel.plugins import guest
from kagura_kernel.plugins.calls import FunctionSpec
from kagura_kernel.runs.exchange import ExchangeDirectory, SearchPaths
from kagura_kernel.runs.order import RunOrder
from kagura_kernel.runs.plugins import OpenPlugins, guest_files, open_plugins, place_file, refresh_plugins
from kagura_kernel.runs.toolsets import briefing_line, command_line, not_wanted, sentence
from kagura_kernel.sandbox.backend import BoxSpec
from tests.support.plugins import FakePlugin, FakePlugins

SEARCH = SearchPaths(("/tmp/host/bin", "/usr/bin", "/bin"), ("/tmp/host/lib", "/set/by/settings"))


def plugin(**functions):
    return FakePlugin("words-plugin", {"words": functions or {"upper": lambda text: text.upper()}})


@pytest.mark.parametrize(
    "text",
    ["'", '"', "\\", "'''); import os; os.abort() #", "\n\r\0", "é\u2028\ud800", "{}", "%s"],
)
def test_whatever_an_author_writes_is_a_text_in_the_box(text):
    made = plugin()
    made.modules = {"words": (FunctionSpec("upper", f"({text})", text),)}
    source = place_file(4711, [made])
    found: dict[str, object] = {}
    exec(source, found)
    assert found["PORT"] == 4711
    assert found["MODULES"] == {"words": ("words-plugin", [("upper", f"({text})", text)])}
    # Values alone: running it does nothing.
    assert {type(node) for node in ast.walk(ast.parse(source))} <= {
        *(ast.Module, ast.Assign, ast.Name, ast.Store, ast.Load, ast.Constant, ast.Dict, ast.Tuple, ast.List)
    }


def test_what_is_sent_is_the_package_and_what_puts_it_first():
    files = guest_files()
    assert "sitecustomize.py" in files
    assert "kagura_host/__init__.py" in files
    assert "kagura_host/_place.py" not in files
    assert "kagura_host/_startup.py" not in files


@pytest.mark.parametrize("name", sorted(guest_files()))
def test_what_is_sent_is_understood_by_the_oldest_python_that_an_image_may_have(name):
    ast.parse(guest_files()[name], feature_version=(3, 8))


def test_the_package_offers_its_error_and_hides_the_rest():
    assert [name for name in dir(guest) if not name.startswith("_")] == ["PluginError"]
    with pytest.raises(AttributeError, match="there is: none"):
        guest.words  # noqa: B018 - the look-up is what fails
    with pytest.raises(ImportError, match="A person can enable a plugin"):
        from kagura_kernel.plugins.guest import words  # noqa: F401


def test_programs_look_where_plugins_are_first_and_then_where_they_would():
    assert SEARCH.variables() == {"PATH": "/tmp/host/bin:/usr/bin:/bin", "PYTHONPATH": "/tmp/host/lib:/set/by/settings"}
    assert SEARCH.variables(["/workspace"])["PYTHONPATH"] == "/tmp/host/lib:/workspace:/set/by/settings"


def test_a_tray_without_plugins_says_nothing_about_paths():
    exchange = ExchangeDirectory(SimpleNamespace(files=SimpleNamespace(root="/workspace")))
    assert not {"PATH", "PYTHONPATH"} & exchange.environment("c").keys()
    assert exchange.environment("c", ["/workspace"])["PYTHONPATH"] == "/workspace"
    assert OpenPlugins().laid(exchange) == exchange
    found = OpenPlugins(SEARCH).laid(exchange)
    assert found.environment("c", ["/workspace"])["PYTHONPATH"].startswith("/tmp/host/lib:/workspace:")


@pytest.mark.parametrize("plugins", [None, FakePlugins()])
async def test_without_an_enabled_plugin_the_box_is_left_alone(plugins, tmp_path):
    order = RunOrder("run-1", "ses-1", "", tmp_path, BoxSpec())
    parts = SimpleNamespace(plugins=plugins)
    said = []
    await refresh_plugins(order, parts, lambda _kind, **fields: said.append(fields))
    opened = await open_plugins(None, order, parts, None, None)
    assert opened == OpenPlugins()
    await opened.close()
    assert said == []


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
