"""The memory on a PostgreSQL server keeps every promise of a memory."""

from collections.abc import Iterator
from itertools import count

import pytest
from sqlalchemy import create_engine, text

from kagura_kernel.memory.postgres.store import PostgresMemory
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.memory import MemoryConformance
from kagura_kernel.testing.conformance.memory_rig import MemoryRig
from tests.support.postgres_network import postgres_server, why_not

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    if why := why_not():
        pytest.skip(why)
    with postgres_server() as running:
        yield running.new_database()


class TestPostgresMemory(MemoryConformance):
    """Each store has a schema of its own, for making a database takes a second."""

    @pytest.fixture
    def rig(self, database: str, request: pytest.FixtureRequest) -> Iterator[MemoryRig]:
        clock, numbers = FakeClock(), count()
        engine = create_engine(database, isolation_level="AUTOCOMMIT")
        names: list[str] = []

        def fresh() -> PostgresMemory:
            names.append(f"s{abs(hash(request.node.name)):x}_{next(numbers)}")
            with engine.connect() as connection:
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public"))
                connection.execute(text(f"CREATE SCHEMA {names[-1]}"))
            return again()

        def again() -> PostgresMemory:
            return PostgresMemory(f"{database}&options=-csearch_path%3D{names[-1]},public", clock=clock)

        rig = MemoryRig(clock, fresh, again)
        yield rig
        rig.close()
        engine.dispose()
