"""The chats that the settings name, joined to the cockpit of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import replace

from kagura_kernel.assembly.process import get_cockpit
from kagura_kernel.assembly.settings import load_settings
from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.brain.provider import SEALED
from kagura_kernel.cockpit.chat_server import Server, Supervisor
from kagura_kernel.cockpit.status import StatusReport
from kagura_kernel.cockpit.transports.conversations import Conversations
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import BrainNotConfigured, NotThisTime, SandboxUnavailable

_CONTAINERS = ("docker", "gvisor")
"""What counts as a container, the usual one first."""


def check_served(environ: MutableMapping[str, str]) -> None:
    """Return when the settings name a chat.

    Raises:
        NotThisTime: they name none.
        ConfigurationError: they are wrong.
    """
    if not load_settings(environ).transports:
        raise NotThisTime(
            "No chat is set up, so there is nothing to serve. `kagura-kernel setup transport` sets one up."
        )


async def make_server(
    environ: MutableMapping[str, str], tell: Callable[[str], None], rest: Callable[[], None], *, container: bool = False
) -> Server:
    """The server of this process, with its cockpit; nothing is connected yet.

    Args:
        environ: Variables; those that hold a token are taken out before anything is started that could inherit them.
        tell: Says a line to whoever looks after the server.
        rest: Clears away what runs have left in memory.
        container: Whether all runs think with the sealed brain, in a container.

    Raises:
        BrainNotConfigured: `container`, and the sealed brain cannot think.
        SandboxUnavailable: `container`, and none can be had.
        KaguraError: the settings are wrong, a token is not where it should be, or the journal cannot be used.
    """
    supervisor = Supervisor(environ)
    settings = load_settings(environ)
    tables = settings.transports
    made = {name: await make_transport(name, table, environ) for name, table in tables.items()}
    cockpit = get_cockpit()
    cockpit.sweep_boxes()
    box = (settings.box if settings.box in _CONTAINERS else _CONTAINERS[0]) if container else ""
    if box:
        _check_container(await asyncio.to_thread(cockpit.status), box)
    if cockpit.lost:
        number = len(cockpit.lost)
        counted = "1 run was" if number == 1 else f"{number} runs were"
        tell(f"{counted} lost with the process that ran {'it' if number == 1 else 'them'}: {', '.join(cockpit.lost)}.")
    clock = SystemClock()
    chats = {
        name: Conversations(cockpit, transport, replace(terms, brain=SEALED, box=box) if box else terms, clock)
        for name, (transport, terms) in made.items()
    }
    return Server(cockpit, chats, clock, tell, supervisor, rest)


def _check_container(report: StatusReport, box: str) -> None:
    brain = next((one for one in report.brains if one.name == SEALED), None)
    if brain is None or not brain.ok:
        raise BrainNotConfigured(f"The brain {SEALED} cannot think: {brain.reason if brain else 'there is none'}.")
    found = next((one for one in report.boxes if one.name == box), None)
    if found is None or not found.ok:
        raise SandboxUnavailable(found.reason if found else f"there is no back-end {box}")
