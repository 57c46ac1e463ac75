from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.journal.store import Journal
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail, JailStarter
from kagura_kernel.plugins.permissions import JailPlan
from kagura_kernel.plugins.sessions import JailOrder
from kagura_kernel.testing.box import FakeBackend
from tests.support.sample_plugin import sample_plugin

DECIDED = EgressDecided(
    run_id="",
    session_id="",
    at=datetime(2026, 1, 1, tzinfo=UTC),
    connection_id="c-1",
    host="example.org",
    port=443,
    allowed=True,
    plugin="greeter",
)


class Started:
    """What a jail was started with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arguments: tuple[Any, ...] = ()
        self.put_off: list[str] = []
        found, _ = sample_plugin()
        self.order = JailOrder("ses-1", found, JailPlan(), self.put_off.append)

        async def start(*arguments: Any) -> None:
            self.arguments = arguments

        monkeypatch.setattr(Jail, "start", start)

    @property
    def parts(self) -> JailParts:
        return self.arguments[-1]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    yield journal
    journal.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


async def test_a_jail_gets_the_very_bytes_and_the_plan_of_its_order(started: Started, journal: Journal) -> None:
    await JailStarter(JailParts(FakeBackend().start), journal)(started.order)
    name, content, manifest, plan, _ = started.arguments
    assert name == "greeter"
    assert content is started.order.found.content
    assert manifest is started.order.found.manifest
    assert plan is started.order.plan


async def test_its_connections_are_written_down_for_its_session(started: Started, journal: Journal) -> None:
    await JailStarter(JailParts(FakeBackend().start), journal)(started.order)
    started.parts.record_egress(DECIDED)
    (row,) = journal.events(session_id="ses-1")
    assert isinstance(row.event, EgressDecided)
    assert (row.event.plugin, row.event.host, row.event.run_id) == ("greeter", "example.org", "")


async def test_its_faults_put_its_own_plugin_off(started: Started, journal: Journal) -> None:
    await JailStarter(JailParts(FakeBackend().start), journal)(started.order)
    started.parts.failed("greeter", "it broke")
    assert started.put_off == ["it broke"]


async def test_a_database_is_put_into_it_for_its_plugin_and_session(started: Started, journal: Journal) -> None:
    asked: list[tuple[Any, ...]] = []

    async def serve(*about: Any) -> int:
        asked.append(about)
        return 5432

    await JailStarter(JailParts(FakeBackend().start), journal, serve)(started.order)
    box, service = object(), object()
    assert await started.parts.open_service(box, service) == 5432  # type: ignore[arg-type]
    ((given_box, given_service, plugin, session, record),) = asked
    assert (given_box, given_service, plugin, session) == (box, service, "greeter", "ses-1")
    record(DECIDED)
    assert len(journal.events(session_id="ses-1")) == 1


async def test_where_nobody_can_sign_in_to_databases_no_jail_has_one(started: Started, journal: Journal) -> None:
    await JailStarter(JailParts(FakeBackend().start), journal)(started.order)
    backend = FakeBackend()
    try:
        from kagura_kernel.membrane.postgres.service import parse_url
        from kagura_kernel.sandbox.backend import BoxSpec

        box = await backend.start(BoxSpec())
        with pytest.raises(SandboxUnsupported, match=r"db\.example\.org"):
            await started.parts.open_service(box, parse_url("postgresql://ada@db.example.org/x"))
    finally:
        await backend.close()
