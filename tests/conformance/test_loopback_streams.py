"""Streams of the fake that has no guest keep the promises of those of a box."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from kagura_kernel.domain.commands import Command, CommandResult, Output
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.conformance.box_streams import RawStreamsConformance
from tests.support.guest_stream import LoopbackListening


class LoopbackBox(LoopbackListening):
    """What the suite asks of a box: to listen, and to run programs, here as children of this process."""

    async def run(self, command: Command) -> CommandResult:
        process = await asyncio.create_subprocess_exec(
            *command.argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        stdout, stderr = [Output(data, total=len(data)) for data in await process.communicate()]
        return CommandResult(process.returncode or 0, stdout, stderr)


class TestLoopbackStreams(RawStreamsConformance):
    @pytest.fixture
    async def box(self) -> AsyncIterator[Box]:
        async with LoopbackBox() as box:
            yield cast("Box", box)
