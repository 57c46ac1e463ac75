"""A real kernel is killed while the real Claude program works: `--resume last` in a fresh one ends the work."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest
from nbclient.exceptions import DeadKernelError

from tests.support.kernel import kernel_environ, run_cells
from tests.support.model_script import Answer, Silence, calls, says, tool_results
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.timeout(300)]


def test_a_conversation_and_its_files_outlive_the_kernel(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("as it was\n")
    number = tmp_path / "pid"

    def kill(_request: Mapping[str, Any]) -> Answer:
        os.kill(int(number.read_text()), signal.SIGKILL)
        return Silence()

    script = [
        calls("plan", {"steps": ["write", "read"]}),
        calls("bash", {"command": "echo written once >> notes.txt"}),
        kill,
        calls("bash", {"command": "cat notes.txt"}),
        says("All is written."),
    ]
    with ModelServer(script) as server:
        environ = kernel_environ(tmp_path / "home", ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="not-a-key")
        first = [
            f"import os, pathlib\nwritten = pathlib.Path({str(number)!r}).write_text(str(os.getpid()))",
            "%load_ext kagura_kernel",
            "%%kagura --brain claude --box bubblewrap\nWrite it once.",
        ]
        with pytest.raises(DeadKernelError):
            run_cells(first, environ=environ, cwd=project)

        ran = run_cells(
            ["%load_ext kagura_kernel", "%%kagura --resume last", "print(_.status, _.changed_files)"],
            environ=environ,
            cwd=project,
        )
        told = server.requests[-1]

    assert not ran[1].failed, ran[1].text
    assert "All is written." in ran[1].text
    assert ran[2].text.startswith("done ['notes.txt']")
    said = str(told.body["messages"])
    assert "Write it once." in said
    assert tool_results(told.body) == [("as it was\nwritten once", False)]
    assert "You go on with work that was interrupted" in told.system
    assert (project / "notes.txt").read_text() == "as it was\n"
