import threading

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.kit.redaction.engine import meanwhile
from kagura_kernel.kit.redaction.values import chance, entropy, is_fact, placeholder


@given(st.binary(max_size=80) | st.text("ab1", max_size=40).map(str.encode), st.sampled_from([2.5, 2.6, 4.2]))
def test_the_quick_answer_to_how_random_a_value_is_is_that_of_its_entropy(value, bits):
    assert chance(value, bits) == (entropy(value) >= bits)


@pytest.mark.parametrize("unit", [b"a1", b"xyZ", b"ab3!", b"Kd83jskQ1Lm"])
def test_a_unit_again_and_again_stands_for_a_value_also_when_the_last_one_is_cut(unit):
    assert placeholder(unit * 4)
    assert placeholder(unit * 4 + unit[:1])
    assert not placeholder(unit + b"Q7" + unit + b"w4p")


@pytest.mark.parametrize(
    "value", [b"4711", b"1.2.3-rc1", b"2026-03-04", b"a@b.org", b"https://a.org/x", b"db.internal", b"id.pem"]
)
def test_a_fact_is_one_whatever_its_form_and_none_with_more_behind_it(value):
    assert is_fact(value)
    assert not is_fact(value + b" Kd83!jskQ")


def test_what_is_done_meanwhile_is_done_at_once_where_no_thread_may_be_started(monkeypatch):
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert meanwhile(lambda: 7).result() == 7
