import errno
import os
import stat
import time

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.commands import Command, OutputChunk
from kagura_kernel.sandbox.output import (
    FREE_BYTES,
    SPILL_LIMIT,
    OutputCapture,
    Printed,
    prune_spilled,
)


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


def test_all_files_of_a_directory_share_one_budget(tmp_path):
    first = captured([b"x" * 600], 100, tmp_path, spill_limit=1000)
    assert first.spill is not None
    assert captured([b"y" * 600], 100, tmp_path, spill_limit=1000).spill is None
    assert captured([b"z" * 300], 100, tmp_path, spill_limit=1000).spill is not None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 900


def test_two_captures_at_once_share_the_budget_and_give_back_what_they_discard(tmp_path):
    one, two = (OutputCapture(10, tmp_path, name, spill_limit=1000) for name in ("stdout", "stderr"))
    for _ in range(5):
        one.add(memoryview(b"x" * 100))
        two.add(memoryview(b"y" * 90))
    assert len(list(tmp_path.iterdir())) == 2
    two.add(memoryview(b"y" * 100))
    assert [path.name[:6] for path in tmp_path.iterdir()] == ["stdout"]
    one.add(memoryview(b"x" * 400))
    assert one.finish().spill.stat().st_size == 900
    assert two.finish().spill is None


def test_space_is_left_on_the_disk(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert captured([b"x" * 200], 100, tmp_path, free_bytes=free * 2).spill is None
    assert list(tmp_path.iterdir()) == []
    assert captured([b"x" * 200], 100, tmp_path, free_bytes=0).spill is not None


def test_the_bounds_are_a_gibibyte_each():
    assert (SPILL_LIMIT, FREE_BYTES) == (2**30, 2**30)


def test_old_outputs_are_pruned_and_empty_directories_of_runs_that_are_over(tmp_path):
    root, elsewhere = tmp_path / "outputs", tmp_path / "elsewhere"
    past = time.time() - 40 * 86400
    for path in (root / "run-1" / "a", root / "run-2" / "old", root / "run-2" / "young", elsewhere / "mine"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (root / "run-3").symlink_to(elsewhere)
    for name in ("run-4", "run-5"):
        (root / name).mkdir()
    for path in (root / "run-1" / "a", root / "run-2" / "old", elsewhere / "mine"):
        os.utime(path, (past, past))
    assert prune_spilled(root, lambda: ["run-4"]) == 2
    assert (elsewhere / "mine").exists()
    assert sorted(path.name for path in (root / "run-2").iterdir()) == ["young"]
    assert sorted(path.name for path in root.iterdir()) == ["run-2", "run-3", "run-4"]
    assert prune_spilled(root, list) == 0
    assert sorted(path.name for path in root.iterdir()) == ["run-2", "run-3"]
    assert prune_spilled(tmp_path / "missing", list) == 0


class Joined:
    """Swallows everything until the end."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        self.parts.append(data)
        return b""

    async def ready(self) -> None:
        pass

    def finish(self) -> bytes:
        return b"-".join(self.parts)


def test_without_a_filter_what_was_printed_is_heard_and_kept_as_it_came():
    heard: list[OutputChunk] = []
    printed = Printed(Command(("x",)), heard.append)
    printed.add("stdout", memoryview(b"one"))
    printed.add("stderr", memoryview(b"two"))
    stdout, stderr = printed.finish()
    assert (stdout.data, stderr.data) == (b"one", b"two")
    assert heard == [OutputChunk("stdout", b"one"), OutputChunk("stderr", b"two")]


def test_each_stream_has_a_filter_of_its_own_and_what_it_held_comes_out_once_at_the_end():
    heard: list[OutputChunk] = []
    printed = Printed(Command(("x",), output_filter=Joined), heard.append)
    for piece in (b"a", b"b", b"c"):
        printed.add("stdout", memoryview(piece))
        printed.add("stderr", memoryview(piece.upper()))
    assert heard == []
    printed.end()
    printed.end()
    stdout, stderr = printed.finish()
    assert (stdout.data, stderr.data, stdout.total) == (b"a-b-c", b"A-B-C", 5)
    assert heard == [OutputChunk("stdout", b"a-b-c"), OutputChunk("stderr", b"A-B-C")]


def test_a_filter_that_fails_lets_nothing_through():
    class Broken(Joined):
        def feed(self, data: bytes) -> bytes:
            raise ValueError("broken", len(data))

    heard: list[OutputChunk] = []
    printed = Printed(Command(("x",), output_filter=Broken), heard.append)
    with pytest.raises(ValueError, match="broken"):
        printed.add("stdout", memoryview(b"secret"))
    assert (heard, printed.finish()[0].data) == ([], b"")


def test_outputs_are_kept_where_nobody_else_may_look(tmp_path):
    root = tmp_path / "home" / "outputs"
    capture = OutputCapture(2, root / "run-1", "stdout", free_bytes=0)
    capture.add(memoryview(b"long"))
    assert capture.finish().spill is not None
    assert [stat.S_IMODE(one.stat().st_mode) for one in (root, root / "run-1")] == [0o700, 0o700]
    # One that an earlier version has made for everybody is closed at the next start.
    root.chmod(0o755)
    prune_spilled(root, list)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
