"""The real Claude program in real boxes: free in there, held at the wall, and without its key."""

import asyncio
import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.events import (
    EgressDecided,
    ImageSent,
    ModelCalled,
    PersonHeard,
    PersonSaid,
    ResultShown,
    RunFinished,
    RunGranted,
    TextWritten,
    ToolCalled,
    ToolFinished,
    TurnCounted,
)
from kagura_kernel.domain.images import read_image
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.runs.git_places import pushes_to
from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.gvisor import RunscBackend
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.patience import eventually
from tests.integration.runs.sealed import KEY, SealedRuns, a_web_server, box_mates, holds, processes_with, programs_at
from tests.support.docker_images import PYTHON
from tests.support.earned_trust import earn_trust, trust_row
from tests.support.effort import EVERYTHING
from tests.support.gallery import png
from tests.support.model_script import ModelTurn, Refusal, Silence, calls, images_in, offered_tools, says, tool_results
from tests.support.model_server import ModelServer
from tests.support.plugins import FakePlugin, FakePlugins

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

FAULTY = "def add(one, other):\n    return one - other\n"
TEST = """\
import unittest
from sums import add


class Sums(unittest.TestCase):
    def test_two_and_two_are_four(self):
        self.assertEqual(add(2, 2), 4)
"""


IN_DOCKER = pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])

anywhere = pytest.mark.parametrize("endpoint", ["bubblewrap", *([IN_DOCKER] if EVERYTHING else [])], indirect=True)
"""For what is decided outside, by what comes out of a box of whatever kind."""


@pytest.fixture(params=["bubblewrap", IN_DOCKER])
def endpoint(request: pytest.FixtureRequest) -> Endpoint | None:
    """Where the daemon listens; None for the boxes that need none."""
    return request.getfixturevalue("docker_endpoint") if request.param == "docker" else None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend_at() -> AsyncIterator[Callable[[Endpoint | None], SandboxBackend]]:
    """The back-end there; the same for all, so that the program, which is large, is copied into a volume once."""
    made: dict[str, SandboxBackend] = {}

    def backend(endpoint: Endpoint | None) -> SandboxBackend:
        if endpoint is None:
            return made.setdefault("", BubblewrapBackend())
        if endpoint.url not in made:
            made[endpoint.url] = DockerBackend(endpoint)
        return made[endpoint.url]

    yield backend
    for one in made.values():
        await one.close()


@pytest_asyncio.fixture(loop_scope="module")
async def sealed(
    endpoint: Endpoint | None, backend_at: Callable[[Endpoint | None], SandboxBackend], project: Path, tmp_path: Path
) -> AsyncIterator[SealedRuns]:
    runs = SealedRuns(backend_at(endpoint), None if endpoint is None else PYTHON, tmp_path / "home", project)
    yield runs
    runs.close()


def fetch(host: str, port: int) -> ModelTurn:
    code = f"import urllib.request as u; print(u.urlopen('http://{host}:{port}/').read().decode())"
    return calls("Bash", {"command": f'python3 -c "{code}"'})


async def test_it_hears_in_its_box_what_a_person_says_while_its_own_tool_runs(sealed):
    read: list[str] = []

    def answer(request: dict[str, Any]) -> ModelTurn:
        read.append(str(request["messages"]))
        return says("The second.")

    with ModelServer([calls("Bash", {"command": "touch begun; sleep 3"}), answer]) as server:
        run = sealed.make(server)
        events = []
        async for event in run.events():
            events.append(event)
            if isinstance(event, ToolCalled):
                assert await run.say(Sentence("Not that: the second sheet.", "ann", "cell")) == ""
    assert run.outcome is not None
    assert run.outcome.text == "The second."
    assert "Not that: the second sheet." in read[0]
    kinds = [event.kind for event in events if isinstance(event, ToolFinished | PersonSaid | PersonHeard | TextWritten)]
    assert kinds == ["person.said", "tool.finished", "person.heard", "text.written"]


async def test_it_mends_a_project_is_denied_a_host_and_is_given_another(sealed):
    (sealed.project / "sums.py").write_text(FAULTY)
    (sealed.project / "test_sums.py").write_text(TEST)
    asked = ScriptedApprover(Verdict.DENY, Verdict.ALLOW, Verdict.ALLOW, answer="blue")
    with a_web_server("the data") as port:
        script = [
            calls("Bash", {"command": "python3 -B -m unittest -q 2>&1"}),
            calls("Read", {"file_path": "/workspace/sums.py"}),
            calls(
                "Edit", {"file_path": "/workspace/sums.py", "old_string": "one - other", "new_string": "one + other"}
            ),
            calls("Bash", {"command": "python3 -B -m unittest -q 2>&1 && id -un && hostname"}),
            fetch("tracker.example", port),
            fetch("data.example", port),
            calls("ask_user", {"question": "Which colour?"}),
            says("Two and two are four."),
        ]
        with ModelServer(script, key=KEY) as server:
            ended = await sealed.run(server, approver=asked, net=("ask", f"127.0.0.1:{port}"))
            requests = server.requests

    assert ended.outcome.status == "done", ended.outcome.error
    assert ended.outcome.text == "Two and two are four."
    assert ended.used == ["Bash", "Read", "Edit", "Bash", "Bash", "Bash", "ask_user"]
    answers = [text for _, text in ended.said]
    assert "FAILED (failures=1)" in answers[0]
    assert "OK" in answers[3]
    assert "HTTP Error 403" in answers[4]
    assert answers[5] == "the data"
    assert answers[6] == "blue"
    kinds = [request.kind for request in asked.requests]
    assert kinds == [ApprovalKind.NETWORK, ApprovalKind.NETWORK, ApprovalKind.QUESTION]
    decided = {(fact.host, fact.allowed) for fact in ended.of(EgressDecided)}
    assert decided == {("tracker.example", False), ("data.example", True)}

    # The changes are a run's like any other: the project itself is as it was.
    assert [change.path for change in ended.outcome.changes] == ["sums.py"]
    assert (sealed.project / "sums.py").read_text() == FAULTY
    # What it cost was counted outside, answer by answer.
    assert len(ended.of(TurnCounted)) == len(script)
    assert ended.outcome.usage.output_tokens == 40 * len(script)
    assert ended.outcome.cost.reported_usd is None
    assert [(one.path, one.status) for one in ended.of(ModelCalled)] == [("/v1/messages", 200)] * len(script)
    assert {request.path for request in requests} == {"/v1/messages?beta=true"}
    (granted,) = ended.of(RunGranted)
    assert ("its brain’s program", "/kagura/claude", "read") in {
        (mount.source, mount.target, mount.mode) for mount in granted.mounts
    }


@anywhere
@pytest.mark.parametrize("inside", [True, False], ids=["sealed", "on the host"])
async def test_it_is_shown_a_figure_that_python_has_drawn_and_an_image_file(sealed, tmp_path, inside):
    (sealed.project / "plan.png").write_bytes(png(20, 10))
    look = {"file_path": "/workspace/plan.png"} if inside else {"path": "plan.png"}
    draw = {"code": "import matplotlib.pyplot as plt; plt.plot([1, 3, 2]); plt.show()"}
    script = [calls("python", draw), calls("Read" if inside else "read_file", look), says("A peak.")]
    with ModelServer(script, key=KEY) as server:
        environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        ended = await sealed.run(server, brain=None if inside else ClaudeBrain(environ, tmp_path / "claude"))
        images = images_in(server.turns[-1].body)
    assert ended.outcome.status == "done", ended.outcome.error
    (figure,) = ended.of(ResultShown)
    assert [where for where, _ in images] == ["tool_result"] * 2
    drawn, read = (read_image(base64.b64decode(data)) for _, data in images)
    assert drawn.data == read_image(base64.b64decode(figure.data)).data
    assert (read.width, read.height) == (20, 10)
    # The journal says what was sent, by its hash.
    facts = [(one.call_id, one.width, one.height, one.sha256) for one in ended.of(ImageSent)]
    ids = [one.call_id for one in ended.of(ToolCalled)]
    assert facts == [(call, one.width, one.height, one.sha256) for call, one in zip(ids, (drawn, read), strict=True)]


@anywhere
async def test_the_model_is_offered_the_programs_own_tools_and_ours_that_cross_the_wall(sealed):
    with ModelServer([says("ok")], key=KEY) as server:
        await sealed.run(server)
        (request,) = server.turns
    offered = set(offered_tools(request.body))
    assert {"Bash", "Read", "Edit", "Write", "Glob", "Grep"} <= offered
    assert {"mcp__kagura__bash", "mcp__kagura__ask_user"} <= offered
    assert not offered & {"WebFetch", "WebSearch", "mcp__kagura__read_file", "mcp__kagura__edit_file"}
    assert "Tools whose names begin with `mcp__kagura__` cross its wall" in request.system


async def test_the_key_is_nowhere_in_the_box(sealed):
    """Looked for byte by byte, from inside in what a program there can read, and from outside in everything."""
    placeholder = b"added-by-the-membrane"
    wanted = (KEY.encode(), KEY.encode("utf-16-le"), KEY[::-1].encode(), placeholder)
    outside: dict[str, dict[str, set[bytes]]] = {}
    inside: list[str] = []
    # The program's text holds the key backwards, and is the only thing in the box that does.
    search = (Path(__file__).parent / "sealed_search.py").read_text()
    program_name = f"search-{uuid.uuid4().hex}.py"
    (sealed.project / program_name).write_text(search)
    began = (sealed.project / program_name).stat().st_ctime

    def look(request: Any) -> ModelTurn:
        inside.extend(text for text, _ in tool_results(request))
        if os.geteuid() == 0:
            (program, *_) = programs_at(program_name)
            for mate in box_mates(program):
                if (held := holds(mate, wanted)) is not None:
                    outside[mate.name] = held
        return says("Nothing.")

    command = f"python3 {program_name} {began} {KEY[::-1]} {placeholder.decode()[::-1]}"
    with ModelServer([calls("Bash", {"command": command, "timeout": 300_000}), look], key=KEY) as server:
        ended = await sealed.run(server)

    assert ended.outcome.status == "done", ended.outcome.error
    (found,) = inside
    assert "SEARCHED" in found
    # What is there is found, so that finding nothing says something.
    assert f"environ {placeholder.decode()[::-1]}" in found
    assert f"file {placeholder.decode()[::-1]}" in found
    assert KEY[::-1] not in found, found
    if os.geteuid() == 0:
        assert any(placeholder in texts for places in outside.values() for texts in places.values())
        leaks = {who: places for who, places in outside.items() if any(wanted[0] in one for one in places.values())}
        assert leaks == {}
        assert not any(wanted[1] in one for places in outside.values() for one in places.values())


@anywhere
async def test_only_what_thinks_passes_and_with_nobody_elses_key(sealed):
    (sealed.project / "tries.py").write_text((Path(__file__).parent / "sealed_tries.py").read_text())
    with ModelServer([calls("Bash", {"command": "python3 tries.py"}), says("ok"), says("ok")], key=KEY) as server:
        ended = await sealed.run(server, price=lambda _usage, model, _at: (None if model == "x" else 0.1, "a list"))
        passed = [request for request in server.requests if request.headers.get("user-agent") == "tries"]
    assert ended.outcome.status == "done", ended.outcome.error
    tried = dict(line.split(" ", 1) for line in ended.said[0][1].splitlines())
    assert tried.pop("thinks") == "200"
    assert {name: status for name, status in tried.items() if not status.startswith("4")} == {}
    assert len(tried) == 14
    # The one that passed bears our key in place of the one that it was sent with, and no header that was not known.
    assert [request.path for request in passed] == ["/v1/messages"]
    assert not {"x-evil", "authorization", "cookie"} & set(passed[0].headers)
    assert sum(one.times for one in ended.refused) == len(tried)
    # Nothing of it has hidden what the run cost, or said that another model had thought.
    assert ended.outcome.cost.usd == pytest.approx(0.3)
    assert ended.of(RunFinished)[0].model == ended.of(TurnCounted)[0].model != "m"


@anywhere
async def test_a_budget_is_kept_outside_whatever_the_box_says(sealed):
    again = calls("Bash", {"command": "true"})
    with ModelServer([again] * 9, key=KEY) as server:
        ended = await sealed.run(server, price=lambda *_: (0.4, "a list"), budget_usd=1.0)
        answered = len(server.turns)
    assert (ended.outcome.status, ended.outcome.error_code) == ("stopped", "ERR_BUDGET_EXHAUSTED")
    assert answered == 3
    assert ended.outcome.cost.usd == pytest.approx(1.2)


@anywhere
async def test_changes_reach_the_project_as_they_are_made_where_that_was_asked_for(sealed):
    seen: list[str] = []

    def look(_request: Any) -> ModelTurn:
        seen.append((sealed.project / "made.txt").read_text())
        return says("ok")

    write = calls("Write", {"file_path": "/workspace/made.txt", "content": "made"})
    wait = calls("ask_user", {"question": "Go on?"})
    with ModelServer([write, wait, look], key=KEY) as server:
        asked = ScriptedApprover(Verdict.ALLOW)
        ended = await sealed.run(server, write_mode=WriteMode.THROUGH, approver=asked)
    assert ended.outcome.status == "done", ended.outcome.error
    assert seen == ["made"]


async def test_plugins_and_host_commands_are_reached_from_inside_and_asked_about(sealed):
    def upper(text: str) -> str:
        return text.upper()

    plugin = FakePlugin("words-plugin", {"words": {"upper": upper}})
    code = "from kagura_host import words; print(words.upper('abc'))"
    script = [
        calls("Bash", {"command": f'python3 -c "{code}"'}),
        calls("bash", {"command": "echo on the host", "host": True, "reason": "to see"}),
        calls("bash", {"command": "echo again", "host": True, "reason": "to see"}),
        says("ok"),
    ]
    asked = ScriptedApprover(Verdict.ALLOW, Verdict.DENY)
    with ModelServer(script, key=KEY) as server:
        ended = await sealed.run(server, approver=asked, plugins=FakePlugins(plugin))
    assert ended.outcome.status == "done", ended.outcome.error
    (called, allowed, denied) = ended.of(ToolFinished)
    assert called.text == "ABC"
    assert plugin.calls == [("words", "upper", ["abc"], {})]
    assert ("on the host" in allowed.text, allowed.route) == (True, "host")
    assert denied.is_error
    assert [request.kind for request in asked.requests] == [ApprovalKind.HOST_COMMAND] * 2


@anywhere
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
async def test_earned_trust_answers_nothing_that_a_box_asks(sealed, tmp_path):
    remote = tmp_path / "remote.git"
    for words in (
        ("init", "--quiet", "--bare", "--initial-branch=main", str(remote)),
        ("init", "--quiet", "--initial-branch=main"),
        ("remote", "add", "origin", str(remote)),
        ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "-m", "one"),
    ):
        await asyncio.to_thread(subprocess.run, ["git", *words], cwd=sealed.project, check=True)
    earn_trust(sealed.journal, names=tuple(await pushes_to(sealed.project)))
    now = sealed.journal.clock.now()
    sealed.journal.append(trust_row("proposed", now))
    sealed.journal.append(trust_row("granted", now, signal="human", by="ann", via="cell"))
    push = {"command": "git push origin main", "host": True, "reason": "It is finished."}
    asked = ScriptedApprover(Verdict.DENY)
    with ModelServer([calls("bash", push), says("ok")], key=KEY) as server:
        # A brain outside of the box is not asked about any more, so that the question says something.
        outside = await sealed.run(server, approver=asked, brain=FakeBrain((Ask("bash", push), "Pushed.")))
        assert [event.route for event in outside.of(ToolFinished)] == ["host"]
        assert asked.requests == []
        inside = await sealed.run(server, approver=asked)
    assert [request.kind for request in asked.requests] == [ApprovalKind.HOST_COMMAND]
    assert inside.of(ToolFinished)[0].is_error


@pytest.mark.parametrize("how", ["killed", "closed"])
async def test_stopping_it_leaves_no_process(sealed, how):
    seconds = f"{987_000 + os.getpid() % 1000}.{'25' if how == 'killed' else '75'}"
    command = f"setsid sleep {seconds} & (sleep {seconds} &) ; sleep {seconds}"
    with ModelServer([calls("Bash", {"command": command}), Silence()], key=KEY) as server:
        run = sealed.make(server)
        async with aclosing(run.events()) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, ToolCalled):
                    await eventually(lambda: len(processes_with(seconds)) >= 3)
                    assert processes_with("/kagura/claude/claude")
                    if how == "closed":
                        break
                    run.kill("the test")
    assert processes_with(seconds) == []
    if how == "killed":
        assert run.outcome is not None
        assert run.outcome.status == "killed"


async def test_a_program_that_is_killed_by_its_own_box_is_told_of(sealed):
    kill = calls("Bash", {"command": "kill -9 $PPID; sleep 60"})
    with ModelServer([kill, says("never said")], key=KEY) as server:
        ended = await sealed.run(server)
    assert (ended.outcome.status, ended.outcome.error_code) == ("failed", "ERR_BRAIN_LOST")
    assert "The sealed brain was lost: its program was killed" in ended.outcome.error


@anywhere
async def test_a_key_that_is_not_accepted_is_told_without_the_key(sealed):
    with ModelServer([says("ok")], key="another-key") as server:
        ended = await sealed.run(server)
    assert ended.outcome.status == "failed"
    assert "not accepted (401)" in ended.outcome.error
    assert KEY not in "".join(event.model_dump_json() for event in ended.events)


@anywhere
async def test_a_service_that_says_no_is_told_in_its_words(sealed):
    with ModelServer(lambda _request: Refusal(404), key=KEY) as server:
        ended = await sealed.run(server)
    assert ended.outcome.error_code == "ERR_BRAIN_REFUSED"
    assert "no such model" in ended.outcome.error


@anywhere
async def test_a_token_for_a_gateway_stays_outside_like_a_key(sealed):
    with ModelServer([calls("Bash", {"command": "env | grep ^ANTHROPIC | sort"}), says("ok")], key=KEY) as server:
        environ = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": server.url}
        ended = await sealed.run(server, environ=environ)
    assert ended.outcome.status == "done", ended.outcome.error
    ((_, said),) = ended.said
    assert said.startswith("ANTHROPIC_AUTH_TOKEN=added-by-the-membrane\nANTHROPIC_BASE_URL=http://127.0.0.1:")


@pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc")
async def test_it_works_where_another_kernel_answers(project, tmp_path):
    (project / "notes.txt").write_text("a draft\n")
    script = [calls("Bash", {"command": "sed -i s/draft/final/ notes.txt && dmesg | head -1"}), says("ok")]
    backend = RunscBackend()
    runs = SealedRuns(backend, None, tmp_path / "home", project)
    try:
        with ModelServer(script, key=KEY) as server:
            ended = await runs.run(server)
    finally:
        runs.close()
        await backend.close()
    assert ended.outcome.status == "done", ended.outcome.error
    assert [change.path for change in ended.outcome.changes] == ["notes.txt"]


async def test_a_box_that_floods_with_questions_is_told_to_wait():
    from kagura_kernel.domain.tools import ToolCall, ToolResult
    from kagura_kernel.runs.sealed_run import CALLS_AT_FIRST, paced
    from kagura_kernel.testing.clock import FakeClock

    made: list[str] = []

    async def call_tool(call: ToolCall) -> ToolResult:
        made.append(call.id)
        return ToolResult("answered")

    call = paced(call_tool, FakeClock())
    results = await asyncio.gather(*(call(ToolCall(f"call-{n}", "ask_user", {})) for n in range(CALLS_AT_FIRST + 50)))
    assert CALLS_AT_FIRST <= len(made) <= CALLS_AT_FIRST + 1
    assert results[-1].is_error
    assert "ask more slowly" in results[-1].text
