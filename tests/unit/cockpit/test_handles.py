import asyncio
import concurrent.futures
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kagura_kernel.cockpit import handles
from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.cockpit.handles import KEPT_OUTPUT, RunHandle, UnderWay
from kagura_kernel.cockpit.served import LOCK, only_server, server_of
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ConfigurationError, ServedAlready
from kagura_kernel.domain.events import (
    AnyEvent,
    OutputStreamed,
    PluginCalled,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.audit_run import AuditOrder, AuditRun
from kagura_kernel.runs.prices import price
from kagura_kernel.runs.question_run import QuestionParts
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import Hang
from kagura_kernel.testing.patience import eventually
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.auditor import FakeAuditor, report
from tests.support.sample_learned import SampleLearned
from tests.support.sample_plugin import sample_plugin
from tests.support.sample_run import SampleRun

SAMPLE = SampleRun()
REFUSED = [SAMPLE.refused(times=times) for times in range(1, 101)]
CALLED = [
    PluginCalled(run_id="run-1", session_id="ses-1", at=one.at, plugin="one", module="m", function=f"f{number}")
    for number, one in enumerate(REFUSED)
]


@pytest.mark.parametrize("told", [REFUSED, CALLED], ids=["connections", "calls of plugins"])
async def test_crossings_without_end_do_not_fill_the_memory_and_the_rest_is_told_to_late_listeners(monkeypatch, told):
    monkeypatch.setattr(handles, "MAX_CROSSINGS", 10)
    sample = SAMPLE
    began, ended = sample.started(), sample.finished()

    async def events() -> Any:
        for event in (began, *told, ended):
            yield event

    engine = Engine()
    handle = _handle(events, engine)
    first: list[AnyEvent] = []
    handle.subscribe(first.append)
    handle.start(lambda _handle: None)
    handle.result(60)
    engine.stop()
    assert first == [began, *told, ended]
    late: list[AnyEvent] = []
    handle.subscribe(late.append)
    assert (late[0], late[-1]) == (began, ended)
    crossings = late[1:-1]
    assert crossings == told[-len(crossings) :]
    assert 10 <= len(crossings) <= 20


async def test_what_memories_say_is_told_to_late_listeners_though_no_journal_has_it():
    learned = SampleLearned()

    async def events() -> Any:
        for event in (SAMPLE.started(), learned.shown(how="lesson"), learned.planned(), SAMPLE.finished()):
            yield event

    engine = Engine()
    handle = _handle(events, engine)
    handle.start(lambda _handle: None)
    handle.result(60)
    engine.stop()
    late: list[AnyEvent] = []
    handle.subscribe(late.append)
    assert [event.kind for event in late] == ["run.started", "memory.shown", "run.planned", "run.finished"]


async def test_an_audit_is_a_run_like_any_other_to_those_outside_the_engine(tmp_path):
    clock = SystemClock()
    journal = Journal.open(tmp_path, clock=clock)
    found, scan = sample_plugin()
    order = AuditOrder("run-1", "ses-1", found, scan, brain=FakeAuditor(report()))
    run = AuditRun(order, QuestionParts(journal, clock, price, BlindRedactor()), ScriptedApprover())
    engine = Engine()
    handle = RunHandle(run, engine)
    heard: list[AnyEvent] = []
    handle.subscribe(heard.append)
    handle.start(lambda _handle: None)
    outcome = await handle
    engine.stop()
    journal.close()
    assert (handle.run_id, handle.session_id, handle.leasing) == ("run-1", "ses-1", None)
    assert (outcome.status, outcome.text) == ("done", "It does what it says.")
    assert (heard[0].kind, heard[-2].kind, heard[-1].kind) == ("run.started", "plugin.audited", "run.finished")


async def test_a_silent_audit_is_stopped_from_outside(tmp_path):
    clock = SystemClock()
    journal = Journal.open(tmp_path, clock=clock)
    found, scan = sample_plugin()
    brain = FakeAuditor(Hang())
    order = AuditOrder("run-1", "ses-1", found, scan, brain=brain)
    run = AuditRun(order, QuestionParts(journal, clock, price, BlindRedactor()), ScriptedApprover())
    engine = Engine()
    handle = RunHandle(run, engine)
    handle.start(lambda _handle: None)
    await eventually(lambda: brain.turns)
    handle.kill("ada")
    assert (await handle).status == "killed"
    engine.stop()
    journal.close()


async def test_a_run_has_begun_for_others_once_its_first_fact_is_told():
    engine = Engine()

    async def events() -> Any:
        await asyncio.wrap_future(opened)
        yield SAMPLE.started()

    opened: concurrent.futures.Future[None] = concurrent.futures.Future()
    handle = _handle(events, engine)
    handle.start(lambda _handle: None)
    begun = asyncio.ensure_future(handle.begun())
    await asyncio.sleep(0.05)
    assert not begun.done()
    opened.set_result(None)
    await begun
    assert handle.result(60)
    await handle.begun()
    engine.stop()


async def test_a_run_that_waits_for_another_of_its_session_is_not_waited_for():
    opened: concurrent.futures.Future[None] = concurrent.futures.Future()
    engine = Engine()

    async def held() -> Any:
        yield SAMPLE.started()
        await asyncio.wrap_future(opened)

    async def events() -> Any:
        yield SAMPLE.started()

    first, second = _handle(held, engine), _handle(events, engine)
    first.start(lambda _handle: None)
    second.start(lambda _handle: None, after=first)
    await second.begun()
    assert not second.done
    opened.set_result(None)
    assert await second
    engine.stop()


async def test_a_run_that_fails_before_it_says_anything_is_not_waited_for():
    engine = Engine()

    async def events() -> Any:
        raise OSError("no space left")
        yield

    handle = _handle(events, engine)
    handle.start(lambda _handle: None)
    await handle.begun()
    with pytest.raises(OSError, match="no space left"):
        await handle
    engine.stop()


def _handle(events: Callable[[], Any], engine: Engine) -> RunHandle:
    order = SimpleNamespace(run_id="run-1", session_id="ses-1")
    return RunHandle(cast("Any", SimpleNamespace(order=order, events=events, outcome="over", leasing=None)), engine)


WHERE = {"run_id": "run-1", "session_id": "ses-1", "at": datetime(2026, 1, 1, tzinfo=UTC)}


def streams(text: str) -> TextStreamed:
    return TextStreamed(**WHERE, text=text)


def prints(text: str, call: str = "c1") -> OutputStreamed:
    return OutputStreamed(**WHERE, call_id=call, stream="stdout", text=text)


def told(*events: object) -> list[tuple[str, str]]:
    under_way = UnderWay()
    for event in events:
        under_way.take(event)  # type: ignore[arg-type]
    return [(event.kind, event.text) for event in under_way.events()]  # type: ignore[union-attr]


def test_a_passage_that_grows_comes_in_one_piece():
    assert told(streams("Let me "), streams("look.")) == [("text.streamed", "Let me look.")]


def test_a_passage_that_was_said_for_good_is_not_told_twice():
    assert told(streams("Look."), TextWritten(**WHERE, text="Look.")) == []
    assert told(streams("Look."), ToolCalled(**WHERE, call_id="c1", tool="bash")) == []


def test_the_output_of_each_call_that_goes_on_comes_in_one_piece():
    done = ToolFinished(**WHERE, call_id="c1", tool="bash", text="ab")
    assert told(prints("a"), prints("b"), prints("x", "c2")) == [("output.streamed", "ab"), ("output.streamed", "x")]
    assert told(prints("a"), prints("x", "c2"), done) == [("output.streamed", "x")]


def test_of_much_output_the_latest_is_kept():
    ((_, text),) = told(*(prints(f"{number:07},") for number in range(10_000)))
    assert len(text) == KEPT_OUTPUT
    assert text.endswith("0009999,")


_HOLD = """
import sys
from pathlib import Path
from kagura_kernel.cockpit.served import only_server
with only_server(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_server_is_refused_by_the_name_of_the_first(tmp_path):
    with only_server(tmp_path / "home"):
        with pytest.raises(ServedAlready, match=str(os.getpid())) as refused, only_server(tmp_path / "home"):
            pass
        assert (refused.value.pid, refused.value.code) == (os.getpid(), "ERR_SERVED_ALREADY")
    with only_server(tmp_path / "home"):
        pass


def test_another_data_directory_has_a_server_of_its_own(tmp_path):
    with only_server(tmp_path / "one"), only_server(tmp_path / "two"):
        assert server_of(tmp_path / "one") == server_of(tmp_path / "two") == os.getpid()


def test_the_lock_dies_with_a_process_that_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert server_of(tmp_path) == other.pid
        with pytest.raises(ServedAlready), only_server(tmp_path):
            pass
        other.kill()
        other.wait()
    assert (tmp_path / LOCK).read_text() == f"{other.pid}\n"
    assert server_of(tmp_path) is None
    with only_server(tmp_path):
        assert server_of(tmp_path) == os.getpid()


def test_looking_makes_nothing_and_nobody_else_may_read_what_is_made(tmp_path):
    assert server_of(tmp_path / "home") is None
    assert not (tmp_path / "home").exists()
    with only_server(tmp_path / "home"):
        assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "home" / LOCK).stat().st_mode) == 0o600


def test_a_place_where_nothing_can_be_locked_is_told_and_not_served(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"serve.lock cannot be locked"), only_server(tmp_path / "file"):
        pass
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"serve.lock cannot be locked"), only_server(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()
