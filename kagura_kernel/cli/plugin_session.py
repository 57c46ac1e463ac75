"""Sessions of other processes, as a terminal's commands about plugins mean and see them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.naming import LAST, here_of
from kagura_kernel.domain.errors import UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.plugin_views import PluginView
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.manager import PluginRow

_SHOWN = 5
_ANSWER_SECONDS = 6.0
_LOOK_SECONDS = 0.1


def named_session(journal: Journal, name: str | None, *, needed: bool = True) -> str:
    """The session that is named, `last` being that of the folder’s latest run; without a name the only one going on.

    Args:
        journal: Knows the sessions.
        name: As it was typed; None when it was not.
        needed: Whether there has to be one; else an empty text stands for none.

    Raises:
        UsageError: it cannot be told which one is meant.
    """
    from kagura_kernel.assembly.places import redactor_of
    from kagura_kernel.cockpit.ordering import session_name
    from kagura_kernel.journal import views
    from kagura_kernel.journal.place import data_home

    if name is not None and name != LAST:
        return session_name(name, redactor_of(data_home(os.environ)))
    if name == LAST:
        here = here_of()
        rows = views.runs(journal, limit=200, here=here)
        latest = next((row.session_id for row in rows if row.flavour != "audit"), "")
        if latest:
            return latest
        raise UsageError(f"Nothing has run in {here} yet, so it has no last session. Name one: `--session NAME`.")
    going_on = live_sessions(journal)
    if len(going_on) == 1:
        return going_on[0]
    if not needed:
        return ""
    if not going_on:
        raise UsageError(
            "No session goes on that this could be about. Name one with `--session NAME`, and use the same name in the "
            "notebook: `%%kagura --session NAME`."
        )
    raise UsageError(f"Several sessions go on: {', '.join(going_on[:_SHOWN])}. Say which with `--session`.")


def live_sessions(journal: Journal) -> list[str]:
    """Sessions of processes that still run: those that have run something, and those that have a plugin."""
    from kagura_kernel.domain.plugins import PluginState
    from kagura_kernel.journal import views
    from kagura_kernel.journal.owner import owner_alive
    from kagura_kernel.journal.plugin_views import plugin_views

    rows = views.runs(journal, limit=200)
    found = [row.session_id for row in rows if row.flavour != "audit" and owner_alive(row.owner)]
    for view in plugin_views(journal):
        found += [use.session_id for use in view.uses if use.state is PluginState.ENABLED and owner_alive(use.owner)]
    return list(dict.fromkeys(found))


def as_in(journal: Journal, session: str, rows: Iterable[PluginRow]) -> list[PluginRow]:
    """The plugins as a session of another process has them; one that is gone has nothing enabled.

    Args:
        journal: Tells of the session.
        session: It; empty for none.
        rows: The plugins as they are here.
    """
    from kagura_kernel.journal.plugin_views import plugin_views

    views = plugin_views(journal) if session else []
    known = {(view.name, view.seen.place, view.seen.content_hash): view for view in views}
    return [_as_in(known.get((row.name, row.place, row.content_hash)), session, row) for row in rows]


def _as_in(view: PluginView | None, session: str, row: PluginRow) -> PluginRow:
    use = view.use(session) if view is not None else None
    if view is None or use is None or row.quarantine:
        return row
    return replace(row, state=view.state(session), config=dict(use.config), opens=use.permissions)


def wait_for(journal: Journal, session: str, done: Callable[[], str], *, seconds: float = _ANSWER_SECONDS) -> str:
    """What became of a word that was left for a session: what `done` says, as soon as it says something.

    Returns:
        It; empty when the session does not go on, and when it had said nothing in time.
    """
    if session not in live_sessions(journal):
        return ""
    end = time.monotonic() + seconds
    while not (said := done()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return said
