"""What the events about plugins add up to: one view for each place where a plugin lies, with its sessions. No I/O.

What an approval or a quarantine is worth is decided by the books of the machine; here it is as it was said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from kagura_kernel.domain.events import Event, PluginAudited, PluginChanged, PluginSeen
from kagura_kernel.domain.plugins import PluginAudit, PluginPermissions, PluginPlace, PluginState
from kagura_kernel.journal.owner import owner_alive

# How a plugin stands that nobody has configured, its audit tells better.
_SAYS_NOTHING = (PluginState.DISCOVERED, PluginState.AUDITED, PluginState.QUARANTINED)
_PLACE_ORDER: tuple[PluginPlace, ...] = ("bundled", "user", "project")


@dataclass(frozen=True, slots=True)
class PluginUse:
    """One session's plugin.

    Attributes:
        session_id: The session.
        state: Where the plugin is in it.
        content_hash: The bytes that this is about.
        at: Since when, UTC.
        by: Who brought it there.
        why: Why, one sentence; empty where the state says it.
        config: What it is configured with, as it may be shown.
        permissions: What its jail opens.
        owner: The process that holds the session.
    """

    session_id: str
    state: PluginState
    content_hash: str
    at: datetime
    by: str = ""
    why: str = ""
    config: dict[str, str] = field(default_factory=dict)
    permissions: PluginPermissions = field(default_factory=PluginPermissions)
    owner: str = ""

    @property
    def live(self) -> bool:
        """Whether its process may still run: what a process that is gone had enabled is enabled no more."""
        return owner_alive(self.owner)


@dataclass(frozen=True, slots=True)
class PluginView:
    """One plugin, as far as the journal knows it.

    Attributes:
        name: Its name; for one that cannot be used, its directory's.
        version: SemVer.
        description: As its manifest has it.
        place: Where it lies.
        project: The project's root for one that lies in a project; empty for the others.
        modules: What guest code imports.
        permissions: As declared.
        content_hash: SHA-256 over all of its files when it was last looked at.
        signed_by: The trusted author whose signature holds; empty for none.
        problem: Why it cannot be used; empty when it can.
        seen_at: When it was last found to be new or different, UTC.
        audit: The latest audit of exactly these files; None while there is none.
        approved: Whether exactly these files are approved, as far as the journal knows.
        quarantine: Why these files are put off; empty when they are not.
        uses: Sessions that came further with it, the latest first.
    """

    name: str
    version: str
    description: str
    place: PluginPlace
    project: str
    modules: tuple[str, ...]
    permissions: PluginPermissions
    content_hash: str
    signed_by: str
    problem: str
    seen_at: datetime
    audit: PluginAudit | None = None
    approved: bool = False
    quarantine: str = ""
    uses: tuple[PluginUse, ...] = ()

    def state(self, session_id: str) -> PluginState:
        """Where it is in a session."""
        use = next((use for use in self.uses if use.session_id == session_id), None)
        if use is None or use.state in _SAYS_NOTHING or not use.live:
            return self.state_alone
        # What is enabled stays so until the session's next run finds other files.
        current = use.content_hash == self.content_hash or use.state is PluginState.ENABLED
        return use.state if current else self.state_alone

    @property
    def state_alone(self) -> PluginState:
        """Where it is for a session that has done nothing with it."""
        if self.quarantine:
            return PluginState.QUARANTINED
        return PluginState.AUDITED if self.audit is not None else PluginState.DISCOVERED


class PluginFold:
    """What the events so far add up to; no I/O.

    Attributes:
        seen: The latest sight by name, place and project.
        audits: The latest audit by name and hash; one that a brain has made stands until a brain makes another.
    """

    def __init__(self) -> None:
        self.seen: dict[tuple[str, PluginPlace, str], PluginSeen] = {}
        self.audits: dict[tuple[str, str], PluginAudit] = {}
        self._approved: dict[str, str] = {}
        self._quarantined: dict[tuple[str, str], str] = {}
        self._uses: dict[tuple[str, str], PluginUse] = {}

    def take(self, event: Event) -> None:
        """Take the next event; those that are not about plugins change nothing."""
        match event:
            case PluginSeen():
                key = (event.plugin, event.place, event.project)
                if event.gone:
                    self.seen.pop(key, None)
                else:
                    self.seen[key] = event
            case PluginAudited():
                about = (event.audit.plugin, event.audit.content_hash)
                before = self.audits.get(about)
                # What a brain has found in these bytes is not undone by looking less closely.
                if before is None or _is_read(event.audit) or not _is_read(before):
                    self.audits[about] = event.audit
                self._quarantined.pop((event.audit.plugin, event.audit.content_hash), None)
            case PluginChanged():
                self._change(event)
            case _:
                pass

    def views(self) -> list[PluginView]:
        """All plugins, as `PluginHistory.look` has them."""
        keys = sorted(self.seen, key=lambda key: (key[0], _PLACE_ORDER.index(key[1]), key[2]))
        return [self._view(self.seen[key]) for key in keys]

    def _change(self, event: PluginChanged) -> None:
        match event.change:
            case "approved":
                self._approved[event.plugin] = event.content_hash
            case "unapproved" | "removed":
                self._approved.pop(event.plugin, None)
            case "quarantined":
                self._quarantined[event.plugin, event.content_hash] = event.reason
            case "released":
                self._quarantined.pop((event.plugin, event.content_hash), None)
            case _:
                pass
        if event.session_id and event.state:
            self._uses[event.plugin, event.session_id] = _use(event)

    def _view(self, seen: PluginSeen) -> PluginView:
        key = (seen.plugin, seen.content_hash)
        namesakes = sum(name == seen.plugin for name, *_ in self.seen)
        uses = [
            # Two projects may each have one of this name: the bytes tell whose session it is.
            use
            for (name, _), use in self._uses.items()
            if name == seen.plugin and (namesakes == 1 or use.content_hash == seen.content_hash)
        ]
        return PluginView(
            name=seen.plugin,
            version=seen.version,
            description=seen.description,
            place=seen.place,
            project=seen.project,
            modules=seen.modules,
            permissions=seen.permissions,
            content_hash=seen.content_hash,
            signed_by=seen.signed_by,
            problem=seen.problem,
            seen_at=seen.at,
            audit=self.audits.get(key),
            approved=bool(seen.content_hash) and self._approved.get(seen.plugin) == seen.content_hash,
            quarantine=self._quarantined.get(key, ""),
            uses=tuple(sorted(uses, key=lambda use: use.at, reverse=True)),
        )


def _is_read(audit: PluginAudit) -> bool:
    """Whether a brain has read the source for it: not the scan alone, and not a cassette."""
    return not audit.static_only and audit.auditor.partition(" ")[0] != "replay"


def _use(event: PluginChanged) -> PluginUse:
    return PluginUse(
        session_id=event.session_id,
        state=PluginState(event.state),
        content_hash=event.content_hash,
        at=event.at,
        by=event.by,
        why=event.reason,
        config=dict(event.config),
        permissions=event.permissions,
        owner=event.owner,
    )
