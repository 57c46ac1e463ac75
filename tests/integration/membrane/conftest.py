from collections.abc import Iterator

import pytest

from tests.support.postgres_network import NetworkPostgres, postgres_network


@pytest.fixture(scope="module")
def server() -> Iterator[NetworkPostgres]:
    with postgres_network() as running:
        yield running
