"""What a greedy box may not do to others, as a suite: subclass `LoadConformance`, give it the fixture `backend`.

Bombs and floods run in a box with small limits; beside it the host, and a second box, must go on as if nothing were.
"""

# ruff: noqa: S101, D102, PLR2004 - pytest runs it: asserts are its words, a name is a sentence, numbers are the point
from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, OutputChunk, shell_command
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxUnavailable
from kagura_kernel.domain.policy import BoxLimits, CommandLimits
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend
from kagura_kernel.testing.conformance.walls import bash, open_box, python
from kagura_kernel.testing.patience import eventually

_MIB = 2**20
SMALL = BoxLimits(
    memory_bytes=256 * _MIB,
    processes=64,
    cpus=1.0,
    workspace_bytes=32 * _MIB,
    scratch_bytes=32 * _MIB,
    file_bytes=24 * _MIB,
)
"""Limits that are reached quickly."""

_USED = """
import os, sys
used, place = 0, os.lstat(sys.argv[1]).st_dev
for top, folders, names in os.walk(sys.argv[1]):
    # What else the box sees may be mounted below: a Python environment, say.
    folders[:] = [name for name in folders if os.lstat(f"{top}/{name}").st_dev == place]
    used += sum(os.lstat(f"{top}/{name}").st_blocks * 512 for name in names)
print(used)
"""

_FLOOD_BYTES = 192 * _MIB
"""Three times what the host may grow by: had it been kept, it would show."""

_EMPTY_TRIES = 300_000
# In all places at once: what one is short of, another must not have left over.
_EMPTY_FILES = f"""
import json, os
made = dict.fromkeys(("/workspace", "/tmp", "/dev/shm", os.environ["HOME"]), 0)
for place in made:
    os.mkdir(f"{{place}}/empty")
for place in made:
    try:
        while made[place] < {_EMPTY_TRIES}:
            os.mknod(f"{{place}}/empty/{{made[place]}}")
            made[place] += 1
    except OSError:
        pass
print(json.dumps(made))
"""


class LoadConformance:
    """Containment: one box at its worst, and everything else unharmed."""

    image: str | None = None
    """Image for back-ends that have images; it needs bash, coreutils and Python."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        """A small project on the host."""
        root = tmp_path / "project"
        root.mkdir()
        (root / "notes.md").write_text("notes\n")
        return root

    @pytest.fixture
    def spec(self, workspace: Path) -> BoxSpec:
        """The box that most tests start."""
        return BoxSpec(workspace=workspace, image=self.image, limits=SMALL)

    async def test_a_fork_bomb_stays_in_its_box_and_leaves_with_it(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        marker = f"bomb-{secrets.token_hex(8)}"
        bomb = f": {marker}; bomb() {{ bomb | bomb & }}; bomb; sleep 30"
        async with open_box(backend, spec) as other:
            box = await backend.start(spec)
            try:
                running = asyncio.create_task(box.run(shell_command(bomb, limits=CommandLimits(total=60, idle=None))))
                await eventually(lambda: len(processes_with(marker)) > 20)
                assert len(processes_with(marker)) <= SMALL.processes
                assert (await bash(other, "echo well")).stdout.text == "well\n"
            finally:
                await box.close()
            with pytest.raises(SandboxUnavailable):
                await running
            assert (await bash(other, "echo well")).stdout.text == "well\n"
        await eventually(lambda: not processes_with(marker))

    async def test_a_memory_hog_is_stopped_and_others_go_on(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        hog = "block = []\nwhile True: block.append(bytearray(8 << 20))"
        async with open_box(backend, spec) as other:
            async with open_box(backend, spec) as box:
                try:
                    assert not (await box.run(Command(("python3", "-c", hog)))).ok
                except SandboxUnavailable as died:
                    assert died.reason  # noqa: PT017 - either is containment
            assert (await bash(other, "echo well")).stdout.text == "well\n"

    @pytest.mark.parametrize("place", ["/tmp", "/workspace", "/dev/shm"])  # noqa: S108 - places in the box
    async def test_a_full_disk_is_an_error_in_the_box_and_costs_the_host_nothing(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path, place: str
    ) -> None:
        line = f"for n in 1 2 3 4; do dd if=/dev/zero of={place}/fill-$n bs=1M count=16 2>&1 || exit 3; done"
        async with open_box(backend, spec) as box:
            result = await bash(box, line)
            assert result.exit_code == 3
            assert "No space left" in result.stdout.text or "quota" in result.stdout.text
            used = int(await python(box, _USED, place)) // 1024
            assert used <= 40 * 1024
            assert (await bash(box, f"rm {place}/fill-*; echo again > {place}/small && cat {place}/small")).ok
        assert _names(workspace) == ["notes.md"]

    async def test_files_without_content_run_out_before_memory_does(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        async with open_box(backend, spec) as box:
            made = json.loads(await python(box, _EMPTY_FILES))
            assert max(made.values()) < _EMPTY_TRIES, made
            assert (await bash(box, "rm -r ~/empty && touch ~/again && echo well")).stdout.text == "well\n"

    async def test_a_file_cannot_grow_beyond_its_limit(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        async with open_box(backend, replace(spec, limits=replace(SMALL, file_bytes=4 * _MIB))) as box:
            result = await bash(box, "dd if=/dev/zero of=/tmp/large bs=1M count=8; wc -c < /tmp/large")
            assert int(result.stdout.text.split()[-1]) <= 4 * _MIB

    async def test_a_flood_of_output_leaves_the_hosts_memory_flat(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        seen = 0
        most = 0

        def count(chunk: OutputChunk) -> None:
            nonlocal seen, most
            # Looking at every chunk would be most of the work.
            if seen // (4 * _MIB) != (seen + len(chunk.data)) // (4 * _MIB):
                most = max(most, _resident_bytes())
            seen += len(chunk.data)

        async with open_box(backend, spec) as box:
            await bash(box, "true")
            before = _resident_bytes()
            flood = shell_command(f"yes 0123456789 | head -c {_FLOOD_BYTES}", limits=CommandLimits(total=100, idle=30))
            result = await box.run(flood, count)
            assert result.stdout.total == seen == _FLOOD_BYTES
            assert len(result.stdout.data) <= flood.keep_bytes
            assert most - before < 64 * _MIB

    async def test_too_many_threads_end_in_an_error(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        spawn = """
import threading, time
count = 0
try:
    while count < 1000:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count)
"""
        async with open_box(backend, spec) as box:
            assert 0 < int(await python(box, spawn)) <= SMALL.processes

    async def test_a_command_out_of_time_is_gone_with_its_children(
        self, backend: SandboxBackend, spec: BoxSpec
    ) -> None:
        number = secrets.randbelow(10**8) + 10**8
        line = f"(setsid sleep {number} &) ; sleep {number} & wait"
        async with open_box(backend, spec) as box:
            with pytest.raises(SandboxCommandTimeout):
                await box.run(shell_command(line, limits=CommandLimits(total=0.5)))
            await eventually(lambda: not processes_with(str(number)))


def processes_with(marker: str) -> list[int]:
    """Processes of this machine, boxes included, whose arguments hold the marker."""
    return [pid for pid, line in _command_lines() if marker.encode() in line]


def _command_lines() -> Iterable[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes()
            except OSError:
                continue


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    message = "/proc/self/status does not tell the resident memory"
    raise AssertionError(message)
