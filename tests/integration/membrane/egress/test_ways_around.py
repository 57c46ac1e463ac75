"""A program that does not want the proxy, or wants more of it than connections, gets nothing that way.

The servers have a network namespace of the test's own, together with the membrane; the granted one is reached from the
same box, so that a box that reaches nothing at all proves nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Proxy

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace with addresses takes root"),
]

FIRST, THIRD, SIXTH = "198.18.0.1", "198.18.0.3", "fd00:198:18::6"
ADDRESSES = [f"{FIRST}/32", f"{THIRD}/32", f"{SIXTH}/128"]
MINE = f"I am {FIRST} 443"

# `tried` says how an attempt failed, or what it came to; `granted` is the way that is open.
TOOLS = r"""
import errno, os, socket, struct

def tried(work):
    try:
        return work() or "done"
    except OSError as error:
        return "failed: " + (errno.errorcode.get(error.errno) or type(error).__name__)

def whole(client):
    client.settimeout(60)
    data = b""
    while part := client.recv(65536):
        data += part
    return data

def tunnel(target, host="127.0.0.1"):
    client = socket.create_connection((host, PORT), 60)
    client.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target))
    head, _, body = whole(client).partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else head.split(b" ")[1].decode()

def granted():
    return tunnel(b"first.test:443")
"""


class Datagrams(asyncio.DatagramProtocol):
    """Keeps what arrives, and answers it."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.seen.append(data)
        self._transport.sendto(b"answer to " + data, addr)  # type: ignore[attr-defined]


@pytest.fixture
def scene(walls, proxying, serving, identity) -> Callable[[], AsyncIterator[tuple[Proxy, Datagrams]]]:
    """A box with one host granted, that host and two others, and something that answers datagrams on all of them."""

    @asynccontextmanager
    async def open_scene() -> AsyncIterator[tuple[Proxy, Datagrams]]:
        heard = Datagrams()
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            for host in (FIRST, THIRD, SIXTH, "127.0.0.1"):
                for port in (443, 53):
                    await stack.enter_async_context(serving(identity, host, port))
                    transport, _ = await loop.create_datagram_endpoint(lambda: heard, local_addr=(host, port))
                    stack.callback(transport.close)
            names = {"first.test": [[FIRST]], "third.test": [[THIRD]]}
            proxy = proxying("first.test", f"{FIRST}:443", names=names, backend=walls())
            yield await stack.enter_async_context(proxy), heard

    return open_scene


DIRECT = r"""
def tcp(host, port):
    with socket.create_connection((host, port), 5) as client:
        return whole(client).decode()

def udp(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(b"udp", (host, port))
        return client.recv(100).decode()

def dns(host, port):
    question = b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0\5first\4test\0\0\1\0\1"
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(question, (host, 53))
        return str(client.recv(100))

def quic(host, port):
    # A long header, version 1, padded to what an Initial packet has at least.
    packet = b"\xc3\0\0\0\1\x08ABCDEFGH\x08abcdefgh".ljust(1200, b"\0")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(packet, (host, 443))
        return str(client.recv(100))

def icmp(host, port):
    six = ":" in host
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
    packet = b"\x80\0\0\0\0\1\0\1" if six else b"\x08\0\xf7\xfd\0\1\0\1"
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind, protocol) as client:
                client.settimeout(5)
                client.sendto(packet, (host, 0))
                return "sent " + str(client.recv(100))
        except OSError as error:
            problem = error
    raise problem

def raw_ip(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as client:
        return str(client.sendto(b"x" * 40, (FIRST, 0)))

def packets(host, port):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as client:
        return str(client.getsockname())

def sctp(host, port):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, 132) as client:
        client.settimeout(5)
        client.connect((host, port))

def bound_to_a_device(host, port):
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
        client.settimeout(5)
        client.connect((host, port))

def names(host, port):
    return socket.getaddrinfo("first.test", 443)[0][4][0]

FIRST = ARGS[0][0]
ways = [tcp, udp, dns, quic, icmp, raw_ip, packets, sctp, bound_to_a_device, names]
found = {way.__name__ + " " + host: tried(lambda: way(host, 443)) for way in ways for host in ARGS[0]}
print(json.dumps([granted(), found]))
"""


def test_no_packet_of_any_protocol_leaves_the_box(scene, in_a_namespace):
    outcome = []

    async def work() -> None:
        async with scene() as (proxy, heard):
            outcome.extend(await proxy.python(TOOLS + DIRECT, [FIRST, THIRD, SIXTH]))
            assert heard.seen == []
            # They do arrive when they come from outside a box.
            loop = asyncio.get_running_loop()
            answers = Datagrams()
            outside, _ = await loop.create_datagram_endpoint(lambda: answers, remote_addr=(FIRST, 53))
            outside.sendto(b"control")
            async with asyncio.timeout(30):
                while not heard.seen:  # noqa: ASYNC110 - a list has no event
                    await asyncio.sleep(0.01)
            outside.close()

    in_a_namespace(ADDRESSES, work)
    granted, found = outcome
    assert granted == MINE
    assert len(found) == 30
    assert {way: outcome for way, outcome in found.items() if not outcome.startswith("failed: ")} == {}


INTERFACES = r"""
import fcntl

def add_a_route():
    # RTM_NEWROUTE for the default route through the loopback, and for 198.18.0.0/15 on link 1.
    body = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + struct.pack("=HHI", 8, 4, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.sendall(struct.pack("=IHHII", 16 + len(body), 24, 0x605, 1, 0) + body)
        code = struct.unpack_from("=i", link.recv(4096), 16)[0]
        if code:
            raise OSError(-code, "netlink")

def add_a_device():
    kind = b"dummy"
    info = struct.pack("=HH", 4 + len(kind), 1) + kind.ljust(8, b"\0")
    body = struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0) + struct.pack("=HH", 4 + len(info), 18) + info
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.sendall(struct.pack("=IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        code = struct.unpack_from("=i", link.recv(4096), 16)[0]
        if code:
            raise OSError(-code, "netlink")

def make_a_tunnel():
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH", b"tun0", 1))

def give_loopback_an_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        address = struct.pack("16sHH4s8s", b"lo", socket.AF_INET, 0, socket.inet_aton(ARGS[0]), b"")
        fcntl.ioctl(any_socket, 0x8916, address)

ways = [add_a_route, add_a_device, make_a_tunnel, give_loopback_an_address]
found = {way.__name__: tried(way) for way in ways}
found["granted"] = granted()
print(json.dumps(found))
"""


def test_the_box_cannot_make_itself_a_network(scene, in_a_namespace):
    found = {}

    async def work() -> None:
        async with scene() as (proxy, _):
            found.update(await proxy.python(TOOLS + INTERFACES, THIRD))

    in_a_namespace(ADDRESSES, work)
    assert found.pop("granted") == MINE
    # Not "invalid": it was understood and refused.
    assert set(found.values()) <= {"failed: EPERM", "failed: EACCES", "failed: ENOENT", "failed: EAFNOSUPPORT"}, found


SOCKS = r"""
def greeted():
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"\5\1\0")
    assert client.recv(2, socket.MSG_WAITALL) == b"\5\0"
    return client

def command(code, address=b"\3\x0afirst.test"):
    client = greeted()
    client.sendall(b"\5" + bytes([code]) + b"\0" + address + (443).to_bytes(2, "big"))
    answer = whole(client)
    return [answer[1], answer[10:].decode("latin-1")]

def version_4(tail=b""):
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    address = b"\0\0\0\1" if tail else socket.inet_aton(ARGS[0])
    client.sendall(b"\4\1" + (443).to_bytes(2, "big") + address + b"me\0" + tail)
    client.shutdown(socket.SHUT_WR)
    return whole(client).startswith(b"\0\x5a")

def with_password():
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"\5\1\2")
    return whole(client)[:2].hex()

print(json.dumps({
    "connect": command(1),
    "connect elsewhere": command(1, b"\3\x0athird.test")[0],
    "connect to an address": command(1, b"\1" + socket.inet_aton(ARGS[1]))[0],
    "bind": command(2)[0],
    "udp associate": command(3, b"\1\0\0\0\0")[0],
    "resolve": command(0xF0)[0],
    "an empty name": command(1, b"\3\0")[0],
    "a name with a zero": command(1, b"\3\x0bfirst.test\0")[0],
    "a kind of address that is none": command(1, b"\2\0\0\0\0\0\0")[0],
    "version 4": version_4(),
    "version 4a": version_4(b"first.test\0"),
    "with a password": with_password(),
}))
"""


def test_of_socks_only_connect_is_served_and_only_where_it_is_granted(scene, in_a_namespace):
    found = {}

    async def work() -> None:
        async with scene() as (proxy, heard):
            found.update(await proxy.python(TOOLS + SOCKS, FIRST, THIRD))
            assert heard.seen == []

    in_a_namespace(ADDRESSES, work)
    assert found == {
        "connect": [0, MINE],
        "connect elsewhere": 2,
        "connect to an address": 2,
        "bind": 7,
        "udp associate": 7,
        "resolve": 7,
        "an empty name": 1,
        "a name with a zero": 2,
        "a kind of address that is none": 8,
        "version 4": False,
        "version 4a": False,
        "with a password": "05ff",
    }


VARIABLES = r"""
import urllib.error, urllib.request

def opened(host, **changes):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            if changes.get("unset"):
                del os.environ[name]
    os.environ.update(changes.get("set", {}))
    try:
        return urllib.request.build_opener().open("http://%s/" % host, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return "refused: %d" % error.code
    except (OSError, ValueError) as error:
        return "failed: " + str(error)

print(json.dumps(opened(*ARGS[:1], **ARGS[1])))
"""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached"

CHANGES = {
    "the variables as they are": ({}, "refused: 403"),
    "no variables": ({"unset": True}, "failed: "),
    "an exception for everything": ({"set": {"no_proxy": "*", "NO_PROXY": "*"}}, "failed: "),
    "an exception for the host": ({"set": {"no_proxy": f"third.test,.test,{THIRD}"}}, "failed: "),
    "a proxy elsewhere": ({"set": {"http_proxy": f"http://{THIRD}:80"}}, "failed: "),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_that_changes_its_variables_only_loses_its_way(change, walls, in_a_namespace, proxying, serving):
    options, outcome = CHANGES[change]
    found = []

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()

    async def work() -> None:
        names = {"first.test": [[FIRST]], "third.test": [[THIRD]]}
        async with (
            serving(page, FIRST, 80),
            serving(page, THIRD, 80),
            proxying("first.test:80", f"{FIRST}:80", names=names, backend=walls()) as proxy,
        ):
            code = TOOLS + VARIABLES
            # -I makes Python deaf to variables of its own only; those of the proxy are there.
            found.append(await proxy.python(code, "first.test", {}))
            found.extend([await proxy.python(code, host, options) for host in ("third.test", THIRD)])

    in_a_namespace(ADDRESSES, work)
    assert found[0] == "reached"
    assert all(text.startswith(outcome) for text in found[1:]), found


OTHER_NAMES = r"""
found = {}
for host in ("127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "127.0.0.2", "127.255.255.254", "localhost"):
    found[host] = [tried(lambda: tunnel(target, host)) for target in (b"first.test:443", b"third.test:443")]
print(json.dumps(found))
"""


def test_the_proxy_has_the_same_rules_by_whichever_address_it_is_found(scene, in_a_namespace):
    found = {}

    async def work() -> None:
        async with scene() as (proxy, _):
            found.update(await proxy.python(TOOLS + OTHER_NAMES))

    in_a_namespace(ADDRESSES, work)
    assert found["127.0.0.1"] == [MINE, "403"]
    for answers in found.values():
        assert answers == [MINE, "403"] or all(text.startswith("failed: ") for text in answers), found


FIRST_OF_NAMES_THAT_LIE, THIRD_OF_NAMES_THAT_LIE, SIXTH_OF_NAMES_THAT_LIE, METADATA = (
    "198.18.0.1",
    "198.18.0.3",
    "fd00:198:18::6",
    "169.254.169.254",
)
ADDRESSES_OF_NAMES_THAT_LIE = [
    f"{FIRST_OF_NAMES_THAT_LIE}/32",
    f"{THIRD_OF_NAMES_THAT_LIE}/32",
    f"{SIXTH_OF_NAMES_THAT_LIE}/128",
    f"{METADATA}/32",
    "10.9.8.7/32",
    "192.168.9.8/32",
]
EVERYWHERE = (
    FIRST_OF_NAMES_THAT_LIE,
    THIRD_OF_NAMES_THAT_LIE,
    SIXTH_OF_NAMES_THAT_LIE,
    METADATA,
    "10.9.8.7",
    "192.168.9.8",
    "127.0.0.1",
    "::1",
)

ASK = r"""
import socket

def through(name):
    client = socket.create_connection(("127.0.0.1", PORT), 60)
    client.sendall(b"CONNECT %b:443 HTTP/1.1\r\nHost: %b\r\n\r\n" % (name.encode(), name.encode()))
    data = b""
    while part := client.recv(65536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else head.decode().split("\r\n")[0]

print(json.dumps([through(name) for name in ARGS[0]]))
"""


@pytest.fixture
def told(some_walls, in_a_namespace, proxying, serving, identity) -> Callable[..., tuple[list[str], list[str]]]:
    """What a box with these grants and names is told for each of the names that it asks for; and what was looked up."""

    def run(words: list[str], names: dict[str, list[list[str]]], ask: list[str]) -> tuple[list[str], list[str]]:
        found: tuple[list[str], list[str]] = ([], [])

        async def work() -> None:
            async with AsyncExitStack() as stack:
                for host in EVERYWHERE:
                    await stack.enter_async_context(serving(identity, host, 443))
                for host in EVERYWHERE:  # all of them are there, for whoever is not in a box
                    reader, writer = await asyncio.open_connection(host, 443)
                    assert (await reader.read()).startswith(b"I am ")
                    writer.close()
                proxy = await stack.enter_async_context(proxying(*words, names=names, backend=some_walls()))
                found[0].extend(await proxy.python(ASK, ask))
                found[1].extend(proxy.asked)

        in_a_namespace(ADDRESSES_OF_NAMES_THAT_LIE, work)
        return found

    return run


MINE_OF_NAMES_THAT_LIE = f"I am {FIRST_OF_NAMES_THAT_LIE} 443"
GRANTS = ["first.test", f"{FIRST_OF_NAMES_THAT_LIE}:443"]


@pytest.mark.parametrize(
    "answer",
    [
        *(
            [METADATA],
            ["10.9.8.7"],
            ["192.168.9.8"],
            ["127.0.0.1"],
            ["::1"],
            [SIXTH_OF_NAMES_THAT_LIE],
            [THIRD_OF_NAMES_THAT_LIE],
        ),
        *(
            [f"::ffff:{THIRD_OF_NAMES_THAT_LIE}"],
            [f"64:ff9b::{THIRD_OF_NAMES_THAT_LIE}"],
            ["0.0.0.0"],
            ["::"],
            ["fe80::1%lo"],
            ["first.test"],
            ["127.1"],
        ),
        [METADATA, "127.0.0.1", "10.9.8.7", SIXTH_OF_NAMES_THAT_LIE, f"::ffff:{METADATA}"],
    ],
    ids=" ".join,
)
def test_a_granted_name_that_leads_inside_is_refused(answer, told):
    answers, _ = told(
        ["first.test", "inside.test", f"{FIRST_OF_NAMES_THAT_LIE}:443"],
        {"inside.test": [answer], "first.test": [[FIRST_OF_NAMES_THAT_LIE]]},
        ["inside.test", "first.test"],
    )
    assert answers[0].startswith("HTTP/1.1 403 inside.test:443 leads to no public address")
    assert answers[1] == MINE_OF_NAMES_THAT_LIE


def test_of_an_answer_that_mixes_public_and_private_addresses_only_the_public_ones_are_dialled(told):
    # As at the end of a chain of aliases, of which a resolver gives the addresses alone.
    mixed = [
        [METADATA, "127.0.0.1", FIRST_OF_NAMES_THAT_LIE],
        [FIRST_OF_NAMES_THAT_LIE, "::1", "10.9.8.7"],
        [SIXTH_OF_NAMES_THAT_LIE, THIRD_OF_NAMES_THAT_LIE, FIRST_OF_NAMES_THAT_LIE, FIRST_OF_NAMES_THAT_LIE],
    ]
    answers, _ = told(GRANTS, {"first.test": mixed}, ["first.test"] * 3)
    assert answers == [MINE_OF_NAMES_THAT_LIE] * 3


def test_a_name_server_that_changes_its_mind_reaches_nothing_new(told):
    # Time of check and time of use: were the name looked up again to connect, the second of each pair would be reached.
    turns = [
        [FIRST_OF_NAMES_THAT_LIE],
        ["127.0.0.1"],
        [FIRST_OF_NAMES_THAT_LIE],
        [METADATA],
        [FIRST_OF_NAMES_THAT_LIE],
        [SIXTH_OF_NAMES_THAT_LIE],
        [THIRD_OF_NAMES_THAT_LIE],
    ]
    answers, asked = told(GRANTS, {"first.test": turns}, ["first.test"] * 7)
    assert [answer for answer in answers if answer.startswith("I am ")] == [MINE_OF_NAMES_THAT_LIE] * 3
    assert [answer[:12] for answer in answers if not answer.startswith("I am ")] == ["HTTP/1.1 403"] * 4
    # One look-up for each connection, and never a second one.
    assert asked == ["first.test"] * 7


def test_the_address_that_was_granted_opens_no_other_port_and_no_other_name(told):
    names = {"first.test": [[FIRST_OF_NAMES_THAT_LIE]], "other.test": [[FIRST_OF_NAMES_THAT_LIE]]}
    answers, asked = told(GRANTS, names, ["first.test", "other.test", "first.test.other.test", "FIRST.TEST"])
    assert answers[0] == answers[3] == MINE_OF_NAMES_THAT_LIE
    assert all(" is not granted " in answer for answer in answers[1:3])
    assert set(asked) == {"first.test"}


def test_what_a_box_knows_does_not_leave_it_in_the_names_that_it_asks_for(told):
    secret = "c2VjcmV0.attacker.test"
    ask = [secret, f"{secret}.first.test", "first.test", "first.test..", f"{'a' * 63}.{'b' * 63}.test"]
    answers, asked = told(GRANTS, {"first.test": [[FIRST_OF_NAMES_THAT_LIE]]}, ask)
    assert answers[2] == MINE_OF_NAMES_THAT_LIE
    assert all(answer.startswith("HTTP/1.1 403 ") for number, answer in enumerate(answers) if number != 2)
    assert asked == ["first.test"]
