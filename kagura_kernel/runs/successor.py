"""What a run that goes on from another one is started with, and with which brain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainEvent, BrainProvider, Turn
from kagura_kernel.domain.changes import FileChange
from kagura_kernel.domain.errors import BrainForgot
from kagura_kernel.domain.policy import PermissionMode
from kagura_kernel.membrane.egress.hostsets import NONE
from kagura_kernel.membrane.grant import WRITE_THROUGH
from kagura_kernel.runs.order import RunOrder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_USUAL = {one.name: one.default for one in fields(FileChange) if one.name not in ("path", "status")}


def options_of(order: RunOrder, looks: Sequence[str], *, plugins: bool) -> dict[str, Any]:
    """What a person chose for a run, as the options of a checkpoint; without what its agent's definition asked for.

    Args:
        order: The run's.
        looks: Names of its tools that change nothing.
        plugins: Whether its box could call plugins.
    """
    grant = order.grant
    own = (word for word in grant.net if word not in grant.usual and word not in grant.asked)
    return {
        "project": str(order.project),
        "agent": order.agent.reference if order.agent is not None else "",
        "model": order.model,
        "box": order.box,
        "image": order.spec.image if order.spec.image_required else None,
        "net": [*([NONE] if grant.closed else []), *own],
        "credentials": [str(one) for one in grant.credentials if f"credential {one}" not in grant.asked],
        "writable_root": grant.writable_root,
        "write_mode": None if WRITE_THROUGH in grant.asked else order.write_mode.value,
        "command_timeout": order.longest,
        "max_turns": order.max_turns,
        "outputs": list(order.outputs),
        "verify": order.verify,
        "workers": order.delegation.workers,
        "looks": list(looks),
        "plugins": plugins,
        "full_control": order.routing.mode is PermissionMode.FULL_CONTROL,
    }


def fields_of(change: FileChange) -> dict[str, object]:
    """A change as a checkpoint keeps it: without its diff, and without what is as usual, since there may be many."""
    told = {name: getattr(change, name) for name in _USUAL if name != "diff"}
    return {"path": change.path, "status": change.status} | {
        name: value for name, value in told.items() if value != _USUAL[name]
    }


class OrAfresh:
    """A brain that begins anew where it was to go on with a conversation that it has forgotten.

    Args:
        inner: The brain.
        forgot: Called before it begins anew.
    """

    def __init__(self, inner: BrainProvider, forgot: Callable[[], None]) -> None:
        self._inner = inner
        self._forgot = forgot

    @property
    def name(self) -> str:
        """The brain's."""
        return self._inner.name

    def resolve_auth(self) -> AuthContext:
        """As the brain."""
        return self._inner.resolve_auth()

    def capabilities(self) -> BrainCapabilities:
        """As the brain."""
        return self._inner.capabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Think until done; raises as the brain, but for `BrainForgot`."""
        try:
            async for event in self._events(turn):
                yield event
        except BrainForgot:
            # It says so before anything else, so nothing was done twice.
            self._forgot()
        else:
            return
        async for event in self._events(replace(turn, resume="")):
            yield event

    async def _events(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        stream: AsyncIterator[BrainEvent] = self._inner.run(turn)
        async with aclosing(stream) as events:  # type: ignore[type-var]
            async for event in events:
                yield event
