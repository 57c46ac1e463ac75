"""What buttons and commands do: hand a person's word to the cockpit. Nothing here decides."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import ApprovalError, KaguraError
from kagura_kernel.jupyter.surface import person
from kagura_kernel.views.approvals import THIS_RUN

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

Tell = Callable[[str, str], None]
"""Takes a remark and the approval or lease it is about (or nothing)."""


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
                cockpit.decide(ident, allow=False, by=person(), via="cell", answer=answer)
            case "allow-all" | "deny-all":
                _decide_all(cockpit, run_id, content, allow=act == "allow-all")
            case "abort":
                cockpit.abort(ident, by=person(), via="cell")
            case "stop":
                cockpit.kill(run_id, by=person())
            case "revoke" | "extend":
                press_lease(cockpit, content, tell)
            case _:
                tell(f"This card has no button {act!r}.", "")
    except ApprovalError as error:
        tell(error.message, ident)
    except KaguraError as error:
        tell(error.message, "")


def press_lease(cockpit: Cockpit, content: Mapping[str, Any], tell: Tell) -> None:
    """Act on a button of a lease's row; what cannot be done is told beside it."""
    act, lease_id = content.get("act"), str(content.get("id") or "")
    try:
        if act == "revoke":
            cockpit.revoke_lease(lease_id, by=person())
        elif act == "extend":
            cockpit.extend_lease(lease_id, by=person())
            # The question appears in the run's card; the row stays as it is, and its buttons with it.
            tell("", lease_id)
    except KaguraError as error:
        tell(error.message, lease_id)


def _decide_all(cockpit: Cockpit, run_id: str, content: Mapping[str, Any], *, allow: bool) -> None:
    """One word for several questions of the run: those that the person saw, as far as they still wait.

    Yes to all is for the network alone, and for the run alone, whatever the front end sends.
    """
    seen = content.get("ids")
    wanted = {str(ident) for ident in seen} if isinstance(seen, list) else set()
    waiting = [request for request in cockpit.pending() if request.run_id == run_id and request.id in wanted]
    if allow:
        waiting = [request for request in waiting if request.kind == "network"]
    for request in waiting:
        # Somebody else, or the deadline, may be faster with one of them; its line says so.
        with contextlib.suppress(ApprovalError):
            answer = THIS_RUN if allow else ""
            cockpit.decide(request.id, allow=allow, by=person(), via="cell", answer=answer)


def aside(work: Callable[[], None]) -> None:
    """Do something that may take a while, so that the caller's loop goes on."""
    threading.Thread(target=work, name="kagura card", daemon=True).start()
