"""A box without a network, a membrane with one, both in network namespaces of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from kagura_kernel.domain.commands import Command

if TYPE_CHECKING:
    from conftest import Proxy

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace with addresses takes root"),
]

FIRST, SECOND, THIRD, SIXTH = "198.18.0.1", "198.18.0.2", "198.18.0.3", "fd00:198:18::6"

# What a program in a box can try. It has a loopback with the proxy on it and nothing else of the network.
BOX = r"""
import json, socket, sys

proxy, tunnels, directs = json.loads(sys.argv[1])

def tried(work):
    try:
        return work()
    except OSError as error:
        return "failed: " + type(error).__name__

def through(target):
    with socket.create_connection(("127.0.0.1", proxy), 10) as client:
        client.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, target)).encode())
        whole = b""
        while data := client.recv(4096):
            whole += data
    head, _, body = whole.partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else head.split(b" ")[1].decode()

def tcp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect((host, port))
        return "connected"

def udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", (host, port))
        return "sent"

def icmp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as client:
        client.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", (host, 0))
        return "sent"

def look_up(host, port):
    return socket.getaddrinfo("first.test", 443)[0][4][0]

ways = {"tcp": tcp, "udp": udp, "icmp": icmp, "name": look_up}
found = {"through": {target: tried(lambda: through(target)) for target in tunnels}}
for way, one in ways.items():
    found[way] = {host: tried(lambda: one(host, 443)) for host in directs}
print(json.dumps(found))
"""


# A guest in a network namespace of its own, beside the one of the membrane.
WALLED = """#!/bin/sh
exec unshare -n sh -c 'ip link set lo up; exec "$0" "$@"' {python} "$@"
"""


async def in_the_box(proxy: Proxy, tunnels: list[str], directs: list[str]) -> dict[str, dict[str, str]]:
    """What a program in the box found."""
    arguments = json.dumps([proxy.port, tunnels, directs])
    result = await proxy.box.run(Command((sys.executable, "-I", "-c", BOX, arguments)))
    assert result.ok, result.stderr.text
    return json.loads(result.stdout.text)


def test_from_a_box_with_two_hosts_granted_only_these_two_are_reached(
    in_a_namespace, proxying, serving, identity, tmp_path
):
    names = {
        "first.test": [[FIRST]],
        "second.test": [[SECOND]],
        "third.test": [[THIRD]],
        "alias.test": [[FIRST]],
        "six.test": [[SIXTH]],
    }
    words = ["first.test", "second.test", f"{FIRST}:443", f"{SECOND}:443"]
    reached = {
        "first.test:443": f"I am {FIRST} 443",
        "FIRST.test.:443": f"I am {FIRST} 443",
        "second.test:443": f"I am {SECOND} 443",
        f"{FIRST}:443": f"I am {FIRST} 443",
        "0xc6120002:443": f"I am {SECOND} 443",
    }
    refused = [
        "first.test:80", "third.test:443", "alias.test:443", "six.test:443", "none.test:443", f"{THIRD}:443",
        f"[{SIXTH}]:443", f"{FIRST}:80", "127.0.0.1:443", "[::1]:443", "0.0.0.0:443", f"[::ffff:{THIRD}]:443",
        f"[64:ff9b::{FIRST}]:443", "169.254.169.254:80",
    ]  # fmt: skip
    directs = [FIRST, THIRD, SIXTH, "127.0.0.1"]
    found = {}
    walled = tmp_path / "python"
    walled.write_text(WALLED.format(python=sys.executable))
    walled.chmod(0o755)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            for host in (FIRST, SECOND, THIRD, SIXTH, "127.0.0.1"):
                for port in (443, 80):
                    await stack.enter_async_context(serving(identity, host, port))
            proxy = await stack.enter_async_context(proxying(*words, names=names, python=str(walled)))
            # The servers are there, and only the wall keeps the box from them.
            reader, writer = await asyncio.open_connection(THIRD, 443)
            assert await reader.read() == f"I am {THIRD} 443".encode()
            writer.close()
            found.update(await in_the_box(proxy, [*reached, *refused], directs))
            assert set(proxy.asked) == {"first.test", "second.test"}

    in_a_namespace([f"{FIRST}/32", f"{SECOND}/32", f"{THIRD}/32", f"{SIXTH}/128"], work)
    assert found["through"] == reached | dict.fromkeys(refused, "403")
    for way in ("udp", "icmp"):
        del found[way]["127.0.0.1"]  # the box's own, which it may speak to
    for way in ("tcp", "udp", "icmp", "name"):
        assert all(outcome.startswith("failed: ") for outcome in found[way].values()), (way, found[way])


def test_rebinding_between_the_check_and_the_connection_reaches_nothing_new(
    in_a_namespace, proxying, serving, identity
):
    # The name server turns round after the first answer, and mixes a private address into the third.
    names = {"first.test": [[FIRST], [THIRD], [THIRD, FIRST, "127.0.0.1"]]}
    outcomes = []

    async def work() -> None:
        async with (
            serving(identity, FIRST, 443),
            serving(identity, THIRD, 443),
            serving(identity, "127.0.0.1", 443),
            proxying("first.test", f"{FIRST}:443", names=names) as proxy,
        ):
            for _ in range(3):
                status, reader, writer = await proxy.tunnel("first.test:443")
                outcomes.append((status.split(b" ")[1], await reader.read()))
                writer.close()

    in_a_namespace([f"{FIRST}/32", f"{THIRD}/32"], work)
    mine = f"I am {FIRST} 443".encode()
    assert [status for status, _ in outcomes] == [b"200", b"403", b"200"]
    assert (outcomes[0][1], outcomes[2][1]) == (mine, mine)


def test_an_ipv6_address_is_reached_when_it_is_granted_itself(in_a_namespace, proxying, serving, identity):
    outcomes = {}

    async def work() -> None:
        async with (
            serving(identity, SIXTH, 443),
            proxying("six.test", f"[{SIXTH}]:443", names={"six.test": [[SIXTH]]}) as proxy,
        ):
            for target in ("six.test:443", "[FD00:198:18:0::6]:443", "[fd00:198:18::7]:443"):
                status, reader, writer = await proxy.tunnel(target)
                outcomes[target] = (status.split(b" ")[1], await reader.read())
                writer.close()

    in_a_namespace([f"{SIXTH}/128"], work)
    mine = (b"200", f"I am {SIXTH} 443".encode())
    assert list(outcomes.values())[:2] == [mine, mine]
    assert outcomes["[fd00:198:18::7]:443"][0] == b"403"


def test_a_host_whose_first_addresses_cannot_be_reached_is_reached_at_its_next(
    in_a_namespace, proxying, serving, identity
):
    outcome = []

    async def work() -> None:
        # Nothing has this address here, and there is no route to it.
        async with (
            serving(identity, SECOND, 443),
            proxying(
                "two.test", f"{FIRST}:443", f"{SECOND}:443", names={"two.test": [["198.19.0.1", FIRST, SECOND]]}
            ) as proxy,
        ):
            status, reader, writer = await proxy.tunnel("two.test:443")
            outcome.extend([status.split(b" ")[1], await reader.read()])
            writer.close()
            assert proxy.records[0].refused_addresses == ("198.19.0.1: for benchmarking",)

    in_a_namespace([f"{SECOND}/32"], work)
    assert outcome == [b"200", f"I am {SECOND} 443".encode()]
