"""A box that is left in place: what stops in it, what is taken back, and what is still there afterwards."""

# ruff: noqa: S101 - a suite asserts; pytest runs it, never python -O
from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import Box, GuestStream, KeepableBox, Listener, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import HEARTBEAT, BoxFixtures, beats, begun, sh, sizes_of_beat
from kagura_kernel.testing.conformance.box_residents import call
from kagura_kernel.testing.conformance.box_streams import says, told, until
from kagura_kernel.testing.patience import eventually


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
