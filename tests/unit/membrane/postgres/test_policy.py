from ipaddress import ip_address

import pytest

from kagura_kernel.membrane.egress.hosts import Target
from kagura_kernel.membrane.egress.policy import EgressVerdict
from kagura_kernel.membrane.postgres.port import ServicePolicy

PLACE = Target("db.example", 5432)


def policy(*, private: bool = True) -> ServicePolicy:
    return ServicePolicy(PLACE, private, "plugin sql-read")


def test_the_database_is_granted_and_nothing_else():
    assert policy().decide(PLACE).verdict is EgressVerdict.ALLOW
    assert policy().decide(PLACE).rule == "plugin sql-read"
    for other in (Target("db.example", 5433), Target("x.db.example", 5432), Target("10.0.0.5", 5432)):
        assert policy().decide(other).verdict is EgressVerdict.DENY


@pytest.mark.parametrize("address", ["10.0.0.5", "127.0.0.1", "::1", "192.168.1.1", "fd00::5", "100.64.0.1"])
def test_a_private_address_is_reached_only_where_a_person_typed_the_url(address):
    assert policy().refuse_address(ip_address(address), 5432) is None
    assert policy(private=False).refuse_address(ip_address(address), 5432)


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0", "224.0.0.1", "ff02::1"])
def test_what_nobody_can_mean_stays_refused(address, private):
    assert policy(private=private).refuse_address(ip_address(address), 5432)


def test_an_address_of_the_public_network_is_reached():
    assert policy(private=False).refuse_address(ip_address("93.184.216.34"), 5432) is None
