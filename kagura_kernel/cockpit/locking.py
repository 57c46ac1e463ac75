"""What locked settings leave to a cell, a definition or a program: as much as they say, or less, never more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.brain.openai_compatible import KNOWN, split_model
from kagura_kernel.brain.openai_compatible import NAME as COMPATIBLE
from kagura_kernel.brain.provider import AUTO, usual_model
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.notebook import CONTEXT_MODES
from kagura_kernel.domain.policy import SandboxPolicyType, WriteMode
from kagura_kernel.membrane.egress.hosts import NONE
from kagura_kernel.sandbox.selection import AUTO as ANY_BOX

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.runs.order import RunOrder

_Chosen = Callable[[str], str]
_Keeps = Callable[["RunOrder", "Settings", _Chosen], bool]
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
            raise _more_than(name, ", in the cell and in the definition of its agent")


def check_locked_audit(brain: str, model: str, settings: Settings, chosen: _Chosen) -> None:
    """Refuse an audit by another brain, or model, than settings which an administrator has locked.

    Args:
        brain: Who is to read the source.
        model: With which model.
        settings: The user's.
        chosen: As in `check_locked`.

    Raises:
        UsageError: it is another one.
    """
    for name, keeps in _THINKING.items():
        if name in settings.locked and not keeps(brain, model, settings, chosen):
            raise _more_than(name)


def _more_than(name: str, where: str = "") -> UsageError:
    return UsageError(
        f"This run asks for more than the setting `{name}` says, which the administrator of this machine has locked "
        f"for everybody. Leave `{_OPTIONS[name]}` out{where}; `kagura-kernel doctor` says where such settings stand."
    )


def audit_budget(said: float | None, settings: Settings) -> float | None:
    """What an audit may cost, USD: a person's word, but for more than is locked."""
    usual = settings.budget_usd
    if said is None or usual is None or "budget_usd" not in settings.locked:
        return usual if said is None else said
    return min(said, usual)


def _within(most: float | None, asked: float | None) -> bool:
    return most is None or (asked is not None and asked <= most)


def _brain(brain: str, _model: str, settings: Settings, chosen: _Chosen) -> bool:
    return brain == chosen(settings.brain)


def _model(brain: str, model: str, settings: Settings, chosen: _Chosen) -> bool:
    return model == usual_model(settings, brain, lambda: chosen(AUTO))


def _endpoint(brain: str, model: str, settings: Settings, _: _Chosen) -> bool:
    """A model's name may name another one."""
    named, _model = split_model(model, [*settings.endpoints, *KNOWN])
    return brain != COMPATIBLE or named in ("", settings.endpoint)


_THINKING: Mapping[str, Callable[[str, str, Settings, _Chosen], bool]] = {
    "brain": _brain,
    "endpoint": _endpoint,
    "model": _model,
}
"""Whether a brain and its model keep to a setting."""


def _thinking(name: str) -> _Keeps:
    def keeps(order: RunOrder, settings: Settings, chosen: _Chosen) -> bool:
        if order.brain is None or order.request.replay is not None:
            return True
        return _THINKING[name](order.brain.name, order.model, settings, chosen)

    return keeps


def _boxes(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    """One by name is of those that are tried; what is locked as the usual one is an administrator's word as well."""
    return not settings.boxes or "box" in settings.locked or order.box in (ANY_BOX, *settings.boxes)


def _net(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return {*order.grant.net} <= {*settings.net, NONE}


def _context(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return CONTEXT_MODES.index(order.context.mode) <= CONTEXT_MODES.index(settings.context)


def _context_tokens(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return order.context.mode == "none" or order.context.tokens <= settings.context_tokens


_KEEPS: Mapping[str, _Keeps] = {
    "agent": lambda order, settings, _: order.agent is None or order.agent.reference == settings.agent,
    "box": lambda order, settings, _: order.box == settings.box,
    "boxes": _boxes,
    "budget_usd": lambda order, settings, _: order.brain is None or _within(settings.budget_usd, order.budget_usd),
    "command_timeout": lambda order, settings, _: _within(settings.command_timeout or None, order.limits.total),
    "context": _context,
    "context_tokens": _context_tokens,
    "idle_timeout": lambda order, settings, _: _within(settings.idle_timeout or None, order.limits.idle),
    "image": lambda order, settings, _: order.request.image in (None, settings.image),
    "keep": lambda order, settings, _: settings.keep or not order.request.keep,
    "net": _net,
    "policy": lambda order, settings, _: _POLICIES.index(order.spec.policy.type) <= _POLICIES.index(settings.policy),
    "workers": lambda order, settings, _: order.brain is None or order.delegation.workers == settings.workers,
    "write": lambda order, settings, _: _WRITES.index(order.write_mode) <= _WRITES.index(settings.write),
} | {name: _thinking(name) for name in _THINKING}
"""Whether an order keeps to a setting, of those that something else has a say in."""

_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _KEEPS} | {
    "boxes": "--box",
    "budget_usd": "--budget",
    "command_timeout": "--timeout",
    "context_tokens": "--context",
    "endpoint": "--model",
    "idle_timeout": "--idle",
}
