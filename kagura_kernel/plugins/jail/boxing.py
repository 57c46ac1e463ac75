"""The box of a jail: what it is made of, and its way out. Only as much as the plan says."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalError, SandboxUnavailable
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.membrane.egress.boxed import open_egress
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.limits import EgressLimits
from kagura_kernel.membrane.egress.patterns import PatternPolicy
from kagura_kernel.membrane.egress.variables import proxy_variables
from kagura_kernel.plugins.jail.parts import JailLimits, JailParts
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.guest_streams import Failed

if TYPE_CHECKING:
    from kagura_kernel.plugins.permissions import JailPlan

_MIB = 2**20
_EGRESS = EgressLimits(connections=32, waiting=64, rate=20.0, burst=64)


def box_spec(plan: JailPlan, limits: JailLimits) -> BoxSpec:
    """A box with no project, nothing to write but its own memory and what the plan shows, and no network."""
    return BoxSpec(
        policy=SandboxPolicy(type=SandboxPolicyType.READ_ONLY, writable_roots=()),
        limits=BoxLimits(
            memory_bytes=limits.memory_mib * _MIB,
            processes=64,
            cpus=1.0,
            workspace_bytes=_MIB,
            scratch_bytes=64 * _MIB,
            open_files=512,
            file_bytes=512 * _MIB,
        ),
        shown=plan.shown,
    )


class WayOut:
    """What a jail may reach: hosts through the membrane, and databases that the membrane signs in to.

    Args:
        name: The plugin's.
        plan: What it may reach.
        parts: What jails are made of.
    """

    def __init__(self, name: str, plan: JailPlan, parts: JailParts) -> None:
        self._name = name
        self._plan = plan
        self._parts = parts
        self._egress: Egress | None = None

    async def open(self, box: Box, failed: Failed) -> dict[str, str]:
        """Open it in a box; the variables by which the jailer's programs find it.

        Args:
            box: The jail's.
            failed: Told when a crossing could not be recorded; the jail has to end then.

        Raises:
            SandboxUnavailable: the box has no loopback, or is gone.
            KaguraError: what the opening of a service raises.
        """
        for service in self._plan.services:
            port = await self._parts.open_service(box, service)
            if port != service.jail_port:
                raise SandboxUnavailable(f"the database {service.target} lies on another port than its URL says")
        if not self._plan.net:
            return {}
        gate = Gate(PatternPolicy(self._plan.net), self._parts.resolver(), limits=_EGRESS)
        self._egress = Egress(gate, self._crossed, limits=_EGRESS, clock=self._parts.clock)
        return proxy_variables(await open_egress(box, self._egress, failed=failed))

    def close(self) -> None:
        """Make no more connections, and write down the last of them; once the box is gone."""
        if self._egress is not None:
            # A journal that takes nothing has ended the jail, and tells it to everybody else as well.
            with suppress(JournalError):
                self._egress.close()

    def _crossed(self, fact: EgressDecided | EgressClosed) -> None:
        self._parts.record_egress(fact.model_copy(update={"plugin": self._name}))
