import re
import time

from kagura_kernel.domain.identity import (
    new_approval_id,
    new_box_id,
    new_call_id,
    new_memory_id,
    new_run_id,
    new_session_id,
)


def test_ids_say_what_they_name_and_are_safe_to_paste():
    for make, prefix in (
        (new_run_id, "run"),
        (new_session_id, "ses"),
        (new_box_id, "box"),
        (new_approval_id, "app"),
        (new_call_id, "call"),
    ):
        assert re.fullmatch(rf"{prefix}-[0-9a-z]{{14}}", make())


def test_a_later_id_sorts_after_an_earlier_one():
    ids = []
    for _ in range(5):
        ids.append(new_run_id())
        time.sleep(0.002)
    assert ids == sorted(ids)


def test_ids_made_in_the_same_moment_differ(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.123)
    ids = [new_memory_id() for _ in range(8_000)]
    assert len(set(ids)) == len(ids)
