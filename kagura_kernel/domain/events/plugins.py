"""What is known about plugins, what was decided about them, and what they were asked to do.

What is done to a plugin outside a run has an empty `run_id`; an audit by a brain is a run of its own.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.plugins import PluginAudit, PluginChange, PluginPermissions, PluginPlace, PluginState


class PluginSeen(Event):
    """A plugin was found, or is not what it was when it was last found.

    Attributes:
        plugin: Its name; for one that cannot be used, its directory's.
        version: SemVer.
        description: As its manifest has it.
        place: Where it lies.
        modules: What guest code imports.
        permissions: As declared.
        content_hash: SHA-256 over all of its files.
        signed_by: The trusted author whose signature holds; empty for none.
        problem: Why it cannot be used; empty when it can.
        gone: Whether it is there no more.
        project: The project's root for one that lies in a project; empty for the others.
    """

    kind: Literal["plugin.seen"] = "plugin.seen"
    plugin: str
    version: str = ""
    description: str = ""
    place: PluginPlace = "user"
    modules: tuple[str, ...] = ()
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)
    content_hash: str = ""
    signed_by: str = ""
    problem: str = ""
    gone: bool = False
    project: str = ""


class PluginAudited(Event):
    """A plugin was examined.

    Attributes:
        audit: The report.
        by: Who asked for it.
    """

    kind: Literal["plugin.audited"] = "plugin.audited"
    audit: PluginAudit
    by: str = ""


class PluginChanged(Event):
    """Something was decided about a plugin, or happened to it.

    Attributes:
        plugin: Its name.
        change: What.
        state: Where it is in the session now; empty where no session is concerned.
        version: SemVer.
        content_hash: Of the bytes that this is about.
        reason: Why, one sentence; empty where the change says it.
        by: Who: a user name, `policy`, or `kagura` for what was not a person's decision.
        via: Where: `cell`, `command`, `sidebar`, `terminal`, …
        config: What it was configured with, as it may be shown: passwords are masked.
        permissions: What its jail opens now, after configuration.
        owner: The process that holds the session; empty where no session is concerned.
    """

    kind: Literal["plugin.changed"] = "plugin.changed"
    plugin: str
    change: PluginChange
    state: PluginState | Literal[""] = ""
    version: str = ""
    content_hash: str = ""
    reason: str = ""
    by: str = ""
    via: str = ""
    config: dict[str, str] = Field(default_factory=dict)
    permissions: PluginPermissions = Field(default_factory=PluginPermissions)
    owner: str = ""


class PluginCalled(Event):
    """A program in a box called a plugin's function, and had its answer.

    Attributes:
        plugin: Its name.
        module: The module that the program imported.
        function: The function.
        ok: Whether it returned a value.
        error_code: Of the refusal or failure; empty when it is ok.
        error: The message that the program got, cut.
        duration: Seconds, waiting for a place included.
        bytes_in: Of the arguments, as JSON.
        bytes_out: Of the answer, as JSON.
    """

    kind: Literal["plugin.called"] = "plugin.called"
    plugin: str
    module: str
    function: str
    ok: bool = True
    error_code: str = ""
    error: str = ""
    duration: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
