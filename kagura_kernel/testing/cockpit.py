"""A cockpit whose brains and boxes are fakes, and whose journal, desk and engine are real."""

from __future__ import annotations

from collections.abc import Sequence
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
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import session_last_brain_session
from kagura_kernel.membrane.mounts import check_project
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
) -> Cockpit:
    """A cockpit on a journal in `home`; the caller closes it.

    Args:
        home: Data directory; made when needed.
        backend: Where boxes come from, whatever `--box` says.
        brains: What `--brain` may name.
        settings: The user's.
        clock: The time.
    """
    clock = clock or SystemClock()
    journal = Journal.open(home, clock=clock)
    by_name = {brain.name: brain for brain in brains}

    async def start_box(name: str, spec: BoxSpec) -> LaunchedBox:
        del name
        return LaunchedBox(await backend.start(spec), "the test says so")

    async def probe() -> tuple[Sequence[PartStatus], Sequence[PartStatus]]:
        found = await backend.probe()
        signed = [(brain.name, brain.resolve_auth()) for brain in brains]
        return [PartStatus(backend.name, found.ok, found.reason)], [PartStatus(n, a.ready, a.reason) for n, a in signed]

    choices = Choices(
        settings=settings or Settings(),
        boxes=(backend.name,),
        choose_brain=lambda name: choose(name, by_name),
        replay=open_cassette,
        record=RecordingBrain,
        check_project=lambda path: check_project(path, home=None, private=[home]),
        resume=lambda session_id, brain: session_last_brain_session(journal, session_id, brain=brain),
        owner=process_owner(),
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
        )
    )
