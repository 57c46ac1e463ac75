"""The Claude brain and its real program, offline: what the program gets, what it is refused, and how it ends."""

import base64
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainSession, BrainText, BrainUsage, Turn
from kagura_kernel.domain.errors import BrainForgot, BrainLost, BrainNotConfigured, BrainRefused
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.runs.checkpoints import or_afresh
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events, child_processes
from kagura_kernel.testing.patience import eventually
from tests.support.model_script import (
    BrokenStream,
    Calls,
    ModelTurn,
    Refusal,
    Silence,
    calls,
    images_in,
    offered_tools,
    says,
    tool_results,
)
from tests.support.model_server import ModelServer

KEY = "dummy-key-0123456789-never-real"
ECHO = {"word": "one"}
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# Each test starts the program, and none needs another: two workers share the file.
SECOND = pytest.mark.xdist_group("claude: the service and its ending")


def brain_at(server: ModelServer, state: Path, **knobs: Any) -> ClaudeBrain:
    return ClaudeBrain({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}, state, **knobs)


async def done_of(brain: ClaudeBrain, turn: Turn) -> BrainDone:
    last = (await all_events(brain, turn))[-1]
    assert isinstance(last, BrainDone)
    return last


# ------------------------------------------------------------- what it is given


async def test_it_gets_our_tools_and_what_signs_it_in_alone_and_leaves_neither_key_nor_temporary_file(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KAGURA_CANARY", "sings")
    seen: dict[str, str] = {}
    facts: list[tuple[bool, bool, Path]] = []
    arguments: list[str] = []

    def look() -> None:
        (pid,) = child_processes()
        proc = Path(f"/proc/{pid}")
        lines = (proc / "environ").read_bytes().split(b"\0")
        seen.update(line.decode().split("=", 1) for line in lines if line)
        facts.append((os.getpgid(pid) == pid, os.getsid(pid) == pid, (proc / "cwd").readlink()))
        arguments.append((proc / "cmdline").read_text())

    async def call_tool(_call: ToolCall) -> ToolResult:
        look()
        return ToolResult("seen")

    with ModelServer([calls("echo", ECHO), says("ok"), says("word " * 400, delay=0.05)]) as server:
        brain = brain_at(server, tmp_path)
        await done_of(brain, a_turn(call_tool))
        request = server.turns[0]
        url = server.url

        # What the environment had.
        assert facts == [(True, True, tmp_path / "empty")], "it leads a group and a session of its own"
        assert "You are being tested" not in arguments[0]
        assert KEY not in arguments[0]
        assert "KAGURA_CANARY" not in seen
        assert {name for name in seen if seen[name] == os.environ.get(name)} <= {"LANG", "TERM"}
        assert seen["PATH"] == "/usr/bin:/bin"
        assert seen["HOME"].startswith(str(tmp_path))
        assert seen["ANTHROPIC_API_KEY"] == KEY
        assert seen["ANTHROPIC_BASE_URL"] == url

        # What the model was offered.
        assert offered_tools(request.body) == ["mcp__kagura__echo"]
        assert "You are being tested." in request.system

        # What is left of a run that ended.
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert files
        assert [file for file in files if KEY.encode() in file.read_bytes()] == []
        assert tmp_path.joinpath("home").stat().st_mode & 0o077 == 0
        assert list((tmp_path / "cache").iterdir()) == []
        assert list((tmp_path / "empty").iterdir()) == []

        # And of one that is cut off.
        cut_off = brain.run(a_turn(ToolLog()))
        await anext(cut_off)
        assert len(list((tmp_path / "cache").iterdir())) == 1
        await cut_off.aclose()
    assert list((tmp_path / "cache").iterdir()) == []
    assert list((tmp_path / "empty").iterdir()) == []


async def test_a_built_in_tool_that_the_model_asks_for_all_the_same_does_not_run(tmp_path):
    marker = tmp_path / "marker"
    asks = ModelTurn((Calls("Bash", {"command": f"touch {marker}"}), Calls("Write", {"file_path": str(marker)})))
    answers: list[tuple[str, bool]] = []

    def see(request: Any) -> ModelTurn:
        answers.extend(tool_results(request))
        return says("I could not.")

    log = ToolLog()
    with ModelServer([asks, see]) as server:
        await done_of(brain_at(server, tmp_path / "state"), a_turn(log))
    assert [is_error for _, is_error in answers] == [True, True]
    assert not marker.exists()
    assert log.calls == []


async def test_a_file_named_in_the_task_is_not_read_and_a_command_in_it_is_not_run(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the-canary-in-the-file")
    for task in (f"@{secret} what is in it?", "/compact", "/init"):
        with ModelServer([says("ok")]) as server:
            turn = Turn(task=task, system="s", tools=[], call_tool=ToolLog())
            await done_of(brain_at(server, tmp_path / "state"), turn)
            (request,) = server.turns
        assert task in json.dumps(request.body["messages"])
        assert "the-canary-in-the-file" not in json.dumps(request.body)


async def test_a_signed_in_person_lends_the_sign_in_and_nothing_else_of_the_configuration(tmp_path):
    person = tmp_path / "person"
    config = person / ".claude"
    (config / "skills" / "odd").mkdir(parents=True)
    tokens = {
        "accessToken": "sk-ant-oat01-dummy",
        "refreshToken": "sk-ant-ort01-dummy",
        "expiresAt": int((time.time() + 9 * 3600) * 1000),
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    (config / ".credentials.json").write_text(json.dumps({"claudeAiOauth": tokens}))
    (config / "CLAUDE.md").write_text("CANARY in the memory")
    (config / "skills" / "odd" / "SKILL.md").write_text("---\nname: odd\ndescription: CANARY skill\n---\n")
    hook = [{"matcher": "*", "hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}]
    hooks = {"SessionStart": hook, "PreToolUse": hook, "UserPromptSubmit": hook}
    (config / "settings.json").write_text(json.dumps({"model": "claude-canary", "hooks": hooks}))
    servers = {"odd": {"command": "touch", "args": [f"{tmp_path}/started"]}}
    (person / ".claude.json").write_text(json.dumps({"mcpServers": servers}))

    with ModelServer([calls("echo", ECHO), says("ok")], key="sk-ant-oat01-dummy") as server:
        brain = ClaudeBrain({"HOME": str(person), "ANTHROPIC_BASE_URL": server.url}, tmp_path / "state")
        assert brain.resolve_auth().method == "sign-in"
        await done_of(brain, a_turn(ToolLog()))
        requests = server.turns
    assert len(requests) == 2
    assert "CANARY" not in json.dumps([dict(request.body) for request in requests])
    assert all(request.body["model"] != "claude-canary" for request in requests)
    assert not (tmp_path / "hooked").exists()
    assert not (tmp_path / "started").exists()


# ------------------------------------------------------------------------ tools


async def test_calls_that_may_change_something_are_made_one_after_the_other(tmp_path):
    careful = ToolSpec("echo", "Says it.", {"type": "object", "properties": {"word": {"type": "string"}}})
    log = ToolLog(wait=0.2)
    both = ModelTurn((Calls("echo", {"word": "first"}), Calls("echo", {"word": "second"})))
    with ModelServer([both, says("ok")]) as server:
        await done_of(brain_at(server, tmp_path), Turn("go", "s", [careful], log))
    assert [call.arguments["word"] for call in log.calls] == ["first", "second"]
    assert log.most_at_once == 1


async def test_a_long_result_reaches_the_model_whole(tmp_path):
    whole = "x" * 180_000 + "END"
    answers: list[tuple[str, bool]] = []

    async def long(_call: ToolCall) -> ToolResult:
        return ToolResult(whole)

    def see(request: Any) -> ModelTurn:
        answers.extend(tool_results(request))
        return says("ok")

    with ModelServer([calls("echo", ECHO), see]) as server:
        await done_of(brain_at(server, tmp_path), a_turn(long))
    assert answers == [(whole, False)]


async def test_an_image_in_a_result_reaches_the_model_as_it_is(tmp_path):
    picture = Image("image/png", 1, 1, DOT)

    async def draw(_call: ToolCall) -> ToolResult:
        return ToolResult("drawn", images=(picture,))

    with ModelServer([calls("echo", ECHO), says("a dot")]) as server:
        await done_of(brain_at(server, tmp_path), a_turn(draw))
        request = server.turns[-1].body
    assert images_in(request) == [("tool_result", picture.base64)]
    ((text, is_error),) = tool_results(request)
    assert (text.startswith("drawn"), is_error) == (True, False)


async def test_images_of_a_task_come_before_it_and_it_is_still_taken_as_it_was_written(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the-canary-in-the-file")
    picture = Image("image/png", 1, 1, DOT, "dot.png")
    for task in (f"@{secret} what is in it?", "/compact"):
        with ModelServer([says("ok")]) as server:
            turn = Turn(task=task, system="s", tools=[], call_tool=ToolLog(), images=[picture])
            await done_of(brain_at(server, tmp_path / "state"), turn)
            (request,) = server.turns
        assert images_in(request.body) == [("user", picture.base64)]
        assert "the-canary-in-the-file" not in json.dumps(request.body)
        name, _, said, *_ = request.body["messages"][0]["content"]
        assert (name["text"], said["text"].strip()) == ("dot.png:", task)


async def test_it_uses_the_model_it_is_asked_for(tmp_path):
    with ModelServer([says("ok")]) as server:
        done = await done_of(brain_at(server, tmp_path), a_turn(ToolLog(), model="claude-sonnet-4-5"))
        (request,) = server.turns
    assert request.body["model"] == done.model == "claude-sonnet-4-5"


async def test_a_tool_call_is_not_silence(tmp_path):
    log = ToolLog(wait=6.0)
    with ModelServer([calls("echo", ECHO), says("ok")]) as server:
        done = await done_of(brain_at(server, tmp_path, silence=4.0), a_turn(log))
    assert done.text == "ok"


# ------------------------------------------------------------- sessions and money


async def test_a_resumed_session_goes_on_and_reports_only_what_it_added(tmp_path):
    with ModelServer([says("I keep 17 in mind."), says("17.")]) as server:
        brain = brain_at(server, tmp_path)
        first = await done_of(brain, a_turn(ToolLog()))
        second = await done_of(brain, a_turn(ToolLog(), resume=first.session))
        request = server.turns[-1]
    assert "I keep 17 in mind." in json.dumps(request.body["messages"])
    assert first.reported_usd == pytest.approx(second.reported_usd)
    assert first.reported_usd
    assert second.session != first.session, "the session carries what it has cost so far"
    assert second.usage == first.usage


async def test_a_session_that_is_not_there_is_refused_with_a_way_on(tmp_path):
    with ModelServer([says("never")]) as server:
        turn = a_turn(ToolLog(), resume="00000000-0000-4000-8000-000000000000$0.1")
        with pytest.raises(BrainRefused, match="--new"):
            await all_events(brain_at(server, tmp_path), turn)
        assert server.turns == []


async def test_a_session_cannot_smuggle_in_an_option(tmp_path):
    with ModelServer([says("never")]) as server:
        with pytest.raises(BrainRefused, match="no session"):
            await all_events(brain_at(server, tmp_path), a_turn(ToolLog(), resume="x --dangerously-skip-permissions"))
        assert server.requests == []


async def test_it_stops_when_the_turns_are_used_up(tmp_path):
    with ModelServer([calls("echo", ECHO)] * 9) as server:
        done = await done_of(brain_at(server, tmp_path), a_turn(ToolLog(), max_turns=2))
    assert (done.stopped, done.turns) == ("turns", 2)


@pytest.mark.parametrize(("limit", "stopped"), [({"budget_usd": 0.0}, "budget"), ({"max_turns": 0}, "turns")])
async def test_with_nothing_left_to_spend_nothing_is_asked(tmp_path, limit, stopped):
    with ModelServer([says("never")]) as server:
        done = await done_of(brain_at(server, tmp_path), a_turn(ToolLog(), **limit))
        assert server.requests == []
    assert (done.stopped, done.reported_usd) == (stopped, 0.0)


# -------------------------------------------------------------------- the service


@SECOND
@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "ANTHROPIC_API_KEY"), (403, "account"), (404, "--model"), (418, "418"), (429, "Wait"), (529, "Wait")],
)
async def test_a_refusal_names_its_status_and_what_to_do(tmp_path, status, word):
    before = child_processes()
    with ModelServer(lambda _request: Refusal(status, message=f"no, {KEY}")) as server:
        with pytest.raises(BrainRefused) as caught:
            await all_events(brain_at(server, tmp_path, max_retries=1), a_turn(ToolLog()))
        asked = len(server.turns)
    assert caught.value.status == status
    assert word in str(caught.value)
    assert KEY not in str(caught.value)
    assert child_processes() == before
    assert asked <= 2


@SECOND
async def test_an_overloaded_service_is_asked_again(tmp_path):
    with ModelServer([Refusal(529), Refusal(429, retry_after=0.1), says("ok")]) as server:
        done = await done_of(brain_at(server, tmp_path), a_turn(ToolLog()))
        assert len(server.turns) == 3
    assert done.text == "ok"


@SECOND
async def test_a_stream_that_breaks_is_asked_for_again_and_both_are_counted(tmp_path):
    with ModelServer([BrokenStream(says("A long text. " * 20)), says("The whole.")]) as server:
        events = await all_events(brain_at(server, tmp_path), a_turn(ToolLog()))
    done = events[-1]
    assert isinstance(done, BrainDone)
    assert done.text == "The whole."
    assert sum(isinstance(event, BrainUsage) for event in events) == 2


@SECOND
async def test_a_stream_that_always_breaks_is_a_loss_and_its_text_comes_once(tmp_path):
    before = child_processes()
    events: list[BrainEvent] = []
    with ModelServer(lambda _request: BrokenStream(says("A long text. " * 20))) as server:

        async def listen() -> None:
            async for event in brain_at(server, tmp_path, max_retries=2).run(a_turn(ToolLog())):
                events.append(event)  # noqa: PERF401 - what came before the error counts

        with pytest.raises(BrainLost, match="cut in the middle of an answer") as caught:
            await listen()
        assert len(server.turns) > 1
    pieces = "".join(event.text for event in events if isinstance(event, BrainText))
    assert pieces
    assert ("A long text. " * 20).startswith(pieces)
    assert len(caught.value.message) < 150
    assert child_processes() == before


@SECOND
async def test_a_server_that_cannot_be_reached_is_an_error_of_ours(tmp_path):
    brain = ClaudeBrain({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, tmp_path, max_retries=1)
    with pytest.raises((BrainRefused, BrainLost)):
        await all_events(brain, a_turn(ToolLog()))


# --------------------------------------------------------------------- its ending


@SECOND
async def test_silence_loses_it(tmp_path):
    before = child_processes()
    with ModelServer([Silence()]) as server:
        with pytest.raises(BrainLost, match="said nothing"):
            await all_events(brain_at(server, tmp_path, silence=1.5), a_turn(ToolLog()))
        assert child_processes() == before


@SECOND
async def test_a_program_that_is_killed_is_lost_and_the_tool_call_cancelled(tmp_path):
    log = ToolLog(wait=600)

    async def kill_it(call: ToolCall) -> ToolResult:
        (pid,) = child_processes()
        os.kill(pid, signal.SIGKILL)
        return await log(call)

    with ModelServer([calls("echo", ECHO)]) as server, pytest.raises(BrainLost, match="exit code -9"):
        await all_events(brain_at(server, tmp_path), a_turn(kill_it))
    assert log.cancelled == 1


@SECOND
async def test_a_program_that_is_no_program_is_lost(tmp_path):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho 'I am not well' >&2\nexit 3\n")
    program.chmod(0o700)
    brain = ClaudeBrain({"ANTHROPIC_API_KEY": KEY}, tmp_path / "state", program=program)
    with pytest.raises(BrainLost, match=r"exit code 3 \(I am not well\)"):
        await all_events(brain, a_turn(ToolLog()))


@SECOND
async def test_without_a_program_nothing_is_tried(tmp_path):
    brain = ClaudeBrain({"ANTHROPIC_API_KEY": KEY}, tmp_path, program=tmp_path / "nowhere")
    assert not brain.resolve_auth().ready
    with pytest.raises(BrainLost, match="pip install"):
        await all_events(brain, a_turn(ToolLog()))


@SECOND
async def test_without_a_sign_in_nothing_is_started(tmp_path):
    with ModelServer() as server:
        brain = ClaudeBrain({"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": server.url}, tmp_path / "state")
        with pytest.raises(BrainNotConfigured, match="ANTHROPIC_API_KEY"):
            await all_events(brain, a_turn(ToolLog()))
        assert server.requests == []


def brain_at_of_claude_resumes(server: ModelServer, state: Path) -> ClaudeBrain:
    return ClaudeBrain({"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": server.url}, state)


async def plain(_call: ToolCall) -> ToolResult:
    return ToolResult("ok")


def written(state: Path) -> str:
    """What the program has written of conversations so far."""
    # It makes and removes locks while this walks through its folders: whoever looks again sees them gone.
    with suppress(FileNotFoundError):
        return "".join(file.read_text("utf-8") for file in state.rglob("*.jsonl"))
    return ""


async def cut_off(brain: ClaudeBrain, state: Path) -> str:
    """A conversation whose program is killed at its second call, its first result in its file; its session."""
    calls_made: list[ToolCall] = []

    async def call_tool(call: ToolCall) -> ToolResult:
        calls_made.append(call)
        if len(calls_made) == 2:
            # The program writes behind itself; what it has not written when it dies, nobody can go on with.
            await eventually(lambda: "result 1" in written(state))
            for pid in child_processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return ToolResult(f"result {len(calls_made)}")

    sessions: list[str] = []

    async def listen() -> None:
        async for event in brain.run(a_turn(call_tool)):
            sessions.extend([event.session] if isinstance(event, BrainSession) else [])

    with pytest.raises(BrainLost):
        await listen()
    [session] = sessions
    return session


async def test_a_killed_conversation_goes_on_with_what_it_had_heard(tmp_path):
    with ModelServer([calls("echo", {"word": "one"}), calls("echo", {"word": "two"}), says("Resumed.")]) as server:
        brain = brain_at_of_claude_resumes(server, tmp_path)
        session = await cut_off(brain, tmp_path)
        turn = replace(a_turn(plain), task="Go on.", resume=session)
        [*events, done] = await all_events(brain, turn)
        said = str(server.requests[-1].body["messages"])
    assert isinstance(done, BrainDone)
    assert done.text == "Resumed."
    assert "result 1" in said
    assert "Go on." in said
    assert any(isinstance(event, BrainSession) for event in events)
    # What the part that was cut off had cost is in no figure of this one.
    assert done.reported_usd is not None
    assert done.turns == 1


async def test_a_conversation_that_is_gone_is_said_to_be_and_begins_anew_where_that_is_wanted(tmp_path):
    gone = "00000000-0000-4000-8000-000000000000"
    with ModelServer([says("Afresh.")]) as server:
        brain = brain_at_of_claude_resumes(server, tmp_path)
        turn = replace(a_turn(plain), resume=gone)
        with pytest.raises(BrainForgot):
            await all_events(brain, turn)
        forgot: list[bool] = []
        [*_, done] = [event async for event in or_afresh(brain, turn, lambda: forgot.append(True))]
    assert isinstance(done, BrainDone)
    assert done.text == "Afresh."
    assert forgot == [True]
