"""Settings become parts, and parts one cockpit: the only room that names concrete back-ends and brains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.brains import Prices, make_brains
from kagura_kernel.assembly.children import Owners, all_children, close_each
from kagura_kernel.assembly.extensions import brain_chooser, brain_names, extension_status, tool_makers
from kagura_kernel.assembly.kits import kit_parts, make_kits, read_mcp_config, resolve_for
from kagura_kernel.assembly.memories import LazyMemory, lazy_costs
from kagura_kernel.assembly.places import project_checker, redactor_of
from kagura_kernel.assembly.plugins import make_plugins
from kagura_kernel.assembly.process import close_cockpit, get_cockpit, set_root, use_cockpit
from kagura_kernel.assembly.registry import kept_registry, load_providers, load_registry
from kagura_kernel.assembly.settings import check_settings_text, load_settings
from kagura_kernel.assembly.telemetry import open_telemetry, telemetry_status
from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.cockpit.ordering import Choices
from kagura_kernel.cockpit.resuming import checkpoint_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.cockpit.sweeping import Sweep
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.checkpoints import drop_old, named_contents
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import mark_lost, process_owner
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import session_last_brain_session
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.lease import Grant, lease_terms, parse_grant
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.membrane.leasing import check_grants
from kagura_kernel.sandbox.output import prune_spilled

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.registry import Registry
    from kagura_kernel.membrane.credentials.revoke import SweepReport
    from kagura_kernel.runs.git_places import GitPlaces

__all__ = [
    "brain_names",
    "check_settings_text",
    "close_cockpit",
    "get_cockpit",
    "kept_registry",
    "load_providers",
    "load_registry",
    "load_settings",
    "make_cockpit",
    "make_sweep",
    "use_cockpit",
]


def make_cockpit(
    environ: Mapping[str, str],
    *,
    clock: Clock | None = None,
    brains: Sequence[BrainProvider] | None = None,
    join: Callable[[CockpitParts], Cockpit] = Cockpit,
    one_run: bool = False,
) -> Cockpit:
    """A cockpit of its own, for programs and tests; the caller closes it.

    Args:
        environ: Where its settings come from.
        clock: The time; None is the system's.
        brains: The only ones there are; None for those that the settings and the environment name.
        join: Makes the cockpit of its parts.
        one_run: Whether it is there for one run, after which its process ends: no box waits for another.

    Raises:
        ConfigurationError: the settings are wrong.
        IsolationTooWeak: others share this machine, and no back-end here is strong enough for that.
        JournalError: the journal cannot be used.
        MemoryUnavailable: the settings name no place where memories can be kept.
    """
    from kagura_kernel.memory.opening import check_place

    clock = clock or SystemClock()
    settings = load_settings(environ)
    check_place(settings.memory)
    costs = lazy_costs(environ, settings)
    home = data_home(environ)
    owner = process_owner()
    known = make_brains(environ, settings, home) if brains is None else {brain.name: brain for brain in brains}
    boxes = Boxes(environ, settings, owner, one_run=one_run)
    registry = kept_registry(environ)
    terms = lease_terms(settings)
    preapproved = _preapproved(settings)
    journal = Journal.open(settings.journal_url or home, clock=clock)
    telemetry = open_telemetry(settings, home)
    if telemetry is not None:
        journal.listen(telemetry.take)
    try:
        ledger = LeaseLedger(journal)
        lost = tuple(mark_lost(journal, clock))
        drop_old(journal)
        BlobStore(home / "blobs").prune(keep=lambda: named_contents(journal))
        prune_spilled(home / "outputs")
    except BaseException:
        journal.close()
        raise

    def others() -> list[PartStatus]:
        told = telemetry_status(telemetry)
        return [*([] if told is None else [told]), *extension_status()]

    async def probe() -> tuple[Sequence[PartStatus], Sequence[PartStatus]]:
        signed = [(brain.name, brain.resolve_auth()) for brain in known.values()]
        return await boxes.probe(), [PartStatus(name, auth.ready, auth.reason) for name, auth in signed]

    kits = make_kits(environ, settings, clock=clock)
    check = project_checker(environ, home)
    memory = LazyMemory(environ, settings, home, clock)
    owners = Owners()
    children = all_children(journal, home, clock, owners)
    choices = Choices(
        settings=settings,
        boxes=boxes.names,
        choose_brain=brain_chooser(known),
        replay=_replay,
        record=partial(_record, home),
        check_project=check,
        resume=lambda session_id, brain: session_last_brain_session(journal, session_id, brain=brain),
        owner=owner,
        check_credentials=lambda grants: check_grants(grants, registry()),
        resolve_agent=resolve_for(kits),
        read_mcp_config=partial(read_mcp_config, home),
        git_places=partial(_git_places, environ),
        checkpoint=partial(checkpoint_of, journal, check_project=check),
    )
    return join(
        CockpitParts(
            journal=journal,
            clock=clock,
            choices=choices,
            start_box=boxes.start,
            probe=probe,
            close_boxes=partial(close_each, children.close, boxes.close),
            price=Prices(settings).price,
            home=home,
            membrane=MembraneParts(ledger, registry, terms, preapproved),
            sweep=make_sweep(ledger, registry, owner, clock, owners.alive),
            sweep_boxes=boxes.sweep,
            lost=lost,
            shared=boxes.shared,
            kits=kits,
            kit_parts=kit_parts(kits),
            redactor=redactor_of(home),
            memory=memory,
            close_memory=memory.close if costs is None else partial(_close_all, memory.close, costs.close),
            push_cost=costs,
            make_children=children.of,
            alive=owners.alive,
            tools=tool_makers(settings),
            others=others,
            close_others=_nothing if telemetry is None else telemetry.close,
            make_plugins=lambda: make_plugins(environ, home, settings, journal, clock, owner, boxes),
        )
    )


def _nothing() -> None:
    return None


def _close_all(*closing: Callable[[], None]) -> None:
    for close in closing:
        close()


def _preapproved(settings: Settings) -> frozenset[Grant]:
    return frozenset(map(parse_grant, settings.preapproved_grants))


def make_sweep(
    ledger: LeaseLedger, registry: Callable[[], Registry], owner: str, clock: Clock, alive: Callable[[str], bool]
) -> Sweep:
    """What gives back the credentials that no run holds any more.

    Args:
        ledger: Every credential.
        registry: Reads the providers.
        owner: This process.
        clock: The time.
        alive: Whether a process may still be there.
    """

    async def sweeping(told: Callable[[SweepReport], None]) -> None:
        from kagura_kernel.membrane.credentials.revoke import keep_sweeping, sweep

        await keep_sweeping(lambda: sweep(ledger, registry().providers, alive, owner=owner, clock=clock), clock, told)

    return sweeping


def _replay(path: Path) -> tuple[BrainProvider, str]:
    from kagura_kernel.brain.replay import open_cassette

    return open_cassette(path)


def _git_places(environ: Mapping[str, str], project: Path) -> GitPlaces:
    from kagura_kernel.runs.git_places import GitPlaces

    return GitPlaces(project, environ)


def _record(home: Path, brain: BrainProvider, path: Path) -> BrainProvider:
    from kagura_kernel.brain.recording import RecordingBrain
    from kagura_kernel.runs.redacting import Redacting

    return RecordingBrain(brain, path, Redacting(redactor_of(home)).value)


set_root(make_cockpit)
