"""How commands are stopped: by time, by silence, by the caller; and that nothing of theirs stays."""

# ruff: noqa: S101 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxCommandTimeout, SandboxIdleTimeout
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.conformance.box_fixtures import HEARTBEAT, NO_LIMITS, BoxFixtures, beats, sh, sizes_of_beat
from kagura_kernel.testing.patience import eventually

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
