"""How a command's output comes back (binary, bounded, spilled, as it is printed), and how commands are stopped."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from pathlib import Path

import pytest

from kagura_kernel.domain.clock import PausableClock, SystemClock
from kagura_kernel.domain.commands import Command, OutputChunk, shell_command
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxIdleTimeout
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.conformance.box_fixtures import HEARTBEAT, NO_LIMITS, BoxFixtures, beats, sh, sizes_of_beat
from kagura_kernel.testing.patience import eventually

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O


BYTES = 3_000_000


class BoxOutputConformance(BoxFixtures):
    """Output, small and huge."""

    async def test_output_may_be_any_bytes(self, box: Box) -> None:
        """Nothing is decoded on the way; the text shows what cannot be read."""
        result = await sh(box, r"printf '\xff\x00\xfe\n\r\xc3'")
        assert result.stdout.data == b"\xff\x00\xfe\n\r\xc3"
        assert "�" in result.stdout.text

    async def test_long_output_keeps_its_head_and_tail_and_counts_exactly(self, box: Box) -> None:
        """Without a place to spill to, the middle is dropped."""
        line = f"head -c {BYTES} /dev/zero | tr '\\0' a; printf END"
        result = await box.run(Command(("bash", "-c", f"printf START; {line}"), keep_bytes=1000, limits=NO_LIMITS))
        output = result.stdout
        assert output.total == BYTES + 8
        assert output.truncated
        assert output.spill is None
        assert (len(output.head), len(output.tail)) == (500, 500)
        assert output.head.startswith(b"START")
        assert output.tail.endswith(b"END")
        assert f"{output.total - 1000} bytes left out" in output.text

    async def test_long_output_is_spilled_in_full(self, box: Box, tmp_path: Path) -> None:
        """Into a file that only its owner reads; short output makes none."""
        spill = tmp_path / "spill"
        spill.mkdir()
        line = f"seq 1 600000 | head -c {BYTES} | tee full.txt; echo short >&2"
        result = await box.run(shell_command(line, limits=NO_LIMITS, spill_dir=spill))
        assert result.stdout.total == BYTES
        assert result.stdout.spill is not None
        written = result.stdout.spill.read_bytes()
        inside = (await sh(box, "sha256sum full.txt")).stdout.text.split()[0]
        assert hashlib.sha256(written).hexdigest() == inside
        assert written.startswith(result.stdout.head)
        assert written.endswith(result.stdout.tail)
        assert stat.S_IMODE(result.stdout.spill.stat().st_mode) == 0o600
        assert result.stderr.spill is None
        assert list(spill.iterdir()) == [result.stdout.spill]

    async def test_a_cancelled_command_leaves_no_spilled_file(self, box: Box, tmp_path: Path) -> None:
        """Nobody would ever find it."""
        spill = tmp_path / "spill"
        spill.mkdir()
        heard = asyncio.Event()
        task = asyncio.create_task(
            box.run(shell_command("yes", limits=NO_LIMITS, spill_dir=spill), lambda _chunk: heard.set())
        )
        await heard.wait()
        await eventually(lambda: list(spill.iterdir()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert list(spill.iterdir()) == []

    async def test_a_listener_hears_all_of_it_in_order_and_while_it_runs(self, box: Box) -> None:
        """Both streams, chunk by chunk."""
        chunks: list[OutputChunk] = []
        first = asyncio.Event()

        def listen(chunk: OutputChunk) -> None:
            chunks.append(chunk)
            first.set()

        line = "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three; read line; echo $line"
        running = asyncio.create_task(box.run(shell_command(line, stdin=b"four\n"), listen))
        await first.wait()
        assert not running.done()
        await running
        assert [(chunk.stream, chunk.data) for chunk in chunks[:2]] == [("stdout", b"one\n"), ("stderr", b"two\n")]
        assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout") == b"one\nthree\nfour\n"

    async def test_a_listener_that_fails_ends_its_command_only(self, box: Box) -> None:
        """Its error is what the caller gets; the box goes on."""

        def fail(_chunk: OutputChunk) -> None:
            raise LookupError("listener")

        with pytest.raises(LookupError, match="listener"):
            await box.run(shell_command("echo x; sleep 60", limits=NO_LIMITS), fail)
        assert (await sh(box, "echo on")).stdout.data == b"on\n"

    async def test_a_flood_of_output_does_not_stall_other_commands(self, box: Box) -> None:
        """They take turns on the pipe."""
        flood = asyncio.create_task(box.run(shell_command("yes", limits=NO_LIMITS)))
        for n in range(10):
            assert (await sh(box, f"echo {n}")).stdout.text == f"{n}\n"
        assert not flood.done()
        flood.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flood

    async def test_nothing_is_lost_when_a_program_prints_much_and_ends_at_once(self, box: Box) -> None:
        """The end of the program is not the end of its output."""
        for size in (65_536, 65_537, 1_048_577):
            command = Command(("head", "-c", str(size), "/dev/zero"), keep_bytes=4 * 2**20)
            assert (await box.run(command)).stdout.data == bytes(size)


# ruff: noqa: S101 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O


LONGER_AND_LONGER = (0.5, 5.0, 30.0)
"""Seconds: a slow machine may not even have begun with a command when the first limit is reached."""

CHILD = f"bash -c '{HEARTBEAT}' & "
DAEMON = f"(setsid bash -c '{HEARTBEAT}' >/dev/null 2>&1 </dev/null &); "
STUBBORN = f"trap '' TERM INT HUP; {HEARTBEAT}"


class BoxLimitsConformance(BoxFixtures):
    """Limits and cancelling."""

    @pytest.mark.parametrize(
        "line", [CHILD + "sleep 60", DAEMON + "sleep 60", STUBBORN], ids=["child", "daemon", "deaf"]
    )
    async def test_a_command_that_runs_too_long_is_stopped_and_its_children_too(self, box: Box, line: str) -> None:
        """Children in the background, in sessions of their own, and those that ignore being asked."""
        for seconds in LONGER_AND_LONGER:
            with pytest.raises(SandboxCommandTimeout) as caught:
                await sh(box, line, limits=CommandLimits(seconds, None))
            assert caught.value.seconds == seconds
            if await beats(box):
                break
        before, after = await sizes_of_beat(box)
        assert before == after > 0

    async def test_a_silent_command_is_stopped_and_its_children_too(self, box: Box) -> None:
        """However much time it would have had."""
        for seconds in LONGER_AND_LONGER:
            with pytest.raises(SandboxIdleTimeout) as caught:
                await sh(box, CHILD + "echo begin; sleep 60", limits=CommandLimits(600.0, seconds))
            assert caught.value.seconds == seconds
            if await beats(box):
                break
        before, after = await sizes_of_beat(box)
        assert before == after > 0

    async def test_a_command_that_goes_on_printing_is_not_silent(self, box: Box) -> None:
        """Errors count as well."""
        line = "for i in {1..14}; do sleep 0.2; echo $i >&2; done; echo done"
        result = await sh(box, line, limits=CommandLimits(60.0, 2.0))
        assert result.stdout.text == "done\n"

    async def test_time_that_a_clock_leaves_out_counts_against_no_limit(self, box: Box) -> None:
        """As when a person is asked something meanwhile; what was used up before stays used."""
        clock = PausableClock(SystemClock())
        limits = CommandLimits(1.0, 0.8, clock.monotonic)
        with clock.paused():
            running = asyncio.create_task(sh(box, "sleep 60", limits=limits))
            await asyncio.sleep(1.5)
            assert not running.done()
        with pytest.raises(SandboxIdleTimeout):
            await running

    async def test_a_quick_command_is_not_touched_by_its_limits(self, box: Box) -> None:
        """Nor is the next one by those of the last."""
        assert (await sh(box, "true", limits=CommandLimits(2.0, 1.5))).ok
        assert (await sh(box, "sleep 2.2; echo ok", limits=NO_LIMITS)).stdout.text == "ok\n"

    @pytest.mark.parametrize(
        "line", [CHILD + "sleep 60", DAEMON + "sleep 60", STUBBORN], ids=["child", "daemon", "deaf"]
    )
    async def test_cancelling_stops_the_whole_family_before_it_returns(self, box: Box, line: str) -> None:
        """And the box serves the next command."""
        task = asyncio.create_task(sh(box, line, limits=NO_LIMITS))
        await eventually(lambda: beats(box))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before, after = await sizes_of_beat(box)
        assert before == after > 0
        assert (await sh(box, "echo on")).stdout.data == b"on\n"

    async def test_cancelling_at_once_leaves_nothing_either(self, box: Box) -> None:
        """Whether or not it had begun."""
        for _ in range(5):
            task = asyncio.create_task(sh(box, HEARTBEAT, limits=NO_LIMITS))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await box.files.write("beat", b"x")
        before, after = await sizes_of_beat(box)
        assert before == after

    async def test_stopping_one_command_leaves_the_others_alone(self, box: Box) -> None:
        """Their families are told apart."""
        other = asyncio.create_task(sh(box, "sleep 1; echo other"))
        with pytest.raises(SandboxCommandTimeout):
            await sh(box, "sleep 60", limits=CommandLimits(0.2, None))
        assert (await other).stdout.text == "other\n"

    async def test_cancelling_a_command_that_is_still_being_fed(self, box: Box) -> None:
        """Its input is forgotten."""
        command = shell_command("sleep 60", stdin=b"x" * 5_000_000, limits=NO_LIMITS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.run(command), 0.3)
        assert (await sh(box, "echo on")).stdout.data == b"on\n"
