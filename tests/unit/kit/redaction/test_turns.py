"""Processes that need the same rules compile them one after the other, and none waits for ever."""

import threading

from kagura_kernel.kit.redaction.engine import LOCK, is_taken, turn


def test_a_second_one_begins_when_the_first_has_ended(tmp_path):
    order: list[str] = []
    begun = threading.Event()

    def second():
        begun.set()
        with turn(tmp_path, patience=60):
            order.append("second")

    with turn(tmp_path, patience=0):
        assert is_taken(tmp_path)
        other = threading.Thread(target=second)
        other.start()
        assert begun.wait(60)
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert not is_taken(tmp_path)


def test_nobody_waits_longer_than_their_patience(tmp_path):
    with turn(tmp_path, patience=60), turn(tmp_path, patience=0.01):
        assert is_taken(tmp_path)


def test_a_folder_without_locks_is_used_without_one(tmp_path):
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with turn(tmp_path, patience=60):
        assert not is_taken(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not is_taken(tmp_path / "missing")
