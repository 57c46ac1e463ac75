from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.commands import OutputChunk, OutputListener
from kagura_kernel.domain.errors import SandboxDied
from kagura_kernel.domain.events import ResultShown, ToolCalled, ToolFinished
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.conversation import MAX_DEPTH, Hands, is_deeper_than
from kagura_kernel.runs.recorder import Recorder


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal.open(tmp_path / "state")
    yield journal
    journal.close()


@pytest.fixture
def recorder(journal: Journal) -> Recorder:
    return Recorder(journal, SystemClock(), "run-1", "ses-1")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"value": value}


async def echo(call: ToolCall, listen: OutputListener) -> ToolResult:
    listen(OutputChunk("stdout", "grü".encode()[:3]))
    listen(OutputChunk("stdout", "grü".encode()[3:]))
    return ToolResult(f"did {call.name}")


async def test_a_call_is_stored_before_it_runs_and_its_result_before_it_is_read(recorder, journal):
    stored: list[list[str]] = []

    async def use(call: ToolCall, listen: OutputListener) -> ToolResult:
        stored.append([row.event.kind for row in journal.events()])
        return await echo(call, listen)

    result = await Hands(use, recorder, SystemClock(), fatal=pytest.fail).call(
        ToolCall("c1", "bash", {"command": "ls"})
    )
    assert result.text == "did bash"
    assert stored == [["tool.called"]]
    assert [row.event.kind for row in journal.events()] == ["tool.called", "tool.finished"]


async def test_the_record_of_a_call_says_whether_the_run_offers_such_a_tool(recorder, journal):
    hands = Hands(echo, recorder, SystemClock(), fatal=pytest.fail, offered={"bash"}.__contains__)
    await hands.call(ToolCall("c1", "bash", {}))
    await hands.call(ToolCall("c2", "made_up", {}))
    events = [row.event for row in journal.events()]
    said = [(one.tool, one.offered) for one in events if isinstance(one, ToolCalled | ToolFinished)]
    assert said == [("bash", True)] * 2 + [("made_up", False)] * 2


async def test_a_character_cut_in_two_is_put_together(recorder):
    await Hands(echo, recorder, SystemClock(), fatal=pytest.fail).call(ToolCall("c1", "bash", {}))
    recorder.end()
    texts = []
    while (event := await recorder.next()) is not None:
        if event.kind == "output.streamed":
            texts.append(event.text)
    assert "".join(texts) == "grü"


async def test_what_must_end_the_run_is_told_even_if_the_brain_hides_it(recorder):
    told: list[BaseException] = []

    async def die(*_: object) -> ToolResult:
        raise SandboxDied("box-1", "it was killed")

    with pytest.raises(SandboxDied):
        await Hands(die, recorder, SystemClock(), fatal=told.append).call(ToolCall("c1", "bash", {}))
    assert [type(error) for error in told] == [SandboxDied]


async def test_arguments_nested_very_deeply_are_refused_and_the_journal_stays_readable(recorder, journal):
    async def use(*_: object) -> ToolResult:
        pytest.fail("it was called")

    result = await Hands(use, recorder, SystemClock(), fatal=pytest.fail).call(ToolCall("c1", "bash", nested(5000)))
    assert result.is_error
    assert "levels deep" in result.text
    assert [row.event.kind for row in journal.events(run_id="run-1")] == ["tool.called", "tool.finished"]
    assert journal.verify().rows == 2


@pytest.mark.parametrize(("depth", "deeper"), [(0, False), (MAX_DEPTH - 1, False), (MAX_DEPTH + 1, True), (9000, True)])
def test_depth_counts_lists_and_objects(depth, deeper):
    assert is_deeper_than(nested(depth), MAX_DEPTH) is deeper


async def test_what_a_program_showed_is_recorded_before_its_result_and_the_brain_reads_of_it(recorder, journal):
    async def shown(call_id: str) -> str:
        recorder.record(ResultShown, call_id=call_id, mime="text/html", data="<b>")
        return "Shown to the person: text/html."

    hands = Hands(echo, recorder, SystemClock(), fatal=pytest.fail, shown=shown)
    result = await hands.call(ToolCall("c1", "python", {"code": "x"}))
    assert result.text == "did python\nShown to the person: text/html."
    assert [row.event.kind for row in journal.events()] == ["tool.called", "result.shown", "tool.finished"]
    assert (await hands.call(ToolCall("c2", "read_file", {}))).text == "did read_file"
