"""A warm pool: boxes that are already running, waiting for the next run that asks for the like of them.

A parked box has answered, has no workspace content (unless its back-end parks for one workspace), no network and no
credential. Which specs may share one is the back-end's word (`parking_spec`); a back-end that cannot park is passed
through. The pool refills itself behind a start, forgets boxes that died or grew old, and holds nothing after `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Coroutine
from typing import Protocol, runtime_checkable

from kagura_kernel.domain.errors import KaguraError, SandboxUnavailable
from kagura_kernel.sandbox.backend import Box, BoxSpec, Probe, SandboxBackend


class ParkedBox(Protocol):
    """A box that runs and waits; taken once, or closed."""

    @property
    def alive(self) -> bool:
        """Whether it can still be taken, as far as is known without asking it."""
        ...

    async def take(self, spec: BoxSpec) -> Box:
        """The box, with the spec's workspace in it and `warm` true; on any failure, cancelling too, it is closed.

        Raises:
            SandboxUnavailable: it is dead after all.
            WorkspaceError: the project cannot be shown to it.
        """
        ...

    async def close(self) -> None:
        """End it and free what it held; may be called twice."""
        ...


@runtime_checkable
class ParkingBackend(Protocol):
    """What a back-end offers beside `SandboxBackend` when its boxes can wait."""

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """The spec to park under: equal for specs that may share a parked box; None when this one cannot be parked."""
        ...

    async def park(self, spec: BoxSpec) -> ParkedBox:
        """A box that waits; `spec` came from `parking_spec`. Cancelling leaves nothing behind.

        Raises:
            SandboxUnavailable: it cannot be had.
        """
        ...


@runtime_checkable
class ProvingBackend(Protocol):
    """What a back-end offers beside `SandboxBackend` when the first box that is wanted can be its trial."""

    async def try_out(self, spec: BoxSpec) -> tuple[Probe, Box | None]:
        """Whether it works here, and the box for `spec` if one was started to find out."""
        ...


class WarmPool:
    """A back-end that hands out parked boxes of another one; with `size` 0 it only passes through."""

    def __init__(self, backend: SandboxBackend, *, size: int = 1, max_age: float = 600.0, max_specs: int = 4) -> None:
        """`size` boxes wait per spec, for at most `max_age` seconds, for the `max_specs` specs used last."""
        self._backend = backend
        self.name, self.isolation = backend.name, backend.isolation
        self._parking = backend if size > 0 and isinstance(backend, ParkingBackend) else None
        self._size = size
        self._max_age = max_age
        self._max_specs = max_specs
        self._parked: OrderedDict[BoxSpec, deque[_Waiting]] = OrderedDict()
        self._coming: dict[BoxSpec, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many boxes are parked now."""
        return sum(len(boxes) for boxes in self._parked.values())

    async def probe(self, image: str | None = None) -> Probe:
        """The wrapped back-end's answer."""
        return await self._backend.probe(image)

    async def try_out(self, spec: BoxSpec) -> tuple[Probe, Box | None]:
        """Whether it works here, and the box for `spec` where finding out has started it; else `start` gives it."""
        key = self._key(spec)
        if not isinstance(self._backend, ProvingBackend) or (key is not None and self._parked.get(key)):
            return await self._backend.probe(spec.image), None
        probe, box = await self._backend.try_out(spec)
        if box is not None and key is not None:
            self._refill(key)
        return probe, box

    async def start(self, spec: BoxSpec) -> Box:
        """A parked box when one fits, else a new one; behind it the pool fills up again."""
        key = self._key(spec)
        if key is None:
            return await self._backend.start(spec)
        box = await self._take(key, spec) or await self._backend.start(spec)
        self._refill(key)
        return box

    async def start_alone(self, spec: BoxSpec) -> Box:
        """A new box; none is parked behind it."""
        return await self._backend.start(spec)

    def prepare(self, spec: BoxSpec) -> None:
        """Begin to park boxes for `spec` in the background, before anyone asks for one; failures are silent."""
        key = self._key(spec)
        if key is not None:
            self._refill(key)

    async def settled(self) -> None:
        """Return when nothing is being parked or closed in the background."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Close parked boxes, then the back-end with all of its boxes; may be called twice."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await self.settled()
        for waiting in self._drop(0):
            await waiting.box.close()
        await self._backend.close()

    def _key(self, spec: BoxSpec) -> BoxSpec | None:
        """What boxes that would do are parked under; None where none are."""
        return self._parking.parking_spec(spec) if self._parking and not self._closed else None

    async def _take(self, key: BoxSpec, spec: BoxSpec) -> Box | None:
        boxes = self._parked.get(key, deque())
        while boxes:
            waiting = boxes.popleft()
            waiting.expiry.cancel()
            if not waiting.box.alive:
                self._behind(waiting.box.close())
                continue
            # One that died meanwhile is replaced by the next one or by a cold start.
            with contextlib.suppress(SandboxUnavailable):
                return await waiting.box.take(spec)
        return None

    def _refill(self, key: BoxSpec) -> None:
        if self._parking is None or self._closed:
            return
        boxes = self._parked.setdefault(key, deque())
        self._parked.move_to_end(key)
        for old in self._drop(self._max_specs):
            self._behind(old.box.close())
        for _ in range(self._size - len(boxes) - self._coming.get(key, 0)):
            self._coming[key] = self._coming.get(key, 0) + 1
            self._behind(self._park(self._parking, key))

    async def _park(self, parking: ParkingBackend, key: BoxSpec) -> None:
        box: ParkedBox | None = None
        try:
            # A pool that cannot be filled is no error: the next start is a cold one and tells what is wrong.
            with contextlib.suppress(KaguraError):
                box = await parking.park(key)
        finally:
            self._coming[key] -= 1
            if not self._coming[key]:
                del self._coming[key]
        if box is None:
            return
        boxes = self._parked.get(key)
        if boxes is None or self._closed:
            await box.close()
            return
        loop = asyncio.get_running_loop()
        waiting = _Waiting(box)
        waiting.expiry = loop.call_later(self._max_age, self._expire, key, waiting)
        boxes.append(waiting)

    def _expire(self, key: BoxSpec, waiting: _Waiting) -> None:
        boxes = self._parked.get(key)
        if boxes and waiting in boxes:
            boxes.remove(waiting)
            self._behind(waiting.box.close())

    def _drop(self, keep: int) -> list[_Waiting]:
        """Forget all but the `keep` specs used last; what was parked for the others must be closed by the caller."""
        dropped: list[_Waiting] = []
        while len(self._parked) > keep:
            _, boxes = self._parked.popitem(last=False)
            for waiting in boxes:
                waiting.expiry.cancel()
            dropped += boxes
        return dropped

    def _behind(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Waiting:
    """A parked box and the timer that ends its wait."""

    expiry: asyncio.TimerHandle

    def __init__(self, box: ParkedBox) -> None:
        self.box = box
