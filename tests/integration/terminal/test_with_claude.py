"""The real Claude program behind `kagura-kernel run`, with a model server on this machine's loopback."""

import json
from pathlib import Path

import pytest

from kagura_kernel.testing.guards import descendants
from kagura_kernel.testing.patience import wait_until
from tests.integration.terminal.conftest import ended
from tests.support.model_script import Calls, ModelTurn, Says, Silence
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.real_clock, pytest.mark.slow, pytest.mark.timeout(300)]


def signed_in(server: ModelServer) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "not-a-key"}


def test_a_session_is_resumed_and_its_words_are_kept_apart_from_progress(shell):
    script = [
        ModelTurn((Says("I look first."), Calls("bash", {"command": "echo 4711 > number.txt; cat number.txt"}))),
        ModelTurn((Says("It is 4711."),)),
        ModelTurn((Says("As I said, 4711."),)),
    ]
    with ModelServer(script) as server:
        first = shell.run("run", "Which number?", "--session", "numbers", "--write", "through", **signed_in(server))
        again = shell.run("run", "Again?", "--session", "numbers", "--json", **signed_in(server))
        talked = json.dumps(server.turns[-1].body["messages"])
    assert (first.returncode, first.stdout, first.stderr) == (0, "It is 4711.\n", "")
    assert (shell.project / "number.txt").read_text() == "4711\n"
    told = json.loads(again.stdout)
    assert (told["text"], told["session_id"], told["ok"]) == ("As I said, 4711.", "numbers", True)
    assert told["usage"]["output_tokens"] > 0
    # It goes on from the conversation of the other process.
    assert "Which number?" in talked
    assert "not-a-key" not in again.stdout + again.stderr


def test_control_c_while_the_model_thinks_takes_the_program_with_it(shell):
    with ModelServer([Silence()]) as server:
        child = shell.terminal("run", "Think.", **signed_in(server))
        wait_until(lambda: bool(server.turns))
        below = descendants(child.pid)
        assert below
        child.sendintr()
        child.expect_exact("was stopped by")
        assert ended(child) == 130
    wait_until(lambda: not any(Path(f"/proc/{one.pid}").exists() for one in below))
