"""Raster images: what bytes really are, how large they claim to be, and the picture in them without anything else.

Nothing is decoded here. Sizes are read from headers, and files are cut at the boundaries of their parts, so that bytes
which nobody trusts meet no library that draws.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Mapping

from kagura_kernel.domain.late_dataclass import dataclass, field

PNG, JPEG, GIF, WEBP = "image/png", "image/jpeg", "image/gif", "image/webp"

RASTER = frozenset({PNG, JPEG, GIF, WEBP})

MAX_BYTES = 20 * 2**20
"""Of an image that is read to be shown to a model."""

MAX_SIDE = 20_000
MAX_PIXELS = 100_000_000
SENT_SIDE = 1568
"""Pixels of the longer side that a model is sent; services make larger ones smaller, or refuse them."""

SENT_BYTES = 3_750_000
"""What a model is sent: 5 MB in base64."""

_PIXELS_A_TOKEN = 750

MOST_TOKENS = SENT_SIDE * SENT_SIDE // _PIXELS_A_TOKEN
"""Of one image that is sent."""

_MOST_PARTS = 100_000
_PNG_START = b"\x89PNG\r\n\x1a\n"


class NoImageError(ValueError):
    """The bytes are no image that is used; the message says why, as half a sentence."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image."""

    mime: str  # What the bytes are, whatever they were called
    width: int  # Pixels, as its header claims
    height: int
    data: bytes = field(repr=False)
    name: str = ""  # What it is called; empty for one without a name

    @property
    def address(self) -> str:
        """It as a `data:` address."""
        return f"data:{self.mime};base64,{self.base64}"

    @property
    def base64(self) -> str:
        """Its bytes in base64."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def sha256(self) -> str:
        """The hash of its bytes, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def tokens(self) -> int:
        """About how many tokens a model reads it as; Claude's rule, and near to others'."""
        return -(-self.width * self.height // _PIXELS_A_TOKEN)

    @property
    def fits(self) -> bool:
        """Whether a model takes it as it is."""
        return max(self.width, self.height) <= SENT_SIDE and len(self.data) <= SENT_BYTES


def starts_as_image(data: bytes) -> bool:
    """Whether bytes begin as an image of one of the four formats does."""
    return _mime(data) != ""


def measured(data: bytes) -> tuple[str, int, int]:
    """MIME type, width and height from the first bytes.

    Raises:
        NoImageError: they are none of the four formats, or are broken at their beginning.
    """
    mime = _mime(data)
    try:
        match mime:
            case "image/png":
                length, kind, width, height = struct.unpack_from(">I4sII", data, len(_PNG_START))
                if (length, kind) != (13, b"IHDR"):
                    raise NoImageError("it is broken")
                return mime, width, height
            case "image/jpeg":
                return mime, *_jpeg_size(data)
            case "image/gif":
                width, height = struct.unpack_from("<HH", data, 6)
                return mime, width, height
            case "image/webp":
                return mime, *_webp_size(data)
    except (struct.error, IndexError) as error:
        raise NoImageError("it is broken off") from error
    raise NoImageError("its bytes are no image")


def read_image(data: bytes, name: str = "") -> Image:
    """The image in bytes that nobody trusts, without metadata: no place, no camera, no text, nothing behind its end.

    Of an animation the first picture is left. How a photograph was held stays, since it would lie on its side without.

    Raises:
        NoImageError: they are no PNG, JPEG, GIF or WebP, are broken, or claim too much room.
    """
    if len(data) > MAX_BYTES:
        raise NoImageError(f"it has more than {MAX_BYTES // 2**20} MiB")
    mime, width, height = measured(data)
    if not width or not height:
        raise NoImageError("it has no size")
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise NoImageError(f"it claims {width:,} × {height:,} pixels")
    try:
        return Image(mime, width, height, b"".join(_CLEAN[mime](data)), name)
    except (struct.error, IndexError) as error:
        raise NoImageError("it is broken off") from error


def _mime(data: bytes) -> str:
    if data.startswith(_PNG_START):
        return PNG
    if data.startswith(b"\xff\xd8\xff"):
        return JPEG
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return GIF
    return WEBP if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


# ------------------------------------------------------------------------ PNG

_PNG_KEPT = frozenset({b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"IDAT", b"IEND"})


def _clean_png(data: bytes) -> Iterator[bytes]:
    yield _PNG_START
    at = len(_PNG_START)
    for _ in range(_MOST_PARTS):
        length, kind = struct.unpack_from(">I4s", data, at)
        part = _taken(data, at, 12 + length)
        if kind in _PNG_KEPT:
            yield part
        if kind == b"IEND":
            return
        at += len(part)
    raise NoImageError("it has too many parts")


# ----------------------------------------------------------------------- JPEG

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN, _END, _COMMENT, _EXIF, _ADOBE = 0xDA, 0xD9, 0xFE, 0xE1, 0xEE
_NOTES = frozenset(range(0xE1, 0xF0)) - {_ADOBE} | {_COMMENT}
# Within a scan a marker is what is neither a stuffed 255, nor a restart, nor padding.
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_UPRIGHT = 1
# A note that holds nothing but how the camera was held.
_HELD = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c\0\0\0\0\0\0"


def _jpeg_parts(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The kind of each part, where it begins and where it ends, its scan included."""
    at = 2
    for _ in range(_MOST_PARTS):
        if data[at] != 0xFF:  # noqa: PLR2004 - every marker begins with it
            raise NoImageError("it is broken")
        kind = data[at + 1]
        if kind == 0xFF:  # noqa: PLR2004 - padding
            at += 1
            continue
        if kind == _END:
            yield kind, at, at + 2
            return
        (length,) = struct.unpack_from(">H", data, at + 2)
        end = at + 2 + max(2, length)
        if kind == _SCAN:
            found = _MARKER.search(data, end)
            end = found.start() if found else len(data)
        yield kind, at, end
        at = end
    raise NoImageError("it has too many parts")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    for kind, at, _ in _jpeg_parts(data):
        if kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if kind == _SCAN:
            break
    raise NoImageError("it is broken")


def _clean_jpeg(data: bytes) -> Iterator[bytes]:
    held, parts = _UPRIGHT, []
    for kind, at, end in _jpeg_parts(data):
        part = _taken(data, at, end - at)
        if kind == _EXIF and part[4:10] == b"Exif\0\0":
            held = _how_held(part[10:])
        if kind not in _NOTES:
            parts.append(part)
    yield data[:2]
    if held != _UPRIGHT:
        yield _HELD % held
    yield from parts


def _how_held(exif: bytes) -> int:
    """The orientation that a camera noted, from 1 to 8; upright where it cannot be read."""
    order = ">" if exif[:2] == b"MM" else "<"
    try:
        (at,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, at)
        for number in range(min(count, 200)):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, at + 2 + 12 * number)
            if tag == 0x0112:  # noqa: PLR2004 - Orientation
                return value if 1 <= value <= 8 else _UPRIGHT  # noqa: PLR2004
    except struct.error:
        pass  # what cannot be read says nothing
    return _UPRIGHT


# ------------------------------------------------------------------------ GIF

_GIF_EXTENSION, _GIF_PICTURE, _GIF_CONTROL = 0x21, 0x2C, 0xF9


def _clean_gif(data: bytes) -> Iterator[bytes]:
    at = 13 + _colours(data[10])
    yield data[:at]
    for _ in range(_MOST_PARTS):
        kind = data[at]
        if kind == _GIF_EXTENSION:
            end = _blocks_end(data, at + 2)
            if data[at + 1] == _GIF_CONTROL:
                yield data[at:end]
            at = end
        elif kind == _GIF_PICTURE:
            yield data[at : _blocks_end(data, at + 11 + _colours(data[at + 9]))]
            yield b";"
            return
        else:
            break
    raise NoImageError("it holds no picture")


def _colours(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _blocks_end(data: bytes, at: int) -> int:
    """Where the blocks end that begin there, each with its length before it."""
    for _ in range(_MOST_PARTS):
        length = data[at]
        at += 1 + length
        if not length:
            return at
    raise NoImageError("it has too many parts")


# ----------------------------------------------------------------------- WebP

_WEBP_KEPT = frozenset({b"VP8X", b"ALPH", b"VP8 ", b"VP8L"})
_WEBP_ALPHA = 0x10


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            _taken(data, 0, 30)
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
    raise NoImageError("it is broken")


def _clean_webp(data: bytes) -> Iterator[bytes]:
    (whole,) = struct.unpack_from("<I", data, 4)
    _taken(data, 0, 8 + whole)
    at = 12
    parts: list[bytes] = []
    while at < 8 + whole and len(parts) < _MOST_PARTS:
        kind, length = struct.unpack_from("<4sI", data, at)
        part = _taken(data, at, 8 + length)
        if kind == b"VP8X":
            # Its notes and its profile are gone, and so is what said that they are there.
            part = part[:8] + bytes([part[8] & _WEBP_ALPHA]) + part[9:]
        if kind in _WEBP_KEPT:
            parts.append(part + b"\0" * (length & 1))
        at += 8 + length + (length & 1)
    if not any(part[:4] in (b"VP8 ", b"VP8L") for part in parts):
        raise NoImageError("it holds no single picture")
    body = b"WEBP" + b"".join(parts)
    yield struct.pack("<4sI", b"RIFF", len(body)) + body


def _taken(data: bytes, at: int, length: int) -> bytes:
    """So many bytes; raises `IndexError` where there are fewer."""
    if at + length > len(data):
        raise IndexError
    return data[at : at + length]


_CLEAN: Mapping[str, Callable[[bytes], Iterator[bytes]]] = {
    PNG: _clean_png,
    JPEG: _clean_jpeg,
    GIF: _clean_gif,
    WEBP: _clean_webp,
}
