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


ADDRESSES = [f"{FIRST}/32", f"{SECOND}/32", f"{THIRD}/32", f"{SIXTH}/128"]
PORTS = (443, 80)

NAMES = {
    "first.test": [[FIRST]],
    "second.test": [[SECOND]],
    "third.test": [[THIRD]],
    "six.test": [[SIXTH]],
    # The name of another that leads to an address that is granted.
    "alias.test": [[FIRST]],
    "localhost": [["127.0.0.1", "::1"]],
}
# The first one's address has a port more than its name: so the name's own ports are what keeps it from that.
WORDS = ("first.test", "second.test:80", f"{FIRST}:443", f"{FIRST}:80", f"{SECOND}:80")

GRANTED = {
    "first.test:443": f"I am {FIRST} 443",
    "FIRST.Test.:443": f"I am {FIRST} 443",
    "second.test:80": f"I am {SECOND} 80",
    f"{FIRST}:443": f"I am {FIRST} 443",
    f"{FIRST}:80": f"I am {FIRST} 80",
    # The same addresses as a C library reads them: hexadecimal, one number, octal, three parts, IPv4 in IPv6.
    "0xc6.0x12.0.1:443": f"I am {FIRST} 443",
    "3323068417:443": f"I am {FIRST} 443",
    "0306.022.0.02:80": f"I am {SECOND} 80",
    "198.18.2:80": f"I am {SECOND} 80",
    f"[::ffff:{FIRST}]:443": f"I am {FIRST} 443",
}
REFUSED = [
    *("first.test:80", "second.test:443", "third.test:443", "third.test:80", "six.test:443", "none.test:443"),
    *("alias.test:443", "www.first.test:443", "first.test.evil.test:443", "localhost:443"),
    *(f"{SECOND}:443", f"{THIRD}:443", "3323068419:443", "0xc6.18.0.03:443", "198.18.3:443"),
    *(f"[{SIXTH}]:443", "[::1]:443", "[::]:443", f"[::ffff:{THIRD}]:443", f"[::{THIRD}]:443"),
    *(f"[64:ff9b::{THIRD}]:443", "[2002:c612:0003::1]:443", "[::ffff:127.0.0.1]:443"),
    *("127.0.0.1:443", "127.1:443", "0:443", "0.0.0.0:443", "2130706433:80", "0x7f.1:80", "0177.0.0.1:80"),
    *("169.254.169.254:80", "0xa9fea9fe:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "168.63.129.16:80"),
    *("10.0.0.1:443", "192.168.0.1:443", "224.0.0.1:443", "255.255.255.255:443", "198.18.0.255:443"),
]

# Each target in turn, asked for in one protocol.
THROUGH = r"""
import socket

def whole(client):
    data = b""
    while part := client.recv(65536):
        data += part
    return data

def connect(target):
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target.encode(), target.encode()))
    head, _, body = whole(client).partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else head.split(b" ")[1].decode()

def plain(target):
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n" % (target.encode(), target.encode()))
    answer = whole(client)
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/1.1 ") else answer.decode()

def socks(target, spelled=True):
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"\5\1\0")
    assert client.recv(2, socket.MSG_WAITALL) == b"\5\0"
    if ":" in host:
        address = b"\4" + socket.inet_pton(socket.AF_INET6, host)
    elif spelled:
        address = b"\3" + bytes([len(host)]) + host.encode()
    else:
        address = b"\1" + socket.inet_aton(host)
    client.sendall(b"\5\1\0" + address + int(port).to_bytes(2, "big"))
    answer = client.recv(10, socket.MSG_WAITALL)
    return whole(client).decode() if answer[1] == 0 else {2: "403"}.get(answer[1], "code %d" % answer[1])

def raw_socks(target):
    try:
        return socks(target, spelled=False)
    except OSError:
        return socks(target)

way = {"connect": connect, "plain": plain, "socks": socks, "raw socks": raw_socks}[ARGS[0]]
print(json.dumps({target: way(target) for target in ARGS[1]}))
"""


@pytest.mark.parametrize("way", ["connect", "plain", "socks", "raw socks"])
def test_only_the_two_granted_hosts_are_reached_through_the_proxy(
    way, walls, in_a_namespace, proxying, serving, identity
):
    found = {}

    async def work() -> None:
        async with AsyncExitStack() as stack:
            for host in (FIRST, SECOND, THIRD, SIXTH, "127.0.0.1", "::1"):
                for port in PORTS:
                    await stack.enter_async_context(serving(identity, host, port))
            # Every server is there, and answers whoever is not in a box.
            for host in (THIRD, SIXTH, "127.0.0.1", "::1"):
                reader, writer = await asyncio.open_connection(host, 443)
                assert await reader.read() == f"I am {host} 443".encode()
                writer.close()
            proxy = await stack.enter_async_context(proxying(*WORDS, names=NAMES, backend=walls()))
            found.update(await proxy.python(THROUGH, way, [*GRANTED, *REFUSED]))
            # What is not granted was not looked up either: the question alone would carry something out.
            assert set(proxy.asked) == {"first.test", "second.test"}
            assert {fact.address for fact in proxy.records if fact.kind == "egress.closed"} == {FIRST, SECOND}

    in_a_namespace(ADDRESSES, work)
    assert found == GRANTED | dict.fromkeys(REFUSED, "403")


CURL = "curl --silent --show-error --output - --max-time 60 --http0.9 --write-out ' %{http_code}' "


@pytest.mark.parametrize(
    "form", ["http://{}/", "--proxytunnel http://{}/", "--proxy socks5h://127.0.0.1:{port} http://{}/"]
)
def test_curl_reaches_what_is_granted_and_nothing_else(form, walls, in_a_namespace, proxying, serving, identity):
    found = {}
    targets = ["second.test", "third.test", SECOND, THIRD, f"[{SIXTH}]", "169.254.169.254", "127.0.0.1", "[::1]"]

    async def work() -> None:
        async with AsyncExitStack() as stack:
            for host in (SECOND, THIRD, SIXTH, "127.0.0.1", "::1"):
                await stack.enter_async_context(serving(identity, host, 80))
            proxy = await stack.enter_async_context(proxying(*WORDS, names=NAMES, backend=walls()))
            for target in targets:
                # Without the exception for the box's own loopback, which would be reached without the proxy.
                line = CURL + form.format(target, port=proxy.port)
                found[target] = await proxy.sh(line, no_proxy="", NO_PROXY="")

    in_a_namespace(ADDRESSES, work)
    reached = {target for target, result in found.items() if "I am " in result.stdout.text}
    assert reached == {"second.test", SECOND}
    assert all(f"I am {SECOND} 80" in found[target].stdout.text for target in reached)
