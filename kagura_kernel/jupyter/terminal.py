"""A run in a terminal: plain text as it comes, approvals answered at the keyboard."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from kagura_kernel.jupyter.answers import press
from kagura_kernel.jupyter.cards.ask_buttons import chooses, keys
from kagura_kernel.jupyter.cards.granted import granted_text
from kagura_kernel.jupyter.cards.text import changes_text, crossings_text, head_text, item_text
from kagura_kernel.jupyter.cards.view import Ask, Call, Passage, Printout, RunView

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

_YES = {"y", "yes", "a", "allow"}


class TerminalDisplay:
    """Prints each part once it is whole, and asks what has to be asked.

    The keyboard is listened to by the cell's loop, not by a thread in `input()`: an approval that is decided elsewhere,
    or by its deadline, takes nobody's next line.
    """

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        self._cockpit = cockpit
        self._run_id = run_id
        self._printed: set[str] = set()
        self._asking: Ask | None = None
        self._announced = False

    def refresh(self, view: RunView) -> None:
        """Say where it runs, print what has become whole, ask the first open approval."""
        if view.box is not None and not self._announced:
            self._announced = True
            self._say(f"{head_text(view)} {view.box.backend}, {view.box.isolation} isolation: {view.box.reason}")
        for item in view.items:
            if item.key not in self._printed and _is_whole(item):
                self._printed.add(item.key)
                self._say(item_text(item))
        self._ask(next(iter(view.pending), None))

    def finish(self, view: RunView) -> None:
        """The rest, how it ended, and the changes."""
        self._ask(None)
        for item in view.items:
            if item.key not in self._printed:
                self._say(item_text(item))
        for line in [*granted_text(view), *crossings_text(view)]:
            self._say(line)
        self._say(head_text(view))
        if view.changes:
            self._say(changes_text(view.changes))
            self._say(f"`%kagura changes {self._run_id}` shows them, `%kagura apply {self._run_id}` applies them.")

    def _ask(self, ask: Ask | None) -> None:
        if ask is self._asking:
            return
        loop = asyncio.get_running_loop()
        if self._asking is not None:
            loop.remove_reader(sys.stdin.fileno())
        self._asking = ask
        if ask is not None:
            self._say(item_text(ask).rsplit("\n", 1)[0])
            self._say(f"{_offer(ask)} ({ask.request.deadline:.0f} s, no answer is a denial): ", end="")
            loop.add_reader(sys.stdin.fileno(), self._answered)

    def _answered(self) -> None:
        ask = self._asking
        line = sys.stdin.readline().strip()
        if ask is None:
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ident = ask.request.approval_id
        content = _meant(ask, line) | {"id": ident}
        press(self._cockpit, self._run_id, content, lambda text, _about: self._say(text))
        self._asking = None

    def _say(self, text: str, end: str = "\n") -> None:
        sys.stdout.write(text + end)
        sys.stdout.flush()


def _offer(ask: Ask) -> str:
    if _is_question(ask):
        return "Your answer, empty for none"
    if chooses(ask.request):
        return f"Allow it for {keys(ask.request)[0]}"
    return "Allow it once? [y/N]" if ask.request.subject == "host_command" else "Allow it? [y/N]"


def _meant(ask: Ask, line: str) -> dict[str, str]:
    """What a typed line does; whatever is no clear yes is a no."""
    if _is_question(ask):
        return {"act": "answer" if line else "deny", "answer": line}
    if chooses(ask.request):
        return keys(ask.request)[1].get(line.lower(), {"act": "deny"})
    return {"act": "allow" if line.lower() in _YES else "deny"}


def _is_question(ask: Ask) -> bool:
    return ask.request.subject == "question"


def _is_whole(item: object) -> bool:
    match item:
        case Passage():
            return not item.growing
        case Call():
            return item.finished is not None
        case Ask():
            return item.decision is not None
        case Printout():
            return False
        case _:
            return True
