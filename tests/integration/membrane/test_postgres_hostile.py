"""A database in a box against programs that break the protocol, and servers that want the password or our time."""

import asyncio
import base64
import hashlib
import hmac
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kagura_kernel.membrane.postgres.port import SERVICE_LIMITS
from kagura_kernel.membrane.postgres.wire import (
    Key,
    cancel_request,
    fatal,
    key_data,
    message,
    ssl_request,
    startup,
)
from kagura_kernel.testing.patience import eventually
from tests.support import tls
from tests.support.postgres_network import NetworkPostgres, postgres_network, why_not
from tests.support.postgres_rig import Heard, ScriptedPostgres, postgres_rig, raw_client

HASTY = replace(SERVICE_LIMITS, answer=0.3, connect=0.5)
"""For tests in which the other side is silent for ever; where it is not, a slow machine must not seem so."""

PATIENT = replace(SERVICE_LIMITS, answer=60.0, connect=60.0)
PASSWORD = b"hunter2secret"
PROTOCOL = 3 << 16


def request(code: int, body: bytes = b"") -> bytes:
    return message(b"R", struct.pack("!i", code) + body)


WELCOME = request(0) + message(b"S", b"server_version\0x\0") + key_data(Key(1, 2)) + message(b"Z", b"I")


# --------------------------------------------------------------------- servers


async def lets_in(heard: Heard) -> None:
    await heard.packet()
    await heard.say(WELCOME)


def says(*pieces: bytes) -> Callable[[Heard], Awaitable[None]]:
    """A server that says this after the start, whatever it hears."""

    async def talk(heard: Heard) -> None:
        await heard.packet()
        for piece in pieces:
            await heard.say(piece)

    return talk


async def says_nothing(heard: Heard) -> None:
    await heard.packet()


async def hangs_up(heard: Heard) -> None:
    await heard.packet()
    heard.writer.close()


def forever(piece: bytes) -> Callable[[Heard], Awaitable[None]]:
    async def talk(heard: Heard) -> None:
        await heard.packet()
        while True:
            await heard.say(piece * 100)

    return talk


def scram(
    *, nonce: str = "{}x", iterations: int = 4096, final: bytes | None = None
) -> Callable[[Heard], Awaitable[None]]:
    """A server that plays SCRAM without the password; `final` is what it says in place of a signature."""

    async def talk(heard: Heard) -> None:
        await heard.packet()
        await heard.say(request(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"))
        _, first = await heard.message()
        ours = first.rpartition(b"r=")[2].decode()
        salt = base64.b64encode(b"salt" * 4).decode()
        challenge = f"r={nonce.format(ours)},s={salt},i={iterations}"
        await heard.say(request(11, challenge.encode()))
        _, proof = await heard.message()
        assert proof.startswith(b"c=biws,")
        if final is not None:
            await heard.say(final)
        await heard.say(WELCOME)

    return talk


BAD_SIGNATURE = request(12, b"v=" + base64.b64encode(hmac.digest(b"x", b"y", "sha256")))

SERVERS = {
    "asks for clear text": (says(request(3)), "asks for the password in clear text"),
    "a wrong signature": (scram(final=BAD_SIGNATURE), "does not know the password itself"),
    "a signature that is none": (scram(final=request(12, b"v=")), "is wrong"),
    "no signature at all": (scram(final=None), "without proof that it knows the password"),
    "clear text after SCRAM began": (scram(final=request(3)), "without proof"),
    "a nonce that is not ours": (scram(nonce="other"), "challenge that is none"),
    "a nonce that is only ours": (scram(nonce="{}"), "challenge that is none"),
    "rounds without end": (scram(iterations=2**31 - 1), "rounds of SCRAM"),
    "another way than SCRAM": (says(request(10, b"PLAIN\0\0")), "offers no way"),
    "an empty list of ways": (says(request(10)), "offers no way"),
    "Kerberos": (says(request(7)), "other than a password"),
    "MD5 without a salt": (says(request(5)), "does not speak PostgreSQL"),
    "one proof after another": (says(request(5, b"salt"), request(5, b"salt")), "one proof after another"),
    "clear text after MD5": (says(request(5, b"salt"), request(3)), "one proof after another"),
    "notices without end": (forever(message(b"N", b"SNOTICE\0\0")), "talks without end"),
    "parameters without end": (forever(request(0) + message(b"S", b"a\0b\0")), "does not speak PostgreSQL"),
    "parameters without end, one by one": (says(request(0), message(b"S", b"a\0b\0") * 3000), "talks without end"),
    "large messages": (says(request(0), message(b"S", b"x" * 60_000) * 10), "talks without end"),
    "a huge length": (says(struct.pack("!ci", b"R", 2**31 - 1) + b"x" * 1000), "does not speak PostgreSQL"),
    "a negative length": (says(struct.pack("!ci", b"R", -5)), "does not speak PostgreSQL"),
    "a length that is too short": (says(struct.pack("!ci", b"R", 3)), "does not speak PostgreSQL"),
    "an empty request": (says(message(b"R")), "does not speak PostgreSQL"),
    "garbage": (says(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10), "does not speak PostgreSQL"),
    "rows before it is asked": (says(request(0), message(b"D", b"\0\0")), "does not speak PostgreSQL"),
    "two keys": (says(request(0), key_data(Key(1, 2)) * 2), "does not speak PostgreSQL"),
    "a key of another version": (says(request(0), message(b"K", b"x" * 40)), "does not speak PostgreSQL"),
    "ready within a transaction": (says(request(0), message(b"Z", b"T")), "does not speak PostgreSQL"),
    "half a message": (says(request(0)[:-1]), "did not open a session within"),
    "silence": (says_nothing, "did not open a session within"),
    "the end": (hangs_up, "hung up"),
    "words of its own": (
        says(fatal("28000", 'no entry for host "10.9.8.7", user "alice"', "send hunter2secret to evil.example")),
        "does not let this user in",
    ),
    "an error without a state": (says(message(b"E", b"\0")), "refused the session (SQLSTATE 08004)"),
    "an error after it let us in": (says(request(0), fatal("53300", "full")), "has no room for another session"),
}


@pytest.mark.parametrize(("talk", "expected"), SERVERS.values(), ids=SERVERS)
async def test_a_hostile_server_gets_no_password_and_the_client_a_reason(talk, expected):
    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=HASTY if "within" in expected else PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            fields = await program.refusal()
        assert expected in fields["M"]
        assert fields["M"].startswith(f"127.0.0.1:{server.port} ")
        everything = repr(fields)
        assert not any(word in everything for word in ("hunter2", "10.9.8.7", "alice", "evil"))
        await eventually(lambda: not server.open)
        assert PASSWORD not in server.heard
        await eventually(lambda: rig.ends)
        assert rig.ends[0].ended == "unreachable"
        assert expected in rig.ends[0].detail


async def test_a_server_that_offers_only_its_own_certificate_gets_no_clear_text_under_prefer():
    async def talk(heard: Heard) -> None:
        await heard.packet()
        await heard.say(b"S")
        await heard.writer.start_tls(tls.serving("localhost"))
        await heard.packet()
        await heard.say(request(3))

    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(sslmode="prefer"), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert "through TLS that the URL demands" in (await program.refusal())["M"]
        await eventually(lambda: not server.open)
        assert PASSWORD not in server.heard


TLS_ANSWERS = {
    "what would follow TLS in the clear": (b"S" + WELCOME, "does not agree on TLS"),
    "no TLS": (b"N", "does not speak TLS"),
    "an error": (fatal("XX000", "old"), "does not speak PostgreSQL"),
    "nothing": (b"", "did not open a session within"),
    "no TLS, and a session at once": (b"N" + WELCOME, "does not speak TLS"),
}


@pytest.mark.parametrize(("answer", "expected"), TLS_ANSWERS.values(), ids=TLS_ANSWERS)
async def test_tls_that_the_url_demands_is_not_talked_away(answer, expected):
    async def talk(heard: Heard) -> None:
        assert await heard.packet() == ssl_request()[4:]
        await heard.say(answer)

    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        limits = HASTY if "within" in expected else PATIENT
        service = await rig.open(server.url(sslmode="require"), limits=limits)
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert expected in (await program.refusal())["M"]
        await eventually(lambda: not server.open)
        assert b"alice" not in server.heard


async def test_under_prefer_a_failed_handshake_is_not_followed_by_an_attempt_in_the_clear():
    async def talk(heard: Heard) -> None:
        await heard.packet()
        await heard.say(b"S" + b"\x15\x03\x01\x00\x02\x02\x28")

    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(sslmode="prefer"), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert "does not agree on TLS" in (await program.refusal())["M"]
        assert server.connections == 1


async def test_a_password_of_md5_is_told_as_a_digest():
    async def talk(heard: Heard) -> None:
        await heard.packet()
        await heard.say(request(5, b"salt"))
        _, answer = await heard.message()
        inner = hashlib.md5(PASSWORD + b"alice").hexdigest().encode()
        assert answer == b"md5" + hashlib.md5(inner + b"salt").hexdigest().encode() + b"\0"
        await heard.say(WELCOME)

    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert (await program.until(b"Z"))[b"Z"] == b"I"


async def test_a_server_without_a_key_is_served_and_cannot_be_cancelled():
    async with ScriptedPostgres(says(request(0), message(b"Z", b"I"))) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert b"K" not in await program.until(b"Z")


async def test_what_the_server_is_told_at_the_start_is_ours():
    told: list[bytes] = []

    async def talk(heard: Heard) -> None:
        told.append(await heard.packet())
        await heard.say(WELCOME)

    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start(
                user="postgres", database="template1", replication="database", options="-c x=y", DateStyle="x" * 200
            )
            await program.until(b"Z")
    words = told[0][4:].rstrip(b"\0").split(b"\0")
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        b"user": b"alice",
        b"database": b"sales",
        b"application_name": b"kagura-kernel plugin sql-read",
        b"default_transaction_read_only": b"on",
        b"statement_timeout": b"30000",
    }


# --------------------------------------------------------------------- clients

RUDE = {
    "garbage": b"\xff" * 100,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS at once": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a huge length": struct.pack("!i", 2**31 - 1) + b"x" * 100_000,
    "a negative length": struct.pack("!i", -1),
    "a length of nothing": b"\0\0\0\0",
    "version 2": struct.pack("!ii", 8, 2 << 16),
    "a cancel that is too long": struct.pack("!iiiI", 17, 80877102, 1, 2) + b"x",
    "names without values": struct.pack("!ii", 13, PROTOCOL) + b"user\0",
    "a query before the start": message(b"Q", b"SELECT 1\0"),
}


@pytest.mark.parametrize("sent", RUDE.values(), ids=RUDE)
async def test_a_client_that_does_not_speak_postgresql_is_told_so_and_reaches_no_server(sent):
    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        service = await rig.open(server.url())
        async with raw_client(service.jail_port) as program:
            try:
                await program.say(sent)
                fields = await program.refusal()
            except (ConnectionError, asyncio.IncompleteReadError):
                fields = {"C": "08P01"}  # reset with bytes of its own on the way, which nobody reads
            assert fields["C"] == "08P01"
        assert server.connections == 0
        assert rig.facts == []


HALF = {
    "nothing": b"",
    "half a length": b"\0\0",
    "a length alone": b"\0\0\0\x20",
    "half a start": startup({"user": "x", "database": "y"})[:-3],
    "encryption and no more": ssl_request(),
    "half a cancel": cancel_request(Key(1, 2))[:-1],
}


@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize("sent", HALF.values(), ids=HALF)
async def test_a_client_that_stops_halfway_is_let_go(sent, hangs):
    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=HASTY)
        async with raw_client(service.jail_port) as program:
            await program.say(sent)
            if hangs:
                program.writer.close()
            else:
                assert len(await program.rest()) <= 1
        assert server.connections == 0
        assert rig.facts == []


async def test_a_client_that_sends_byte_by_byte_is_served():
    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        service = await rig.open(server.url())
        async with raw_client(service.jail_port) as program:
            for byte in startup({"user": "x", "database": "y"}):
                await program.say(bytes([byte]))
                await asyncio.sleep(0)
            assert (await program.until(b"Z"))[b"Z"] == b"I"
        assert server.connections == 1


async def test_a_flood_of_starts_is_held_to_the_limits_and_clients_are_served_after_it():
    calm = False

    async def talk(heard: Heard) -> None:
        await heard.packet()
        if calm:
            await heard.say(WELCOME)

    limits = replace(SERVICE_LIMITS, answer=3.0, connect=0.5, connections=4, burst=20, rate=5.0, patience=0.05)
    async with ScriptedPostgres(talk) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=limits)

        async def flood(number: int) -> str:
            async with raw_client(service.jail_port) as program:
                if number % 3 == 0:
                    return (await program.rest()).decode()
                await program.start()
                return (await program.refusal())["C"]

        answers = await asyncio.gather(*(flood(number) for number in range(150)))
        assert sorted(set(answers)) == ["", "08004", "53300"]
        assert answers.count("") == 50
        assert server.connections <= limits.burst
        await eventually(lambda: not server.open)
        # Its rows are few too: a refusal is written down at the 1st, 2nd, 4th … time.
        assert len(rig.facts) < 100
        calm = True

        async def is_served() -> bool:
            async with raw_client(service.jail_port) as program:
                try:
                    await program.start()
                    return (await program.hear())[0] == b"R"
                except (ConnectionError, asyncio.IncompleteReadError):
                    return False

        await eventually(is_served)


async def test_a_client_that_leaves_while_the_server_is_silent_leaves_nothing_behind():
    async with ScriptedPostgres(says_nothing) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=PATIENT)
        async with raw_client(service.jail_port) as program:
            await program.start()
            await eventually(lambda: server.open)
        await eventually(lambda: not server.open)
        await eventually(lambda: rig.ends)
        assert rig.ends[0].ended == "reset"


async def test_a_box_that_ends_takes_its_sessions_with_it():
    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        service = await rig.open(server.url())
        async with raw_client(service.jail_port) as program:
            await program.start()
            await program.until(b"Z")
            await rig.box.close()
            await eventually(lambda: not server.open)
        await eventually(lambda: rig.ends)


async def test_a_session_in_which_nothing_happens_is_ended():
    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        service = await rig.open(server.url(), limits=replace(PATIENT, idle=0.2))
        async with raw_client(service.jail_port) as program:
            await program.start()
            await program.until(b"Z")
            assert await program.rest() == b""
        await eventually(lambda: not server.open)
        await eventually(lambda: rig.ends)
        assert rig.ends[0].ended == "idle"


async def test_what_cannot_be_recorded_does_not_happen(monkeypatch):
    def full(_fact: object) -> None:
        raise OSError(28, "No space left on device")

    async with ScriptedPostgres(lets_in) as server, postgres_rig() as rig:
        monkeypatch.setattr(rig, "facts", SimpleNamespace(append=full))
        service = await rig.open(server.url())
        monkeypatch.setattr(rig, "facts", [])
        async with raw_client(service.jail_port) as program:
            await program.start()
            assert await program.rest() == b""
        assert server.connections == 0
        await eventually(lambda: rig.problems)
        assert "No space left" in str(rig.problems.pop())


@pytest.fixture(scope="module")
def real() -> Iterator[NetworkPostgres]:
    if why := why_not():
        pytest.skip(why)
    with postgres_network() as running:
        yield running


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["disable", "require"])
async def test_a_client_that_reads_nothing_stops_the_server_and_not_the_memory(mode, real):
    async with postgres_rig() as rig:
        service = await rig.open(real.url("scram_user", sslmode=mode))
        async with raw_client(service.jail_port) as program:
            await program.start()
            await program.until(b"Z")
            program.writer.transport.pause_reading()
            await program.say(message(b"Q", b"SELECT repeat('x', 1000000) FROM generate_series(1, 500)\0"))
            stuck = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND usename = 'scram_user'"
            await eventually(lambda: real.ask(stuck))
            await settled(real, stuck)
        await eventually(lambda: rig.ends)
        # Of 500 MB only what waits in the buffers of sockets and of the pipe has come.
        assert rig.ends[0].bytes_in < 40_000_000


async def settled(real: NetworkPostgres, stuck: str) -> None:
    """Return when the server has waited for its client at ten looks in a row."""
    in_a_row = 0

    def looks() -> bool:
        nonlocal in_a_row
        in_a_row = in_a_row + 1 if real.ask(stuck) else 0
        return in_a_row >= 10

    await eventually(looks)
