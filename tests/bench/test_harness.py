import pytest

from tests.bench.harness import Bound, Line, interleaved, table, told


async def test_sides_take_turns_and_begin_in_turn():
    order = []

    def side(name, figure):
        async def once():
            order.append(name)
            return figure

        return once

    figures = await interleaved(2, a=side("a", 1.0), b=side("b", 3.0))

    assert figures == {"a": 1.0, "b": 3.0}
    assert "".join(order) == "abbaabba"


async def test_the_median_leaves_out_the_warm_up():
    values = iter([100.0, 100.0, 1.0, 2.0, 9.0])

    async def once():
        return next(values)

    assert await interleaved(3, side=once) == {"side": 2.0}


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (Line("x", "floor", 1.1, 1.0, bound=Bound("≤ 1.2×", 1.2)), "yes"),
        (Line("x", "floor", 1.3, 1.0, bound=Bound("≤ 1.2×", 1.2)), "no"),
        (Line("x", "floor", 500.0, 1000.0, "MB/s", Bound("≥ 1/4", 0.25, "least")), "yes"),
        (Line("x", "floor", 100.0, 1000.0, "MB/s", Bound("≥ 1/4", 0.25, "least")), "no"),
        (Line("x", "floor", 3.5, 1.0, bound=Bound("≤ 3 ms more", 3, "more")), "yes"),
        (Line("x", "floor", 4.5, 1.0, bound=Bound("≤ 3 ms more", 3, "more")), "no"),
        (Line("x", "floor", 4.5, 1.0), ""),
        (Line("x", figure=80.0, unit="MiB", bound=Bound("≤ 64 MiB", 64)), "no"),
        (Line("x", figure=0.0, unit="", bound=Bound("0", 0)), "yes"),
        (Line("x", "floor", missing="no daemon"), ""),
    ],
)
def test_a_line_says_whether_it_is_as_wanted(line, verdict):
    assert line.verdict == verdict


async def test_a_costly_side_may_warm_up_less():
    values = iter([1.0, 2.0, 9.0])

    async def once():
        return next(values)

    assert await interleaved(3, warm_up=0, side=once) == {"side": 2.0}


def test_a_count_has_no_decimals():
    rows = table([Line("failures", figure=0.0, unit="", bound=Bound("0", 0), samples=1)]).splitlines()
    assert rows[2].split("|")[2].strip() == "0"


def test_the_table_shows_ratios_both_ways_and_reasons_for_gaps():
    text = table(
        [
            Line("fast", "slow floor", 2.0, 40.0, bound=Bound("≤ 1/15", 1 / 15), samples=20),
            Line("slow", "floor", 2.0, 1.0, bound=Bound("≤ 1.2×", 1.2), samples=20),
            Line("gone", "floor", missing="no daemon", bound=Bound("≤ 1", 1)),
        ]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert rows[2] == ["fast", "2.00 ms", "slow floor", "40.0 ms", "1/20.0", "≤ 1/15", "yes", "", "20"]
    assert rows[3] == ["slow", "2.00 ms", "floor", "1.00 ms", "2.00×", "≤ 1.2×", "no", "", "20"]
    assert rows[4][:3] == ["gone", "not measured: no daemon", "floor"]
    assert len({len(line) for line in text.splitlines()}) == 1


def test_a_table_stands_beside_the_one_before():
    before = [Line("fast", "floor", 2.0, 4.0), Line("alone", figure=5.0, unit="MiB"), Line("gone", missing="no daemon")]
    last = told(table(before))
    assert last == {"fast": "0.50×", "alone": "5.00 MiB"}
    rows = table([Line("fast", "floor", 3.0, 4.0), Line("new", figure=1.0)], last).splitlines()
    assert [row.split("|")[8].strip() for row in rows[2:]] == ["0.50×", ""]
