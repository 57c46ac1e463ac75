"""A cockpit whose brains and boxes are fakes, and whose journal, desk and engine are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.brain.recording import RecordingBrain
from kagura_kernel.brain.replay import open_cassette
from kagura_kernel.brain.selection import choose
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.cockpit.ordering import Choices
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import session_last_brain_session
from kagura_kernel.membrane.credentials.grants import parse_grant
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.membrane.credentials.terms import lease_terms
from kagura_kernel.membrane.egress.resolving import Resolver, SystemResolver
from kagura_kernel.membrane.leasing import check_grants
from kagura_kernel.membrane.mounts import check_project
from kagura_kernel.membrane.parts import MembraneParts
from kagura_kernel.runs.order import LaunchedBox
from kagura_kernel.runs.prices import price
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend


def fake_cockpit(
    home: Path,
    *,
    backend: SandboxBackend,
    brains: Sequence[BrainProvider] = (),
    settings: Settings | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    resolver: Callable[[], Resolver] = SystemResolver,
) -> Cockpit:
    """A cockpit on a journal in `home`; the caller closes it.

    Args:
        home: Data directory; made when needed.
        backend: Where boxes come from, whatever `--box` says.
        brains: What `--brain` may name.
        settings: The user's.
        clock: The time.
        registry: Credential providers.
        resolver: Makes what turns names into addresses.
    """
    clock = clock or SystemClock()
    journal = Journal.open(home, clock=clock)
    settings = settings or Settings()
    providers = registry or Registry()
    by_name = {brain.name: brain for brain in brains}

    async def start_box(name: str, spec: BoxSpec) -> LaunchedBox:
        del name
        return LaunchedBox(await backend.start(spec), "the test says so")

    async def probe() -> tuple[Sequence[PartStatus], Sequence[PartStatus]]:
        found = await backend.probe()
        signed = [(brain.name, brain.resolve_auth()) for brain in brains]
        return [PartStatus(backend.name, found.ok, found.reason)], [PartStatus(n, a.ready, a.reason) for n, a in signed]

    choices = Choices(
        settings=settings,
        boxes=(backend.name,),
        choose_brain=lambda name: choose(name, by_name),
        replay=open_cassette,
        record=RecordingBrain,
        check_project=lambda path: check_project(path, home=None, private=[home]),
        resume=lambda session_id, brain: session_last_brain_session(journal, session_id, brain=brain),
        owner=process_owner(),
        check_credentials=lambda grants: check_grants(grants, providers),
    )
    return Cockpit(
        CockpitParts(
            journal=journal,
            clock=clock,
            choices=choices,
            start_box=start_box,
            probe=probe,
            close_boxes=backend.close,
            price=price,
            home=home,
            membrane=MembraneParts(
                LeaseLedger(journal),
                lambda: providers,
                lease_terms(settings),
                frozenset(map(parse_grant, settings.preapproved_grants)),
                resolver=resolver,
            ),
        )
    )
