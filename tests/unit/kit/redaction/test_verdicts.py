from __future__ import annotations

import threading

import pytest

from kagura_kernel.kit.redaction import chance
from kagura_kernel.kit.redaction.chance import once, remembered
from kagura_kernel.kit.redaction.redactor import Redactor
from tests.support.redactors import shared_redactor


class _Judge:
    """Says yes to what is long, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def __call__(self, value: bytes, least: int = 4) -> bool:
        self.asked.append(value)
        return len(value) >= least


def test_a_judge_is_asked_once_about_a_value_and_again_about_another_or_in_another_way():
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        assert [judged(b"abcd"), judged(b"abcd"), judged(b"abc"), judged(b"abcd", 9), judged(b"abcd", 9)] == [
            True, True, False, False, False,
        ]  # fmt: skip
    assert judge.asked == [b"abcd", b"abc", b"abcd"]


def test_nothing_is_remembered_before_between_and_after_texts():
    judge = _Judge()
    judged = once(judge.__call__)
    judged(b"abcd")
    for _ in range(2):
        with remembered():
            judged(b"abcd")
    judged(b"abcd")
    assert judge.asked == [b"abcd"] * 4
    with pytest.raises(ValueError, match="broken"), remembered():
        raise ValueError("broken")
    assert chance._known.verdicts is None


def test_what_is_remembered_is_bounded_and_never_a_long_value(monkeypatch):
    monkeypatch.setattr(chance, "_MOST", 3)
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        for number in range(9):
            judged(b"abc%d" % number)
            assert len(chance._known.verdicts or {}) <= 3
        judged(b"a" * 300)
        judged(b"a" * 300)
    assert judge.asked.count(b"a" * 300) == 2


def test_another_thread_remembers_for_itself():
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        judged(b"abcd")
        thread = threading.Thread(target=judged, args=(b"abcd",))
        thread.start()
        thread.join()
    assert judge.asked == [b"abcd"] * 2


def test_a_redactor_keeps_no_value_when_it_is_done():
    redactor: Redactor = shared_redactor()
    assert redactor.redact("password = Zeta-kilo-4711!").findings
    assert chance._known.verdicts is None
