"""How a run that ended is told to whoever started it: as an exit code, as JSON, and as one line of what went wrong."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain import errors

if TYPE_CHECKING:
    from kagura_kernel.domain.events import RunVerified
    from kagura_kernel.domain.outcome import RunOutcome
    from kagura_kernel.views.run import RunView

DONE, NOT_DONE, NOT_SET_UP = 0, 2, 3

_PRINTED = 20
"""Lines of what a verification printed, which mostly says at its end what was wrong."""

_NOT_SET_UP = frozenset(
    error.code
    for error in (
        errors.SandboxUnavailable,
        errors.IsolationTooWeak,
        errors.BrainNotConfigured,
        errors.MemoryUnavailable,
        errors.NotInstalled,
        errors.WorkersUnavailable,
    )
)


def error_exit_code(code: str) -> int:
    """3 for an error that says what has to be installed, configured or reachable first, otherwise 2."""
    return NOT_SET_UP if code in _NOT_SET_UP else NOT_DONE


def exit_code(outcome: RunOutcome) -> int:
    """0 for work that is done and, where it was tried out, good; 3 where the machine is not set up; otherwise 2."""
    if outcome.ok:
        return DONE
    return error_exit_code(outcome.error_code)


def trouble(outcome: RunOutcome) -> str:
    """`CODE: message` of what went wrong, and without a code who has stopped it; empty when nothing did."""
    from kagura_kernel.jupyter.errors import check

    try:
        check(outcome)
        if outcome.verified is False:
            raise errors.WorkNotVerified(outcome.run_id)
    except errors.RunKilled as error:
        return error.message
    except errors.KaguraError as error:
        return f"{error.code}: {error.message}"
    return f"{outcome.error_code}: {outcome.error}" if outcome.error_code else ""


def as_data(outcome: RunOutcome) -> dict[str, Any]:
    """The outcome for programs: its fields, sums, and whether all is well; no contents of files or variables."""
    told = asdict(outcome)
    del told["outputs"]
    told["changes"] = [
        {name: change[name] for name in ("path", "status", "kind", "size", "binary", "state", "reason", "runs")}
        for change in told["changes"]
    ]
    told["cost"] = told["cost"] | {"usd": outcome.cost.usd}
    return told | {"ok": exit_code(outcome) == DONE, "total_usd": outcome.total_usd}


def waiting_changes(view: RunView, run_id: str) -> str:
    """What to type about changes and commits that wait for a word, a line for each; empty where none does."""
    from kagura_kernel.render.figures import counted

    lines = []
    if waiting := sum(change.state in {"proposed", "conflict"} for change in view.changes.values()):
        verb, them = ("waits", "it") if waiting == 1 else ("wait", "them")
        lines.append(
            f"{counted(waiting, 'changed file')} {verb} for you: `kagura-kernel changes {run_id}` shows {them}, "
            f"`kagura-kernel apply {run_id}` brings {them} into the project."
        )
    if branches := sum(branch.waits for branch in view.branches.values()):
        lines.append(
            f"Commits on {counted(branches, 'branch', 'branches')} wait for you: `kagura-kernel commits {run_id}` "
            f"shows them, `kagura-kernel apply {run_id} --commits` brings them into the project."
        )
    return "\n".join(lines)


def check_text(event: RunVerified) -> str:
    """Whether the work was good, and where it was not, the end of what its verification printed below it."""
    from kagura_kernel.domain.visible import printed
    from kagura_kernel.views.status import verified_line

    mark = "=" if event.passed else "!"
    said = [] if event.passed else printed(event.text).rstrip().split("\n")[-_PRINTED:]
    return "\n".join([f"{mark} {verified_line(event)}", *(f"    {line}" for line in said if line.strip())])


class QuietProgress:
    """Nothing on the way but that there is no box; at the end what needs somebody, and work that is not good."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._announced = False

    def refresh(self, view: RunView) -> None:
        """What the wall is, where there is none: whoever reads a log has to know whose machine it was."""
        from kagura_kernel.domain.visible import visible
        from kagura_kernel.views.head import box_notes

        if view.box is None or self._announced:
            return
        self._announced = True
        if view.box.isolation == "none":
            for note in box_notes(view, here=True):
                self.tell(f"! {visible(note)}")

    def finish(self, view: RunView) -> None:
        """What was refused for want of somebody who could be asked, what did not pass, and changes that wait."""
        self.refresh(view)
        from kagura_kernel.render.escape import one_line
        from kagura_kernel.views.approvals import verdict_words
        from kagura_kernel.views.parts import Ask, Check

        for item in view.items:
            if isinstance(item, Ask) and item.decision is not None and item.decision.verdict != "allow":
                title = one_line(item.request.title, 300)
                self.tell(f"{title}{'' if title.endswith('?') else ':'} {verdict_words(item)}")
            if isinstance(item, Check) and not item.event.passed:
                self.tell(check_text(item.event))
        if line := waiting_changes(view, self._run_id):
            self.tell(line)

    def tell(self, text: str) -> None:
        """A line on standard error."""
        print(text, file=sys.stderr)

    def deny(self) -> bool:
        """Nobody was asked."""
        return False
