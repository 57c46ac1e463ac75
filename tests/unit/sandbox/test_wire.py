import pytest
from hypothesis import given, strategies as st

from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.streams import FrameDecoder, WireError, encode, encode_control, parse_credit, parse_object

good_frames = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([frames.DATA, frames.ERRDATA]), st.integers(1, 9), st.binary(max_size=300)),
        st.tuples(st.just(frames.RESULT), st.integers(1, 9), st.just(b'{"exit": 0}')),
        st.tuples(st.just(frames.HELLO), st.just(0), st.just(b"{}")),
    ),
    max_size=20,
)


def pour(decoder: FrameDecoder, data: bytes, sizes: list[int]) -> list[tuple[int, int, bytes]]:
    """Feed `data` in pieces of these sizes, over and over, and take what comes out."""
    found = []
    turn = 0
    while data:
        room = decoder.room()
        count = min(len(room), len(data), sizes[turn % len(sizes)])
        turn += 1
        room[:count] = data[:count]
        data = data[count:]
        found += [(frame.type, frame.stream, bytes(frame.payload)) for frame in decoder.filled(count)]
    return found


@given(sent=good_frames, sizes=st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_frames_come_out_as_they_went_in_however_they_were_cut(sent, sizes):
    data = b"".join(encode(kind, stream, payload) for kind, stream, payload in sent)
    assert pour(FrameDecoder(), data, sizes) == sent


@pytest.mark.parametrize("piece", [1000, 65_536, 10**7])
def test_frames_of_full_size_pass_in_any_pieces(piece):
    sent = [(frames.DATA, 1, bytes([n]) * frames.MAX_DATA) for n in range(12)]
    assert pour(FrameDecoder(), b"".join(encode(*frame) for frame in sent), [piece]) == sent


@given(data=st.binary(max_size=400), sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_no_bytes_do_more_than_raise(data, sizes):
    decoder = FrameDecoder()
    try:
        for kind, stream, payload in pour(decoder, data, sizes):
            assert kind in frames.TYPES
            assert len(payload) <= frames.MAX_DATA
            assert (stream == 0) == (kind == frames.HELLO)
    except WireError:
        assert data.find(decoder.pending) >= 0


def test_what_was_not_understood_can_be_shown():
    decoder = FrameDecoder()
    with pytest.raises(WireError, match="unknown type"):
        pour(decoder, b"sh: python3: not found\n", [10**6])
    assert decoder.pending == b"sh: python3: not found\n"


def test_half_a_frame_is_no_frame():
    decoder = FrameDecoder()
    assert pour(decoder, encode(frames.DATA, 1, b"abc")[:-1], [10**6]) == []
    assert pour(decoder, b"c", [1]) == [(frames.DATA, 1, b"abc")]


@pytest.mark.parametrize("text", [b"[1]", b"1", b"null", b"{", b"\xff", b"[" * 50_000, b"{} {}", b""])
def test_a_control_frame_is_one_object(text):
    with pytest.raises(WireError):
        parse_object(text)


def test_a_control_frame_survives_bytes_that_are_no_utf8():
    name = b"\xff".decode("utf-8", "surrogateescape")
    frame = encode_control(frames.OPEN, 1, {"path": name})
    assert parse_object(frame[frames.HEADER.size :]) == {"path": name}
    assert frames.loads(frame[frames.HEADER.size :]) == {"path": name}


@pytest.mark.parametrize("body", [b"", b"abc", b"abcde", b"\0\0\0\0"])
def test_credit_is_four_bytes_and_more_than_nothing(body):
    with pytest.raises(WireError):
        parse_credit(memoryview(body))


def test_the_guests_json_is_json():
    import json

    value = {"a": [1, -2, 1.5, None, True, 'ü\udc80😀\n"'], "b": {}}
    assert json.loads(frames.dumps(value)) == value
    assert frames.loads(json.dumps(value).encode()) == value


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"9" * 5000])
def test_a_number_that_json_does_not_have_is_no_control_frame(number):
    with pytest.raises(WireError):
        parse_object(b'{"exit": 0, "more": %s}' % number)
