import struct

import pytest

from kagura_kernel.membrane.postgres.wire import (
    GSS_REQUEST,
    MAX_MESSAGE,
    MAX_STARTUP,
    SSL_REQUEST,
    Key,
    Startup,
    WireBroken,
    cancel_request,
    fatal,
    key_data,
    message,
    negotiated,
    parse_fields,
    parse_key,
    read_exactly,
    read_message,
    read_packet,
    ssl_request,
    startup,
)


class Bytes:
    """A source that gives what it has in pieces of at most `step` bytes, and tells how much it was asked for."""

    def __init__(self, data: bytes, step: int = 65536) -> None:
        self.data = data
        self.step = step

    async def read(self, limit: int) -> bytes:
        assert limit > 0
        piece, self.data = self.data[: min(limit, self.step)], self.data[min(limit, self.step) :]
        return piece


@pytest.mark.parametrize("step", [1, 3, 65536])
async def test_messages_are_read_to_their_end_and_no_further(step):
    source = Bytes(message(b"S", b"name\0value\0") + message(b"Z", b"I") + b"rest", step)
    assert await read_message(source) == (b"S", b"name\0value\0")
    assert await read_message(source) == (b"Z", b"I")
    assert source.data == b"rest"


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, MAX_MESSAGE + 1, 2**31 - 1])
async def test_a_message_of_an_impossible_length_is_not_read(length):
    source = Bytes(struct.pack("!ci", b"S", length) + b"x" * 100)
    with pytest.raises(WireBroken):
        await read_message(source)
    assert len(source.data) == 100


@pytest.mark.parametrize("data", [b"", b"S", b"S\0\0\0", message(b"S", b"abc")[:-1]])
async def test_half_a_message_is_none(data):
    with pytest.raises(WireBroken, match="hung up"):
        await read_message(Bytes(data))


async def test_exactly_nothing_can_be_read():
    assert await read_exactly(Bytes(b"x"), 0) == b""


@pytest.mark.parametrize("step", [1, 65536])
async def test_a_start_is_understood(step):
    sent = startup({"user": "alice", "database": "sales", "options": "", "client_encoding": "UTF8"})
    asked = await read_packet(Bytes(sent, step))
    assert asked == Startup({"user": "alice", "database": "sales", "options": "", "client_encoding": "UTF8"})


async def test_a_newer_protocol_and_its_extensions_are_noticed():
    sent = bytearray(startup({"user": "alice", "_pq_.command_compression": "on"}))
    sent[7] = 2
    asked = await read_packet(Bytes(bytes(sent)))
    assert isinstance(asked, Startup)
    assert (asked.newer, asked.unknown) == (True, ("_pq_.command_compression",))
    kind, body = await read_message(Bytes(negotiated(asked.unknown)))
    assert (kind, body) == (b"v", struct.pack("!ii", 3 << 16, 1) + b"_pq_.command_compression\0")


async def test_requests_for_encryption_and_to_cancel_are_understood():
    assert await read_packet(Bytes(ssl_request())) == SSL_REQUEST
    assert await read_packet(Bytes(struct.pack("!ii", 8, GSS_REQUEST))) == GSS_REQUEST
    assert await read_packet(Bytes(cancel_request(Key(77, 2**32 - 1)))) == Key(77, 2**32 - 1)
    assert await read_packet(Bytes(b"")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\0\0\0\0",
        b"\0\0\0\x04",
        struct.pack("!i", -1),
        struct.pack("!i", MAX_STARTUP + 1) + b"x" * 20000,
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 9, SSL_REQUEST) + b"x",
        struct.pack("!iii", 12, 80877102, 1),
        struct.pack("!ii", 8, 3 << 16),
        struct.pack("!ii", 14, 3 << 16) + b"user\0\0",
        struct.pack("!ii", 15, 3 << 16) + b"\0user\0\0",
        struct.pack("!ii", 13, 3 << 16) + b"user\0",
        struct.pack("!ii", 100, 3 << 16) + b"user\0",
        b"\0\0",
    ],
)
async def test_what_is_no_first_packet_is_refused(data):
    with pytest.raises(WireBroken):
        await read_packet(Bytes(data))


async def test_a_key_survives_the_way():
    kind, body = await read_message(Bytes(key_data(Key(123, 0xFFFFFFFF))))
    assert (kind, parse_key(body)) == (b"K", Key(123, 0xFFFFFFFF))
    with pytest.raises(WireBroken):
        parse_key(body + b"\0")


async def test_an_error_has_the_fields_that_clients_read():
    kind, body = await read_message(Bytes(fatal("28P01", "no", "try again")))
    assert kind == b"E"
    assert parse_fields(body) == {"S": "FATAL", "V": "FATAL", "C": "28P01", "M": "no", "H": "try again"}


def test_fields_that_are_none_do_no_harm():
    assert parse_fields(b"") == {}
    assert parse_fields(b"\0\0\0C\0M") == {}
    assert parse_fields(b"C\xff\xfe") == {"C": "\ufffd\ufffd"}
