"""The whole house with a model behind an OpenAI-compatible API: real kernel, real box."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import Calls, ModelTurn, Refusal, Says
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
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
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


def test_a_service_that_says_no_ends_the_cell_with_one_calm_line(project, tmp_path):
    cells = ["%load_ext kagura_kernel", "%%kagura --box bubblewrap\nMake the notes final."]
    with OpenAIServer(lambda _request: Refusal(401, message=f"no, {KEY}")) as server:
        ran = run_cells(cells, environ=environ_for(server, tmp_path), cwd=project)
    assert ran[1].failed
    assert "does not accept the key (401). Check endpoints.work.key_env" in ran[1].text
    assert KEY not in ran[1].text


def test_with_nothing_configured_the_model_says_where_and_without_it_the_cell_says_what_is_missing(project, tmp_path):
    config = tmp_path / "config.toml"
    cells = [
        "%load_ext kagura_kernel",
        "%%kagura --box bubblewrap --brain pydantic_ai --model work:small-2\nMake the notes final.",
        "%%kagura --box bubblewrap --brain pydantic_ai --new\nMake the notes final.",
        "%%kagura --box bubblewrap --new\nMake the notes final.",
    ]
    with OpenAIServer([ModelTurn((Says("They are."),))]) as server:
        config.write_text(f'[endpoints.work]\nurl = "{server.url}"\n')
        ran = run_cells(cells, environ=kernel_environ(tmp_path / "home", KAGURA_CONFIG=str(config)), cwd=project)
        assert [request.body["model"] for request in server.turns] == ["small-2"]
    assert "They are." in ran[1].text
    assert "no endpoint is named: set `endpoint`" in ran[2].text
    assert "Four ways to get one" in ran[3].text
