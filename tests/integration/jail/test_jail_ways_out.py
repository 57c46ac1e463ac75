"""What a jail may reach, and what happens to it when that cannot be written down."""

from __future__ import annotations

import asyncio

import pytest

from kagura_kernel.domain.errors import JournalUnwritable, PluginError, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.sandbox.backend import Box, GuestStream, Listener

from .conftest import ask

SOURCE = """
import socket
SCHEMA = {}
def create_host_functions(config):
    def speak(port, text):
        with socket.create_connection(("127.0.0.1", port), 20) as way:
            way.sendall(text.encode())
            return way.recv(1000).decode()
    return {"small": {"speak": speak}}
"""
CONNECT = "CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n"


def database(jail_port: int = 5432) -> PostgresService:
    return PostgresService("db.test", 5432, "reader", Secret("hidden"), "shop", jail_port=jail_port)


async def echo(box: Box, service: PostgresService) -> int:
    """Stands for what signs in: says which database it is."""

    async def serve(stream: GuestStream) -> None:
        await stream.accept()
        await stream.read(100)
        await stream.write(service.database.encode())
        await stream.write_eof()

    return await box.listen(Listener(service.jail_port, "raw", "database"), serve)


async def test_a_database_lies_on_the_port_that_its_url_names(jails):
    jail = await jails.start(SOURCE, JailPlan(services=(database(5432), database(5433))), open_service=echo)
    assert await ask(jail, "speak", 5432, "hello") == "shop"
    assert await ask(jail, "speak", 5433, "hello") == "shop"


async def test_a_database_on_another_port_is_no_database(jails):
    async def elsewhere(box: Box, service: PostgresService) -> int:
        return await echo(box, service) + 1

    with pytest.raises(SandboxUnavailable, match="another port"):
        await jails.start(SOURCE, JailPlan(services=(database(),)), open_service=elsewhere)


async def test_where_nobody_can_sign_in_there_is_no_jail(jails):
    with pytest.raises(SandboxUnsupported, match=r"signing in to db\.test"):
        await jails.start(SOURCE, JailPlan(services=(database(),)))


async def test_a_crossing_that_cannot_be_written_down_ends_the_jail(jails):
    def refuse(_fact: object) -> None:
        raise JournalUnwritable("the disk is full")

    plan = JailPlan(net=(NetRule("exact", "127.0.0.1", 9),))
    jail = await jails.start(SOURCE, plan, record_egress=refuse)
    with pytest.raises(PluginError):
        await ask(jail, "speak", 3179, CONNECT)
    assert "a crossing could not be recorded" in jail.log


async def test_what_a_jail_asked_for_is_written_down_with_its_plugins_name(jails):
    jail = await jails.start(SOURCE, JailPlan(net=(NetRule("name", "inside.test", 443),)))
    answers = await asyncio.gather(*(ask(jail, "speak", 3179, CONNECT) for _ in range(3)))
    assert all("403" in answer for answer in answers)
    [first, *_] = jails.crossed
    assert (first.plugin, first.host, first.allowed) == ("small-plugin", "127.0.0.1", False)
    assert "--net" not in first.reason
