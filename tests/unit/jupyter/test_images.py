"""Images from a box: what is one, how large it is, and what is refused before a browser sees it."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.render.images import MAX_SIDE, NoImageError, decoded, image_of
from tests.support.gallery import DRAWING, png

JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 48, 64) + b"\x01\x01\x11\x00"
GIF = b"GIF89a" + struct.pack("<HH", 7, 5) + b"\x00\x00\x00"
HUGE = png(4, 4, claims=(15_000, 15_000))
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + b"\x1f\x00\x00" + b"\x0f\x00\x00"


@pytest.mark.parametrize(
    ("data", "mime", "size"),
    [
        (png(3, 2), "image/png", (3, 2)),
        (JPEG, "image/jpeg", (64, 48)),
        (GIF, "image/gif", (7, 5)),
        (WEBP, "image/webp", (32, 16)),
        (DRAWING.encode(), "image/svg+xml", (320, 90)),
    ],
)
def test_an_image_is_what_its_bytes_say_and_has_its_size_beforehand(data, mime, size):
    image = image_of(data)
    assert (image.mime, (image.width, image.height)) == (mime, size)
    assert image.address.startswith(f"data:{mime};base64,")


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="2in" height="36pt"', (192, 48)),
        ('viewBox="0 0 400 100"', (400, 100)),
        ('width="200" viewBox="0 0 400 100"', (200, 50)),
        ('width="100%" height="100%"', (300, 150)),
        ('viewBox="0 0 nan inf"', (300, 150)),
    ],
)
def test_a_drawing_has_the_size_it_asks_for_or_a_usual_one(attributes, size):
    image = image_of(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}></svg>'.encode())
    assert (image.width, image.height) == size


@pytest.mark.parametrize("claims", [(MAX_SIDE + 1, 1), (1, MAX_SIDE + 1), (10_000, 10_000), (0, 5)])
def test_an_image_that_claims_too_much_room_or_none_is_no_image(claims):
    with pytest.raises(NoImageError, match=r"claims|no size"):
        image_of(png(4, 4, claims=claims))


def laughs(levels: int) -> str:
    """A drawing of few elements that is drawn as 10 to the power of `levels`."""
    defs = '<g id="a0"><rect width="1" height="1"/></g>'
    for level in range(1, levels + 1):
        defs += f'<g id="a{level}">' + f'<use href="#a{level - 1}"/>' * 10 + "</g>"
    return f'<svg xmlns="http://www.w3.org/2000/svg"><defs>{defs}</defs><use href="#a{levels}"/></svg>'


@pytest.mark.parametrize(
    ("drawing", "why"),
    [
        (laughs(9), "draw too much"),
        ('<svg><g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g></svg>', "refers to itself"),
        ('<svg><g id="a" fill="url(#a)"/></svg>', "refers to itself"),
        ('<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg>&a;</svg>', "declares entities"),
        ("<svg>" + "<g>" * 300 + "</g>" * 300 + "</svg>", "too deep"),
        ("<svg><g></svg>", "cannot be read|can be read"),
        ('<html><body><svg id="x"></svg></body></html>', "no image"),
    ],
)
def test_a_drawing_that_would_never_end_or_is_none_is_refused(drawing, why):
    with pytest.raises(NoImageError, match=why):
        image_of(drawing.encode())


def hidden_laughs(reference, name="a{}", before=""):
    """As `laughs(9)`, with references and names of parts in another form."""
    parts = "".join(
        f'<g id="{name.format(level)}">{reference.format(name.format(level - 1), level - 1) * 10}</g>'
        for level in range(1, 10)
    )
    first = f'<g id="{name.format(0)}"><rect width="1" height="1"/></g>'
    return f'<svg xmlns="http://www.w3.org/2000/svg">{before}{first}{parts}</svg>'


STYLE = "".join(f".c{level}{{{{fill:url(#a{level})}}}}" for level in range(9))


@pytest.mark.parametrize(
    "drawing",
    [
        hidden_laughs('<use href=" #{}"/>'),
        hidden_laughs('<use href="#%61{1}"/>'),
        hidden_laughs('<rect fill="URL(#{})"/>'),
        hidden_laughs('<rect fill="u\\72l(#{})"/>'),
        hidden_laughs('<rect fill="url(#{})"/>', "a" * 201 + "{}"),
        hidden_laughs('<use xlink:href="#{}"/>', "a b{}"),
        hidden_laughs('<use><set attributeName="href" to="#{}"/></use>'),
        hidden_laughs('<use><set attributeName="x" to="#{}"/></use>'),
        hidden_laughs('<rect class="c{1}"/>', before=f"<style>{STYLE.format()}</style>"),
        hidden_laughs('<rect class="c{1}"/>', before="<style>.c1{fill:u<!-- -->rl(#a1)}</style>"),
        hidden_laughs('<rect class="c{1}"/>', before="<style>.c1{fill:u<g/>rl(#a1)}</style>"),
        "<svg><style>@import 'data:text/css,rect{}'</style></svg>",
        '<?xml-stylesheet href="data:text/css,rect{}"?><svg></svg>',
        '<svg><image href="data:image/svg+xml,%3Csvg/%3E"/></svg>',
        f'<svg><image href="data:image/png;base64,{base64.b64encode(b"<svg></svg>").decode()}"/></svg>',
        f'<svg><image href="data:image/png;base64,{base64.b64encode(HUGE).decode()}"/></svg>',
        '<svg><rect style="fill:url(data:image/svg+xml,x)"/></svg>',
        "<svg><filter>" + "<feTurbulence/>" * 300 + "</filter></svg>",
    ],
)
def test_a_drawing_that_hides_what_it_refers_to_or_brings_along_is_refused(drawing):
    with pytest.raises(NoImageError):
        image_of(drawing.encode())


def test_a_drawing_may_carry_small_images_and_a_style_of_its_own():
    picture = base64.b64encode(png(20, 20)).decode()
    drawing = f'<svg><style>*{{stroke:#00f}}</style><image href="data:image/png;base64,{picture}"/></svg>'
    assert image_of(drawing.encode()).mime == "image/svg+xml"


def test_a_drawing_as_plotting_libraries_make_them_is_shown():
    marks = '<use href="#m" x="1"/>' * 2000
    doctype = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
    drawing = (
        f'<?xml version="1.0"?>{doctype}<svg width="10" height="10"><path id="m" clip-path="url(#c)"/>{marks}</svg>'
    )
    assert image_of(drawing.encode()).width == 10


@given(st.binary(max_size=200), st.sampled_from([b"", png(2, 2)[:20], JPEG[:9], GIF[:7], WEBP[:18], b"<svg "]))
def test_whatever_the_bytes_are_it_is_an_image_or_a_calm_refusal(rest, beginning):
    try:
        size = image_of(beginning + rest).width
    except NoImageError as why:
        size = len(str(why))
    assert size > 0


@pytest.mark.parametrize("text", ["no base64!", "AAA", "ä"])
def test_what_is_no_base64_is_no_image(text):
    with pytest.raises(NoImageError, match="base64"):
        decoded(text)
