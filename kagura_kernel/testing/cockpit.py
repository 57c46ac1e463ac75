"""A cockpit whose brains and boxes are fakes, and whose journal, desk and engine are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kagura_kernel.assembly import make_sweep
from kagura_kernel.assembly.children import AllChildren, Owners, close_each
from kagura_kernel.assembly.kits import kit_parts, read_mcp_config, resolve_for
from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.brain.provider import BrainProvider, choose
from kagura_kernel.brain.replay import RecordingBrain, open_cassette
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.cockpit.kits import KitDesk, KitServices
from kagura_kernel.cockpit.orders import Choices
from kagura_kernel.cockpit.resumption import checkpoint_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import NotThisTime
from kagura_kernel.domain.policy import HOST
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import known_cells, session_conversation
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.membrane.credentials.lease import lease_terms, parse_grant
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.membrane.egress.gate import Resolver, SystemResolver
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.membrane.project import check_project
from kagura_kernel.membrane.run_leases import check_grants
from kagura_kernel.memory.store import MemoryStore
from kagura_kernel.plugins.decisions import ApprovalBook, QuarantineBook, TrustBook
from kagura_kernel.plugins.library import ManagerParts
from kagura_kernel.plugins.manager import PluginManager
from kagura_kernel.plugins.manifest import plugin_places
from kagura_kernel.plugins.sessions import StartJail
from kagura_kernel.runs.order import Price
from kagura_kernel.runs.prices import price
from kagura_kernel.runtime.host_box import HostBackend
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend
from kagura_kernel.sandbox.selection import LaunchedBox
from kagura_kernel.testing.redaction import BlindRedactor


def fake_cockpit(  # noqa: PLR0913 - a cockpit has as many parts
    home: Path,
    *,
    backend: SandboxBackend,
    brains: Sequence[BrainProvider] = (),
    settings: Settings | None = None,
    clock: Clock | None = None,
    registry: Registry | None = None,
    resolver: Callable[[], Resolver] = SystemResolver,
    start_jail: StartJail | None = None,
    redactor: Redactor | None = None,
    memory: MemoryStore | None = None,
    prices: Price = price,
    sweeps: bool = False,
    join: Callable[[CockpitParts], Cockpit] = Cockpit,
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
        start_jail: Makes the jails of plugins; None leaves plugins out.
        redactor: Takes secrets out; None finds none, and stages no kits.
        memory: What is remembered; None leaves that out.
        prices: What tokens cost.
        sweeps: Whether it gives back what processes that are gone have left.
        join: Makes the cockpit of its parts.
    """
    clock, settings, providers = clock or SystemClock(), settings or Settings(), registry or Registry()
    journal = Journal.open(settings.journal_url or home, clock=clock)
    owners = Owners()
    ledger = LeaseLedger(journal)
    children = AllChildren(journal, home, clock, owners)
    kits, choices = _kits_and_choices(home, journal, settings, backend, brains, providers, redactor, clock)
    return join(
        CockpitParts(
            journal=journal,
            clock=clock,
            choices=choices,
            start_box=partial(_start_box, backend),
            probe=partial(_probe, backend, brains),
            close_boxes=partial(close_each, children.close, backend.close),
            price=prices,
            home=home,
            membrane=_membrane(ledger, providers, settings, resolver),
            kits=kits,
            kit_parts=None if redactor is None else kit_parts(kits),
            redactor=redactor or BlindRedactor(),
            memory=None if memory is None else lambda: memory,
            sweep=make_sweep(ledger, lambda: providers, choices.owner, clock, owners.alive)
            if sweeps
            else _sweep_nothing,
            make_children=children.of,
            alive=owners.alive,
            make_plugins=lambda: _plugins(home, journal, clock, settings, choices.owner, start_jail),
            reread=lambda: settings,
        )
    )


async def _sweep_nothing(_: object) -> None:
    pass


def _kits_and_choices(
    home: Path,
    journal: Journal,
    settings: Settings,
    backend: SandboxBackend,
    brains: Sequence[BrainProvider],
    providers: Registry,
    redactor: Redactor | None,
    clock: Clock,
) -> tuple[KitDesk, Choices]:
    by_name = {brain.name: brain for brain in brains}
    check = partial(check_project, home=None, private=[home])
    environ = {"HOME": str(home / "person"), "KAGURA_HOME": str(home), "KAGURA_CONFIG": str(home / "config.toml")}
    kits = KitDesk(KitServices(settings, environ, home, clock, check, lambda: redactor or redactor_of(home)))
    return kits, Choices(
        settings=settings,
        boxes=(backend.name,),
        choose_brain=lambda name: choose(name, by_name),
        replay=open_cassette,
        record=lambda brain, path: RecordingBrain(brain, path, (redactor or BlindRedactor()).fields),
        check_project=check,
        conversation=lambda session_id, brain: session_conversation(journal, session_id, brain=brain),
        known_cells=partial(known_cells, journal),
        owner=process_owner(),
        check_credentials=lambda grants: check_grants(grants, providers),
        resolve_agent=resolve_for(kits),
        read_mcp_config=partial(read_mcp_config, home),
        checkpoint=partial(checkpoint_of, journal, check_project=check),
    )


def _membrane(
    ledger: LeaseLedger, providers: Registry, settings: Settings, resolver: Callable[[], Resolver]
) -> MembraneParts:
    preapproved = frozenset(map(parse_grant, settings.preapproved_grants))
    return MembraneParts(ledger, lambda: providers, lease_terms(settings), preapproved, resolver=resolver)


async def _start_box(backend: SandboxBackend, name: str, spec: BoxSpec) -> LaunchedBox:
    if name == HOST or not spec.policy.walled:
        return LaunchedBox(await HostBackend().start(spec), "the settings say so")
    return LaunchedBox(await backend.start(spec), "the test says so")


async def _probe(
    backend: SandboxBackend, brains: Sequence[BrainProvider]
) -> tuple[Sequence[PartStatus], Sequence[PartStatus]]:
    found = await backend.probe()
    signed = [(brain.name, brain.resolve_auth()) for brain in brains]
    return [PartStatus(backend.name, found.ok, found.reason)], [PartStatus(n, a.ready, a.reason) for n, a in signed]


def _plugins(
    home: Path, journal: Journal, clock: Clock, settings: Settings, owner: str, start_jail: StartJail | None
) -> PluginManager:
    if start_jail is None:
        raise NotThisTime("There are no plugins here.")
    return PluginManager(
        ManagerParts(
            journal=journal,
            clock=clock,
            owner=owner,
            places=partial(plugin_places, home),
            person=None,
            private=(home,),
            approvals=ApprovalBook(home / "approved-plugins.json", clock),
            quarantine=QuarantineBook(home / "quarantined-plugins.json", clock),
            trust=TrustBook(home / "trusted-authors.json"),
            start_jail=start_jail,
            max_risk=settings.plugin_max_risk,
        )
    )
