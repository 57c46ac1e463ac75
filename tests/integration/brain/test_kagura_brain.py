"""The kagura_brain brain with the real package and the real Claude program: no hands, no traces, a clean end."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.brain.kagura_brain import KaguraBrain
from kagura_kernel.brain.kagura_brain_programs import Place, find
from kagura_kernel.brain.provider import BrainDone, BrainUsage, Turn
from kagura_kernel.domain.errors import BrainLost, BrainNotConfigured, BrainRefused, NotThisTime
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.testing.conformance.brain import ToolLog, a_turn, all_events, child_processes
from tests.support.model_script import (
    Calls,
    ModelTurn,
    Refusal,
    Silence,
    calls,
    offered_tools,
    says,
    tool_results,
)
from tests.support.model_server import ModelServer
from tests.support.openai_server import OpenAIServer, tool_names

KEY = "dummy-key-0123456789-never-real"
ECHO = {"word": "one"}

with_codex = pytest.mark.skipif(shutil.which("codex") is None, reason="the program codex is not installed")


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the brain makes the directories of its runs."""
    place = tmp_path_factory.mktemp("runs")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def brain_at(server: ModelServer) -> KaguraBrain:
    environ = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": server.url}
    return KaguraBrain(environ, "claude", max_retries=1)


def codex_at(server: OpenAIServer) -> KaguraBrain:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url, "PATH": os.environ["PATH"]}
    return KaguraBrain(environ, "codex")


async def done_of(brain: KaguraBrain, turn: Turn) -> BrainDone:
    last = (await all_events(brain, turn))[-1]
    assert isinstance(last, BrainDone)
    return last


# ------------------------------------------------------------------ what it can do


async def test_a_whole_run_from_what_it_is_offered_to_what_it_cost_and_nothing_is_left(scratch, monkeypatch):
    """One run, because each is three processes that take seconds to start."""
    monkeypatch.setenv("KAGURA_CANARY", "sings")
    before = child_processes()
    seen: list[tuple[str, str]] = []
    # What killed kernels left; only that of days ago is nobody's.
    old, fresh, foreign = scratch / "kagura-brain-old", scratch / "kagura-brain-new", scratch / "something"
    for place in (old, fresh, foreign):
        place.mkdir()
    link = scratch / "kagura-brain-link"
    link.symlink_to(foreign)
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    os.utime(link, (0, 0), follow_symlinks=False)

    async def look(_call: ToolCall) -> ToolResult:
        for pid in family():
            process = Path(f"/proc/{pid}")
            seen.append(((process / "cmdline").read_text(), (process / "environ").read_text()))
        return ToolResult("seen")

    with ModelServer([calls("echo", ECHO), says("ok")]) as server:
        events = await all_events(brain_at(server), a_turn(look, model="claude-sonnet-4-5"))
        request = server.turns[0]

    assert offered_tools(request.body) == ["mcp__kagura__echo"]
    assert "You are being tested." in request.system

    assert len(seen) >= 3, "the launcher, the agent and the bridge"
    assert all(KEY not in line for line, _ in seen)
    assert all("You are being tested" not in line for line, _ in seen)
    assert all("KAGURA_CANARY" not in environment for _, environment in seen)

    assert {place.name for place in scratch.iterdir()} <= {fresh.name, foreign.name, link.name}
    assert not old.exists()
    assert fresh.exists()
    assert foreign.exists()
    assert child_processes() == before

    (used,) = [event for event in events if isinstance(event, BrainUsage)]
    done = events[-1]
    assert isinstance(done, BrainDone)
    assert used.usage == done.usage
    assert done.usage.input_tokens == 2 * 1420
    assert (done.model, done.turns) == ("claude-sonnet-4-5", 2)
    assert done.reported_usd


async def test_a_tool_of_the_program_s_own_does_not_run(tmp_path):
    marker = tmp_path / "marker"
    asks = ModelTurn((Calls("Bash", {"command": f"touch {marker}"}), Calls("Write", {"file_path": str(marker)})))
    answers: list[tuple[str, bool]] = []

    def see(request: Any) -> ModelTurn:
        answers.extend(tool_results(request))
        return says("I could not.")

    with ModelServer([asks, see]) as server:
        await done_of(brain_at(server), a_turn(ToolLog()))
    assert [is_error for _, is_error in answers] == [True, True]
    assert not marker.exists()


async def test_a_file_named_in_the_task_is_not_read_and_a_command_in_it_is_not_run(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the-canary-in-the-file")
    for task in (f"@{secret} what is in it?", "/init"):
        with ModelServer([says("ok")]) as server:
            await done_of(brain_at(server), Turn(task=task, system="s", tools=[], call_tool=ToolLog()))
            (request,) = server.turns
        assert task in json.dumps(request.body["messages"])
        assert "the-canary-in-the-file" not in json.dumps(request.body)


def test_a_signed_in_person_s_settings_hooks_servers_and_memory_are_not_read(tmp_path):
    """The program as the package starts it, in a home that is full of them."""
    home = tmp_path / "person"
    (home / ".claude" / "skills" / "odd").mkdir(parents=True)
    (home / ".claude" / "CLAUDE.md").write_text("CANARY in the memory")
    (home / ".claude" / "skills" / "odd" / "SKILL.md").write_text("---\nname: odd\ndescription: CANARY skill\n---\n")
    hook = [{"matcher": "*", "hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}]
    settings = {"model": "claude-canary", "hooks": {"SessionStart": hook, "UserPromptSubmit": hook}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    servers = {"odd": {"command": "touch", "args": [f"{tmp_path}/started"]}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    root = tmp_path / "run"
    root.mkdir()
    place, program = Place(root), find("claude", {})
    place.lay(program, a_turn(ToolLog()), {}, max_retries=1)
    with ModelServer([says("ok")]) as server:
        answer = subprocess.run(
            [place.programs / "claude", "-p", "--mcp-config", place.servers, "--allowedTools", "mcp__kagura__echo"],
            env={
                "HOME": str(home),
                "PATH": "/usr/bin:/bin",
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_AUTH_TOKEN": KEY,
            },
            input="The task: say ok.",
            cwd=place.work,
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        )
        sent = [dict(request.body) for request in server.turns]
    assert json.loads(answer.stdout)["result"] == "ok"
    assert "CANARY" not in json.dumps(sent)
    assert all(body["model"] != "claude-canary" for body in sent)
    assert not (tmp_path / "hooked").exists()
    assert not (tmp_path / "started").exists()


# ----------------------------------------------------------------------- its money


@pytest.mark.parametrize(("limit", "stopped"), [({"budget_usd": 0.0}, "budget"), ({"max_turns": 0}, "turns")])
async def test_with_nothing_left_to_spend_nothing_is_asked(limit, stopped):
    with ModelServer([says("never")]) as server:
        done = await done_of(brain_at(server), a_turn(ToolLog(), **limit))
        assert server.requests == []
    assert (done.stopped, done.reported_usd) == (stopped, 0.0)


async def test_it_stops_when_the_turns_are_used_up():
    with ModelServer([calls("echo", ECHO)] * 9) as server:
        assert (await done_of(brain_at(server), a_turn(ToolLog(), max_turns=2))).stopped == "turns"


# ----------------------------------------------------------------------- its ending


@pytest.mark.parametrize(("status", "word"), [(401, "Sign in"), (403, "account"), (404, "--model")])
async def test_a_refusal_names_its_status_and_what_to_do(status, word):
    no = Refusal(status, message=f"no, {KEY}")
    with ModelServer(lambda _request: no) as server, pytest.raises(BrainRefused) as caught:
        await all_events(brain_at(server), a_turn(ToolLog()))
    assert caught.value.status == status
    assert word in str(caught.value)
    assert KEY not in str(caught.value)


async def test_cancelled_while_the_model_is_silent_nothing_is_left(scratch):
    before = child_processes()
    with ModelServer([Silence()]) as server:
        run = asyncio.create_task(all_events(brain_at(server), a_turn(ToolLog())))
        async with asyncio.timeout(60):
            while not server.turns:  # noqa: ASYNC110 - what a thread has seen, which knows no events
                await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert child_processes() == before
    assert list(scratch.iterdir()) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_program_that_is_no_program_is_lost(tmp_path):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho 'I am not well' >&2\nexit 3\n")
    program.chmod(0o700)
    environ = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    with pytest.raises(BrainLost, match=r"exit code 3 \(I am not well\)"):
        await all_events(KaguraBrain(environ, "claude", file=program), a_turn(ToolLog()))


async def test_without_a_choice_or_a_way_to_sign_in_it_says_what_to_do():
    with pytest.raises(BrainNotConfigured, match="brain_program"):
        await all_events(KaguraBrain({}), a_turn(ToolLog()))
    with pytest.raises(BrainNotConfigured, match="sign in once"):
        await all_events(KaguraBrain({}, "claude"), a_turn(ToolLog()))
    far = {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "http://llm.example.org"}
    with pytest.raises(BrainNotConfigured, match="https"):
        await all_events(KaguraBrain(far, "claude"), a_turn(ToolLog()))


# ---------------------------------------------------------------------------- Codex


@with_codex
async def test_codex_offers_our_tools_and_none_that_reaches_the_host(tmp_path):
    marker = tmp_path / "marker"
    patch = f"*** Begin Patch\n*** Add File: {marker}\n+x\n*** End Patch"
    asks = ModelTurn(
        (
            Calls("exec_command", {"cmd": f"touch {marker}"}),
            Calls("shell", {"command": ["touch", str(marker)]}),
            Calls("apply_patch", {"input": patch}),
        )
    )
    with OpenAIServer([asks, says("I could not.")], key=KEY) as server:
        done = await done_of(codex_at(server), a_turn(ToolLog(), model="scripted"))
        request = server.turns[0].body
    assert done.text == "I could not."
    about_servers = {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"}
    assert set(tool_names(request)) - about_servers - {"request_user_input"} == {"echo"}
    assert request["messages"][0]["content"] == "You are being tested."
    assert not marker.exists()


@with_codex
def test_codex_reads_no_settings_skills_hooks_or_servers_of_a_person(tmp_path):
    """The program as the package starts it, in a home that is full of them."""
    home = tmp_path / "person"
    (home / ".codex" / "skills" / "odd").mkdir(parents=True)
    (home / ".codex" / "skills" / "odd" / "SKILL.md").write_text("---\nname: odd\ndescription: CANARY skill\n---\n")
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}
    (home / ".codex" / "hooks.json").write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))
    (home / ".codex" / "config.toml").write_text(
        f'model = "canary"\nnotify = ["touch", "{tmp_path}/notified"]\n'
        f'[mcp_servers.odd]\ncommand = "touch"\nargs = ["{tmp_path}/started"]\n'
    )
    root = tmp_path / "run"
    root.mkdir()
    place, program = Place(root), find("codex", {"PATH": os.environ["PATH"]})
    place.lay(program, a_turn(ToolLog()), {"PATH": os.environ["PATH"]}, max_retries=1)
    with OpenAIServer([says("ok")], key=KEY) as server:
        service = f'model_providers.here={{name="here",base_url="{server.url}",env_key="HERE",wire_api="responses"}}'
        given = ["-c", service, "-c", 'model_provider="here"', "-c", 'mcp_servers.kagura={command="true"}']
        subprocess.run(
            [place.programs / "codex", "exec", "--model", "scripted", *given],
            env={"HOME": str(home), "PATH": os.environ["PATH"], "HERE": KEY},
            input="The task: say ok.",
            cwd=place.work,
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        )
        (request,) = server.turns
    texts = [message["content"] for message in request.body["messages"]]
    assert texts == ["You are being tested.", "The task: say ok."]
    assert request.body["model"] == "scripted"
    assert [name for name in ("hooked", "notified", "started") if (tmp_path / name).exists()] == []


@with_codex
@pytest.mark.parametrize("limit", [{"budget_usd": 1.0}, {"max_turns": 3}])
async def test_a_limit_that_codex_cannot_keep_is_refused_before_anything_is_asked(limit):
    with OpenAIServer([says("never")]) as server:
        with pytest.raises(NotThisTime, match="neither"):
            await all_events(codex_at(server), a_turn(ToolLog(), **limit))
        assert server.requests == []


@with_codex
async def test_codex_s_refusals_are_ours(scratch):
    no = Refusal(401, message=f"no, {KEY}")
    with OpenAIServer(lambda _request: no) as server, pytest.raises(BrainRefused) as caught:
        await all_events(codex_at(server), a_turn(ToolLog(), model="scripted"))
    assert caught.value.status == 401
    assert KEY not in str(caught.value)
    assert list(scratch.iterdir()) == []


def family() -> set[int]:
    """Every process that this one has started, and that those have."""
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(FileNotFoundError):  # a thread of ours that has just ended started none of them
                new = {int(pid) for pid in task.read_text().split()} - found
                found |= new
                waiting += new
    return found
