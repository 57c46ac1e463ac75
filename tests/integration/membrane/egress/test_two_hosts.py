"""From a box with walls and two hosts granted only these two are reached, however they are asked for.

The membrane has a network namespace of the test's own, with servers on test addresses; the box has its own walls. The
addresses are of a test network, which no name may lead to: so the two that are granted are granted as addresses too.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

import pytest

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace with addresses takes root"),
]

FIRST, SECOND, THIRD, SIXTH = "198.18.0.1", "198.18.0.2", "198.18.0.3", "fd00:198:18::6"
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
