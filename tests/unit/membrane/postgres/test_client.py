import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from kagura_kernel.domain.errors import EgressBusy
from kagura_kernel.membrane.egress.stream import SocketStream
from kagura_kernel.membrane.postgres.login import EARLY, CancelStream, ClientStream, ask, wishes
from kagura_kernel.membrane.postgres.wire import Key, Startup, cancel_request, parse_fields, ssl_request, startup
from tests.support.guest_stream import SocketGuestStream

START = startup({"user": "alice"})


@asynccontextmanager
async def ends():
    """A program's end, and the guest's stream of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = SocketStream(socket.create_connection(listener.getsockname()))
        guest = SocketGuestStream(listener.accept()[0])
    try:
        yield program, guest
    finally:
        program.close()
        guest.close()


async def test_a_start_is_read_and_nothing_behind_it():
    async with ends() as (program, guest):
        await program.write(ssl_request() + START + b"more")
        assert await ask(guest) == Startup({"user": "alice"})
        assert await program.read(100) == b"N"
        assert await guest.read(100) == b"more"


async def test_a_request_to_cancel_is_read():
    async with ends() as (program, guest):
        await program.write(cancel_request(Key(7, 8)))
        assert await ask(guest) == Key(7, 8)


async def test_a_program_that_says_nothing_wants_nothing():
    async with ends() as (program, guest):
        await program.write_eof()
        assert await ask(guest) is None


async def test_a_program_that_speaks_something_else_is_told():
    async with ends() as (program, guest):
        await program.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await ask(guest) is None
        assert parse_fields((await program.read(1000))[5:])["C"] == "08P01"
        assert await program.read(1) == b""


@pytest.mark.parametrize(
    ("parameters", "passed"),
    [
        ({"user": "x", "database": "y", "replication": "true", "options": "-c a=b", "application_name": "z"}, {}),
        ({"TimeZone": "UTC", "client_encoding": "UTF8"}, {"TimeZone": "UTC", "client_encoding": "UTF8"}),
        ({"DateStyle": "x" * 101, "timezone": "Zürich", "intervalstyle": "a\nb"}, {}),
        (
            {"role": "postgres", "search_path": "x", "statement_timeout": "0", "default_transaction_read_only": "off"},
            {},
        ),
    ],
)
def test_only_how_values_are_written_is_passed_on(parameters, passed):
    assert wishes(parameters) == passed


async def test_a_program_that_stops_sending_before_it_is_let_in_has_left():
    async with ends() as (program, guest):
        client = ClientStream(guest, Startup({}))
        leaving = asyncio.ensure_future(client.gone())
        await asyncio.sleep(0)
        assert not leaving.done()
        await program.write_eof()
        await leaving


async def test_what_it_said_too_early_is_not_lost_and_not_much():
    async with ends() as (program, guest):
        client = ClientStream(guest, Startup({}))
        await program.write(b"x" * (EARLY + 1000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.gone(), 0.05)
        got = b""
        while len(got) < EARLY + 1000:
            piece = await client.read(600)
            assert len(piece) <= 600
            got += piece
        assert got == b"x" * (EARLY + 1000)


async def test_waiting_for_it_in_vain_takes_nothing():
    async with ends() as (program, guest):
        client = ClientStream(guest, Startup({}))
        for _ in range(3):
            waiting = asyncio.ensure_future(client.gone())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await program.write(b"first")
        assert await client.read(100) == b"first"


async def test_it_is_let_in_with_the_greeting_of_the_server():
    async with ends() as (program, guest):
        client = ClientStream(guest, Startup({}))
        client.greeting = b"greeting"
        await client.accept()
        assert await program.read(100) == b"R\0\0\0\x08\0\0\0\0greeting"


async def test_refused_it_hears_an_error_and_the_end_and_one_who_cancels_only_the_end():
    async with ends() as (program, guest):
        await ClientStream(guest, Startup({})).refuse(EgressBusy("db.example", 5432, "has to wait"))
        assert parse_fields((await program.read(1000))[5:])["M"] == "db.example:5432 has to wait"
        assert await program.read(1) == b""
    async with ends() as (program, guest):
        await CancelStream(guest).refuse(EgressBusy("db.example", 5432, "has to wait"))
        assert await program.read(1) == b""


async def test_what_was_asked_to_be_cancelled_is_cancelled_though_nobody_waits():
    async with ends() as (program, guest):
        program.close()
        assert await guest.read(1) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(CancelStream(guest).gone(), 0.05)
