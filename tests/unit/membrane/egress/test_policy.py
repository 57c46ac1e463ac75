from ipaddress import ip_address

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.membrane.egress.hosts import HOST_SETS, Target, normalise
from kagura_kernel.membrane.egress.policy import EgressPolicy, EgressVerdict, parse_grants


def verdict(words: list[str], host: str, port: int = 443) -> str:
    return parse_grants(words).decide(Target(normalise(host), port)).verdict.value


def test_nothing_is_granted_by_default():
    ruling = EgressPolicy().decide(Target("a.example", 443))
    assert ruling.verdict is EgressVerdict.DENY
    assert "not granted" in ruling.reason


@pytest.mark.parametrize("asked", ["a.example", "A.EXAMPLE", "a.example.", "A.example"])
def test_a_host_alone_grants_its_port_443_in_any_spelling(asked):
    assert verdict(["A.Example."], asked) == "allow"


@pytest.mark.parametrize(
    ("host", "port"),
    [("a.example", 80), ("a.example", 22), ("b.a.example", 443), ("example", 443), ("xa.example", 443)],
)
def test_a_grant_is_exact(host, port):
    assert verdict(["a.example"], host, port) == "deny"


def test_plain_http_is_granted_by_its_port_and_only_that():
    assert verdict(["a.example:80"], "a.example", 80) == "allow"
    assert verdict(["a.example:80"], "a.example", 443) == "deny"


def test_a_denial_tells_which_other_port_is_granted():
    reason = parse_grants(["a.example:80"]).decide(Target("a.example", 443)).reason
    assert "only its port 80" in reason


def test_a_set_grants_its_hosts_and_a_rule_names_the_set():
    policy = parse_grants(["python-packages"])
    ruling = policy.decide(Target("pypi.org", 443))
    assert (ruling.verdict.value, ruling.rule) == ("allow", "python-packages")
    assert policy.decide(Target("pypi.org", 80)).verdict is EgressVerdict.DENY


def test_a_set_wins_over_a_host_of_its_name_and_a_port_makes_it_the_host():
    assert Target("npm", 443) not in parse_grants(["npm"]).granted
    assert Target("npm", 443) in parse_grants(["npm:443"]).granted


@pytest.mark.parametrize("name", HOST_SETS)
def test_every_set_is_spelled_as_it_is_compared_and_has_only_web_ports(name):
    targets = HOST_SETS[name]
    assert targets
    assert all(normalise(target.host) == target.host and target.address is None for target in targets)
    assert {target.port for target in targets} <= {80, 443}
    assert len(set(targets)) == len(targets)


def test_plain_http_is_in_no_set_but_that_of_debian():
    assert {name for name, targets in HOST_SETS.items() if any(target.port == 80 for target in targets)} == {"debian"}


def test_a_mirror_stands_in_for_a_set_as_a_whole():
    sets = {**HOST_SETS, "python-packages": [Target("mirror.example", 8443)]}
    policy = parse_grants(["python-packages"], sets)
    assert set(policy.granted) == {Target("mirror.example", 8443)}
    assert "npm" in sets


def test_an_unknown_host_is_asked_about_only_when_asking_was_granted():
    assert verdict(["ask"], "a.example") == "ask"
    assert verdict(["ask", "a.example"], "a.example") == "allow"
    assert verdict([], "a.example") == "deny"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "169.254.169.254", "::1", "64:ff9b::7f00:1", "10.0.0.1"])
def test_nobody_is_asked_about_an_address_that_is_not_public(host):
    assert verdict(["ask"], host) == "deny"


def test_an_exact_address_and_port_opens_a_private_address_and_nothing_beside_it():
    policy = parse_grants(["10.0.0.5:5432"])
    assert policy.decide(Target("10.0.0.5", 5432)).verdict is EgressVerdict.ALLOW
    assert policy.decide(Target("10.0.0.5", 443)).verdict is EgressVerdict.DENY
    assert policy.refuse_address(ip_address("10.0.0.5"), 5432) is None
    assert policy.refuse_address(ip_address("10.0.0.5"), 443)
    assert policy.refuse_address(ip_address("10.0.0.6"), 5432)


def test_a_granted_name_opens_no_private_address():
    policy = parse_grants(["db.example:5432"])
    assert policy.refuse_address(ip_address("10.0.0.5"), 5432) == "a private network"


@pytest.mark.parametrize(
    "word",
    [
        "*.example",
        "https://a.example",
        "10.0.0.0/8",
        "a.example:*",
        "a.example:0",
        "",
        "0.0.0.0:80",
        "[ff02::1]:80",
        "255.255.255.255",
        "fe80::1%eth0",
    ],
)
def test_a_word_that_is_no_exact_grant_is_refused(word):
    with pytest.raises(ConfigurationError):
        parse_grants([word])


def test_all_wrong_words_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        parse_grants(["*.example", "a.example", "b.example:0"])
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("word", ["169.254.169.254", "169.254.169.254:80", "[fd00:ec2::254]:80", "0xa9fea9fe:80"])
def test_a_metadata_service_is_refused_as_a_grant_and_the_reason_is_told(word):
    with pytest.raises(ConfigurationError, match="hands out the machine's own credentials and cannot be granted"):
        parse_grants([word])


def test_a_mistyped_set_is_told_and_a_host_of_ones_own_network_is_not():
    with pytest.raises(ConfigurationError, match=r"Did you mean python-packages\?.*pyhton-packages:443"):
        parse_grants(["pyhton-packages"])
    words = ["pyhton-packages:443", "buildbox", "npm2", "pipy.org"]
    assert {target.host for target in parse_grants(words).granted} == {word.partition(":")[0] for word in words}


def test_ones_own_sets_count_when_a_word_is_mistyped():
    sets = {**HOST_SETS, "warehouse": [Target("a.example", 443)]}
    with pytest.raises(ConfigurationError, match="Did you mean warehouse"):
        parse_grants(["warehosue"], sets)
    assert set(parse_grants(["warehouse"], sets).granted) == {Target("a.example", 443)}
