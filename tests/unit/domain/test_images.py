"""What is read of an image that nobody trusts, and what of it goes on."""

import io
import random

import pytest
from PIL import Image as Pillow, PngImagePlugin

from kagura_kernel.domain.images import JPEG, MAX_BYTES, NoImageError, measured, read_image

SECRET = "52.5200N 13.4050E"
KINDS = {
    "PNG": {},
    "JPEG": {},
    "GIF": {},
    "WEBP": {},
    "WEBP lossless": {"lossless": True},
    "JPEG progressive": {"progressive": True},
}


def made(kind: str, size: tuple[int, int] = (31, 17), mode: str = "RGB", **more: object) -> bytes:
    picture = Pillow.effect_noise(size, 90).convert(mode)
    out = io.BytesIO()
    picture.save(out, kind.split(maxsplit=1)[0], **{**KINDS[kind], **more})
    return out.getvalue()


def with_notes(kind: str, held: int = 1) -> bytes:
    exif = Pillow.Exif()
    exif[0x0112] = held
    exif[0x010E] = SECRET
    if kind == "GIF":
        return made(kind, comment=SECRET.encode())
    notes = PngImagePlugin.PngInfo()
    notes.add_text("where", SECRET)
    more = {"pnginfo": notes} if kind == "PNG" else {}
    if kind.startswith("JPEG"):
        more = {"comment": SECRET.encode()}
    return made(kind, exif=exif, **more) + (SECRET.encode() if kind.startswith("JPEG") else b"")


def pixels(data: bytes) -> bytes:
    return Pillow.open(io.BytesIO(data)).convert("RGB").tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_goes_on_and_what_is_written_about_it_does_not(kind):
    noted = with_notes(kind)
    assert SECRET.encode() in noted
    image = read_image(noted, "where.x")
    assert SECRET.encode() not in image.data
    assert pixels(image.data) == pixels(noted)
    assert (image.width, image.height, image.name) == (31, 17, "where.x")
    assert image.mime == f"image/{kind.split()[0].lower()}"
    assert read_image(image.data).data == image.data, "what is clean stays as it is"


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("PNG", "P"), ("PNG", "RGBA"), ("JPEG", "L"), ("JPEG", "CMYK"), ("GIF", "L"), ("WEBP", "RGBA")],
)
def test_pictures_of_other_colours_look_the_same(kind, mode):
    data = made(kind, mode=mode)
    assert pixels(read_image(data).data) == pixels(data)


def test_how_a_photograph_was_held_is_all_that_stays():
    image = read_image(with_notes("JPEG", held=6))
    assert dict(Pillow.open(io.BytesIO(image.data)).getexif()) == {0x0112: 6}


def test_of_an_animation_the_first_picture_is_left():
    frames = [Pillow.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    shown = Pillow.open(io.BytesIO(read_image(out.getvalue()).data))
    assert getattr(shown, "n_frames", 0) == 1
    assert pixels(out.getvalue()) == shown.convert("RGB").tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_broken_is_refused_and_nothing_else_happens(kind):
    whole = made(kind)
    dice = random.Random(7)
    for end in range(0, len(whole) - 1, 7):
        with pytest.raises(NoImageError):
            read_image(whole[:end])
    for _ in range(400):
        torn = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            torn[dice.randrange(len(torn))] = dice.randrange(256)
        try:
            read_image(bytes(torn))
        except NoImageError:
            continue


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image"),
        (b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\x7f\xff\xff\xff" * 2, "claims"),
        (b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0" * 8, "no size"),
        (b"GIF89a" + b"\xff" * 9 + b";", "claims"),
        (b"\xff\xd8\xff" + b"\0" * (MAX_BYTES + 1), "20 MiB"),
    ],
)
def test_a_refusal_says_why(data, why):
    with pytest.raises(NoImageError, match=why):
        read_image(data)


def test_a_size_is_read_without_reading_the_picture():
    data = made("JPEG progressive", (640, 480))
    assert measured(data[: data.index(b"\xff\xda")]) == (JPEG, 640, 480)


def test_tokens_are_counted_as_the_service_counts_them():
    assert read_image(made("PNG", (1000, 750))).tokens == 1000
    assert read_image(made("PNG", (1, 1))).tokens == 1
