"""`--mcp-config`: what other programs write into such files, and everything that is wrong with one at once."""

import json
import os
from typing import Any

import pytest

from kagura_kernel.domain.errors import McpConfigInvalid
from kagura_kernel.kit.definitions.toolsets import (
    LspToolset,
    McpToolset,
    parse_mcp_config,
    read_mcp_config,
    with_mcp_config,
)


def parse(servers: Any, **more: Any) -> tuple[McpToolset, ...]:
    return parse_mcp_config(json.dumps({"mcpServers": servers}).encode(), "servers.json", **more)


def problems(servers: Any, **more: Any) -> list[str]:
    with pytest.raises(McpConfigInvalid) as caught:
        parse(servers, **more)
    return list(caught.value.problems)


def test_servers_become_toolsets_in_their_order():
    time, docs, off = (
        {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"], "env": {"TZ": "UTC"}},
        {"type": "http", "url": "https://mcp.example.org/mcp", "headers": {"X-Team": "blue"}},
        {"command": "other", "disabled": True},
    )
    found = parse({"My_Time": time, "docs": docs, "off": off, "plain": {"type": "stdio", "command": "x"}})
    assert [one.name for one in found] == ["my-time", "docs", "plain"]
    assert found[0].args == ("--local-timezone", "UTC")
    assert found[0].env == {"TZ": "UTC"}
    assert (found[1].url, found[1].headers) == ("https://mcp.example.org/mcp", {"X-Team": "blue"})
    assert found[1].asks == ("*",)
    assert found[0].asks == ()


def test_everything_that_is_wrong_is_said_at_once_and_no_value_with_it():
    value = "s3cret-value"
    found = problems(
        {
            "a": {"command": "x", "comand": value},
            "b": {"type": "sse", "url": "https://example.org/"},
            "c": {"type": "http", "command": "x"},
            "d": {"url": f"http://{value}.example.org/"},
            "e": {"command": "x", "env": {"TOKEN": "${TOKEN}"}},
            "f": {"command": "x", "args": value},
            "1": {"command": "x"},
            "g": [value],
            "A": {"command": "x"},
            "h": {},
            "same": {"command": "x"},
            "Same": {"command": "x"},
        }
    )
    text = "\n".join(found)
    assert value not in text
    for line in (
        "mcpServers.a.comand: there is no such key, did you mean 'command'?",
        "mcpServers.b: its `type` must be one of stdio, http, streamable-http",
        "mcpServers.c: a server of type stdio must have a `command`, and any other a `url`",
        "mcpServers.d.url: must be an https:// URL",
        "mcpServers.e.env.TOKEN: variables of this machine are not put in",
        "mcpServers.f.args: must be a list",
        "mcpServers.1.name: must be made of a-z",
        "mcpServers.g: must be an object",
        "mcpServers.h: must have either a `command`",
        "mcpServers.Same: it would be called same, and so is another one",
    ):
        assert line in text


def test_a_secret_is_refused_by_its_place_alone():
    asked: list[str] = []

    def holds_secret(text: str) -> bool:
        asked.append(text)
        return "hunter2" in text

    found = problems(
        {"a": {"command": "x", "args": ["--token", "hunter2"], "env": {"API_KEY": "hunter2", "TZ": "UTC"}}},
        holds_secret=holds_secret,
    )
    assert [line.split(": ")[0] for line in found] == ["mcpServers.a.args[1]", "mcpServers.a.env.API_KEY"]
    assert "hunter2" not in "".join(found)
    assert "API_KEY=hunter2" in asked, "a value is judged with the name that it has"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not UTF-8"),
        (b"[]", "it has no object `mcpServers`"),
        (b'{"mcpServers": []}', "it has no object `mcpServers`"),
        (b'{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "a key stands twice"),
        (b"[" * 100_000, "it is not JSON that can be used"),
        (b" " * 300_000, "it is larger than 256 KiB"),
    ],
)
def test_what_is_no_configuration_is_refused(data, why):
    with pytest.raises(McpConfigInvalid, match=why):
        parse_mcp_config(data, "servers.json")


def test_a_file_is_read_and_what_is_none_is_not_waited_for(tmp_path):
    path = tmp_path / "servers.json"
    path.write_text('\ufeff{"mcpServers": {"a": {"command": "x"}}}', "utf-8")
    assert [one.name for one in read_mcp_config(path)] == ["a"]
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "no regular file"), ("none.json", "no such file"), ("", "directory|regular")):
        with pytest.raises(McpConfigInvalid, match=why):
            read_mcp_config(tmp_path / name)


def test_a_file_adds_to_the_definition_or_takes_the_place_of_its_servers():
    old = McpToolset(type="mcp", name="a", command="old")
    other = McpToolset(type="mcp", name="b", command="b")
    python = LspToolset(type="lsp", name="python", command="p", languages={"python": ("*.py",)})
    new = McpToolset(type="mcp", name="a", command="new")
    more = McpToolset(type="mcp", name="c", command="c")
    assert with_mcp_config((old, python, other), (more, new), strict=False) == (new, python, other, more)
    assert with_mcp_config((old, python, other), (more, new), strict=True) == (new, python, more)
    assert with_mcp_config((old, python), (), strict=True) == (python,)
