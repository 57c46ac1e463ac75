"""What the routes about plugins leave in the mailbox. In a thread, on an open journal.

Nothing is decided here that counts: the process that holds the session looks at the files, the audit and the risk anew.
What is refused here is what would surprise the person who pressed the button.
"""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.errors import PluginChangedSince, PluginQuarantined, PluginRefused, SessionGone, UnknownName
from kagura_kernel.journal.plugin_sessions import concerns, find_session
from kagura_kernel.journal.plugin_views import PluginView
from kagura_kernel.journal.plugin_words import send_plugin_word
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.server.acting import VIA
from kagura_kernel.jupyter.server.asking import PluginOrder
from kagura_kernel.jupyter.server.plugin_reading import history


def leave_word(journal: Journal, name: str, order: PluginOrder, by: str) -> dict[str, Any]:
    """Leave a session a word about a plugin.

    Raises:
        UnknownName: there is no such plugin.
        SessionGone: no process that still runs holds the session.
        PluginChangedSince: the files are not those that somebody was shown.
        PluginRefused: nobody has audited them, or the audit found a danger.
        PluginQuarantined: they are put off.
        JournalError: it could not be written down.
    """
    views = history(journal).look()
    if name not in {view.name for view in views}:
        raise UnknownName("plugin", name, sorted({view.name for view in views}))
    session = find_session(journal, views, session_id=order.session_id)
    if session is None or not session.live:
        raise SessionGone(order.session_id)
    view = next((view for view in views if view.name == name and concerns(view, session)), None)
    if view is None:
        raise UnknownName("plugin", name, sorted({view.name for view in views if concerns(view, session)}))
    _check(view, order)
    send_plugin_word(
        journal,
        session.session_id,
        order.deed,
        name,
        by=by,
        via=VIA,
        content_hash=order.content_hash,
        words=order.words,
    )
    return {"plugin": name, "session_id": session.session_id, "deed": order.deed, "state": "asked"}


def _check(view: PluginView, order: PluginOrder) -> None:
    if order.deed in ("disable", "unapprove"):
        # Taking power away is never refused because something else is not as it was.
        return
    if order.content_hash and order.content_hash != view.content_hash:
        raise PluginChangedSince(view.name, "shown")
    if order.deed == "audit":
        return
    if view.quarantine:
        raise PluginQuarantined(view.name, view.quarantine)
    if view.audit is None:
        raise PluginRefused(view.name, "has not been audited", "Have it audited first.")
    if view.audit.dangerous:
        raise PluginRefused(view.name, "has a danger in its source, which nobody can allow")
