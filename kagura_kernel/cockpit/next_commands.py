"""The commands that still do something with what a list shows, and what a list says that has nothing to show.

They are spelt as in a notebook; `cli.printing.for_terminal` says what that is in a terminal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.resumption import can_be_resumed
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.journal import views
from kagura_kernel.journal.change_states import changes_wait, commits_wait

if TYPE_CHECKING:
    from kagura_kernel.domain.commits import CommittedBranch
    from kagura_kernel.domain.outcome import FileChange
    from kagura_kernel.journal.rows import ApprovalRow, RunRow
    from kagura_kernel.journal.session_registry import SessionRow
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.manager import PluginRow

NEWEST = 30
"""Rows of which it is looked up what can still be done with them."""

NO_RUNS = "No run yet: a `%%kagura` cell makes one, or `kagura-kernel run TASK` in a terminal."
NO_SESSIONS = "No session yet: the first run begins one."
NO_APPROVALS = "Nothing was asked for yet: a run asks before it does what its box does not let it do by itself."
NONE_WAITS = "No approval waits: a run asks before it does what its box does not let it do by itself."
NO_LEASES = "No credential is out: a run gets those that its `--grant` names, and gives them back when it ends."
NO_CONNECTIONS = "No connection was asked for: each that a box asks for is listed here, allowed or refused."
NO_MEMORIES = "Nothing is remembered that fits: `%kagura memory add TEXT` remembers something."
NO_MODELS = "The brain names no models: `--model NAME` takes any."
NO_PLUGINS = "There are no plugins: `%kagura plugin install SOURCE` copies one here."
NO_AUTHORS = "You trust no author yet: `%kagura plugin trust AUTHOR KEY` trusts one."
NO_REPOSITORIES = "You trust no repository yet: `%kagura plugin repository add SOURCE --sha256 HASH` trusts one."


def further(shown: int, total: int, option: str = "--limit", most: int = 0) -> str:
    """What a list says that shows only the first of all; empty where it shows them all.

    Args:
        shown: How many it shows.
        total: How many there are, or could be counted.
        option: What shows more of them.
        most: How many that shows at most; 0 for all.
    """
    if total <= shown:
        return ""
    left, wanted = total - shown, min(total, most or total)
    how = f"`{option} {wanted}` shows {'them too' if wanted == total else 'more'}."
    return f"{left:,} more {'is' if left == 1 else 'are'} not shown; {how}"


def at_limit(shown: int, limit: int) -> str:
    """What a list says that is as long as it may be, where counting the rest would mean to read all of them."""
    return f"No more than the newest {limit:,} are shown; `--limit` takes a larger number." if shown >= limit else ""


def more_than(journal: Journal, shown: int, limit: int, what: views.Counted) -> str:
    """What a list says of the rows that it does not show; they are counted only where there can be any."""
    return further(shown, views.how_many(journal, what)) if shown >= limit else ""


def of_run(journal: Journal, row: RunRow) -> list[str]:
    """Of a run: stop it, or mark it where its process is gone; bring its changes or its commits in, go on from it.

    Of an auditor none: whoever has begun it does that.
    """
    if journal.audited:
        return []
    if row.live:
        return [f"%kagura kill {row.run_id}"]
    apply = [f"%kagura apply {row.run_id}"] if changes_wait(journal, row) else []
    if commits_wait(journal, row.run_id):
        apply.append(f"%kagura apply {row.run_id} --commits")
    return [*apply, f"%%kagura --resume {row.run_id}"] if can_be_resumed(journal, row) else apply


def of_session(journal: Journal, row: SessionRow) -> list[str]:
    """Of a session: answer what waits, what there is of its last run, or go on with it; none for an auditor."""
    if journal.audited:
        return []
    if views.goes_on(row.last):
        answer = ["%kagura approvals --pending"] if row.waiting else []
        return [*answer, *of_run(journal, row.last)]
    go_on = [f"%%kagura --session {row.session_id}"] if row.last.flavour == "agent" else []
    return [*of_run(journal, row.last), *go_on]


def of_approval(journal: Journal, row: ApprovalRow, heard: Collection[str]) -> list[str]:
    """Of a question: its answers, while it waits, or what calls it off where its run is none of those that hear one."""
    if row.verdict is not None or journal.audited:
        return []
    return (
        [f"%kagura approve {row.id}", f"%kagura deny {row.id}"]
        if row.run_id in heard
        else [f"%kagura kill {row.run_id}"]
    )


def of_lease(lease_id: str) -> list[str]:
    """Of a credential that is out."""
    return [f"%kagura revoke {lease_id}"]


def of_plugin(row: PluginRow) -> list[str]:
    """Of a plugin: turn it on or off, or find out whether it may be again."""
    if row.quarantine and not row.problem:
        return [f"%kagura plugin audit {row.name}"]
    if row.why_out:
        return []
    approved = [f"%kagura plugin unapprove {row.name}"] if row.approved else []
    turn = "disable" if row.state is PluginState.ENABLED else "enable"
    return [f"%kagura plugin {turn} {row.name}", *approved]


def of_changes(run_id: str, changes: Collection[FileChange], branches: Collection[CommittedBranch] = ()) -> list[str]:
    """Of what a run changed and committed: bring in or give up what waits, take back what was brought in."""
    found = []
    if any(one.state in ("proposed", "conflict") for one in changes):
        found += [f"%kagura apply {run_id}", f"%kagura discard {run_id}"]
    if any(one.written and not one.is_cell for one in changes):
        found.append(f"%kagura undo {run_id}")
    if any(one.waits for one in branches):
        found += [f"%kagura apply {run_id} --commits", f"%kagura discard {run_id} --commits"]
    if any(one.moved for one in branches):
        found.append(f"%kagura undo {run_id} --commits")
    return found
