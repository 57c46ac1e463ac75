"""Stops an approved host command when the process that started it is gone. Runs as a process of its own.

Started as `python -I -S -c PROGRAM ROOT LEADER MARKER`, see `host`; needs the standard library only. When its
standard input ends, or it has another parent than before, nobody is left who could stop the command. Whoever started
it kills it when the command is over.
"""

from __future__ import annotations

import os
import select
import sys

from kagura_kernel.sandbox.guest.processes import family, kill_all

CHECK_MS = 1000


def abandoned() -> bool:
    """Wait until nobody is left; whether that is so (a byte on the input means it is not)."""
    parent = os.getppid()
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    # A forked copy of the starter may hold the pipe open after its death; the parent's number tells as well.
    while not poll.poll(CHECK_MS):
        if os.getppid() != parent:
            return True
    return not os.read(0, 1)


def main() -> None:
    """Stop the command named on the command line once it is abandoned."""
    leader, marker = int(sys.argv[2]), sys.argv[3].encode()
    if abandoned():
        kill_all(lambda: family(leader, marker))
