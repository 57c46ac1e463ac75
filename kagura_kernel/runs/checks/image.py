"""Raster images from a box: only what their first bytes say they are, and no larger than a screen has use for."""

from __future__ import annotations

import struct

from kagura_kernel.runs.box_runner.crossing import CannotCross

MAX_SIDE = 20_000
MAX_PIXELS = 100_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_STARTS = {
    "image/png": (_PNG,),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


def check_image(mime: str, data: bytes) -> None:
    """Whether an image is what it says it is.

    Raises:
        CannotCross: it is something else, or is larger than it may be.
    """
    if not data.startswith(_STARTS[mime]) or (mime == "image/webp" and data[8:12] != b"WEBP"):
        raise CannotCross(f"it is no {mime.removeprefix('image/').upper()} image")
    size = _size(mime, data)
    if size is None:
        return
    width, height = size
    if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE or width * height > MAX_PIXELS:
        raise CannotCross(f"it is an image of {width:,} × {height:,} pixels, which is too large to show")


def _size(mime: str, data: bytes) -> tuple[int, int] | None:
    """Width and height, where they stand in the first bytes."""
    try:
        if mime == "image/png":
            length, kind, width, height = struct.unpack_from(">I4sII", data, len(_PNG))
            if length != 13 or kind != b"IHDR":  # noqa: PLR2004 - of every PNG's first part
                raise CannotCross("it is no PNG image")
            return width, height
        if mime == "image/gif":
            width, height = struct.unpack_from("<HH", data, 6)
            return width, height
    except struct.error as error:
        raise CannotCross(f"it is no {mime.removeprefix('image/').upper()} image") from error
    return _jpeg_size(data) if mime == "image/jpeg" else _webp_size(data)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(data):
        mark, kind, length = struct.unpack_from(">BBH", data, position)
        if mark != 0xFF or length < 2:  # noqa: PLR2004 - the length counts itself
            break
        if kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return width, height
        position += 2 + length
    raise CannotCross("it is no JPEG image")


def _webp_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] == b"VP8X" and len(data) >= 30:  # noqa: PLR2004 - the end of its first part
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    # The other two kinds hold 14 bits for each side.
    return None
