"""The two directions of a guest: what they are, and that none stays open."""

import os
import stat

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.supervisor import client
from kagura_kernel.sandbox.supervisor.client import GuestStreams


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_they_are_sockets_which_no_command_can_open_a_second_time_where_that_is_wanted():
    with GuestStreams(sockets=True) as streams:
        assert all(stat.S_ISSOCK(os.fstat(end).st_mode) for end in streams.theirs)
        assert not any(os.get_inheritable(end) for end in streams.theirs)


@pytest.mark.parametrize("sockets", [True, False])
def test_what_one_end_writes_the_other_reads_to_its_end(*, sockets: bool):
    with GuestStreams(sockets=sockets) as streams:
        ours_to_read, ours_to_write = streams.hand_over()
        os.write(ours_to_write, b"in")
        os.write(streams.theirs[1], b"out")
        assert (os.read(streams.theirs[0], 9), os.read(ours_to_read, 9)) == (b"in", b"out")
        streams.close_theirs()
        assert os.read(ours_to_read, 9) == b""
        os.close(ours_to_read)
        os.close(ours_to_write)


@pytest.mark.parametrize("sockets", [True, False])
def test_what_was_not_handed_over_is_closed(*, sockets: bool):
    with GuestStreams(sockets=sockets) as streams:
        ours = streams.hand_over()
    assert not any(map(is_open, streams.theirs))
    assert all(map(is_open, ours))
    for end in ours:
        os.close(end)


def test_without_descriptors_there_is_a_readable_error(monkeypatch: pytest.MonkeyPatch):
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(client.socket, "socketpair", none_left)
    with pytest.raises(SandboxUnavailable, match="Too many open files"):
        GuestStreams(sockets=True)
