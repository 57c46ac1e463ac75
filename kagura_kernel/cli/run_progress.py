"""How a run is shown to a shell while it goes on: on standard error, so that the answer alone is on standard output.

Where standard error is no terminal nothing is shown but, at the end, what needs somebody. Then the cards are not needed
before that, and are not imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from kagura_kernel.cli.run_outcome import waiting_changes
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView

if TYPE_CHECKING:
    from collections.abc import Callable

    from kagura_kernel.cli.asking import Decide
    from kagura_kernel.cockpit.memory import MemoryDesk


class Progress(Protocol):
    """Shows one run; called on the loop that follows it."""

    def refresh(self, view: RunView) -> None:
        """Show what changed; called at most ten times a second."""
        ...

    def finish(self, view: RunView) -> None:
        """Show the end; the last call."""
        ...

    def tell(self, text: str) -> None:
        """Say something between the lines of the run."""
        ...

    def deny(self) -> bool:
        """Say no to the question that waits at the keyboard; False where there is none."""
        ...


def progress_for(run_id: str, decide: Decide, memory: Callable[[], MemoryDesk]) -> Progress:
    """What fits standard error; `memory` gives what the lessons of a plan are read from."""
    if not sys.stderr.isatty():
        return QuietProgress(run_id)
    from kagura_kernel.cli.run_terminal import TerminalProgress

    return TerminalProgress(run_id, decide, memory)


class QuietProgress:
    """Nothing on the way; at the end what needs somebody."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def refresh(self, view: RunView) -> None:
        """Nothing: nobody looks."""

    def finish(self, view: RunView) -> None:
        """What was refused for want of somebody who could be asked, and changes that wait."""
        from kagura_kernel.render.escape import one_line
        from kagura_kernel.views.approvals import verdict_words

        for item in view.items:
            if isinstance(item, Ask) and item.decision is not None and item.decision.verdict != "allow":
                self.tell(f"{one_line(item.request.title, 300)}: {verdict_words(item)}")
        if line := waiting_changes(view, self._run_id):
            self.tell(line)

    def tell(self, text: str) -> None:
        """A line on standard error."""
        print(text, file=sys.stderr)

    def deny(self) -> bool:
        """Nobody was asked."""
        return False
