"""What a plugin's jail may reach: exactly what its permissions say, by name, level and port."""

from ipaddress import ip_address
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import EgressDenied
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.hosts import Target, make_target
from kagura_kernel.membrane.egress.policy import EgressVerdict, PatternPolicy, admits, written


class Rule(NamedTuple):
    kind: str
    host: str
    port: int = 443


NAME, ONE_LEVEL = Rule("name", "example.org"), Rule("one-level", "example.org")
EXACT, DATABASE = Rule("exact", "api.example.org", 8443), Rule("exact", "10.0.0.5", 5432)


@pytest.mark.parametrize(
    ("rule", "host", "port", "allowed"),
    [
        (NAME, "example.org", 443, True),
        (NAME, "www.example.org", 443, True),
        (NAME, "a.b.example.org", 443, True),
        (NAME, "example.org", 80, False),
        (NAME, "notexample.org", 443, False),
        (NAME, "example.org.evil.net", 443, False),
        (NAME, "EXAMPLE.org.", 443, True),
        (ONE_LEVEL, "www.example.org", 443, True),
        (ONE_LEVEL, "example.org", 443, False),
        (ONE_LEVEL, "a.b.example.org", 443, False),
        (EXACT, "api.example.org", 8443, True),
        (EXACT, "api.example.org", 443, False),
        (EXACT, "v1.api.example.org", 8443, False),
        (DATABASE, "10.0.0.5", 5432, True),
        (DATABASE, "0x0a000005", 5432, True),
        (DATABASE, "10.0.0.6", 5432, False),
        (Rule("name", "5"), "10.0.0.5", 443, False),
    ],
)
def test_a_rule_admits_what_it_names(rule, host, port, allowed):
    target = make_target(host, port)
    assert admits(rule, target) is allowed
    expected = EgressVerdict.ALLOW if allowed else EgressVerdict.DENY
    assert PatternPolicy((rule,)).decide(target).verdict is expected


def test_the_ruling_names_the_rule_as_a_person_writes_it():
    ruling = PatternPolicy((EXACT, ONE_LEVEL)).decide(Target("www.example.org", 443))
    assert ruling.rule == "*.example.org"
    assert [written(rule) for rule in (NAME, EXACT)] == ["example.org", "api.example.org:8443"]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "64:ff9b::7f00:1"])
def test_a_permitted_name_never_opens_an_address_that_is_not_public(address):
    assert PatternPolicy((NAME,)).refuse_address(ip_address(address), 443)


def test_an_address_that_a_person_configured_is_opened_at_its_port_alone():
    policy = PatternPolicy((DATABASE,))
    assert policy.refuse_address(ip_address("10.0.0.5"), 5432) is None
    assert policy.refuse_address(ip_address("10.0.0.5"), 443)
    assert policy.refuse_address(ip_address("10.0.0.6"), 5432)


def test_localhost_means_the_loopback_and_the_metadata_service_is_never_opened():
    policy = PatternPolicy((Rule("exact", "localhost", 5432), Rule("exact", "169.254.169.254", 80)))
    assert policy.refuse_address(ip_address("127.0.0.1"), 5432) is None
    assert policy.refuse_address(ip_address("::1"), 5432) is None
    assert policy.refuse_address(ip_address("127.0.0.1"), 5433)
    assert policy.refuse_address(ip_address("169.254.169.254"), 80)


async def test_a_gate_neither_asks_nor_advises_and_looks_up_nothing_that_is_not_permitted():
    asked = []

    async def resolver(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["93.184.216.34", "1.1.1.1"]

    gate = Gate(PatternPolicy((NAME,)), resolver)
    with pytest.raises(EgressDenied) as caught:
        await gate.admit("example.net", 443)
    assert asked == []
    assert caught.value.message == "example.net:443 is not among what the plugin may reach."
    admitted = await gate.admit("www.example.org", 443)
    assert [str(address) for address in admitted.checked.allowed] == ["93.184.216.34", "1.1.1.1"]


async def test_one_private_answer_among_public_ones_speaks_against_the_name():
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "127.0.0.1"]

    with pytest.raises(EgressDenied, match=r"also leads to addresses that are not public \(127.0.0.1 is loopback\)"):
        await Gate(PatternPolicy((NAME,)), resolver).admit("example.org", 443)


async def test_a_name_with_private_answers_alone_is_refused_without_advice():
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["10.1.2.3"]

    with pytest.raises(EgressDenied, match="leads to no public address") as caught:
        await Gate(PatternPolicy((NAME,)), resolver).admit("example.org", 443)
    assert "--net" not in caught.value.message


@given(st.from_regex(r"([a-z0-9]{1,5}\.){0,4}[a-z]{2,5}", fullmatch=True), st.sampled_from([NAME, ONE_LEVEL]))
def test_nothing_outside_the_name_is_ever_admitted(host, rule):
    target = make_target(host, 443)
    inside = target.host == rule.host or target.host.endswith(f".{rule.host}")
    assert inside or not admits(rule, target)
