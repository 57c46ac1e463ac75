"""A run in a console in front of a kernel: plain text as it comes, approvals answered at the console's own prompt.

The console is asked for a line as `input()` would ask it, but nobody waits for the answer: the run goes on being
shown, and an approval that is decided elsewhere, or by its deadline, holds nothing up.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.terminal import TerminalDisplay, prompt_of
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.run import RunView

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

_END_OF_INPUT = "\x04"


class ConsoleDisplay(TerminalDisplay):
    """A terminal's display whose lines come as messages."""

    def __init__(self, cockpit: Cockpit, run_id: str, lines: ConsoleLines) -> None:
        super().__init__(cockpit, run_id)
        self._lines = lines

    def refresh(self, view: RunView) -> None:
        """Print what is new, and take the line that was sent."""
        super().refresh(view)
        if self._asking is not None and (line := self._lines.take()) is not None:
            self._answered(line)

    def _listen(self, ask: Ask) -> None:
        self._prompt(prompt_of(ask))

    def _hush(self) -> None:
        # The console still waits for its line; what is typed there is dropped.
        self._say("Answered elsewhere, or too late. Press Enter to go on.")

    def _prompt(self, text: str) -> None:
        self._lines.ask(text)


class ConsoleLines:
    """The kernel's way to ask its console for one line, without waiting.

    Args:
        kernel: ipykernel's. The request that runs now says which console it is.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        # Replies find their way by the identity of the console's socket, which the request came with.
        self._ident = kernel._get_shell_context_var(kernel._shell_parent_ident)  # noqa: SLF001  # as its `raw_input`

    @classmethod
    def of_this_cell(cls) -> ConsoleLines:
        """Those of the console that sent the cell that runs now."""
        from IPython.core.getipython import get_ipython

        shell: Any = get_ipython()
        return cls(shell.kernel)

    def ask(self, prompt: str) -> None:
        """Ask for a line."""
        sys.stdout.flush()
        # What was typed before the question was there is no answer to it.
        while self.take() is not None:
            pass
        content = {"prompt": prompt, "password": False}
        socket = self._kernel.stdin_socket
        self._kernel.session.send(socket, "input_request", content, self._parent, ident=self._ident)

    def take(self) -> str | None:
        """The line that was sent, empty at the end of the input; None while there is none."""
        import zmq

        # A message that is not signed by this kernel's clients is no answer.
        with contextlib.suppress(ValueError):
            _, reply = self._kernel.session.recv(self._kernel.stdin_socket, mode=zmq.NOBLOCK)
            if reply is not None:
                value = str(reply["content"].get("value", ""))
                return "" if value == _END_OF_INPUT else value
        return None
