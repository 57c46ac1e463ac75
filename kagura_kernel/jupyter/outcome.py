"""A `RunOutcome` as the value of a cell: one quiet line, since the card above has said the rest."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from kagura_kernel.domain.outcome import RunOutcome

_FIELDS = '<code style="background: none; padding: 0">.text .changes .cost .usage .run_id</code>'
_WHERE = ("kagura_kernel.domain.outcome", "RunOutcome")


def outcome_text(outcome: RunOutcome) -> str:
    """`RunOutcome(done, 2 changed files, 1 conflict, $0.0042)`."""
    return f"RunOutcome({', '.join(_facts(outcome))})"


def outcome_html(outcome: RunOutcome) -> str:
    """The same for the notebook; times and ids stand on the value itself."""
    facts = escape(" · ".join(_facts(outcome)))
    return (
        '<span style="color: var(--jp-content-font-color2, #666); font-size: 12px">'
        f"RunOutcome · {facts} · {_FIELDS}</span>"
    )


def register_outcome(shell: InteractiveShell) -> None:
    """Show outcomes like this; by name, so that nothing is imported yet."""
    formatters = shell.display_formatter.formatters  # type: ignore[union-attr]  # always there once a shell is
    formatters["text/plain"].for_type_by_name(*_WHERE, _pretty)
    formatters["text/html"].for_type_by_name(*_WHERE, outcome_html)


def _pretty(outcome: RunOutcome, printer: Any, _cycle: bool) -> None:  # IPython's own signature
    printer.text(outcome_text(outcome))


def _facts(outcome: RunOutcome) -> list[str]:
    facts = [outcome.status]
    # `done` alone would be read as good work.
    if outcome.verified is not None:
        facts.append("verified" if outcome.verified else "verification did not pass")
    if outcome.changes:
        from kagura_kernel.jupyter.cards.words import counted

        facts.append(counted(len(outcome.changes), "changed file"))
        if conflicts := sum(change.state == "conflict" for change in outcome.changes):
            facts.append(counted(conflicts, "conflict"))
    if outcome.children or outcome.cost.usd is not None:
        from kagura_kernel.jupyter.cards.words import whole_cost

        facts.append(whole_cost(outcome.cost.usd, outcome.children, outcome.children_usd))
    return [fact for fact in facts if fact]
