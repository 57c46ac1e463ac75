"""The whole house with a model behind an OpenAI-compatible API: real kernel, real box."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import (
    Calls,
    ModelTurn,
    Refusal,
    Says,
    by_conversation,
    calls,
    offered_tools,
    says,
    tool_results,
)
from tests.support.model_server import ModelServer
from tests.support.openai_server import OpenAIServer, tool_answers, tool_names

pytestmark = [pytest.mark.timeout(300)]

KEY = "dummy-key-0123456789-never-real"
SCRIPT = [
    ModelTurn(
        (Says("I look first."), Calls("bash", {"command": "env; cat notes.txt; tr '\\0' '\\n' < /proc/1/environ"}))
    ),
    ModelTurn((Calls("edit_file", {"path": "notes.txt", "old": "draft", "new": "final"}),)),
    ModelTurn((Calls("bash", {"command": "rm /etc/passwd", "host": True, "reason": "to tidy up"}),)),
    ModelTurn((Says("The notes are final."),)),
]


@pytest.fixture
def project(project: Path) -> Path:
    (project / "notes.txt").write_text("a draft\n")
    return project


def environ_for(server: OpenAIServer, tmp_path: Path, prices: str = "") -> dict[str, str]:
    config = tmp_path / "config.toml"
    config.write_text(
        f'endpoint = "work"\n[endpoints.work]\nurl = "{server.url}"\nmodel = "small-1"\nkey_env = "WORK_KEY"\n{prices}'
    )
    return kernel_environ(tmp_path / "home", KAGURA_CONFIG=str(config), WORK_KEY=KEY)


def test_it_edits_in_a_box_that_never_sees_the_key_and_its_unknown_price_is_not_0(project, tmp_path):
    cells = [
        "%load_ext kagura_kernel",
        "%%kagura --box bubblewrap\nMake the notes final.",
        "outcome = _\nprint(outcome.status, outcome.changed_files, outcome.usage.output_tokens, outcome.cost.usd)",
        "costs = %kagura cost\nprint(costs.iloc[0]['brain'], costs.iloc[0]['model'])",
        "brains = %kagura brain\nprint(*brains.set_index('brain').loc['pydantic_ai', ['ready', 'model']])",
    ]
    with OpenAIServer(SCRIPT, key=KEY) as server:
        ran = run_cells(cells, environ=environ_for(server, tmp_path), cwd=project)
        seen = tool_answers(server.turns[1].body)[0]
        offered = tool_names(server.turns[0].body)
    assert not ran[1].failed, ran[1].text
    assert "The notes are final." in ran[1].text
    assert "Denied by policy" in ran[1].text
    assert ran[2].text.strip() == "done ['notes.txt'] 160 None"
    assert ran[3].text.strip() == "pydantic_ai work:small-1"
    assert "True work:small-1" in ran[4].text
    assert "a draft" in seen
    assert KEY not in seen
    assert {"bash", "edit_file"} <= set(offered)
    assert (project / "notes.txt").read_text() == "a draft\n"
    everywhere = [file for file in (tmp_path / "home").rglob("*") if file.is_file() and not file.is_symlink()]
    assert everywhere
    assert [file for file in everywhere if KEY.encode() in file.read_bytes()] == []


def test_a_price_of_the_settings_is_counted_and_keeps_a_budget(project, tmp_path):
    cells = [
        "%load_ext kagura_kernel",
        "%%kagura --box bubblewrap --budget 0.002\nMake the notes final.",
        "%kagura cost last",
    ]
    with OpenAIServer(SCRIPT, key=KEY) as server:
        environ = environ_for(server, tmp_path, "input_usd = 1.0\noutput_usd = 2.0\n")
        ran = run_cells(cells, environ=environ, cwd=project)
        assert len(server.turns) == 2, "a turn costs $0.0015"
    assert "budget" in ran[1].text.lower()
    assert "0.003" in ran[2].text


SCRIPT_OF_CLAUDE_IN_A_KERNEL = [
    ModelTurn((Says("I look first."), Calls("bash", {"command": "cat notes.txt; hostname; id -u"}))),
    ModelTurn((Calls("edit_file", {"path": "notes.txt", "old": "draft", "new": "final"}),)),
    ModelTurn((Calls("bash", {"command": "rm /etc/passwd", "host": True, "reason": "to tidy up"}),)),
    ModelTurn((Says("The notes are final."),)),
]


def cells(box: str, image: str = "") -> list[str]:
    option = f" --image {image}" if image else ""
    return [
        "%load_ext kagura_kernel",
        f"%%kagura --brain claude --box {box}{option}\nMake the notes final.",
        "outcome = _\nprint(outcome.status, outcome.changed_files, outcome.usage.output_tokens, outcome.cost.usd)",
        "%kagura cost",
        "%kagura approvals",
    ]


def check(project: Path, ran: list, server: ModelServer, backend: str) -> None:
    card = ran[1].text
    assert not ran[1].failed, card
    assert "The notes are final." in card
    header = "".join(ran[1].data("text/html"))
    assert f"<b>Box</b> {backend}" in header
    assert "asked for" in header
    assert "Denied by policy" in card
    assert ran[2].text.startswith("done ['notes.txt'] 160 0.")
    assert (project / "notes.txt").read_text() == "a draft\n"
    assert "policy" in ran[4].text
    offered = {tool["name"] for request in server.requests for tool in request.body.get("tools", [])}
    assert offered
    assert all(name.startswith("mcp__kagura__") for name in offered)


def test_it_edits_in_bubblewrap_and_is_denied_the_host(project, tmp_path):
    with ModelServer(SCRIPT_OF_CLAUDE_IN_A_KERNEL) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        check(project, run_cells(cells("bubblewrap"), environ=environ, cwd=project), server, "bubblewrap")


KEY_OF_SEALED_IN_A_KERNEL = "sk-test-4f1d8c77b2e94c0a-never-real"
SCRIPT_OF_SEALED_IN_A_KERNEL = [
    calls("Bash", {"command": "cat notes.txt; hostname"}),
    calls("Read", {"file_path": "/workspace/notes.txt"}),
    calls("Edit", {"file_path": "/workspace/notes.txt", "old_string": "draft", "new_string": "final"}),
    calls("Bash", {"command": "python3 -c 'import urllib.request as u; u.urlopen(\"http://tracker.example\")'"}),
    calls("Bash", {"command": "echo as a variable: $limit"}),
    calls("python", {"code": "result = limit * 2"}),
    calls("bash", {"command": "rm /etc/passwd", "host": True, "reason": "to tidy up"}),
    says("The notes are final."),
]


def cells_of_sealed_in_a_kernel(box: str) -> list[str]:
    return [
        "%load_ext kagura_kernel\nlimit = 7",
        f"%%kagura --seal --box {box} -i limit -o result\nMake the notes final.",
        "outcome = _\nprint(outcome.status, outcome.changed_files, outcome.usage.output_tokens, result)",
        "%kagura cost",
        "%%kagura --seal --record tape.jsonl\nMake the notes final.",
        "%%kagura --seal --brain replay\nMake the notes final.",
    ]


def check_of_sealed_in_a_kernel(project: Path, ran: list, backend: str) -> None:
    card = ran[1].text
    assert not ran[1].failed, card
    assert "The notes are final." in card
    header = "".join(ran[1].data("text/html"))
    assert f"<b>Box</b> {backend}" in header
    assert "stays outside of the box" in header
    assert "a draft" in header
    assert "Read: /workspace/notes.txt" in card
    assert ran[2].text.startswith(f"done ['notes.txt'] {40 * len(SCRIPT_OF_SEALED_IN_A_KERNEL)} 14")
    assert "as a variable: 7" in header
    assert (project / "notes.txt").read_text() == "a draft\n"
    assert KEY_OF_SEALED_IN_A_KERNEL not in "".join(one.text for one in ran)
    assert "tracker.example:80" in card
    assert "Denied by policy" in card
    assert "--seal and --record do not go together" in ran[4].text
    assert "Use one of them" in ran[5].text


def test_it_edits_in_bubblewrap(project, tmp_path):
    with ModelServer(SCRIPT_OF_SEALED_IN_A_KERNEL, key=KEY_OF_SEALED_IN_A_KERNEL) as server:
        environ = kernel_environ(
            tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY_OF_SEALED_IN_A_KERNEL
        )
        check_of_sealed_in_a_kernel(
            project, run_cells(cells_of_sealed_in_a_kernel("bubblewrap"), environ=environ, cwd=project), "bubblewrap"
        )


def test_a_sealed_run_that_failed_is_gone_on_with_from_the_work_that_was_done(project, tmp_path):
    heard: list[str] = []

    def look(request: Any) -> ModelTurn:
        heard.extend(text for text, _ in tool_results(request))
        return says("It is final by now.")

    script = by_conversation(
        {
            "Go on with this task": [calls("Bash", {"command": "cat notes.txt"}), look],
            "Make the notes final": [
                calls("Bash", {"command": "sed -i s/draft/final/ notes.txt"}),
                Refusal(400, message="the service had enough"),
            ],
        }
    )
    again = [
        "%load_ext kagura_kernel",
        "%%kagura --seal --box bubblewrap\nMake the notes final.",
        "%%kagura --resume last",
    ]
    with ModelServer(script, key=KEY_OF_SEALED_IN_A_KERNEL) as server:
        environ = kernel_environ(
            tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY_OF_SEALED_IN_A_KERNEL
        )
        ran = run_cells(again, environ=environ, cwd=project)
        system = server.turns[-1].system
    assert "the service had enough" in ran[1].text
    assert "It is final by now." in ran[2].text
    assert heard == ["a final"]
    assert "You run inside the sandbox yourself" in system, "it goes on as it was: sealed"


AGENT = """\
name: analyst
system_prompt: You know what time it is.
toolsets:
  - {type: mcp, name: time, command: mcp-server-time, version: off, deny: [convert_time]}
"""
CLOCK = {"command": "mcp-server-time", "args": ["--local-timezone", "Asia/Tokyo"], "version": "off"}


def test_an_agent_has_its_own_server_and_a_file_takes_its_place_for_one_run(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "analyst.yaml").write_text(AGENT)
    (project / "servers.json").write_text(json.dumps({"mcpServers": {"Clock": CLOCK}}))
    read: list[tuple[str, bool]] = []

    def see(request: Any) -> ModelTurn:
        read.append(tool_results(request)[-1])
        return says("It is late.")

    asked = {"timezone": "Asia/Tokyo"}
    script = [calls("time_get_current_time", asked), see, calls("clock_get_current_time", asked), see]
    instead = "--mcp-config servers.json --strict-mcp-config"
    with ModelServer(script) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        ran = run_cells(
            [
                "%load_ext kagura_kernel",
                "%%kagura --brain claude --box bubblewrap --agent ./analyst.yaml\nWhat time is it in Tokyo?",
                f"%%kagura --brain claude --box bubblewrap --new --agent ./analyst.yaml {instead}\nAnd now?",
            ],
            environ=environ,
            cwd=project,
        )
        offered = [{name.removeprefix("mcp__kagura__") for name in offered_tools(turn.body)} for turn in server.turns]
        system = server.turns[0].system
    assert [one.failed for one in ran] == [False, False, False], ran[-1].text
    assert [(json.loads(text)["timezone"], is_error) for text, is_error in read] == [("Asia/Tokyo", False)] * 2
    first, second = offered[0], offered[2]
    assert "time_get_current_time" in first
    assert "time_convert_time" not in first, "the definition denies it"
    assert {"clock_get_current_time", "clock_convert_time"} <= second
    assert not any(name.startswith("time_") for name in second)
    assert "You know what time it is." in system
    assert "toolset time" in ran[1].text
    assert "It is late." in ran[2].text
