from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.egress.hosts import (
    IPV4,
    IPV6,
    NAT64,
    PLATFORM,
    PUBLIC_IPV6,
    is_platform,
    why_never,
    why_refused,
)

# Neighbours that lie in another network of the table; every other neighbour must be reachable.
TABLE = {ip_network(network): why for network, why in (IPV4 | IPV6).items()}


@pytest.mark.parametrize("network", [*IPV4, *IPV6])
def test_every_entry_is_refused_from_its_first_to_its_last_address(network):
    block = ip_network(network)
    middle = block[block.num_addresses // 2]
    assert all(why_refused(address) for address in (block[0], middle, block[-1]))


@pytest.mark.parametrize("network", IPV4)
def test_the_neighbours_of_an_ipv4_entry_are_public_unless_another_entry_holds_them(network):
    block = ip_network(network)
    for number in (int(block[0]) - 1, int(block[-1]) + 1):
        if not 0 <= number < 2**32:
            continue
        neighbour = IPv4Address(number)
        listed = any(neighbour in other for other in TABLE if other.version == 4)
        assert (why_refused(neighbour) is not None) == listed


@pytest.mark.parametrize("network", IPV6)
def test_the_neighbours_of_an_ipv6_entry_are_public_only_in_the_public_network(network):
    block = ip_network(network)
    for number in (int(block[0]) - 1, int(block[-1]) + 1):
        if not 0 <= number < 2**128:
            continue
        neighbour = IPv6Address(number)
        listed = any(neighbour in other for other in TABLE if other.version == 6)
        public = neighbour in PUBLIC_IPV6 and not listed
        assert (why_refused(neighbour) is None) == public


@pytest.mark.parametrize("address", PLATFORM)
def test_a_platforms_own_address_is_refused_by_its_name(address):
    assert why_refused(ip_address(address)) == PLATFORM[address]


def test_the_neighbours_of_azures_address_are_public():
    assert why_refused(ip_address("168.63.129.15")) is None
    assert why_refused(ip_address("168.63.129.17")) is None


# Each of these passes `ipaddress.is_global` in some version of Python.
@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a83f:8110",
        "64:ff9b:1::1",
        "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        "::127.0.0.1",
        "::8.8.8.8",
        "2002:7f00:1::",
        "2002:808:808::1",
        "224.0.0.1",
        "239.255.255.255",
        "168.63.129.16",
        "192.88.99.1",
        "2001::1",
        "2001:0:5ef5:79fb:0:0:0:1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "fec0::1",
        "4000::1",
        "2a00:1450::5efe:7f00:1",
        "2a00:1450::200:5efe:808:808",
        "::",
        "0.0.0.0",
        "255.255.255.255",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
    ],
)
def test_what_python_calls_global_or_hides_a_private_address_is_refused(address):
    assert why_refused(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "151.101.0.223", "223.255.255.255", "2606:4700::1111", "2a04:4e42::223", "64:ff9b::808:808"],
)
def test_public_addresses_pass(address):
    assert why_refused(ip_address(address)) is None


@given(st.ip_addresses(v=4))
def test_a_translated_address_is_judged_by_what_it_translates(address):
    translated = IPv6Address(int(NAT64[0]) + int(address))
    assert (why_refused(translated) is None) == (why_refused(address) is None)


@given(st.ip_addresses())
def test_whatever_python_itself_calls_private_is_refused(address):
    # The table may refuse more than Python does, never less; the translation prefix is judged by what is inside.
    if (address.is_private or address.is_multicast or address.is_reserved) and address not in NAT64:
        assert why_refused(address)


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "fe80::1%1"]
)
def test_addresses_that_name_nobody_or_everybody_cannot_be_granted(address):
    assert why_never(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.1.1", "::1", "fd00::1", "8.8.8.8"])
def test_every_other_address_can(address):
    assert why_never(ip_address(address)) is None


@pytest.mark.parametrize("address", PLATFORM)
def test_what_hands_out_the_machines_credentials_cannot_be_granted(address):
    assert why_never(ip_address(address)) == PLATFORM[address]


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::1",
        "2a00:1450::5efe:a9fe:a9fe",
        "64:ff9b::a83f:8110",
    ],
)
def test_nor_can_it_in_another_dress(address):
    assert is_platform(ip_address(address))
    assert why_never(ip_address(address))


@pytest.mark.parametrize("address", ["fd00::a9fe:a9fe", "64:ff9b::a00:1", "2002:a00:1::1", "169.254.169.253"])
def test_a_neighbour_that_only_looks_like_it_can(address):
    assert not is_platform(ip_address(address))
    assert why_never(ip_address(address)) is None
