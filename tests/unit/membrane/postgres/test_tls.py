import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest

from kagura_kernel.membrane.postgres.login import TlsStream, make_context
from kagura_kernel.membrane.postgres.service import parse_url
from tests.support import tls


@asynccontextmanager
async def talking(serve, context: ssl.SSLContext | None = None, host: str = "localhost"):
    """A stream before its handshake, to a server that speaks TLS in this way."""
    done: asyncio.Queue[BaseException | None] = asyncio.Queue()

    async def connected(reader, writer):
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError) as error:
            await done.put(error)
        else:
            await done.put(None)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls.serving("localhost"))
    connection = socket.create_connection(("127.0.0.1", server.sockets[0].getsockname()[1]))
    stream = TlsStream(connection, context or tls.trusting(), host)
    try:
        yield stream
    finally:
        stream.close()
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def test_bytes_pass_both_ways_at_once():
    payload = bytes(range(256)) * 20_000
    async with talking(echo) as stream:
        await stream.shake_hands()
        writing = asyncio.ensure_future(stream.write(payload))
        got = bytearray()
        while len(got) < len(payload):
            piece = await stream.read(10_000)
            assert 0 < len(piece) <= 10_000
            got += piece
        await writing
        assert got == payload


async def test_the_end_is_said_and_heard():
    async def breaks_off(_reader, writer):
        writer.write(b"half")
        await writer.drain()

    async with talking(echo) as stream:
        await stream.shake_hands()
        await stream.write(b"last")
        assert await stream.read(100) == b"last"
        await stream.write_eof()
        assert await stream.read(100) == b""
        assert await stream.read(100) == b""
    async with talking(breaks_off) as stream:
        await stream.shake_hands()
        assert await stream.read(100) == b"half"
        # An end without the word for it could be anybody's.
        with pytest.raises(OSError):  # noqa: PT011 - of many kinds
            await stream.read(100)


async def test_a_certificate_for_another_name_is_not_accepted():
    async with talking(echo, host="other.example") as stream:
        with pytest.raises(ssl.SSLCertVerificationError):
            await stream.shake_hands()


async def test_a_server_that_does_not_speak_tls_ends_the_handshake():
    async def plain(_reader, writer):
        writer.write(b"N" * 100)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    connection = socket.create_connection(("127.0.0.1", server.sockets[0].getsockname()[1]))
    stream = TlsStream(connection, tls.trusting(), "localhost")
    with pytest.raises(ssl.SSLError):
        await stream.shake_hands()
    stream.abort()
    server.close()


@pytest.mark.parametrize(
    ("query", "verifies", "names"),
    [
        ("", ssl.CERT_NONE, False),
        ("sslmode=prefer", ssl.CERT_NONE, False),
        ("sslmode=require", ssl.CERT_NONE, False),
        ("sslmode=require&sslrootcert=CA", ssl.CERT_REQUIRED, False),
        ("sslmode=verify-ca&sslrootcert=CA", ssl.CERT_REQUIRED, False),
        ("sslmode=verify-full&sslrootcert=CA", ssl.CERT_REQUIRED, True),
        ("sslmode=verify-full&sslrootcert=system", ssl.CERT_REQUIRED, True),
        ("sslmode=verify-full", ssl.CERT_REQUIRED, True),
    ],
)
def test_what_is_checked_is_what_the_mode_says(query, verifies, names, tmp_path):
    (tmp_path / "ca.pem").write_bytes(tls.authority())
    context = make_context(parse_url(f"postgresql://a@db.example/x?{query.replace('CA', str(tmp_path / 'ca.pem'))}"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (verifies, names)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_where_tls_is_not_wanted_there_is_none():
    assert make_context(parse_url("postgresql://a@db.example/x?sslmode=disable")) is None
