"""Images from a box, before a browser sees them: what their bytes really are, and how much room they claim.

Only what is certain to be one of a few formats is handed on, and never more pixels than a browser can bear. An SVG is
shown as an image alone, in which no script runs and nothing is fetched; here it is made sure that drawing it ends.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote
from xml.parsers import expat

from kagura_kernel.domain.images import RASTER, Image, NoImageError, measured, starts_as_image

SVG = "image/svg+xml"
MIMES = RASTER | {SVG}

MAX_PIXELS = 25_000_000
"""Of one image: four bytes each once a browser has unpacked it."""
MAX_SIDE = 16_000
MAX_SVG = 2_000_000
"""Characters."""
MAX_DRAWN = 200_000
"""Elements that an SVG may draw, each counted as often as it is referred to."""
MAX_DEPTH = 200

_FALLBACK = (300, 150)
_UNITS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4}
_LENGTH = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(px|pt|pc|in|cm|mm)?\s*")
# Wherever a part's name stands behind a `#`, whatever the attribute is called: animations set references too.
_REFERENCE = re.compile(r"#([^)'\"\s;,]+)")
_PART_NAME = re.compile(r"[\w.:+~@$-]{1,500}")
_FETCHES = re.compile(r"data:|@import|\\", re.IGNORECASE)
_EFFECT = "fe"
"""How the names of filters begin: each looks at every pixel, many times over."""
EFFECT_WEIGHT = 1_000
"""Elements that a filter counts for."""
MAX_CARRIED = 20
"""Raster images inside one drawing."""


def image_of(data: bytes) -> Image:
    """The image that these bytes are.

    Raises:
        NoImageError: they are none of the formats, are broken at their beginning, or claim too much room.
    """
    mime, width, height = _measured(data)
    if not width or not height:
        raise NoImageError("it has no size")
    if width > MAX_SIDE or height > MAX_SIDE or width * height > MAX_PIXELS:
        raise NoImageError(f"it claims {width:,} × {height:,} pixels")
    return Image(mime, width, height, data)


def decoded(text: str) -> bytes:
    """The bytes behind base64; raises `NoImageError`."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NoImageError("its data is no base64") from error


def _measured(data: bytes) -> tuple[str, int, int]:
    if not starts_as_image(data) and (b"<svg" in data[:4096] or b":svg" in data[:4096]):
        return SVG, *_svg(data)
    return measured(data)


def _svg(data: bytes) -> tuple[int, int]:
    """Its size; raises where it is no XML, declares entities, or would be drawn for ever."""
    if len(data) > MAX_SVG:
        raise NoImageError("it is too large a drawing")
    drawing = _Drawing()
    drawing.read(data)
    if drawing.drawn() > MAX_DRAWN:
        raise NoImageError("it would draw too much")
    return drawing.size


class _Drawing:
    """An SVG's elements, how they refer to each other, and the size it asks for."""

    def __init__(self) -> None:
        self.size = _FALLBACK
        self._root = ""
        # Of each element with an id, and of the whole under the empty one: elements of its own, and what it draws
        # besides, which is what it refers to and the elements with ids inside it.
        self._own: dict[str, int] = {"": 0}
        self._draws: dict[str, list[str]] = {"": []}
        self._within = [""]
        self._in_style = False
        self._style = ""
        self._carried = self._pixels_carried = 0

    def read(self, data: bytes) -> None:
        """Take it in; raises `NoImageError`."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._entity
        parser.ProcessingInstructionHandler = self._instruction
        parser.CharacterDataHandler = self._words
        parser.buffer_text = True
        try:
            parser.Parse(data, True)  # noqa: FBT003  # a positional of the C library
        except NoImageError:
            raise
        # The others are what Python's codecs say of an encoding that it names.
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise NoImageError("it is no drawing that can be read") from error
        if self._root.rpartition(":")[2] != "svg":
            raise NoImageError("its bytes are no image")

    def drawn(self) -> int:
        """Elements that drawing it takes at most; raises `NoImageError` where that has no end."""
        sums: dict[str, int] = {}
        # No recursion: how deep one refers to the other is the drawing's choice.
        stack = [("", iter(self._draws[""]))]
        going_on = {""}
        while stack:
            name, rest = stack[-1]
            other = next((one for one in rest if one in self._own and one not in sums), None)
            if other is None:
                drawn = self._own[name] + sum(sums.get(one, 0) for one in self._draws[name])
                sums[name] = min(drawn, 2 * MAX_DRAWN)
                going_on.discard(name)
                stack.pop()
            elif other in going_on:
                raise NoImageError("it refers to itself")
            else:
                going_on.add(other)
                stack.append((other, iter(self._draws[other])))
        return sums[""]

    def _entity(self, *_declared: object) -> None:
        raise NoImageError("it declares entities")

    def _instruction(self, target: str, _words: str) -> None:
        if target.lower() == "xml-stylesheet":
            raise NoImageError("its style lies outside of it")

    def _words(self, words: str) -> None:
        if self._in_style:
            self._style += words

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        local = tag.rpartition(":")[2].lower()
        if self._in_style:
            raise NoImageError("its style sheet is none")
        self._in_style = local == "style"
        self._check_carried(attributes)
        if not self._root:
            self._root = tag
            self.size = _asked_for(attributes)
        owner, name = self._within[-1], attributes.get("id") or attributes.get("xml:id", "")
        if name and not _PART_NAME.fullmatch(name):
            raise NoImageError("its parts have odd names")
        if len(self._within) > MAX_DEPTH:
            raise NoImageError("its parts lie too deep in each other")
        if name and name not in self._own:
            self._own[name], self._draws[name] = 0, []
            self._draws[owner].append(name)
            owner = name
        self._within.append(owner)
        self._own[owner] += EFFECT_WEIGHT if local.startswith(_EFFECT) else 1
        self._draws[owner] += _referred(attributes)

    def _end(self, _tag: str) -> None:
        self._within.pop()
        if not self._in_style:
            return
        # A style sheet says of any element what it draws, and in more ways than are read here.
        if ("#" in self._style and "url" in self._style.lower()) or _FETCHES.search(self._style):
            raise NoImageError("its style sheet refers to its parts")
        self._in_style, self._style = False, ""

    def _check_carried(self, attributes: dict[str, str]) -> None:
        """Refuse what its attributes bring along, but for raster images: another drawing would not be looked at."""
        for key, value in attributes.items():
            short = value.strip()
            if key.rpartition(":")[2] == "href" and short[:5].lower() == "data:":
                image = _raster(short)
                self._carried += 1
                self._pixels_carried += image.width * image.height
                if self._carried > MAX_CARRIED or self._pixels_carried > MAX_PIXELS:
                    raise NoImageError("the images inside it are too large")
            elif _brings_more(key, value):
                raise NoImageError(_TOO_MUCH)


_ANIMATED = frozenset({"to", "from", "by", "values"})
_TOO_MUCH = "it brings more along than can be looked at"


def _brings_more(key: str, value: str) -> bool:
    """Whether an attribute may fetch or refer in a way that is not followed here."""
    if key == "attributeName":
        return "href" in value
    return ("(" in value or key in _ANIMATED) and _FETCHES.search(value) is not None


def _raster(address: str) -> Image:
    """The image that an address inside of a drawing holds; raises `NoImageError` for a drawing."""
    kind, _, data = address.partition(",")
    image = image_of(decoded(data)) if kind.lower().endswith(";base64") else None
    if image is None or image.mime == SVG:
        raise NoImageError(_TOO_MUCH)
    return image


def _referred(attributes: dict[str, str]) -> list[str]:
    return [
        name
        for value in attributes.values()
        if "#" in value
        for told in _REFERENCE.findall(value)
        # A browser reads an escaped name as the name that it is.
        for name in {told, unquote(told)}
    ]


def _asked_for(attributes: dict[str, str]) -> tuple[int, int]:
    """What a drawing's first element says of its size, in pixels."""
    width, height = (_pixels(attributes.get(name, "")) for name in ("width", "height"))
    box = re.split(r"[\s,]+", attributes.get("viewBox", "").strip())
    try:
        across, down = (abs(float(value)) for value in box[2:4]) if len(box) == len("xywh") else (0.0, 0.0)
    except ValueError:
        across = down = 0.0
    if not (1e-9 < across < 1e9 and 1e-9 < down < 1e9):  # noqa: PLR2004  # nothing, not a number, or endless
        across = down = 0.0
    if width and not height:
        height = width * down / across if across else _FALLBACK[1]
    elif height and not width:
        width = height * across / down if down else _FALLBACK[0]
    elif not width:
        width, height = (across, down) if across else _FALLBACK
    return max(1, round(width)), max(1, round(height))


def _pixels(length: str) -> float:
    found = _LENGTH.fullmatch(length)
    return float(found[1]) * _UNITS[found[2] or ""] if found else 0.0
