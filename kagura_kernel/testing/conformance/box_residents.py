"""Programs that stay in a box and are handed one call after another, and a box that is left in place with them.

Of the latter: what stops in it, what is taken back, and what is still there afterwards.
"""

# ruff: noqa: S101 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
# ruff: noqa: S101 - a suite asserts; pytest runs it, never python -O
from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxUnavailable
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, GuestStream, KeepableBox, Listener, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import (
    HEARTBEAT,
    BoxFixtures,
    beats,
    begun,
    sh,
    sizes_of_beat,
    under_way,
)
from kagura_kernel.testing.conformance.box_streams import says, told, until
from kagura_kernel.testing.patience import eventually

STAYS = """
import array, json, os, signal, socket, subprocess, sys, time
control, count = socket.socket(fileno=os.dup(0)), 0
while True:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    message, parts, _, _ = control.recvmsg(16, socket.CMSG_SPACE(16))
    if not message:
        break
    fds, code, count = array.array("i", parts[0][2]), 0, count + 1
    asked = json.loads(open(fds[3], "rb").read())
    for target, fd in enumerate(fds[:3]):
        os.dup2(fd, target)
        os.close(fd)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exec(asked["argv"][0])
    except KeyboardInterrupt:
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open("/dev/null", os.O_RDWR)
    for target in range(3):
        os.dup2(nothing, target)
    os.close(nothing)
    control.send(b"%d" % code)
"""
"""Runs each call's first word as Python."""

SHORT = CommandLimits(0.3, None)


def call(code: str, **more: Any) -> Command:
    """One call of the program that stays."""
    return replace(Command((code,), resident=("python3", "-u", "-c", STAYS)), **more)


class BoxResidentsConformance(BoxFixtures):
    """What a program that stays may rely on, and what of it ends when."""

    async def test_calls_meet_one_program_and_have_their_own_input_output_and_variables(self, box: Box) -> None:
        """Each is a command of its own, but for the process."""
        first = await box.run(call("print(count, input())", stdin=b"one\n", env={"WORD": "x"}, secret_env={"KEY": "y"}))
        print_both = "print(count, sys.stdin.read()); print(sorted(asked['env']), file=sys.stderr)"
        second = await box.run(call(print_both, env={"OTHER": "z"}))
        assert (first.stdout.text, first.resident) == ("1 one\n", "new")
        assert (second.stdout.text, second.stderr.text, second.resident) == ("2 \n", "['OTHER']\n", "kept")
        third = await box.run(call("print(sorted(set(os.environ) & {'WORD', 'KEY', 'OTHER'})); code = 3"))
        assert (third.exit_code, third.stdout.text) == (3, "[]\n")

    async def test_a_call_is_interrupted_at_its_limit_and_the_program_goes_on(self, box: Box) -> None:
        """With its children, as by a person's Ctrl-C."""
        await box.run(call("pass"))
        for code in ("time.sleep(600)", "subprocess.run(['sleep', '600'])", "os.system('sleep 600')"):
            with pytest.raises(SandboxCommandTimeout) as caught:
                await box.run(call(code, limits=SHORT))
            assert caught.value.goes_on, code
        assert (await box.run(call("print(count)"))).stdout.text == "5\n"

    async def test_a_program_that_does_not_take_an_interrupt_is_ended(self, box: Box) -> None:
        """The next call meets a new one."""
        await box.run(call("pass"))
        with pytest.raises(SandboxCommandTimeout) as caught:
            await box.run(call("signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)", limits=SHORT))
        assert not caught.value.goes_on
        result = await box.run(call("print(count)"))
        assert (result.stdout.text, result.resident) == ("1\n", "new")

    async def test_a_call_that_is_called_off_is_interrupted(self, box: Box) -> None:
        """Whoever cancels waits until it is over."""
        task = await under_way(box, call("print('begun'); time.sleep(600)"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await box.run(call("print(count)"))).stdout.text == "2\n"

    async def test_the_end_of_the_program_is_told_and_a_new_one_begins_when_asked(self, box: Box) -> None:
        """By its own exit code, or after a restart."""
        gone = await box.run(call("os._exit(7)"))
        assert (gone.exit_code, gone.resident) == (7, "gone")
        assert (await box.run(call("pass"))).resident == "new"
        fresh = await box.run(call("print(count)", restart=True))
        assert (fresh.stdout.text, fresh.resident) == ("1\n", "new")
        nobody = await box.run(Command(("x",), resident=("no-such-program",)))
        assert (nobody.exit_code, nobody.resident) == (127, "")

    async def test_a_program_that_says_nonsense_is_ended(self, box: Box) -> None:
        """What it says is the box's word."""
        result = await box.run(call("control.send(b'nonsense'); time.sleep(600)"))
        assert (result.exit_code, result.resident) == (137, "gone")
        assert (await box.run(call("print(count)"))).stdout.text == "1\n"

    async def test_one_call_at_a_time(self, box: Box) -> None:
        """A second one is refused and harms nothing."""
        slow = await under_way(box, call("print('begun'); time.sleep(1); print('slept')"))
        refused = await box.run(call("pass"))
        assert (refused.exit_code, "not finished" in refused.stderr.text) == (126, True)
        assert (await slow).stdout.text == "begun\nslept\n"


class BoxKeepingConformance(BoxFixtures):
    """What `KeepableBox` promises; boxes that are none are left out."""

    @pytest.fixture
    def keepable(self, box: Box) -> KeepableBox:
        """The box, where it can be left in place."""
        if not isinstance(box, KeepableBox):
            pytest.skip("boxes of this back-end cannot be left in place")
        return box

    async def test_a_box_at_rest_does_nothing_and_goes_on_with_all_that_it_had(self, keepable: KeepableBox) -> None:
        """Programs that stay, what they have started, and files."""
        await keepable.run(call(f"x = subprocess.Popen(['sh', '-c', {HEARTBEAT!r}]); word = 'there'"))
        await eventually(lambda: beats(keepable))
        await keepable.rest()
        before, after = await sizes_of_beat(keepable)
        assert before == after
        await keepable.wake()
        assert (await keepable.run(call("print(word)"))).stdout.text == "there\n"
        before, after = await sizes_of_beat(keepable)
        assert before < after
        await keepable.run(call("x.kill()"))

    async def test_what_it_was_lent_is_gone_before_it_rests(self, keepable: KeepableBox) -> None:
        """Its listeners, connections that are open, and commands; a port can be listened to anew."""
        ended = asyncio.Event()

        async def serve(stream: GuestStream) -> None:
            await stream.accept()
            try:
                await stream.gone()
            finally:
                ended.set()

        first = await keepable.listen(Listener(0, "raw", "first"), serve)
        await keepable.run(call(f"other = socket.create_connection(('127.0.0.1', {first}), 60)"))
        running = await begun(keepable, "sleep 600")
        await keepable.rest()
        assert (await running).exit_code
        await until(ended.is_set)
        await keepable.wake()
        reset = "\ntry:\n    print(other.recv(1))\nexcept ConnectionResetError:\n    print(b'')"
        assert (await keepable.run(call(reset))).stdout.text == "b''\n"
        refused = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {first})) != 0)"
        assert (await sh(keepable, f'python3 -c "{refused}"')).stdout.text == "True\n"
        again = await keepable.listen(Listener(first, "raw", "again"), says(b"new"))
        assert await told(keepable, again, "print(said(connected()).decode())") == "new"

    async def test_a_box_that_is_gone_does_not_rest(self, backend: SandboxBackend, project: Path) -> None:
        """Whoever wants to leave it in place has to know."""
        box = await backend.start(self.spec(project))
        await box.close()
        if isinstance(box, KeepableBox):
            with pytest.raises(SandboxUnavailable):
                await box.rest()
