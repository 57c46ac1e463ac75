"""Settings become parts, and parts one cockpit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.brains import BRAIN_SETTINGS, Prices, make_brains
from kagura_kernel.assembly.children import AllChildren, Owners, close_each
from kagura_kernel.assembly.extensions import brain_chooser, extension_status, tool_makers
from kagura_kernel.assembly.kits import kit_parts, make_kits, read_mcp_config, resolve_for
from kagura_kernel.assembly.memories import COSTS, TASKS, LazyMemory, lazy_events
from kagura_kernel.assembly.places import project_checker, redactor_of
from kagura_kernel.assembly.plugins import make_plugins
from kagura_kernel.assembly.process import get_cockpit
from kagura_kernel.assembly.settings import kept_registry, load_settings, open_telemetry, telemetry_status
from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.cockpit.lease_sweep import Sweep
from kagura_kernel.cockpit.orders import Choices
from kagura_kernel.cockpit.resumption import checkpoint_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.former_names import former_variables
from kagura_kernel.domain.settings import mistyped_variables
from kagura_kernel.domain.variables import kernel_of
from kagura_kernel.journal.checkpoints import drop_old, named_contents
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.lost_runs import mark_lost
from kagura_kernel.journal.moves import called_now, moves
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import known_cells, notebook_session, session_conversation, unfinished
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.lease import lease_terms, parse_grant
from kagura_kernel.membrane.credentials.revoke import Settler, keep_sweeping
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.membrane.run_leases import check_grants
from kagura_kernel.runs.git_places import GitPlaces
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.sandbox.output import prune_spilled

if TYPE_CHECKING:
    from datetime import datetime

    from kagura_kernel.domain.cost import Usage
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.membrane.credentials.registry import Registry
    from kagura_kernel.membrane.credentials.revoke import SweepReport
    from kagura_kernel.telemetry.telemetry import Telemetry

__all__ = ["get_cockpit", "make_cockpit", "make_sweep"]


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
    return join(_Services(environ, clock or SystemClock(), brains, one_run=one_run).parts())


class _Services:
    """The concrete parts of one process, by its settings and environment."""

    def __init__(
        self, environ: Mapping[str, str], clock: Clock, brains: Sequence[BrainProvider] | None, *, one_run: bool
    ) -> None:
        from kagura_kernel.memory.location import check_place

        self.environ, self.clock, self.one_run = environ, clock, one_run
        self.settings = settings = load_settings(environ)
        check_place(settings.memory)
        self.costs, self.tasks = lazy_events(environ, settings, COSTS), lazy_events(environ, settings, TASKS)
        self.home = data_home(environ)
        self.owner = process_owner()
        named = make_brains(environ, settings, self.home) if brains is None else {brain.name: brain for brain in brains}
        self.brains = named
        self.named = brains is not None
        self.boxes = Boxes(environ, settings, self.owner, one_run=one_run)
        self.registry = kept_registry(environ)
        terms, preapproved = lease_terms(settings), frozenset(map(parse_grant, settings.preapproved_grants))
        self.journal = Journal.open(settings.journal_url or self.home, clock=clock)
        # A journal elsewhere makes no folder here, and what lies in it would make it for everybody to read. Whoever
        # cannot write there says so.
        with suppress(OSError):
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.telemetry = open_telemetry(settings, self.home)
        if self.telemetry is not None:
            self.journal.listen(self.telemetry.take)
        self.ledger, self.lost = _tidied(self.journal, self.home, clock)
        self.membrane = MembraneParts(self.ledger, self.registry, terms, preapproved)
        self.kits = make_kits(environ, settings, clock=clock)
        self.memory = LazyMemory(environ, settings, self.home, clock)
        self.owners = Owners()
        self.children = AllChildren(self.journal, self.home, clock, self.owners)

    def choices(self) -> Choices:
        """What orders are put together from."""
        journal, check = self.journal, project_checker(self.environ, self.home)
        return Choices(
            settings=self.settings,
            boxes=self.boxes.names,
            broken_boxes=self.boxes.broken,
            choose_brain=brain_chooser(self.brains),
            replay=_replay,
            record=partial(_record, self.home),
            check_project=check,
            conversation=lambda session_id, brain: session_conversation(journal, session_id, brain=brain),
            known_cells=partial(known_cells, journal),
            owner=self.owner,
            check_credentials=lambda grants: check_grants(grants, self.registry()),
            resolve_agent=resolve_for(self.kits),
            read_mcp_config=partial(read_mcp_config, self.home),
            git_places=lambda project: GitPlaces(project, self.environ),
            checkpoint=partial(checkpoint_of, journal, check_project=check),
        )

    def parts(self) -> CockpitParts:
        """What a cockpit is joined from."""
        settings, home, clock, boxes = self.settings, self.home, self.clock, self.boxes
        memory, costs, telemetry, owners = self.memory, self.costs, self.telemetry, self.owners
        return CockpitParts(
            journal=self.journal,
            clock=clock,
            choices=self.choices(),
            start_box=boxes.start,
            probe=partial(_probe, boxes, self.brains.values()),
            close_boxes=partial(close_each, self.children.close, boxes.close),
            price=self._price,
            home=home,
            membrane=self.membrane,
            sweep=make_sweep(self.ledger, self.registry, self.owner, clock, owners.alive),
            sweep_boxes=boxes.sweep,
            one_run=self.one_run,
            lost=self.lost,
            shared=boxes.shared,
            kits=self.kits,
            kit_parts=kit_parts(self.kits),
            redactor=redactor_of(home),
            memory=memory,
            close_memory=partial(_close_all, *(one.close for one in (memory, costs, self.tasks) if one is not None)),
            push_cost=costs,
            push_task=self.tasks,
            make_children=self.children.of,
            alive=owners.alive,
            tools=tool_makers(settings),
            reread=self._reread,
            others=partial(_others, telemetry, self.environ),
            close_others=_nothing if telemetry is None else telemetry.close,
            own_session=self._own_session,
            make_plugins=lambda: make_plugins(self.environ, home, settings, self.journal, clock, self.owner, boxes),
        )

    def _price(self, usage: Usage, model: str, at: datetime) -> tuple[float | None, str]:
        return Prices(self.settings).price(usage, model, at)

    def _own_session(self) -> str:
        """The session of the notebook that this kernel belongs to, whatever it is called by now."""
        app = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
        kernel_id = kernel_of(app.instance().connection_file) if app is not None and app.initialized() else ""
        notebook = self.environ.get("JPY_SESSION_NAME", "")
        known = moves(self.journal) if kernel_id and notebook else ()
        return notebook_session(self.journal, called_now(known, notebook, kernel_id=kernel_id))

    def _reread(self) -> Settings:
        """The settings with what the file says of brains now; all else stays what it was when the process began."""
        fresh = load_settings(self.environ)
        about = {name: getattr(fresh, name) for name in BRAIN_SETTINGS}
        self.settings = replace(self.settings, **about)
        if self.named:
            return self.settings
        # In place: whoever chooses among them holds the same table.
        self.brains.update(make_brains(self.environ, self.settings, self.home))
        return self.settings


def _tidied(journal: Journal, home: Path, clock: Clock) -> tuple[LeaseLedger, tuple[str, ...]]:
    """Remove what earlier processes left in the data directory; every credential, and the runs that were lost.

    Raises:
        JournalError: the journal cannot be used, and was closed.
    """
    try:
        ledger = LeaseLedger(journal)
        lost = tuple(mark_lost(journal, clock))
        drop_old(journal)
        BlobStore(home / "blobs").prune(keep=lambda: named_contents(journal))
        prune_spilled(home / "outputs", lambda: [run.run_id for run in unfinished(journal)])
    except BaseException:
        journal.close()
        raise
    return ledger, lost


async def _probe(boxes: Boxes, brains: Iterable[BrainProvider]) -> tuple[Sequence[PartStatus], Sequence[PartStatus]]:
    signed = [(brain.name, brain.resolve_auth()) for brain in brains]
    return await boxes.probe(), [PartStatus(name, auth.ready, auth.reason) for name, auth in signed]


def _others(telemetry: Telemetry | None, environ: Mapping[str, str]) -> list[PartStatus]:
    told = telemetry_status(telemetry)
    former = [PartStatus("kagura-agent", ok=False, reason=one) for one in former_variables(environ)]
    mistyped = [PartStatus("variable", ok=False, reason=one) for one in mistyped_variables(environ)]
    return [*([] if told is None else [told]), *extension_status(), *former, *mistyped]


def _nothing() -> None:
    return None


def _close_all(*closing: Callable[[], None]) -> None:
    for close in closing:
        close()


def make_sweep(
    ledger: LeaseLedger, registry: Callable[[], Registry], owner: str, clock: Clock, alive: Callable[[str], bool]
) -> Sweep:
    """What gives back the credentials that no run holds any more."""

    async def sweeping(told: Callable[[SweepReport], None]) -> None:
        await keep_sweeping(lambda: Settler(ledger, registry().providers, owner, alive, clock=clock), told)

    return sweeping


def _replay(path: Path) -> tuple[BrainProvider, str]:
    from kagura_kernel.brain.replay import open_cassette

    return open_cassette(path)


def _record(home: Path, brain: BrainProvider, path: Path) -> BrainProvider:
    from kagura_kernel.brain.replay import RecordingBrain

    return RecordingBrain(brain, path, Redacting(redactor_of(home)).value)
