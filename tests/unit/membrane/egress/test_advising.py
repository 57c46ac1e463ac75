import pytest

from kagura_kernel.membrane.egress.hosts import HOST_SETS, PLATFORM, Target
from kagura_kernel.membrane.egress.policy import address_advice, advice, parse_grants

A = Target("a.example", 443)
LOCAL = Target("localhost", 8080)


def word_of(told: str) -> str:
    assert told.startswith("Grant it with: --net ")
    return told.removeprefix("Grant it with: --net ")


@pytest.mark.parametrize(
    ("target", "word"),
    [
        (Target("pypi.org", 443), "python-packages"),
        (Target("github.com", 443), "github"),
        (next(target for target in HOST_SETS["debian"] if target.port == 80), "debian"),
        (Target("astral.sh", 443), "astral.sh"),
        (A, "a.example"),
        (Target("a.example", 80), "a.example:80"),
        (Target("127.0.0.1", 8080), "127.0.0.1:8080"),
        (Target("2001:db8::1", 80), "[2001:db8::1]:80"),
    ],
)
def test_the_narrowest_word_that_grants_the_target_is_advised(target, word):
    assert word_of(advice(target)) == word
    assert target in parse_grants([word]).granted


def test_no_host_is_advised_by_a_set_that_only_joins_others():
    union = HOST_SETS["tool-install"]
    assert "tool-install" not in {word_of(advice(target)) for target in union}


def test_of_two_sets_that_hold_a_host_the_smaller_one_is_advised():
    sets = {**HOST_SETS, "wide": [A, Target("b.example", 443)], "narrow": [A]}
    assert word_of(advice(A, sets)) == "narrow"


def test_a_host_whose_addresses_are_refused_is_advised_by_the_very_address():
    assert word_of(address_advice(LOCAL, ["::1", "127.0.0.1"])) == "127.0.0.1:8080"
    assert word_of(address_advice(LOCAL, ["::1"])) == "[::1]:8080"


def test_beside_the_name_where_that_is_not_granted_either():
    assert word_of(address_advice(LOCAL, ["127.0.0.1"], granted=False)) == "localhost:8080,127.0.0.1:8080"


@pytest.mark.parametrize("address", PLATFORM)
def test_what_hands_out_the_machines_credentials_is_never_advised(address):
    for told in (advice(Target(address, 80)), address_advice(Target("a.example", 80), [address])):
        assert told == "It hands out the machine's own credentials and cannot be granted."
    assert word_of(address_advice(A, [address, "10.0.0.5"])) == "10.0.0.5:443"


@pytest.mark.parametrize("address", ["0.0.0.0", "ff02::1", "fe80::1%eth0", "::ffff:10.0.0.5", "no address"])
def test_an_address_that_no_word_opens_is_not_advised(address):
    assert address_advice(A, [address]) == "It cannot be granted."
