"""The whole house, sealed: `%%kagura --seal` in a real kernel, the real program in a real box, the key outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import (
    ModelTurn,
    Refusal,
    by_conversation,
    calls,
    says,
    tool_results,
)
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]

KEY = "sk-test-4f1d8c77b2e94c0a-never-real"
SCRIPT = [
    calls("Bash", {"command": "cat notes.txt; hostname"}),
    calls("Read", {"file_path": "/workspace/notes.txt"}),
    calls("Edit", {"file_path": "/workspace/notes.txt", "old_string": "draft", "new_string": "final"}),
    calls("Bash", {"command": "python3 -c 'import urllib.request as u; u.urlopen(\"http://tracker.example\")'"}),
    calls("Bash", {"command": "echo as a variable: $limit"}),
    calls("python", {"code": "result = limit * 2"}),
    calls("bash", {"command": "rm /etc/passwd", "host": True, "reason": "to tidy up"}),
    says("The notes are final."),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("a draft\n")
    return project


def cells(box: str) -> list[str]:
    return [
        "%load_ext kagura_kernel\nlimit = 7",
        f"%%kagura --seal --box {box} -i limit -o result\nMake the notes final.",
        "outcome = _\nprint(outcome.status, outcome.changed_files, outcome.usage.output_tokens, result)",
        "%kagura cost",
        "%%kagura --seal --record tape.jsonl\nMake the notes final.",
        "%%kagura --seal --brain replay\nMake the notes final.",
    ]


def check(project: Path, ran: list, backend: str) -> None:
    card = ran[1].text
    assert not ran[1].failed, card
    assert "The notes are final." in card
    header = "".join(ran[1].data("text/html"))
    assert f"<b>Box</b> {backend}" in header
    assert "stays outside of the box" in header
    assert "a draft" in header
    assert "Read: /workspace/notes.txt" in card
    assert ran[2].text.startswith(f"done ['notes.txt'] {40 * len(SCRIPT)} 14")
    assert "as a variable: 7" in header
    assert (project / "notes.txt").read_text() == "a draft\n"
    assert KEY not in "".join(one.text for one in ran)
    assert "tracker.example:80" in card
    assert "Denied by policy" in card
    assert "--seal and --record do not go together" in ran[4].text
    assert "Use one of them" in ran[5].text


def test_it_edits_in_bubblewrap(project, tmp_path):
    with ModelServer(SCRIPT, key=KEY) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY)
        check(project, run_cells(cells("bubblewrap"), environ=environ, cwd=project), "bubblewrap")


@pytest.mark.docker
@pytest.mark.slow
def test_it_edits_in_docker(project, tmp_path, docker_daemon):
    with ModelServer(SCRIPT, key=KEY) as server:
        environ = kernel_environ(
            tmp_path / "home",
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY=KEY,
            DOCKER_HOST=docker_daemon.host,  # type: ignore[attr-defined]
        )
        check(project, run_cells(cells("docker"), environ=environ, cwd=project), "docker")


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
    with ModelServer(script, key=KEY) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY)
        ran = run_cells(again, environ=environ, cwd=project)
        system = server.turns[-1].system
    assert "the service had enough" in ran[1].text
    assert "It is final by now." in ran[2].text
    assert heard == ["a final"]
    assert "You run inside the sandbox yourself" in system, "it goes on as it was: sealed"
