"""Where a plugin can be in a session, and what brings it from one place to the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from kagura_kernel.domain.plugins import PluginPermissions, PluginState

if TYPE_CHECKING:
    from kagura_kernel.plugins.configuring import Value

Step = Literal["audit", "configure", "enable", "disable", "fail", "change", "quarantine", "release"]
"""What can happen to a plugin: `change` is other files than those it came so far with, `fail` a fault of its own."""

_ANY = tuple(PluginState)
_COMES_FROM: Mapping[Step, tuple[PluginState, ...]] = {
    "audit": _ANY,
    # An approved plugin is configured without an audit of the session's own.
    "configure": tuple(state for state in _ANY if state is not PluginState.QUARANTINED),
    "enable": (PluginState.CONFIGURED,),
    "disable": (PluginState.CONFIGURED, PluginState.ENABLED),
    "fail": (PluginState.CONFIGURED, PluginState.ENABLED),
    "change": _ANY,
    "quarantine": _ANY,
    "release": (PluginState.QUARANTINED,),
}
_LEADS_TO: Mapping[Step, PluginState] = {
    "configure": PluginState.CONFIGURED,
    "enable": PluginState.ENABLED,
    "disable": PluginState.DISABLED,
    "fail": PluginState.DISABLED,
    "change": PluginState.DISCOVERED,
    "quarantine": PluginState.QUARANTINED,
    "release": PluginState.DISCOVERED,
}


class NoSuchStep(Exception):
    """Nothing leads there from here; whoever asked has lost count."""

    def __init__(self, state: PluginState, step: Step) -> None:
        super().__init__(f"a plugin that is {state} cannot {step}")


def after(state: PluginState, step: Step) -> PluginState:
    """Where a plugin is after a step.

    Raises:
        NoSuchStep: the step cannot be taken from here.
    """
    if state not in _COMES_FROM[step]:
        raise NoSuchStep(state, step)
    if step == "audit":
        # Looking once more at what was configured already takes nothing back; it is the way out of quarantine.
        first = state in (PluginState.DISCOVERED, PluginState.QUARANTINED)
        return PluginState.AUDITED if first else state
    return _LEADS_TO[step]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one session has come with one plugin."""

    state: PluginState = PluginState.DISCOVERED  # Where it is
    content_hash: str = ""  # The bytes that this is about; with others it begins anew
    # What it was last configured with
    values: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    # All of its configuration, as it may be shown
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    opens: PluginPermissions = field(default_factory=PluginPermissions)  # What its jail opens

    def about(self, content_hash: str) -> Standing:
        """The same for these bytes: what a person configured is kept, what was found out about other bytes is not."""
        if content_hash == self.content_hash:
            return self
        return Standing(content_hash=content_hash, values=self.values, config=self.config)


def shown_state(standing: Standing, content_hash: str, *, audited: bool, quarantined: bool) -> PluginState:
    """What a list says of a plugin whose files have this hash now.

    Args:
        standing: How far the session has come.
        content_hash: Of the files that are there; empty for what cannot be read.
        audited: Whether exactly these files have ever been audited.
        quarantined: Whether they are put off.
    """
    if quarantined:
        return PluginState.QUARANTINED
    if standing.state is PluginState.ENABLED:
        # Until the next run finds that the files are others, what was loaded goes on.
        return PluginState.ENABLED
    if standing.content_hash == content_hash and standing.state in (PluginState.CONFIGURED, PluginState.DISABLED):
        return standing.state
    return PluginState.AUDITED if audited else PluginState.DISCOVERED
