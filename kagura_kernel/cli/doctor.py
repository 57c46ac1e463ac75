"""`kagura-kernel doctor`: looks at everything that a run needs and at every tripwire; changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.settings import load_settings
from kagura_kernel.cli.doctor_rows import (
    FAIL,
    MEMORY,
    OK,
    SANDBOX,
    WARN,
    Finding,
    State,
    brains,
    chats,
    data_directory,
    disk,
    egress_rules,
    extension_findings,
    jupyter,
    laid_out,
    secret_places,
    settings_place,
    shared_settings,
    usual_agent,
    without_box,
)
from kagura_kernel.cli.journal_access import place_of
from kagura_kernel.cli.output import for_terminal, paragraph, tell, terminal_width
from kagura_kernel.domain import errors
from kagura_kernel.domain.clock import read_time
from kagura_kernel.domain.former_names import former_variables
from kagura_kernel.domain.policy import IsolationClass, SandboxPolicy
from kagura_kernel.domain.settings import mistyped_variables
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.place import FILE_NAME, no_journal
from kagura_kernel.sandbox.selection import AUTO, BY_NAME, SHARED_NEEDS, is_shared

if TYPE_CHECKING:
    from kagura_kernel.cockpit.status import PartStatus
    from kagura_kernel.domain.settings import Settings


NO_FAILURE, FAILURE = 0, 4

_BOX_AUTO = "leave `box` out of the settings, or name one that is strong enough"
_LEAST_WORK = ("bubblewrap", "gvisor", "docker")
"""Back-ends by how little has to be installed for them."""
_CHOICES = ("secret back-ends", "jupyter lab")
"""Warnings about what many do without by choice."""
_READY = "all is ready: `kagura-kernel run 'Say what lies in this folder'`, or a cell that begins with `%%kagura`"


def doctor(arguments: SimpleNamespace) -> int:
    """Print what was found; 0 when nothing failed, 4 when something did.

    Raises:
        ConfigurationError: the settings are wrong.
        UsageError: the time makes no sense, or a journal was named and is not there.
    """
    since = read_time(arguments.since, datetime.now(UTC))
    place = place_of(arguments)
    if arguments.dir and not (file := Path(place) / FILE_NAME).exists():
        # The name is probably wrong. Of the journal in use that there is none yet is a finding.
        raise no_journal(str(file))
    findings = look(load_settings(os.environ, logs=False), place, since, full=arguments.full)
    failed = any(finding.state == FAIL for finding in findings)
    then = next_step(findings)
    record = {"ok": not failed, "findings": [asdict(finding) for finding in findings], "next": then}
    last = paragraph(for_terminal(then or _READY), "Next: ", "      ", terminal_width())
    tell(arguments, record, f"{laid_out(findings)}\n\n{_sum(findings)}\n{last}")
    return FAILURE if failed else NO_FAILURE


def next_step(findings: Sequence[Finding]) -> str:
    """The one thing to do first, and what for; empty when runs can begin and nobody is waited for.

    What keeps every run from starting comes first, then failures, then warnings; a back-end that is not needed and what
    many do without are nothing to do.
    """
    failures = [finding for finding in findings if finding.state == FAIL]
    warnings = [
        finding
        for finding in findings
        if finding.state == WARN and finding.part != SANDBOX and finding.name not in _CHOICES
    ]
    # Without room nothing else can be put right.
    first = [finding for finding in failures if finding.name == "disk"]
    order = [*first, *(finding for finding in failures if finding.part == SANDBOX), *failures, *warnings]
    return next((f"{finding.then.rstrip('.')} ({finding.name})" for finding in order if finding.then), "")


def look(settings: Settings, place: Path | str, since: datetime, *, full: bool = False) -> list[Finding]:
    """Everything, in the order in which it is told. What was refused and denied is counted from `since` on.

    Of the journal, what was written since it last held is checked; with `full` all of it.
    """
    # Boxes take a while to start: all else is imported and looked at meanwhile.
    with ThreadPoolExecutor(1) as pool:
        tried = pool.submit(lambda: list(boxes(settings)))
        first = [*brains(settings, os.environ), memory(settings), *chats(settings, os.environ)]
        rest = beside_boxes(settings, place, since, full=full)
        return [*first, *tried.result(), *rest]


def beside_boxes(settings: Settings, place: Path | str, since: datetime, *, full: bool = False) -> list[Finding]:
    """All else: network, secrets, Jupyter, clock, disk, and what the journal tells; arguments as of `look`."""
    from kagura_kernel.cli.doctor_journal import books, clock

    return [
        *(
            Finding("former name", WARN, one, "unset it where nothing else reads it")
            for one in former_variables(os.environ)
        ),
        *(Finding("variable", WARN, one, "spell it like that, or unset it") for one in mistyped_variables(os.environ)),
        settings_place(os.environ),
        *shared_settings(os.environ),
        egress_rules(settings),
        *usual_agent(settings, os.environ),
        *_providers(),
        secret_places(os.environ),
        *jupyter(),
        clock(place),
        *data_directory(os.environ),
        *disk(os.environ),
        *extension_findings(settings),
        *books(place, since, full=full),
    ]


def boxes(settings: Settings) -> Iterator[Finding]:
    """Every back-end, tried out, and whether one of them is strong enough here."""
    shared = is_shared(settings.shared or None, os.environ.get("JUPYTERHUB_USER"))
    needs = f"boxes need {SHARED_NEEDS.label} or stronger" if shared else "any back-end may start"
    try:
        parts = asyncio.run(_probed(settings))
        yield Finding("shared deployment", OK, f"{'yes' if shared else 'no'}: {needs}")
    except errors.IsolationTooWeak as error:
        yield Finding("shared deployment", FAIL, error.message, _BOX_AUTO, SANDBOX)
        parts = asyncio.run(_probed(replace(settings, box=AUTO)))
    weak = {level.label for level in IsolationClass if shared and level < SHARED_NEEDS}
    for part in parts:
        yield _box(part, asked_for=part.name == settings.box, weak=part.isolation in weak)
    known = {part.name for part in parts}
    yield from _usual_box(settings, known)
    able = [part.name for part in parts if part.ok and part.isolation not in weak]
    policy = SandboxPolicy(settings.policy)
    if not policy.walled:
        yield without_box(policy.type, os.environ)
        return
    order = settings.boxes if settings.box == AUTO else ()
    if order and (taken := next((name for name in order if name in able), "")):
        yield _by_order(order[: order.index(taken)], taken, parts)
    elif not any(not order and (shared or name == settings.box or name not in BY_NAME) for name in able):
        strong = f" of {SHARED_NEEDS.label} isolation or stronger" if shared else ""
        said = f"no back-end{strong} starts a box here, so no run can start"
        if able:
            said = f"only {able[0]} starts one here, which no run takes unless it or the settings name it"
        if settings.fallback_to_host:
            said = f"{said} but an agent's, which asks for each of its commands (the setting `fallback_to_host`)"
        if unknown := ", ".join(name for name in order if name not in known):
            said = f"{said}; there is no back-end called {unknown}, as the setting `boxes` has it"
        state: State = WARN if settings.fallback_to_host else FAIL
        yield Finding("boxes", state, said, _easiest(part for part in parts if part.isolation not in weak), SANDBOX)


def _usual_box(settings: Settings, known: Collection[str]) -> Iterator[Finding]:
    """What keeps the setting `box` from being used."""
    from kagura_kernel.cockpit.locked_settings import leaves_box

    if settings.box not in (AUTO, *known):
        said = "the setting `box` names it, and there is none that can be used"
        yield Finding(f"box {settings.box}", FAIL, said, "name another in the setting `box`, or leave it out", SANDBOX)
    elif not leaves_box(settings.box, settings):
        said = f"the setting `boxes`, which is locked, leaves {', '.join(settings.boxes)}, so no run can start"
        yield Finding("usual box", FAIL, f"{settings.box}: {said}", "name another in the setting `box`", SANDBOX)


def _by_order(passed: Sequence[str], taken: str, parts: Sequence[PartStatus]) -> Finding:
    """Which back-end `auto` takes by the order in the settings, and why not the ones before it."""
    told = {part.name: f"{part.isolation} walls are too weak here" if part.ok else _reason(part) for part in parts}
    whys = [f"{name}: {told.get(name, 'there is no such back-end')}" for name in passed]
    said = "; ".join([f"`--box auto` takes {taken}, by the setting `boxes`", *whys])
    return Finding("box order", OK, said, part=SANDBOX)


def _easiest(parts: Iterable[PartStatus]) -> str:
    """What makes one of these back-ends work, of those that say so."""
    cures = {part.name: part.install or part.advice for part in parts}
    known = [cures.pop(name, "") for name in _LEAST_WORK]
    return next(filter(None, [*known, *cures.values()]), "mend one of the back-ends above")


def _box(part: PartStatus, *, asked_for: bool, weak: bool) -> Finding:
    name = f"box {part.name}"
    if weak:
        said = f"{part.isolation}: refused here with {errors.IsolationTooWeak.code}, for this deployment is shared"
        then = _BOX_AUTO if asked_for else part.install or part.advice
        return Finding(name, FAIL if asked_for else WARN, f"{said}; {_reason(part)}", then, SANDBOX)
    state: State = OK if part.ok and not part.advice else FAIL if asked_for and not part.ok else WARN
    return Finding(name, state, f"{part.isolation}: {_reason(part)}", part.install or part.advice, SANDBOX)


def _reason(part: PartStatus) -> str:
    """Why it works or does not, without what to install, which has a line of its own."""
    return part.reason.removesuffix(part.install).rstrip(". ") if part.install else part.reason


async def _probed(settings: Settings) -> Sequence[PartStatus]:
    boxes = Boxes(os.environ, settings, process_owner())
    try:
        return await boxes.probe()
    finally:
        await boxes.close()


def _providers() -> Iterator[Finding]:
    from kagura_kernel.assembly import load_providers

    try:
        names = sorted(load_providers(os.environ))
    except errors.ConfigurationError as error:
        yield Finding(
            "credential providers", FAIL, error.message, "mend that file; docs/credentials.md says what it may hold"
        )
        return
    yield Finding("credential providers", OK, ", ".join(names) or "none")


def memory(settings: Settings) -> Finding:
    """Whether runs can start with the memory of the settings."""
    from kagura_kernel.cli.status import look_at_memory

    found = look_at_memory(settings)
    then = "" if found.ok else "`kagura-kernel setup memory` chooses another place"
    return Finding("memory", OK if found.ok else FAIL, found.said, then, MEMORY)


def _sum(findings: Sequence[Finding]) -> str:
    failed, warned = (sum(finding.state == state for finding in findings) for state in (FAIL, WARN))
    if not failed and not warned:
        return "All is well."
    warnings = f"{warned} {'warning' if warned == 1 else 'warnings'}"
    return f"{failed} failed, {warnings}." if failed else f"Nothing failed, {warnings}."
