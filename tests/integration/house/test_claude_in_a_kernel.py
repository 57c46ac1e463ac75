"""The whole house: the real Claude program, driven by `%%kagura` in a real kernel, acts in real boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import Calls, ModelTurn, Says
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]

SCRIPT = [
    ModelTurn((Says("I look first."), Calls("bash", {"command": "cat notes.txt; hostname; id -u"}))),
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
    with ModelServer(SCRIPT) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        check(project, run_cells(cells("bubblewrap"), environ=environ, cwd=project), server, "bubblewrap")


@pytest.mark.docker
def test_it_edits_in_docker_and_is_denied_the_host(project, tmp_path, docker_daemon):
    with ModelServer(SCRIPT) as server:
        environ = kernel_environ(
            tmp_path / "home",
            ANTHROPIC_BASE_URL=server.url,
            ANTHROPIC_API_KEY="not-a-key",
            DOCKER_HOST=docker_daemon.host,  # type: ignore[attr-defined]
        )
        check(project, run_cells(cells("docker"), environ=environ, cwd=project), server, "docker")
