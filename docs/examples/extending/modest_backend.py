"""A back-end of one's own: bubblewrap's boxes, with a quarter of the memory that the settings give."""

from dataclasses import replace

from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend


class ModestBackend(BubblewrapBackend):
    name = "modest"

    async def start(self, spec):
        limits = replace(spec.limits, memory_bytes=max(256 * 2**20, spec.limits.memory_bytes // 4))
        return await super().start(replace(spec, limits=limits))
