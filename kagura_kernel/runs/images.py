"""Images on their way to a run's model: without metadata, small enough, bounded for the whole run, and recorded.

No image is decoded in this process. One that is too large is made smaller in the box, which may be broken by it.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files as resources
from typing import Any

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import SandboxCommandTimeout
from kagura_kernel.domain.events import ImageSent
from kagura_kernel.domain.images import SENT_BYTES, SENT_SIDE, Image, NoImageError, read_image
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.runs.recorder import Recorder

MOST_IMAGES = 60
"""Of a run: a service takes a hundred with one request, and each request repeats those before it."""

MOST_BYTES = 16 * 2**20
"""Of all of them, for the same reason: a request may have 32 MB."""

WITH_THE_TASK = "task"
"""The call that images belong to which come with the task."""

_SECONDS = 30.0


class ModelImages:
    """What one run shows to its model.

    Args:
        exchange: Where the box finds its programs.
        recorder: The run's record.
        scrubber: Knows what must not be shown.
    """

    def __init__(self, exchange: ExchangeDirectory, recorder: Recorder, scrubber: Scrubber) -> None:
        self._exchange = exchange
        self._recorder = recorder
        self._scrubber = scrubber
        self._count = self._bytes = 0

    async def show(self, call_id: str, image: Image) -> Image:
        """The image as it is sent, when that is recorded.

        Args:
            call_id: The call whose result it belongs to, or `WITH_THE_TASK`.
            image: One from `read_image`.

        Raises:
            NoImageError: it is not sent; the text says why, as half a sentence.
            SandboxError: the box is gone, or broke the protocol.
        """
        if self._scrubber.holds(image.data):
            raise NoImageError("it holds a secret that this run has leased")
        if self._count >= MOST_IMAGES:
            raise NoImageError(f"a run shows {MOST_IMAGES} images to its model")
        sent = image if image.fits else await self._smaller(image)
        if self._bytes + len(sent.data) > MOST_BYTES:
            raise NoImageError(f"a run shows {MOST_BYTES // 2**20} MiB of images to its model")
        self._count += 1
        self._bytes += len(sent.data)
        self._recorder.record(ImageSent, **sent_fields(call_id, sent))
        return sent

    async def _smaller(self, image: Image) -> Image:
        too_large = (
            f"it has {image.width:,} × {image.height:,} pixels and {len(image.data):,} bytes, where a model takes "
            f"{SENT_SIDE:,} pixels a side and {SENT_BYTES:,} bytes"
        )
        command = Command(
            ("python3", "-c", _shrink(), str(SENT_SIDE), str(SENT_BYTES)),
            env=self._exchange.environment(WITH_THE_TASK),
            stdin=image.data,
            limits=CommandLimits(_SECONDS, None),
            keep_bytes=3 * SENT_BYTES,
        )
        try:
            result = await self._exchange.box.run(command)
        except SandboxCommandTimeout as error:
            raise NoImageError(f"{too_large}, and it could not be made smaller in {_SECONDS:g} s") from error
        if not result.ok:
            missing = b"No module named 'PIL'" in result.stderr.data
            why = "Python in the box has no Pillow to make it smaller" if missing else "it could not be made smaller"
            raise NoImageError(f"{too_large}, and {why}")
        smaller = read_image(result.stdout.data, image.name)
        if not smaller.fits:
            raise NoImageError(f"{too_large}, and it could not be made smaller")
        return smaller


def sent_fields(call_id: str, image: Image) -> dict[str, Any]:
    """The fields of `ImageSent`."""
    return {
        "call_id": call_id,
        "name": image.name,
        "mime": image.mime,
        "width": image.width,
        "height": image.height,
        "bytes": len(image.data),
        "sha256": image.sha256,
        "tokens": image.tokens,
    }


@cache
def _shrink() -> str:
    return resources("kagura_kernel.runs").joinpath("box_shrink.py").read_text("utf-8")
