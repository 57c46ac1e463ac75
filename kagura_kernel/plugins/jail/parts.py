"""What every jail is made of, and its limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.membrane.egress.gate import Resolver, SystemResolver
from kagura_kernel.sandbox.backend import Box, BoxSpec

if TYPE_CHECKING:
    from kagura_kernel.plugins.permissions import PostgresService

StartBox = Callable[[BoxSpec], Awaitable[Box]]
OpenService = Callable[[Box, "PostgresService"], Awaitable[int]]
JailFailed = Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class JailLimits:
    """The limits of one jail."""

    call_seconds: float = DEFAULTS.plugin_call_seconds  # One call, from the moment the plugin has it
    calls: int = DEFAULTS.plugin_calls  # Carried out at once
    waiting: int = 64  # May wait for their turn; one more is refused
    frame_bytes: int = 4 * 2**20  # Arguments, or an answer, as JSON
    memory_mib: int = DEFAULTS.plugin_memory_mib  # Memory of the whole jail
    start_seconds: float = 20.0  # From the box to the plugin's list of functions; its `create_host_functions` is in it
    log_bytes: int = 64 * 1024  # How much of what it prints is kept


async def no_services(box: Box, service: PostgresService) -> int:
    """Opens nothing: where nobody can sign in to a database on a plugin's behalf."""
    raise SandboxUnsupported(box.backend, f"signing in to {service.host} for a plugin")


@dataclass(frozen=True, slots=True)
class JailParts:
    """What the jails of one process are made of. All callables are used on the loop that the jails live on."""

    start_box: StartBox  # Starts a box of the back-end for jails
    resolver: Callable[[], Resolver] = SystemResolver  # Makes what turns names into addresses; one for each jail
    # Keeps what is decided about a jail's connections; the plugin's name is in it
    record_egress: Callable[[EgressDecided | EgressClosed], None] = lambda _: None
    clock: Clock = field(default_factory=SystemClock)  # The time
    limits: JailLimits = field(default_factory=JailLimits)  # Of each jail
    # Told a plugin's name and why it has to go into quarantine; once for each jail
    failed: JailFailed = lambda _plugin, _why: None
    # Serves a database on a port of the box's loopback, signed in by the membrane: the port
    open_service: OpenService = no_services
