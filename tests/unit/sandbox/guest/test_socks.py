import pytest
from hypothesis import given, strategies as st

from kagura_kernel.sandbox.guest.proxy import BadGreeting, SocksFront

HELLO = b"\x05\x01\x00"
NAME = b"\x05\x01\x00\x03\x09a.example\x01\xbb"


def greeted() -> SocksFront:
    front = SocksFront()
    front.feed(HELLO)
    assert front.take_reply() == b"\x05\x00"
    assert front.take_reply() == b""
    return front


@pytest.mark.parametrize(
    ("request_bytes", "target"),
    [
        (NAME, ("a.example", 443)),
        (b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", ("127.0.0.1", 80)),
        (b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x50", ("[::1]", 80)),
    ],
)
def test_a_connect_names_its_target(request_bytes, target):
    front = greeted()
    assert front.feed(request_bytes + b"early") == b"early"
    assert front.target == target
    assert front.feed(b"more") == b"more"
    assert front.accepted()[:2] == b"\x05\x00"


def test_a_client_may_send_everything_at_once_or_byte_by_byte():
    front = SocksFront()
    out = b"".join(front.feed(bytes([one])) for one in HELLO + NAME + b"early")
    assert (front.target, out, front.take_reply()) == (("a.example", 443), b"early", b"\x05\x00")


def test_a_client_that_wants_to_sign_in_is_told_that_it_cannot():
    with pytest.raises(BadGreeting) as caught:
        SocksFront().feed(b"\x05\x01\x02")
    assert caught.value.reply == b"\x05\xff"


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", 7),
        (b"\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50", 7),
        (b"\x05\x01\x00\x09aaaa", 8),
        (b"\x04\x01\x00\x01\x7f\x00\x00\x01\x00\x50", 1),
        (b"\x05\x01\x01\x01\x7f\x00\x00\x01\x00\x50", 1),
        # A name without a letter is no name, and the host would take it for a guest that lies.
        (b"\x05\x01\x00\x03\x00\x01\xbb", 1),
    ],
)
def test_other_commands_and_addresses_are_refused_with_their_number(request_bytes, code):
    front = greeted()
    with pytest.raises(BadGreeting) as caught:
        front.feed(request_bytes)
    assert caught.value.reply[1] == code
    assert front.refused(400, "said already") == b""


@pytest.mark.parametrize(("status", "code"), [(403, 2), (502, 4), (503, 1)])
def test_a_refusal_has_its_number(status, code):
    front = greeted()
    front.feed(NAME)
    assert front.refused(status, "no")[1] == code


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_bad_greeting(data):
    front = SocksFront()
    try:
        front.feed(b"\x05" + data)
    except BadGreeting:
        return
    assert front.target is None or isinstance(front.target[0], str)
