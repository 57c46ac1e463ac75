"""A database in a box, with a real server: how it signs in, what the client is told, and what it may not do."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.membrane.postgres.port import SERVICE_LIMITS
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.membrane.postgres.wire import Key, cancel_request, message, parse_fields, parse_key, ssl_request
from kagura_kernel.testing.patience import eventually
from tests.support import tls
from tests.support.postgres_network import PASSWORD, NetworkPostgres, postgres_network, why_not
from tests.support.postgres_rig import postgres_rig, raw_client

pytestmark = [pytest.mark.postgres, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]


@pytest.fixture
def authority(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.write_bytes(tls.authority())
    return str(path)


@asynccontextmanager
async def client(
    service: PostgresService, **options: str
) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    """What a program in the box has when it connects to the URL that it was configured with."""
    async with await psycopg.AsyncConnection.connect(service.box_url(), autocommit=True, **options) as connection:
        yield connection


async def value(connection: psycopg.AsyncConnection[tuple[object, ...]], query: str) -> object:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]


async def refusal(service: PostgresService, **options: str) -> str:
    with pytest.raises(psycopg.OperationalError) as raised:
        async with client(service, **options):
            pass
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


def encrypted(server: NetworkPostgres, user: str) -> object:
    question = f"SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '{user}'"
    return server.ask(question)[0][0]


@pytest.mark.parametrize("user", ["scram_user", "md5_user", "trust_user"])
@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
async def test_the_membrane_signs_in_by_every_way_and_with_tls_as_the_url_says(user, mode, server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url(user, sslmode=mode))
        async with client(service) as connection:
            assert await value(connection, "SELECT current_user") == user
            assert await value(connection, "SELECT sum(n) FROM numbers") == 500500
            assert encrypted(server, user) is (mode != "disable")
        await eventually(lambda: rig.ends)
    decided, closed = rig.facts
    assert (decided.plugin, decided.host, decided.port) == ("sql-read", "127.0.0.1", server.port)
    assert (decided.rule, decided.session_id) == ("plugin sql-read", "ses-1")
    assert (closed.plugin, closed.ended, closed.connection_id) == ("sql-read", "done", decided.connection_id)
    assert closed.bytes_out > 0 < closed.bytes_in


async def test_a_password_in_clear_text_is_told_through_tls_that_the_url_demands_and_else_not(server, authority):
    async with postgres_rig() as rig:
        rig.names["localhost"] = ["127.0.0.1"]
        for parameters in ({"sslmode": "disable"}, {"sslmode": "prefer"}, {}):
            told = await refusal(await rig.open(server.url("clear_user", **parameters)))
            assert "asks for the password in clear text" in told
            assert "sslmode=verify-full" in told
        for parameters in ({"sslmode": "require"}, {"sslmode": "verify-full", "sslrootcert": authority}):
            service = await rig.open(server.url("clear_user", host="localhost", **parameters))
            async with client(service) as connection:
                assert await value(connection, "SELECT current_user") == "clear_user"


async def test_a_certificate_is_checked_as_far_as_the_url_says(server, authority):
    async with postgres_rig() as rig:
        rig.names["localhost"] = ["127.0.0.1"]
        for host, mode in (("localhost", "verify-full"), ("127.0.0.1", "verify-ca"), ("127.0.0.1", "require")):
            good = await rig.open(server.url("scram_user", host=host, sslmode=mode, sslrootcert=authority))
            async with client(good) as connection:
                assert await value(connection, "SELECT 1") == 1
        # The certificate is for localhost alone.
        other_name = server.url("scram_user", sslmode="verify-full", sslrootcert=authority)
        assert "certificate that is not accepted" in await refusal(await rig.open(other_name))
        # What this machine trusts does not hold the authority of a test.
        untrusted = server.url("scram_user", host="localhost", sslmode="verify-full")
        assert "certificate that is not accepted" in await refusal(await rig.open(untrusted))


async def test_a_certificate_file_that_cannot_be_read_is_told_when_the_database_is_opened(server, tmp_path):
    (tmp_path / "no.pem").write_text("nothing")
    async with postgres_rig() as rig:
        for path in (tmp_path / "no.pem", tmp_path / "missing.pem", tmp_path):
            with pytest.raises(ConfigurationError, match="sslrootcert cannot be read"):
                await rig.open(server.url("scram_user", sslmode="verify-ca", sslrootcert=str(path)))


async def test_what_the_client_names_counts_for_nothing(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"))
        wishes = "-c default_transaction_read_only=off -c statement_timeout=0 -c search_path=pg_catalog"
        async with client(
            service, user="kagura", dbname="postgres", password="wrong", options=wishes, application_name="mine"
        ) as connection:
            assert await value(connection, "SELECT current_user") == "scram_user"
            assert await value(connection, "SELECT current_database()") == "scram_user"
            assert await value(connection, "SHOW default_transaction_read_only") == "on"
            assert await value(connection, "SHOW statement_timeout") == "30s"
            assert await value(connection, "SHOW application_name") == "kagura-kernel plugin sql-read"
            assert await value(connection, "SHOW search_path") != "pg_catalog"


async def test_how_values_are_written_is_the_clients_to_say(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"))
        async with raw_client(service.jail_port) as program:
            await program.start(TimeZone="Asia/Tokyo", replication="true", client_encoding="LATIN1", _x="1")
            status = {}
            kind = b""
            while kind != b"Z":
                kind, body = await program.hear()
                if kind == b"S":
                    name, _, text = body.rstrip(b"\0").partition(b"\0")
                    status[name] = text
            assert status[b"TimeZone"] == b"Asia/Tokyo"
            assert status[b"client_encoding"] == b"LATIN1"


async def test_the_options_of_the_url_reach_the_server_and_do_not_undo_ours(server):
    async with postgres_rig() as rig:
        url = server.url(
            "scram_user",
            options="-c search_path=elsewhere -c default_transaction_read_only=off",
            application_name="report é",
        )
        async with client(await rig.open(url, statement_seconds=1.5)) as connection:
            assert await value(connection, "SHOW search_path") == "elsewhere"
            assert await value(connection, "SHOW default_transaction_read_only") == "on"
            assert await value(connection, "SHOW statement_timeout") == "1500ms"
            assert str(await value(connection, "SHOW application_name")).startswith("report ")


async def test_a_session_begins_read_only(server):
    async with postgres_rig() as rig, client(await rig.open(server.url("scram_user"))) as connection:
        for statement in (b"INSERT INTO numbers VALUES (0)", b"CREATE TABLE more (n int)", b"DROP TABLE numbers"):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await connection.execute(statement)
    assert server.ask("SELECT count(*) FROM numbers", "scram_user") == [(1000,)]


async def test_a_statement_has_its_time(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"), statement_seconds=0.05)
        async with client(service) as connection:
            with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
                await connection.execute(b"SELECT pg_sleep(60)")
            assert await value(connection, "SELECT 1") == 1


async def test_a_program_cancels_what_it_does_itself(server):
    for mode in ("disable", "require"):
        async with postgres_rig() as rig, client(await rig.open(server.url("scram_user", sslmode=mode))) as connection:
            told = connection.info.backend_pid
            real = await value(connection, "SELECT pg_backend_pid()")
            assert told != real
            work = asyncio.create_task(connection.execute(b"SELECT pg_sleep(60)"))
            busy = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
            await eventually(lambda: server.ask(busy))  # noqa: B023 - awaited at once
            await connection.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
                await work
            assert await value(connection, "SELECT 1") == 1


async def test_a_key_that_this_box_was_not_told_cancels_nothing_and_reaches_no_server(server):
    async with postgres_rig() as rig:
        # Each time that a database is put into a box it has keys of its own.
        service, elsewhere = await rig.open(server.url("scram_user")), await rig.open(server.url("scram_user"))
        async with raw_client(service.jail_port) as program:
            await program.start()
            told = parse_key((await program.until(b"Z"))[b"K"])
            await program.say(message(b"Q", b"SELECT 'long', pg_sleep(60)\0"))
            busy = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT ''long''%' AND state = 'active'"
            await eventually(lambda: server.ask(busy))
            pid = server.ask(busy)[0][0]
            foreign = [
                (elsewhere, told),
                (service, Key(told.process, told.secret ^ 1)),
                (service, Key(pid, told.secret)),
                (service, Key(pid, 0)),
            ]
            for where, key in foreign:
                async with raw_client(where.jail_port) as rude:
                    await rude.say(cancel_request(key))
                    assert await rude.rest() == b""
            assert len(rig.allowed) == 1
            assert server.ask(busy)
            # Not every client waits for the end of its request.
            async with raw_client(service.jail_port) as rightful:
                await rightful.say(cancel_request(told))
            assert parse_fields((await program.until(b"E"))[b"E"])["C"] == "57014"
            assert len(rig.allowed) == 2
            await eventually(lambda: len(rig.ends) == 1)
            assert rig.ends[0].ended == "done"
        # A session that is over has no key either.
        await eventually(lambda: len(rig.ends) == 2)
        async with raw_client(service.jail_port) as late:
            await late.say(cancel_request(told))
            assert await late.rest() == b""
        assert len(rig.allowed) == 2


async def test_a_second_start_is_the_end_of_the_session(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"))
        async with raw_client(service.jail_port) as program:
            await program.start()
            await program.until(b"Z")
            await program.start(user="kagura", database="postgres")
            rest = await program.rest()
            assert b"R\0\0\0\x08" not in rest
            assert b"C08P01" in rest
        assert len(rig.allowed) == 1


async def test_encryption_is_declined_once_each_and_then_the_session_starts(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"))
        async with raw_client(service.jail_port) as program:
            for request in (ssl_request(), struct.pack("!ii", 8, 80877104)):
                await program.say(request)
                assert await program.reader.readexactly(1) == b"N"
            await program.start()
            assert (await program.until(b"Z"))[b"R"] == struct.pack("!i", 0)
        async with raw_client(service.jail_port) as program:
            await program.say(ssl_request() * 2)
            assert await program.reader.readexactly(1) == b"N"
            assert (await program.refusal())["M"] == "asks for encryption again"
        # Not offered on the way to the membrane, which is a pipe.
        assert "does not support SSL" in await refusal(service, sslmode="require")


async def test_a_client_of_a_newer_protocol_is_told_which_one_is_spoken(server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"))
        async with raw_client(service.jail_port) as program:
            words = b"user\0x\0_pq_.new\0on\0\0"
            await program.say(struct.pack("!ii", 8 + len(words), (3 << 16) + 2) + words)
            kind, body = await program.hear()
            assert (kind, body) == (b"v", struct.pack("!ii", 3 << 16, 1) + b"_pq_.new\0")
            await program.until(b"Z")


async def test_what_goes_wrong_at_the_server_is_told_in_our_words(server):
    async with postgres_rig() as rig:
        place = f"127.0.0.1:{server.port}"
        wrong = await refusal(await rig.open(server.url("scram_user", "not it")))
        assert f"{place} did not accept the user name or the password" in wrong
        none = await refusal(await rig.open(server.url("scram_user", "")))
        assert "asks for a password, and the URL that was configured has none" in none
        nowhere = await refusal(await rig.open(server.url("scram_user").removesuffix("scram_user") + "missing"))
        assert "has no database of that name" in nowhere
        unknown = await refusal(await rig.open(server.url("somebody_else")))
        assert "pg_hba.conf" in unknown
        assert "does not know a setting" in await refusal(
            await rig.open(server.url("scram_user", options="-c no_such=1"))
        )
        for text in (wrong, none, nowhere, unknown):
            assert "scram_user" not in text
            assert "somebody_else" not in text
    assert {fact.ended for fact in rig.ends} == {"unreachable"}
    assert all(PASSWORD not in fact.detail and fact.detail.startswith(place) for fact in rig.ends)


async def test_an_address_that_was_looked_up_is_not_told_and_one_that_can_never_be_meant_is_not_dialled(server):
    async with postgres_rig() as rig:
        rig.names |= {"cloud.example": ["169.254.169.254"], "here.example": ["127.0.0.1"]}
        url = server.url("scram_user", host="cloud.example")
        assert f"cloud.example:{server.port} may not be reached from here" in await refusal(await rig.open(url))
        assert rig.allowed == []
        # A name that a person configured may lead into a private network.
        async with client(await rig.open(server.url("scram_user", host="here.example"))) as connection:
            assert await value(connection, "SELECT 1") == 1
        unknown = await refusal(await rig.open(server.url("scram_user", host="no.example")))
        assert "no.example" in unknown
        assert "could not be looked up" in unknown
        closed = server.url("scram_user", host="here.example").replace(f":{server.port}/", ":1/")
        told = await refusal(await rig.open(closed))
        assert "here.example:1 cannot be reached: connection refused" in told


async def test_a_url_that_no_person_typed_leads_to_the_public_network_alone(server):
    async with postgres_rig() as rig:
        rig.names["here.example"] = ["127.0.0.1", "10.0.0.5", "::1"]
        for host in ("here.example", "127.0.0.1"):
            told = await refusal(await rig.open(server.url("trust_user", host=host), private=False))
            assert f"{host}:{server.port} may not be reached from here" in told
        assert rig.allowed == []
        assert all("loopback" in fact.reason for fact in rig.facts)


async def test_a_server_without_tls_is_used_only_if_the_url_allows_it():
    with postgres_network(tls=False) as plain:
        async with postgres_rig() as rig:
            async with client(await rig.open(plain.url("scram_user"))) as connection:
                assert await value(connection, "SELECT 1") == 1
            told = await refusal(await rig.open(plain.url("scram_user", sslmode="require")))
            assert "does not speak TLS, which the URL that was configured demands" in told


async def test_bytes_are_limited_and_a_session_that_reaches_the_limit_is_cut(server):
    limits = replace(SERVICE_LIMITS, bytes_in=100_000)
    async with postgres_rig() as rig, client(await rig.open(server.url("scram_user"), limits=limits)) as connection:
        with pytest.raises(psycopg.OperationalError):
            await connection.execute(b"SELECT repeat('x', 1000) FROM numbers")
        await eventually(lambda: rig.ends)
        assert (rig.ends[0].ended, rig.ends[0].bytes_in) == ("limit", 100_000)


async def test_there_are_only_so_many_sessions_at_once(server):
    limits = replace(SERVICE_LIMITS, connections=1)
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user"), limits=limits)
        async with client(service):
            assert "one connection too many" in await refusal(service)
        await eventually(lambda: rig.ends)
        async with client(service) as connection:
            assert await value(connection, "SELECT 1") == 1


@pytest.mark.parametrize("mode", ["disable", "require"])
async def test_much_data_passes_unchanged_both_ways(mode, server):
    async with postgres_rig() as rig, client(await rig.open(server.url("scram_user", sslmode=mode))) as connection:
        sent = "0123456789abcdef" * 200_000
        cursor = await connection.execute(b"SELECT %s::text, md5(%s::text)", (sent, sent))
        row = await cursor.fetchone()
        assert row is not None
        assert row[0] == sent
        count = await value(connection, "SELECT count(*) FROM generate_series(1, 5)")
        assert count == 5


@pytest.mark.parametrize("mode", ["disable", "require"])
async def test_a_client_that_has_no_more_to_say_still_hears_its_answer(mode, server):
    async with postgres_rig() as rig:
        service = await rig.open(server.url("scram_user", sslmode=mode))
        async with raw_client(service.jail_port) as program:
            await program.start()
            await program.until(b"Z")
            await program.say(message(b"Q", b"SELECT 'the answer' FROM pg_sleep(0.1)\0"))
            program.writer.write_eof()
            assert b"the answer" in await program.rest()
        await eventually(lambda: rig.ends)
        assert rig.ends[0].ended == "done"


async def test_a_server_that_stops_in_the_middle_ends_the_session_for_the_client_too():
    with postgres_network() as short_lived:
        async with postgres_rig() as rig, client(await rig.open(short_lived.url("scram_user"))) as connection:
            short_lived.server.stop()
            with pytest.raises(psycopg.OperationalError):
                await connection.execute(b"SELECT 1")


def test_the_fields_of_an_error_are_those_that_a_real_server_sends(server):
    with pytest.raises(psycopg.errors.UndefinedTable) as raised:
        server.ask("SELECT * FROM no_such_table")
    assert raised.value.sqlstate == "42P01"
    assert parse_fields(b"SERROR\0C42P01\0Mno\0\0") == {"S": "ERROR", "C": "42P01", "M": "no"}
