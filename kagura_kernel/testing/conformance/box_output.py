"""How a command's output comes back: binary, bounded, spilled, as it is printed."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio
import hashlib
import stat
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, OutputChunk, shell_command
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.conformance.box_fixtures import NO_LIMITS, BoxFixtures, sh
from kagura_kernel.testing.patience import eventually

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
