"""Bytes into messages, in whatever pieces they come."""

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.tools.toolsets.foreign_tools import Breach, Headed, Lines, decode, encode

BODIES = st.lists(st.binary(min_size=1, max_size=40).map(lambda data: data.hex().encode()), max_size=6)
CUTS = st.lists(st.integers(min_value=1, max_value=50), min_size=1, max_size=20)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces of these lengths, over and over."""
    found, at, turn = [], 0, 0
    while at < len(data):
        found.append(data[at : at + cuts[turn % len(cuts)]])
        at += len(found[-1])
        turn += 1
    return found


@pytest.mark.parametrize("form", [Lines, Headed])
@given(bodies=BODIES, cuts=CUTS)
def test_messages_come_out_as_they_went_in_however_they_are_cut(form, bodies, cuts):
    cutter = form(1000)
    sent = b"".join(cutter.wrap(body) for body in bodies)
    assert [one for piece in pieces(sent, cuts) for one in cutter.feed(piece)] == bodies


def test_a_line_without_end_is_refused_before_it_is_kept():
    cutter = Lines(100)
    assert cutter.feed(b"x" * 100) == []
    with pytest.raises(Breach, match="longer than 100 bytes"):
        cutter.feed(b"x")


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 101\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"X: y\r\n\r\n",
        b"x" * 4096,
    ],
)
def test_a_head_without_one_fit_length_is_refused(sent):
    with pytest.raises(Breach):
        Headed(100).feed(sent)


@pytest.mark.parametrize("body", [b"{", b"nothing", b"NaN", b"[" * 65 + b"]" * 65, b"\xff", b'{"a": 1e999}'])
def test_what_is_no_message_is_a_breach(body):
    with pytest.raises(Breach, match="it sent what is no message"):
        decode(body, 1000)


def test_a_message_of_ours_is_one_line_of_bounded_length():
    assert encode({"text": "a\nb"}, 100) == b'{"text":"a\\nb"}'
    with pytest.raises(ValueError, match="100 are allowed"):
        encode({"text": "x" * 100}, 100)
