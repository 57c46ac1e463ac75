"""Raster images from a box: only what their first bytes say they are, and no larger than a screen has use for."""

from __future__ import annotations

from kagura_kernel.domain.images import MAX_PIXELS, MAX_SIDE, NoImageError, measured
from kagura_kernel.runs.box_runner.crossing import CannotCross


def check_image(mime: str, data: bytes) -> None:
    """Whether an image is what it says it is.

    Raises:
        CannotCross: it is something else, or is larger than it may be.
    """
    try:
        found, width, height = measured(data)
    except NoImageError:
        found, width, height = "", 0, 0
    if found != mime:
        raise CannotCross(f"it is no {mime.removeprefix('image/').upper()} image")
    if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE or width * height > MAX_PIXELS:
        raise CannotCross(f"it is an image of {width:,} × {height:,} pixels, which is too large to show")
