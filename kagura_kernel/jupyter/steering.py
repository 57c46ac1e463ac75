"""What `%kagura WORD …` does: one function for each word, thin above the cockpit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import RunUnknown, UsageError
from kagura_kernel.jupyter.cards.escape import shown_path
from kagura_kernel.jupyter.change_card import as_rows, refresh_changes, show_changes
from kagura_kernel.jupyter.commands import LineCommand
from kagura_kernel.jupyter.status import StatusText
from kagura_kernel.jupyter.surface import Surface, person, surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.domain.events import ChangesSettled


def steer(cockpit: Cockpit, shell: Any, command: LineCommand) -> Any:
    """Carry out a command; returns its value, if it has one.

    Raises:
        KaguraError: it cannot be done.
    """
    value: Any = None
    match command.word:
        case "runs" | "cost" | "approvals":
            value = _table(cockpit, command.word)
        case "status":
            value = StatusText(cockpit.status())
        case "kill":
            _kill(cockpit, command)
        case "approve" | "deny":
            _decide(cockpit, command)
        case "changes":
            _changes(cockpit, shell, command)
        case "apply" | "discard":
            _settle(cockpit, command)
        case "leases":
            value = _leases(cockpit, shell)
        case "revoke" | "extend":
            _lease(cockpit, command)
    return value


def _table(cockpit: Cockpit, word: str) -> Any:
    from kagura_kernel.jupyter.tables import approvals_table, costs_table, runs_table

    match word:
        case "runs":
            return runs_table(cockpit.runs())
        case "cost":
            return costs_table(cockpit.costs())
        case _:
            return approvals_table(cockpit.approvals())


def _kill(cockpit: Cockpit, command: LineCommand) -> None:
    run_id = _going_on(cockpit) if command.target == "last" else _run(cockpit, command.target)
    cockpit.kill(run_id, by=person())
    print(f"{run_id} is being stopped.")  # noqa: T201  # a magic answers by printing


def _decide(cockpit: Cockpit, command: LineCommand) -> None:
    answer = " ".join(command.rest)
    allow = command.word == "approve"
    decision = cockpit.decide(command.target, allow=allow, by=person(), via="command", answer=answer)
    print(f"{decision.approval_id}: {'allowed' if decision.allowed else 'denied'}.")  # noqa: T201  # a magic answers


def _changes(cockpit: Cockpit, shell: Any, command: LineCommand) -> None:
    run_id = _run(cockpit, command.target)
    changes = as_rows(cockpit.changes(run_id))
    if changes:
        show_changes(cockpit, run_id, changes, surface_of(shell))
    else:
        print(f"{run_id} changed no files.")  # noqa: T201  # a magic answers by printing


def _settle(cockpit: Cockpit, command: LineCommand) -> None:
    run_id = _run(cockpit, command.target)
    paths = list(command.rest) or None
    try:
        if command.word == "apply":
            settled = cockpit.apply_changes(run_id, paths, by=person())
        else:
            settled = cockpit.discard_changes(run_id, paths, by=person())
    finally:
        refresh_changes(cockpit, run_id)
    print(_told(settled))  # noqa: T201  # a magic answers by printing


def _leases(cockpit: Cockpit, shell: Any) -> Any:
    """A table; in a notebook one that shows itself as the live board."""
    from kagura_kernel.jupyter.tables import leases_table

    table = leases_table(cockpit.leases())
    if surface_of(shell) is Surface.NOTEBOOK:
        from kagura_kernel.jupyter.lease_frame import LeaseFrame

        return LeaseFrame(table)
    return table


def _lease(cockpit: Cockpit, command: LineCommand) -> None:
    lease_id = _lease_id(cockpit, command.target)
    if command.word == "revoke":
        cockpit.revoke_lease(lease_id, by=person())
        print(f"{lease_id} is being given back.")  # noqa: T201  # a magic answers by printing
    else:
        cockpit.extend_lease(lease_id, by=person())
        print(f"The run of {lease_id} asks for more time: answer in its card.")  # noqa: T201  # a magic answers


def _lease_id(cockpit: Cockpit, target: str) -> str:
    """A lease's id: as given, or the one that ends like this, or the one of this `provider:scope`."""
    if target.startswith("lea-"):
        return target
    rows = cockpit.leases()
    found = [row.lease_id for row in rows if row.lease_id.endswith(target) or f"{row.provider}:{row.scope}" == target]
    if len(found) > 1:
        raise UsageError(f"{target!r} fits {len(found)} leases; give the whole id, as `%kagura leases` shows it.")
    # One that nobody holds is the cockpit's to refuse.
    return found[0] if found else target


def _told(settled: ChangesSettled) -> str:
    lines = [
        f"{word}: {', '.join(shown_path(path) for path in paths)}"
        for word, paths in (
            ("applied", settled.applied),
            ("discarded", settled.discarded),
            ("left alone, the project’s file changed meanwhile", settled.conflicts),
        )
        if paths
    ]
    return "\n".join(lines) or "nothing was waiting"


def _going_on(cockpit: Cockpit) -> str:
    """The newest run that has not ended."""
    going = [row.run_id for row in cockpit.runs() if row.status in {"running", "awaiting_approval"}]
    if not going:
        raise UsageError("There is nothing to stop: no run is going on. `%kagura runs` lists those that have ended.")
    return going[0]


def _run(cockpit: Cockpit, target: str) -> str:
    """A run's id: as given, the latest for `last`, or the one whose id ends like this."""
    if target == "last":
        latest = cockpit.runs(limit=1)
        if not latest:
            raise RunUnknown("last")
        return latest[0].run_id
    if target.startswith("run-"):
        return target
    found = [row.run_id for row in cockpit.runs() if row.run_id.endswith(target)]
    if len(found) > 1:
        raise UsageError(f"{target!r} fits {len(found)} runs; give the whole id, as `%kagura runs` shows it.")
    if not found:
        raise RunUnknown(target)
    return found[0]
