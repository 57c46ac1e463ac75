"""A granted name leads only to addresses that were checked, whatever its name server says and however often it changes.

A box with walls; the membrane has a network namespace of the test's own, and a resolver that lies.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace with addresses takes root"),
]

FIRST, THIRD, SIXTH, METADATA = "198.18.0.1", "198.18.0.3", "fd00:198:18::6", "169.254.169.254"
ADDRESSES = [f"{FIRST}/32", f"{THIRD}/32", f"{SIXTH}/128", f"{METADATA}/32", "10.9.8.7/32", "192.168.9.8/32"]
EVERYWHERE = (FIRST, THIRD, SIXTH, METADATA, "10.9.8.7", "192.168.9.8", "127.0.0.1", "::1")

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

        in_a_namespace(ADDRESSES, work)
        return found

    return run


MINE = f"I am {FIRST} 443"
GRANTS = ["first.test", f"{FIRST}:443"]


@pytest.mark.parametrize(
    "answer",
    [
        *([METADATA], ["10.9.8.7"], ["192.168.9.8"], ["127.0.0.1"], ["::1"], [SIXTH], [THIRD]),
        *([f"::ffff:{THIRD}"], [f"64:ff9b::{THIRD}"], ["0.0.0.0"], ["::"], ["fe80::1%lo"], ["first.test"], ["127.1"]),
        [METADATA, "127.0.0.1", "10.9.8.7", SIXTH, f"::ffff:{METADATA}"],
    ],
    ids=" ".join,
)
def test_a_granted_name_that_leads_inside_is_refused(answer, told):
    answers, _ = told(
        ["first.test", "inside.test", f"{FIRST}:443"],
        {"inside.test": [answer], "first.test": [[FIRST]]},
        ["inside.test", "first.test"],
    )
    assert answers[0].startswith("HTTP/1.1 403 inside.test:443 leads to no public address")
    assert answers[1] == MINE


def test_of_an_answer_that_mixes_public_and_private_addresses_only_the_public_ones_are_dialled(told):
    # As at the end of a chain of aliases, of which a resolver gives the addresses alone.
    mixed = [[METADATA, "127.0.0.1", FIRST], [FIRST, "::1", "10.9.8.7"], [SIXTH, THIRD, FIRST, FIRST]]
    answers, _ = told(GRANTS, {"first.test": mixed}, ["first.test"] * 3)
    assert answers == [MINE] * 3


def test_a_name_server_that_changes_its_mind_reaches_nothing_new(told):
    # Time of check and time of use: were the name looked up again to connect, the second of each pair would be reached.
    turns = [[FIRST], ["127.0.0.1"], [FIRST], [METADATA], [FIRST], [SIXTH], [THIRD]]
    answers, asked = told(GRANTS, {"first.test": turns}, ["first.test"] * 7)
    assert [answer for answer in answers if answer.startswith("I am ")] == [MINE] * 3
    assert [answer[:12] for answer in answers if not answer.startswith("I am ")] == ["HTTP/1.1 403"] * 4
    # One look-up for each connection, and never a second one.
    assert asked == ["first.test"] * 7


def test_the_address_that_was_granted_opens_no_other_port_and_no_other_name(told):
    names = {"first.test": [[FIRST]], "other.test": [[FIRST]]}
    answers, asked = told(GRANTS, names, ["first.test", "other.test", "first.test.other.test", "FIRST.TEST"])
    assert answers[0] == answers[3] == MINE
    assert all(" is not granted " in answer for answer in answers[1:3])
    assert set(asked) == {"first.test"}


def test_what_a_box_knows_does_not_leave_it_in_the_names_that_it_asks_for(told):
    secret = "c2VjcmV0.attacker.test"
    ask = [secret, f"{secret}.first.test", "first.test", "first.test..", f"{'a' * 63}.{'b' * 63}.test"]
    answers, asked = told(GRANTS, {"first.test": [[FIRST]]}, ask)
    assert answers[2] == MINE
    assert all(answer.startswith("HTTP/1.1 403 ") for number, answer in enumerate(answers) if number != 2)
    assert asked == ["first.test"]
