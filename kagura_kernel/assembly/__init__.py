"""Settings become parts, and parts one cockpit: the only room that names concrete back-ends and brains."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.brains import BRAINS, Prices, check_endpoints, make_brains
from kagura_kernel.assembly.children import Owners, all_children, close_each
from kagura_kernel.assembly.extensions import brain_chooser, brain_extensions, extension_status, tool_makers
from kagura_kernel.assembly.kits import kit_parts, make_kits, read_mcp_config, redactor_of, resolve_for
from kagura_kernel.assembly.logs import check_log, open_log
from kagura_kernel.assembly.memories import LazyMemory, check_memory, lazy_costs
from kagura_kernel.assembly.places import project_checker
from kagura_kernel.assembly.plugins import make_plugins
from kagura_kernel.assembly.telemetry import check_telemetry, open_telemetry, telemetry_status
from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.cockpit.ordering import Choices
from kagura_kernel.cockpit.resuming import checkpoint_of
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.cockpit.sweeping import Sweep
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.settings import Problem, Settings, parse_settings
from kagura_kernel.journal.checkpoints import drop_old, named_contents
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import mark_lost, process_owner
from kagura_kernel.journal.place import data_home, read_settings, settings_file, text_of
from kagura_kernel.journal.store import Journal
from kagura_kernel.journal.views import session_last_brain_session
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.lease import Grant, lease_terms, parse_grant
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.membrane.leasing import check_grants
from kagura_kernel.membrane.settings import check_settings
from kagura_kernel.sandbox.output import prune_spilled

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.provider import CredentialProvider
    from kagura_kernel.membrane.credentials.registry import Registry
    from kagura_kernel.membrane.credentials.revoke import SweepReport
    from kagura_kernel.runs.git_places import GitPlaces
    from kagura_kernel.telemetry.logs import StructuredLog

_lock = threading.Lock()
_cockpit: Cockpit | None = None
_log: StructuredLog | None = None
_maker: Callable[[Mapping[str, str]], Cockpit] | None = None


def get_cockpit(*, one_run: bool = False) -> Cockpit:
    """The cockpit of this process, made on first use from the user's settings and this environment.

    Args:
        one_run: As `make_cockpit` has it, for the one that is made now.

    Raises:
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    global _cockpit, _log  # noqa: PLW0603 - one cockpit per process is the point
    with _lock:
        if _cockpit is None:
            log = open_log(load_settings(os.environ), data_home(os.environ))
            try:
                _cockpit = (_maker or partial(make_cockpit, one_run=one_run))(os.environ)
            except BaseException:
                log.close()
                raise
            _log = log
            _close_before_threads_end()
            # The first run waits for the rules of redaction; they are ready by then if they are begun now.
            redactor_of(data_home(os.environ)).warm()
        return _cockpit


def close_cockpit() -> None:
    """Stop and free everything that `get_cockpit` made; may be called twice, and a later use makes a new one."""
    global _cockpit, _log
    with _lock:
        cockpit, _cockpit = _cockpit, None
        log, _log = _log, None
    if cockpit is not None:
        cockpit.close()
    if log is not None:
        log.close()


def use_cockpit(make: Callable[[Mapping[str, str]], Cockpit] | None) -> None:
    """Have `get_cockpit` make this process's cockpit so from now on; the one that is there is closed.

    Args:
        make: Makes it of an environment; None goes back to `make_cockpit`.
    """
    global _maker  # noqa: PLW0603 - one cockpit per process is the point
    close_cockpit()
    with _lock:
        _maker = make


@cache
def _close_before_threads_end() -> None:
    # Closing needs executors, which are shut before ordinary exit functions run. Hooks of `threading` run earlier, the
    # latest first, so the executors' own hook has to be there before ours.
    import concurrent.futures.thread  # noqa: F401

    register = getattr(threading, "_register_atexit", atexit.register)
    register(close_cockpit)


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The user's settings: `KAGURA_CONFIG` or the usual place for configuration, overridden by `KAGURA_…` variables.

    Where memories are kept is looked at by who needs it: one that cannot be had is `MemoryUnavailable`, whatever the
    reason.

    Raises:
        ConfigurationError: with every problem.
    """
    return read_settings(environ, _problems)


def check_settings_text(text: str, source: str) -> None:
    """Return when a file of settings with this text would be right, whatever variables say.

    Args:
        text: TOML.
        source: Where it is to stand, for errors.

    Raises:
        ConfigurationError: with every problem.
    """
    parse_settings(text, {}, source, lambda settings: [*_problems(settings), *check_memory(settings)])


def _problems(settings: Settings) -> list[Problem]:
    problems = [
        *check_settings(settings),
        *check_endpoints(settings),
        *check_telemetry(settings),
        *check_log(settings),
    ]
    if settings.transports:
        from kagura_kernel.assembly.transports import check_transports

        problems += check_transports(settings)
    return problems


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


def load_registry(environ: Mapping[str, str]) -> Registry:
    """The user's credential providers, from `credentials.toml` beside the settings; empty where there is none.

    Raises:
        ConfigurationError: with every problem; values are never repeated.
    """
    path = settings_file(environ).with_name("credentials.toml")
    from kagura_kernel.membrane.credentials.registry import Registry, parse_registry

    if not path.exists():
        return Registry(source=str(path))
    from kagura_kernel.membrane.credentials.secret import SecretReader

    return parse_registry(text_of(path), SecretReader(environ), str(path))


def kept_registry(environ: Mapping[str, str]) -> Callable[[], Registry]:
    """Reads the credential providers when they are first needed, and anew when their file has changed since.

    What is made raises as `load_registry`, for as long as the file is wrong.
    """
    path = settings_file(environ).with_name("credentials.toml")

    @lru_cache(maxsize=1)
    def read(stamp: tuple[int, ...]) -> Registry:
        del stamp
        return load_registry(environ)

    def registry() -> Registry:
        try:
            found = path.stat()
        except OSError:
            return read(())
        return read((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))

    return registry


def load_providers(environ: Mapping[str, str]) -> Mapping[str, CredentialProvider]:
    """Where the user's credentials come from, by name; raises as `load_registry`."""
    return load_registry(environ).providers


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


def brain_names() -> tuple[str, ...]:
    """What `--brain` takes."""
    from kagura_kernel.brain.selection import AUTO, REPLAY

    return (AUTO, *BRAINS, *brain_extensions(), REPLAY)


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
