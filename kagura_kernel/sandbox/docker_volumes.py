"""Copies of directories of the host at the daemon: volumes that boxes read, filled once for each content.

A daemon may be on another machine or in another mount namespace, so nothing of the host is mounted: a directory is
read here, and sent. A volume bears a name that nobody else can know until it is full, and its name is given to nobody
before, so that a half-filled one is never seen. It belongs to the back-end object that filled it and goes with that,
by its closing, by the reaper, or by the sweep of the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.sandbox.docker_engine import DockerEngine
from kagura_kernel.sandbox.docker_flags import CONTENT_LABEL, HOLDER_LABEL, OWNER_LABEL, Volume, filling_body
from kagura_kernel.sandbox.docker_reaper import remove_left_volumes
from kagura_kernel.sandbox.packing import Packed, State, pack, state_of

KEPT = 8
"""How many volumes stay for the next box; more only while boxes have them."""

_PLACE = "/filled"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Copies:
    """The directories of one box, at the daemon.

    Attributes:
        volumes: One for each directory.
        digests: Of their contents, likewise.
        states: What was on the host when each was copied, likewise.
        notes: What a reader should know.
    """

    volumes: tuple[Volume, ...] = ()
    digests: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    notes: tuple[str, ...] = ()


class DockerVolumes:
    """The volumes of one back-end object at one daemon."""

    def __init__(self, engine: DockerEngine, owner: str, holder: str) -> None:
        self._engine = engine
        self._labels = {OWNER_LABEL: owner, HOLDER_LABEL: holder}
        self._filled: OrderedDict[str, str] = OrderedDict()
        self._read: dict[Path, Packed] = {}
        self._one_by_one = asyncio.Lock()

    async def copies(self, pairs: Sequence[tuple[Path, str]], image: str) -> Copies:
        """Volumes with what lies in these directories now; only what the daemon has not is sent.

        Args:
            pairs: (directory on the host, path in the box).
            image: Any image that is there; nothing of it is run.

        Raises:
            PathNotShown: a directory cannot be read, or is too much.
            SandboxUnavailable: the daemon does not answer, or refuses.
        """
        if not pairs:
            return Copies()
        async with self._one_by_one:
            found = [(await self._volume(source, image), target) for source, target in pairs]
        return Copies(
            tuple(Volume(name, target) for (name, _), target in found),
            tuple(packed.digest for (_, packed), _ in found),
            tuple(packed.state for (_, packed), _ in found),
            tuple(note for (_, packed), target in found for note in _notes(packed, target)),
        )

    async def whole(self, copies: Copies) -> bool:
        """Whether the volumes that a container was created with are the ones that were filled.

        Somebody may have removed one, and for a name that it does not know the daemon makes an empty one. From the
        creation of a container on nobody can remove what it has.
        """
        for volume, digest in zip(copies.volumes, copies.digests, strict=True):
            labels = await self._engine.volume_labels(volume.name) or {}
            if labels.get(CONTENT_LABEL) != digest:
                return False
        return True

    async def forget(self, copies: Copies) -> None:
        """These are not whole: remove what took their places, and fill others when they are next asked for."""
        for volume, digest in zip(copies.volumes, copies.digests, strict=True):
            if self._filled.get(digest) == volume.name:
                del self._filled[digest]
            await self._engine.remove_volume(volume.name)

    async def close(self) -> None:
        """Remove every volume; its boxes are gone already.

        Raises:
            SandboxUnavailable: the daemon does not answer.
        """
        self._filled.clear()
        await remove_left_volumes(self._engine, HOLDER_LABEL, lambda holder: holder == self._labels[HOLDER_LABEL])

    # ---------------------------------------------------------------- inside

    async def _volume(self, source: Path, image: str) -> tuple[str, Packed]:
        packed = self._read.get(source)
        if packed is None or packed.digest not in self._filled or not await _is(source, packed.state):
            packed = await self._send(source, image)
        self._read.pop(source, None)
        self._read[source] = packed
        self._filled.move_to_end(packed.digest)
        return self._filled[packed.digest], packed

    async def _send(self, source: Path, image: str) -> Packed:
        with tempfile.TemporaryFile() as archive:
            packed = await asyncio.to_thread(pack, source, archive)
            if packed.digest not in self._filled:
                archive.seek(0)
                await self._fill(packed.digest, image, archive)
        return packed

    async def _fill(self, digest: str, image: str, archive: IO[bytes]) -> None:
        """Send an archive into a new volume, through a container that is made for that and never started."""
        name, through = f"kagura-{digest[:12]}-{secrets.token_hex(8)}", f"kagura-fill-{secrets.token_hex(8)}"
        try:
            await self._engine.create_volume(name, {**self._labels, CONTENT_LABEL: digest})
            await self._engine.create(through, filling_body(image, Volume(name, _PLACE), self._labels))
            await self._engine.put(through, _PLACE, archive)
            await self._engine.remove(through)
        except BaseException:
            # What cannot be removed now bears our labels, and is found by them.
            with contextlib.suppress(SandboxUnavailable):
                await self._engine.remove(through)
                await self._engine.remove_volume(name)
            raise
        self._filled[digest] = name
        await self._trim()

    async def _trim(self) -> None:
        """Remove what was not asked for lately; what a box has stays until the next look."""
        for digest, name in list(self._filled.items())[:-KEPT]:
            with contextlib.suppress(SandboxUnavailable):
                if await self._engine.remove_volume(name):
                    del self._filled[digest]
        while len(self._read) > KEPT:
            del self._read[next(iter(self._read))]


async def still_so(copies: Copies, pairs: Sequence[tuple[Path, str]]) -> bool:
    """Whether on the host there is still what was copied."""
    return all([await _is(source, state) for (source, _), state in zip(pairs, copies.states, strict=True)])


async def _is(source: Path, state: State) -> bool:
    try:
        return await asyncio.to_thread(state_of, source) == state
    except PathNotShown:
        return False


def _notes(packed: Packed, target: str) -> tuple[str, ...]:
    if not packed.left_out:
        return ()
    names = ", ".join(f"{target}/{name}" for name in packed.left_out[:_SHOWN])
    more = f" and {len(packed.left_out) - _SHOWN} more" if len(packed.left_out) > _SHOWN else ""
    return (f"neither files nor links that stay inside, so not in the box: {names}{more}",)
