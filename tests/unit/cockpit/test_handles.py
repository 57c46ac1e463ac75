from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kagura_kernel.cockpit import handles
from kagura_kernel.cockpit.engine import Engine
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.events import AnyEvent, EgressDecided
from kagura_kernel.testing.sample_run import SampleRun


async def test_connections_without_end_do_not_fill_the_memory_and_the_rest_is_told_to_late_listeners(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(handles, "MAX_CROSSINGS", 10)
    sample = SampleRun()
    told: list[AnyEvent] = [sample.refused(times=times) for times in range(1, 101)]
    began, ended = sample.started(), sample.finished()

    async def events() -> Any:
        for event in (began, *told, ended):
            yield event

    run = SimpleNamespace(
        order=SimpleNamespace(run_id="run-1", session_id="ses-1"), events=events, outcome="over", membrane=None
    )
    engine = Engine()
    handle = RunHandle(cast("Any", run), engine)
    first: list[AnyEvent] = []
    handle.subscribe(first.append)
    handle.start(lambda _handle: None)
    handle.result(60)
    engine.stop()
    assert first == [began, *told, ended]
    late: list[AnyEvent] = []
    handle.subscribe(late.append)
    assert (late[0], late[-1]) == (began, ended)
    crossings = [event for event in late if isinstance(event, EgressDecided)]
    assert crossings == told[-len(crossings) :]
    assert 10 <= len(crossings) <= 20
