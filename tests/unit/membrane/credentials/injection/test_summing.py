from typing import Any

import pytest

from kagura_kernel.membrane.credentials.injection.caller import KINDS, MOST, SINGLE, InjectedRequest, Summing

Rows = list[tuple[InjectedRequest, int]]


def request(**changes: Any) -> InjectedRequest:
    facts = {"lease_id": "lea-1", "provider": "fake", "scope": "read", "method": "GET", "host": "a:1", "path": "/"}
    return InjectedRequest(**facts | {"status": 200, "bytes_out": 1, "bytes_in": 2, "duration": 0.5} | changes)


def summed(*requests: InjectedRequest) -> Rows:
    rows: Rows = []
    summing = Summing(lambda one, times: rows.append((one, times)))
    for one in requests:
        summing.add(one)
    summing.end()
    summing.end()
    return rows


def test_the_first_requests_have_a_row_each() -> None:
    rows = summed(*(request(path=f"/{n}") for n in range(SINGLE)))
    assert [(one.path, times) for one, times in rows] == [(f"/{n}", 1) for n in range(SINGLE)]


def test_later_ones_are_summed_up_by_twice_as_many_each_time_and_none_is_lost() -> None:
    rows = summed(*(request(path=f"/{n}") for n in range(SINGLE + 10)))[SINGLE:]
    assert [(one.path, times) for one, times in rows] == [
        (f"/{SINGLE}", 1),
        (f"/{SINGLE + 2}", 2),
        (f"/{SINGLE + 6}", 4),
        (f"/{SINGLE + 9}", 3),
    ]
    assert [(one.bytes_out, one.bytes_in, one.duration) for one, _ in rows][2] == (4, 8, 2.0)


def test_refused_ones_are_summed_up_from_the_first_on_and_take_no_row_from_the_others() -> None:
    rows = summed(*[request(status=400, ended="refused")] * 7, *[request()] * SINGLE)
    assert [times for one, times in rows if one.ended == "refused"] == [1, 2, 4]
    assert [times for one, times in rows if one.ended == "done"] == [1] * SINGLE


@pytest.mark.parametrize("field", ["method", "status", "lease_id"])
def test_each_sort_is_counted_for_itself(field: str) -> None:
    first, second = ("A", "B") if field != "status" else (400, 401)
    both = [request(ended="refused", **{field: value}) for value in (first, second)]
    assert [times for _, times in summed(*both * 3)] == [1, 1, 2, 2]


def test_a_program_that_makes_up_methods_makes_no_more_rows() -> None:
    rows = summed(*(request(method=f"M{n}", ended="refused") for n in range(10_000)))
    assert sum(times for _, times in rows) == 10_000
    assert len(rows) < KINDS + 20


def test_a_row_stands_for_so_many_at_most() -> None:
    rows = summed(*[request(ended="refused")] * (6 * MOST))
    assert max(times for _, times in rows) == MOST
    assert sum(times for _, times in rows) == 6 * MOST
