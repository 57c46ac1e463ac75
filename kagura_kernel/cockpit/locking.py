"""What locked settings leave to a cell, a definition or a program: as much as they say, or less, never more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.brain.provider import AUTO, usual_model
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.notebook import CONTEXT_MODES
from kagura_kernel.domain.policy import SandboxPolicyType, WriteMode
from kagura_kernel.membrane.egress.hosts import NONE

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.runs.order import RunOrder

_Chosen = Callable[[str], str]
_WRITES = (WriteMode.NONE, WriteMode.ASK, WriteMode.THROUGH)
_POLICIES = list(SandboxPolicyType)


def check_locked(order: RunOrder, settings: Settings, chosen: Callable[[str], str]) -> None:
    """Refuse an order that has more than the settings which an administrator has locked.

    Args:
        order: Every choice made.
        settings: The user's.
        chosen: Name of a brain, or `auto`, to the name of the one that thinks then.

    Raises:
        UsageError: it has.
    """
    for name in settings.locked:
        keeps = _KEEPS.get(name)
        if keeps is not None and not keeps(order, settings, chosen):
            raise UsageError(
                f"This run asks for more than the setting `{name}` says, which the administrator of this machine has "
                f"locked for everybody. Leave `{_OPTIONS[name]}` out, in the cell and in the definition of its agent; "
                "`kagura-kernel doctor` says where such settings stand."
            )


def audit_budget(said: float | None, settings: Settings) -> float | None:
    """What an audit may cost, USD: a person's word, but for more than is locked."""
    usual = settings.budget_usd
    if said is None or usual is None or "budget_usd" not in settings.locked:
        return usual if said is None else said
    return min(said, usual)


def _within(most: float | None, asked: float | None) -> bool:
    return most is None or (asked is not None and asked <= most)


def _brain(order: RunOrder, settings: Settings, chosen: _Chosen) -> bool:
    brain = order.brain
    return brain is None or order.request.replay is not None or brain.name == chosen(settings.brain)


def _model(order: RunOrder, settings: Settings, chosen: _Chosen) -> bool:
    brain = order.brain
    if brain is None or order.request.replay is not None:
        return True
    return order.model == usual_model(settings, brain.name, lambda: chosen(AUTO))


def _net(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return {*order.grant.net} <= {*settings.net, NONE}


def _context(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return CONTEXT_MODES.index(order.context.mode) <= CONTEXT_MODES.index(settings.context)


def _context_tokens(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return order.context.mode == "none" or order.context.tokens <= settings.context_tokens


_Keeps = Callable[["RunOrder", "Settings", _Chosen], bool]

_KEEPS: Mapping[str, _Keeps] = {
    "agent": lambda order, settings, _: order.agent is None or order.agent.reference == settings.agent,
    "box": lambda order, settings, _: order.box == settings.box,
    "brain": _brain,
    "budget_usd": lambda order, settings, _: order.brain is None or _within(settings.budget_usd, order.budget_usd),
    "command_timeout": lambda order, settings, _: _within(settings.command_timeout or None, order.limits.total),
    "context": _context,
    "context_tokens": _context_tokens,
    "idle_timeout": lambda order, settings, _: _within(settings.idle_timeout or None, order.limits.idle),
    "image": lambda order, settings, _: order.request.image in (None, settings.image),
    "keep": lambda order, settings, _: settings.keep or not order.request.keep,
    "model": _model,
    "net": _net,
    "policy": lambda order, settings, _: _POLICIES.index(order.spec.policy.type) <= _POLICIES.index(settings.policy),
    "workers": lambda order, settings, _: order.brain is None or order.delegation.workers == settings.workers,
    "write": lambda order, settings, _: _WRITES.index(order.write_mode) <= _WRITES.index(settings.write),
}
"""Whether an order keeps to a setting, of those that something else has a say in."""

_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _KEEPS} | {
    "budget_usd": "--budget",
    "command_timeout": "--timeout",
    "context_tokens": "--context",
    "idle_timeout": "--idle",
}
