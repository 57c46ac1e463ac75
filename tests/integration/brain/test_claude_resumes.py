"""The Claude brain and its real program: a conversation that was cut goes on, and one that is gone begins anew."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.brain.provider import BrainDone, BrainSession
from kagura_kernel.domain.errors import BrainForgot, BrainLost
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.runs.checkpointing import OrAfresh
from kagura_kernel.testing.conformance.brain import a_turn, all_events, child_processes
from kagura_kernel.testing.patience import eventually
from tests.support.model_script import calls, says
from tests.support.model_server import ModelServer


def brain_at(server: ModelServer, state: Path) -> ClaudeBrain:
    return ClaudeBrain({"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": server.url}, state)


async def plain(_call: ToolCall) -> ToolResult:
    return ToolResult("ok")


async def cut_off(brain: ClaudeBrain, state: Path) -> str:
    """A conversation whose program is killed at its second call, its first result in its file; its session."""
    calls_made: list[ToolCall] = []

    async def call_tool(call: ToolCall) -> ToolResult:
        calls_made.append(call)
        if len(calls_made) == 2:
            # The program writes behind itself; what it has not written when it dies, nobody can go on with.
            await eventually(lambda: any("result 1" in file.read_text("utf-8") for file in state.rglob("*.jsonl")))
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
        brain = brain_at(server, tmp_path)
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
        brain = brain_at(server, tmp_path)
        turn = replace(a_turn(plain), resume=gone)
        with pytest.raises(BrainForgot):
            await all_events(brain, turn)
        forgot: list[bool] = []
        [*_, done] = await all_events(OrAfresh(brain, lambda: forgot.append(True)), turn)
    assert isinstance(done, BrainDone)
    assert done.text == "Afresh."
    assert forgot == [True]
