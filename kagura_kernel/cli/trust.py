"""`kagura-kernel graduation`: how far categories of deeds have come, and a person's word about them."""

from __future__ import annotations

import os
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.journal_access import open_journal, place_of, read_journal
from kagura_kernel.cli.output import as_json, moment, table, tell
from kagura_kernel.cockpit.run_names import here_of, named_run
from kagura_kernel.cockpit.trust import NOW, TrustDesk, revoked_words, trust_terms
from kagura_kernel.jupyter.surface import person
from kagura_kernel.patterns.trust import lacking

if TYPE_CHECKING:
    from kagura_kernel.domain.patterns import TrustTerms
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.patterns.trust import Report


_WIDEST = 40
"""Characters of a bar: what is beyond says no more."""


def _desk(journal: Journal) -> TrustDesk:
    from kagura_kernel.assembly import load_settings

    return TrustDesk(journal, trust_terms(load_settings(os.environ)), journal.clock)


def graduation(arguments: SimpleNamespace) -> int:
    """Print how they stand; 0."""
    with read_journal(arguments) as journal:
        desk = _desk(journal)
        reports = desk.reports()
    head = ("category", "state", "successes", "tasks", "days", "last failure", "used", "missing")
    cells = [_cells(one, desk.terms) for one in reports]
    text = table(head, cells, whole=("category", "state", "missing"))
    return tell(arguments, [_fields(one, desk.terms) for one in reports], text)


def graduation_chart(arguments: SimpleNamespace) -> int:
    """Print the curves in characters; 0. A notebook draws them."""
    with read_journal(arguments) as journal:
        desk = _desk(journal)
        told = [point for point in desk.curve() if point.change != NOW]
    if arguments.json:
        print(as_json([asdict(point) for point in told]))
    elif told:
        head = ("when", "category", "what", "successes", "", "run")
        rows = [
            (
                moment(one.at),
                one.category,
                one.change,
                one.successes,
                "█" * min(one.successes, _WIDEST) or "·",
                one.run_id or "-",
            )
            for one in told
        ]
        print(table(head, rows, whole=("when", "category", "what", "run")))
        print(f"A proposal needs {desk.terms.successes} successes. In a notebook `%kagura graduation chart` draws it.")
    else:
        print("No category has shown anything yet. `kagura-kernel graduation` lists what each of them needs.")
    return 0


def graduation_grant(arguments: SimpleNamespace) -> int:
    """Be asked no more about a category, or every time again; 0. Raises `NotThisTime` where it has not earned it."""
    grants = arguments.action == "grant"
    with open_journal(place_of(arguments)) as journal:
        desk = _desk(journal)
        after = (desk.grant if grants else desk.revoke)(arguments.category, by=person(), via="terminal")
    said = f"{after.category.name}: {after.state}." if grants else revoked_words(after)
    return tell(arguments, _fields(after, desk.terms), said)


graduation_revoke = graduation_grant


def graduation_vouch(arguments: SimpleNamespace) -> int:
    """Say that a run went well; 0.

    Raises:
        NotThisTime: the run is no evidence.
        RunUnknown: there is no such run.
    """
    with open_journal(place_of(arguments)) as journal:
        desk, run_id = _desk(journal), named_run(journal, arguments.run, here_of())
        found = desk.vouch(run_id, by=person(), via="terminal")
    return tell(arguments, {"run": run_id, "categories": found}, f"{run_id}: evidence for {', '.join(found)}.")


def _fields(report: Report, terms: TrustTerms) -> dict[str, Any]:
    standing = report.standing
    return {
        **report.category._asdict(),
        "state": report.state,
        "successes": [asdict(success) for success in standing.successes],
        "tasks": standing.tasks,
        "days": round(report.days, 3),
        "needed": asdict(terms),
        "last_failure": None if standing.failure is None else asdict(standing.failure),
        "granted_at": standing.granted_at,
        "granted_by": standing.granted_by,
        "names": sorted(standing.names),
        "used": standing.applied,
        "missing": lacking(report),
    }


def _cells(report: Report, terms: TrustTerms) -> tuple[object, ...]:
    standing = report.standing
    return (
        report.category.name,
        report.state,
        f"{len(standing.successes)} of {terms.successes}",
        f"{standing.tasks} of {terms.tasks}",
        f"{report.days:.3g} of {terms.days:g}",
        moment(standing.failure.at if standing.failure is not None else None),
        standing.applied,
        lacking(report),
    )
