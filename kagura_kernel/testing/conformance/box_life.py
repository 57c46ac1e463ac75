"""The life of boxes: apart from one another, closed twice, dying aloud."""

# ruff: noqa: S101 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import Box, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import DESCRIPTORS, NO_LIMITS, BoxFixtures, begun, sh
from kagura_kernel.testing.patience import eventually


class BoxLifeConformance(BoxFixtures):
    """Beginning and end."""

    async def test_the_probe_says_that_it_works(self, backend: SandboxBackend) -> None:
        """By having tried."""
        probe = await backend.probe(self.image)
        assert probe.ok
        assert probe.reason

    async def test_a_box_says_what_it_is(self, backend: SandboxBackend, box: Box) -> None:
        """The same as its back-end."""
        assert box.id.startswith("box-")
        assert (box.backend, box.isolation) == (backend.name, backend.isolation)

    async def test_two_boxes_of_one_project_do_not_see_each_other(
        self, backend: SandboxBackend, box: Box, project: Path
    ) -> None:
        """Neither files nor, where there are walls, processes."""
        other = await backend.start(self.spec(project))
        try:
            await sh(box, "echo mine > mine.txt")
            assert (await sh(other, "ls")).stdout.text.count("mine") == 0
            assert await other.changes() == []
            if backend.isolation is not IsolationClass.NONE:
                sleeper = asyncio.create_task(sh(box, "exec -a findme sleep 600", limits=NO_LIMITS))
                look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^findme' "

                async def seen_at_home() -> bool:
                    return (await sh(box, look)).stdout.text.strip() == "1"

                await eventually(seen_at_home)
                assert (await sh(other, look)).stdout.text.strip() == "0"
                sleeper.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sleeper
        finally:
            await other.close()

    async def test_the_guest_is_hidden_from_commands(self, backend: SandboxBackend, box: Box) -> None:
        """They can open neither its descriptors nor its memory, and inherit nothing of it."""
        inherited = await sh(box, DESCRIPTORS)
        assert inherited.stdout.text.strip() == "4"
        if backend.isolation is IsolationClass.NONE:
            pytest.skip("a back-end without walls runs as whoever runs the tests")
        tried = await sh(box, "ls /proc/$PPID/fd; head -c1 /proc/$PPID/mem; cat /proc/$PPID/environ; echo end")
        assert tried.stdout.text == "end\n"

    async def test_closing_ends_every_process(self, box: Box) -> None:
        """And whoever waits for one hears that the box is closed; closing again does nothing."""
        running = await begun(box, "sleep 600")
        await box.close()
        with pytest.raises(SandboxUnavailable) as caught:
            await running
        assert not isinstance(caught.value, SandboxDied)
        await box.close()
        assert await box.wait_closed() == ""

    async def test_a_closed_box_does_nothing_more(self, box: Box) -> None:
        """It says so, and never as a result."""
        await box.close()
        for attempt in (
            lambda: sh(box, "true"),
            lambda: box.files.read("a.txt"),
            lambda: box.files.write("a.txt", b""),
            lambda: box.files.glob("*"),
            box.changes,
        ):
            with pytest.raises(SandboxUnavailable):
                await attempt()

    async def test_a_box_that_dies_says_so(self, box: Box) -> None:
        """To whoever waits for it and whoever runs something in it; later callers hear it too."""
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        killer = asyncio.create_task(box.run(shell_command("kill -9 $PPID; sleep 600")))
        why = await asyncio.wait_for(watching, 60)
        assert why
        for waiting in (running, killer):
            with pytest.raises(SandboxDied):
                await waiting
        with pytest.raises(SandboxDied):
            await sh(box, "true")
        await box.close()

    async def test_closing_the_back_end_closes_its_boxes(self, backend: SandboxBackend, project: Path) -> None:
        """All of them."""
        boxes = [await backend.start(self.spec(project)) for _ in range(2)]
        await backend.close()
        for box in boxes:
            with pytest.raises(SandboxUnavailable):
                await sh(box, "true")
        await backend.close()

    async def test_cancelling_a_start_leaves_nothing(self, backend: SandboxBackend, project: Path) -> None:
        """At whatever point; the next start works."""
        for pause in (0.0, 0.002, 0.01):
            task = asyncio.create_task(backend.start(self.spec(project)))
            await asyncio.sleep(pause)
            task.cancel()
            try:
                box = await task
            except asyncio.CancelledError:
                continue
            await box.close()
        box = await backend.start(self.spec(project))
        assert (await sh(box, "true")).ok
        await box.close()
