from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.sandbox.output import OutputCapture


def captured(pieces: list[bytes], keep: int, spill_dir=None, **more):
    capture = OutputCapture(keep, spill_dir, "stdout", **more)
    for piece in pieces:
        capture.add(memoryview(piece))
    return capture.finish()


@given(pieces=st.lists(st.binary(max_size=40), max_size=30), keep=st.integers(0, 60))
def test_head_and_tail_are_the_ends_and_the_total_is_exact(pieces, keep):
    whole = b"".join(pieces)
    output = captured(pieces, keep)
    assert output.total == len(whole)
    assert output.spill is None
    if len(whole) <= keep:
        assert (output.head, output.tail) == (whole, b"")
        assert not output.truncated
    else:
        assert output.truncated
        assert len(output.head) + len(output.tail) == keep
        assert whole.startswith(output.head)
        assert whole.endswith(output.tail)


def test_short_output_makes_no_file(tmp_path):
    assert captured([b"x" * 100], 100, tmp_path).spill is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pieces", [[b"ab" * 30, b"c" * 5, b"d" * 90], [b"x" * 101], [b"y"] * 150])
def test_long_output_is_in_the_file_from_the_first_byte_on(tmp_path, pieces):
    output = captured(pieces, 100, tmp_path)
    assert output.spill is not None
    assert output.spill.read_bytes() == b"".join(pieces)
    assert stat.S_IMODE(output.spill.stat().st_mode) == 0o600


def test_two_streams_do_not_share_a_file(tmp_path):
    spills = {captured([b"x" * 200], 100, tmp_path).spill for _ in range(3)}
    assert len(spills) == 3


def test_a_full_disk_leaves_no_half_a_file(tmp_path, monkeypatch):
    written = 0
    real = os.write

    def write(fd, data):
        nonlocal written
        written += len(data)
        if written > 500:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    output = captured([b"x" * 90] * 20, 100, tmp_path)
    monkeypatch.undo()
    assert output.spill is None
    assert output.total == 1800
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_costs_only_the_file(tmp_path):
    assert captured([b"x" * 200], 100, tmp_path / "gone").total == 200


def test_a_file_beyond_the_limit_is_given_up(tmp_path):
    output = captured([b"x" * 90] * 20, 100, tmp_path, spill_limit=1000)
    assert (output.spill, output.total) == (None, 1800)
    assert list(tmp_path.iterdir()) == []


def test_discarding_removes_the_file_and_makes_no_new_one(tmp_path):
    capture = OutputCapture(10, tmp_path, "stdout")
    capture.add(memoryview(b"x" * 100))
    assert len(list(tmp_path.iterdir())) == 1
    capture.discard()
    capture.add(memoryview(b"x" * 100))
    capture.discard()
    assert list(tmp_path.iterdir()) == []


def test_memory_does_not_grow_with_the_output():
    capture = OutputCapture(1000, None, "stdout")
    for _ in range(1000):
        capture.add(memoryview(b"x" * 100))
    assert len(capture._head) + len(capture._tail) <= 2000
