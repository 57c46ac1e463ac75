"""What buttons and commands do: hand a person's word to the cockpit. Nothing here decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import ApprovalError, KaguraError
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

Tell = Callable[[str, str], None]
"""Takes a remark and the approval it is about (or nothing)."""


def press(cockpit: Cockpit, run_id: str, content: Mapping[str, Any], tell: Tell) -> None:
    """Act on a button of a run card.

    May be called from any thread: it touches nothing but the cockpit. What cannot be done is told, not raised; nobody
    would see an exception in a widget's callback.
    """
    act, ident = content.get("act"), str(content.get("id") or "")
    answer = str(content.get("answer") or "")
    try:
        match act:
            case "allow" | "answer":
                cockpit.decide(ident, allow=True, by=person(), via="cell", answer=answer)
            case "deny":
                cockpit.decide(ident, allow=False, by=person(), via="cell")
            case "abort":
                cockpit.abort(ident, by=person(), via="cell")
            case "stop":
                cockpit.kill(run_id, by=person())
            case _:
                tell(f"This card has no button {act!r}.", "")
    except ApprovalError as error:
        tell(error.message, ident)
    except KaguraError as error:
        tell(error.message, "")


def aside(work: Callable[[], None]) -> None:
    """Do something that may take a while, so that the caller's loop goes on."""
    threading.Thread(target=work, name="kagura card", daemon=True).start()
