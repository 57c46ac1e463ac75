"""A run's events as bars: who worked, who waited, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kagura_kernel.jupyter.charts import timeline
from kagura_kernel.jupyter.charts.timeline import Bar, bars
from tests.support.sample_run import SampleRun

RUN = SampleRun(at=datetime(2026, 1, 1, tzinfo=UTC))


def at(second, event):
    return event.model_copy(update={"at": RUN.at + timedelta(seconds=second)})


def drawn(*events, now=10.0):
    return bars(events, RUN.at + timedelta(seconds=now))


def of(lane, found):
    return [(bar.start, bar.end, bar.state, bar.waits_for) for bar in found if bar.lane == lane]


def test_the_brain_thinks_while_no_call_is_open_and_waits_for_those_that_are():
    (one, one_done), (two, two_done) = RUN.tool(1), RUN.tool(2)
    found = drawn(
        at(0, RUN.started()),
        at(1, RUN.boxed()),
        at(2, one),
        at(3, two),
        at(4, one_done),
        at(6, two_done),
        at(9, RUN.finished()),
    )
    call = "bash: wc -l data.csv"
    assert of("brain", found) == [
        (1.0, 2.0, "works", ""),
        (2.0, 3.0, "waits", call),
        (3.0, 4.0, "waits", f"{call}, {call}"),
        (4.0, 6.0, "waits", call),
        (6.0, 9.0, "works", ""),
    ]
    assert of("commands", found) == [(2.0, 4.0, "works", ""), (3.0, 6.0, "works", "")]
    assert of("box", found) == [(0.0, 1.0, "works", "")]


def test_a_call_that_waits_for_a_person_is_told_apart():
    call, done = RUN.tool()
    found = drawn(
        RUN.started(), at(1, call), at(2, RUN.asked()), at(5, RUN.decided()), at(6, done), at(7, RUN.finished())
    )
    assert of("commands", found) == [(1.0, 2.0, "works", ""), (2.0, 5.0, "waits", "you"), (5.0, 6.0, "works", "")]
    assert of("you", found) == [(2.0, 5.0, "waits", "you")]


def test_a_no_is_told_apart_and_a_failure_too():
    call, done = RUN.tool()
    failed = done.model_copy(update={"exit_code": 1})
    found = drawn(RUN.started(), at(1, RUN.asked(call_id="")), at(2, RUN.decided(verdict="deny")), call, at(3, failed))
    assert of("you", found) == [(1.0, 2.0, "refused", "you")]
    assert [state for _, _, state, _ in of("commands", found)] == ["failed"]


def test_what_goes_on_is_drawn_up_to_now():
    call, _ = RUN.tool()
    found = drawn(RUN.started(), at(1, call), at(3, RUN.asked()), now=8)
    assert of("tools", found) == [(1.0, 3.0, "works", ""), (3.0, 8.0, "waits", "you")]
    assert of("you", found) == [(3.0, 8.0, "waits", "you")]


def test_connections_refusals_and_what_a_host_waited_for():
    opened, closed = RUN.reached()
    found = drawn(
        RUN.started(),
        at(1, RUN.egress_asked("pypi.org")),
        at(3, RUN.decided("app-net-1")),
        at(3, opened),
        at(4, closed),
        at(5, RUN.refused()),
        at(6, RUN.finished()),
    )
    assert of("network", found) == [(1.0, 3.0, "waits", "you"), (3.0, 4.0, "works", ""), (5.0, 5.0, "refused", "")]


def test_a_lease_is_one_bar_but_for_the_time_in_which_it_was_held_up():
    found = drawn(
        RUN.started(),
        at(1, RUN.lease()),
        at(3, RUN.lease("held up")),
        at(4, RUN.lease("on hold")),
        at(6, RUN.lease("extended")),
        at(8, RUN.lease("released")),
    )
    assert of("credentials", found) == [(1.0, 3.0, "works", ""), (3.0, 6.0, "waits", "you"), (6.0, 8.0, "works", "")]


def test_a_cells_own_program_has_a_lane_and_no_brain():
    call, done = RUN.tool()
    found = drawn(RUN.started(flavour="sandbox", brain=""), at(1, call), at(4, done), at(5, RUN.finished()))
    assert of("program", found) == [(1.0, 4.0, "works", "")]
    assert of("brain", found) == []


def test_of_very_many_connections_those_close_together_are_one_bar(monkeypatch):
    monkeypatch.setattr(timeline, "MAX_BARS", 40)
    events = [RUN.started()]
    for number in range(500):
        opened, closed = RUN.reached(number=number)
        events += [at(number / 10, opened), at(number / 10 + 0.05, closed)]
    found = [bar for bar in drawn(*events, at(60, RUN.finished())) if bar.lane == "network"]
    assert 2 <= len(found) <= 40
    assert sum(int(bar.what.split()[0]) for bar in found) == 500
    assert found[-1].end == 49.95


def test_nothing_is_drawn_of_a_run_without_a_beginning():
    assert drawn(RUN.finished()) == []


def test_overlapping_bars_of_a_lane_have_rows_of_their_own():
    from kagura_kernel.jupyter.charts.timeline import MAX_ROWS, in_rows

    together = [Bar("tools", str(number), 0.0, 10.0 - number) for number in range(MAX_ROWS + 2)]
    after = Bar("tools", "after", 10.0, 11.0)
    rows = [name for name, _ in in_rows([*together, after])]
    assert rows[:3] == ["tools", "tools 2", "tools 3"]
    assert len(set(rows)) == MAX_ROWS
    assert rows[-1] == "tools"
