"""A run's plugins: what of them lies in its box, and the port at which programs there call them.

Nothing is sent and nothing listens where no plugin is enabled. What is sent lies in the exchange directory, and what
makes programs find it is in each command's environment, so that boxes are the same with and without plugins.

    host/bin/    kagura-host, the program for shells
    host/lib/    kagura_host, the package, and the `sitecustomize` that puts it before everything else
"""

from __future__ import annotations

import asyncio
import importlib.resources
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.events import Noted
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.plugins.calls import EnabledPlugin
from kagura_kernel.plugins.guest_calls import GuestCalls
from kagura_kernel.runs.exchange import ExchangeDirectory, SearchPaths
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.sandbox.backend import Box, Failed, Listener

PACKAGE = "kagura_kernel.plugins.guest"
BOXED_PACKAGE = "kagura_host"
LISTENER = "plugins"
PREPARE_SECONDS = 20.0
_STARTUP = "_startup.py"
_PLACE = "_place.py"

# Prints what commands in the box have on their paths, so that ours come in front of that and replace nothing. Login
# shells set PATH anew; where the box has no profile of its own, one brings ours back.
_PREPARE = """\
printf '%s\\0' "$PATH" "$PYTHONPATH" "$(command -v python3)"
for one in "$HOME/.bash_profile" "$HOME/.bash_login" "$HOME/.profile"; do [ -e "$one" ] && exit 0; done
printf 'PATH=%s:$PATH\\n' {bin} 2>/dev/null > "$HOME/.profile"
exit 0
"""


@cache
def guest_files() -> Mapping[str, bytes]:
    """What is sent into a box, by path below `host/lib/`; without what differs from run to run."""
    found = {}
    for one in importlib.resources.files(PACKAGE).iterdir():
        if one.name == _STARTUP:
            found["sitecustomize.py"] = one.read_bytes()
        elif one.name.endswith(".py") and one.name != _PLACE:
            found[f"{BOXED_PACKAGE}/{one.name}"] = one.read_bytes()
    return found


def place_file(port: int, plugins: Sequence[EnabledPlugin]) -> bytes:
    """The module that tells the package where the host answers, and what there is to call."""
    modules = {
        module: (plugin.name, [(spec.name, spec.signature, spec.doc) for spec in specs])
        for plugin in plugins
        for module, specs in plugin.modules.items()
    }
    # Texts, lists and numbers alone: what is written is read as the same by any Python.
    return f"PORT = {port}\nMODULES = {modules!a}\n".encode("ascii")


@dataclass(frozen=True, slots=True)
class OpenPlugins:
    """What a run's box can call."""

    # Where its programs find the package and the program; None where there is nothing to call
    search: SearchPaths | None = None
    briefing: str = ""  # What its brain is told of it
    calls: GuestCalls | None = None  # Serves the calls; None likewise
    port: int = 0  # Where they come in; 0 likewise

    def laid(self, exchange: ExchangeDirectory) -> ExchangeDirectory:
        """The exchange directory whose programs find them."""
        return exchange.finding(self.search)

    async def close(self) -> None:
        """Cut calls under way; from now on nothing is carried out. May be called twice."""
        if self.calls is not None:
            await self.calls.close()


async def refresh_plugins(order: RunOrder, parts: RunParts, record: RecordFact) -> None:
    """Before a run's box is launched: what has become of the plugins of its session since the last one."""
    if parts.plugins is None:
        return
    for note in await parts.plugins.refresh(order.session_id, order.project):
        record(Noted, text=note)


async def open_plugins(
    box: Box,
    order: RunOrder,
    parts: RunParts,
    record: RecordFact,
    failed: Failed,
    held: Callable[[], str] = str,
    port: int = 0,
) -> OpenPlugins:
    """Let a run's box call the plugins that are enabled in its session now; they stay those to its end.

    Args:
        box: The run's.
        order: The run.
        parts: What carries it out.
        record: Where each call is written down.
        failed: Told of what must end the run: a call could not be written down.
        held: Why nothing is called now, as a clause; empty where it may be.
        port: Where calls came in before, as programs that stay in the box know it; 0 for nowhere.

    Raises:
        SandboxError: the box is gone, or has no port for them.
    """
    access = parts.plugins
    plugins = [] if access is None else access.enabled(order.session_id)
    if access is None or not plugins:
        return OpenPlugins()
    calls = GuestCalls(plugins, record, clock=parts.clock, limits=parts.call_limits, held=held)
    port, search = await connect(box, plugins, calls, failed, port)
    return OpenPlugins(search, access.briefing(order.session_id), calls, port)


async def connect(
    box: Box, plugins: Sequence[EnabledPlugin], calls: GuestCalls, failed: Failed, port: int = 0
) -> tuple[int, SearchPaths]:
    """Let programs in a box reach `calls`, at this port where it is free: the port, and where they find what it takes.

    Raises:
        SandboxError: the box is gone, or has no port for it.
    """
    try:
        port = await box.listen(Listener(port, "raw", LISTENER), calls.serve, failed)
    except SandboxUnavailable:
        if not port:
            raise
        port = await box.listen(Listener(0, "raw", LISTENER), calls.serve, failed)
    root = f"{ExchangeDirectory(box).root}/host"
    lib, programs = f"{root}/lib", f"{root}/bin"
    files = {**guest_files(), f"{BOXED_PACKAGE}/{_PLACE}": place_file(port, plugins)}
    prepare = ("sh", "-c", _PREPARE.format(bin=shlex.quote(programs)))
    writing = (box.files.write(f"{lib}/{path}", data) for path, data in files.items())
    answered, _ = await asyncio.gather(
        box.run(Command(prepare, limits=CommandLimits(PREPARE_SECONDS, None))), asyncio.gather(*writing)
    )
    path, python_path, python = ([*answered.stdout.text.split("\0"), "", "", ""])[:3]
    if not answered.ok or not path:
        raise SandboxUnavailable(f"box {box.id} has no shell that could be prepared for plugins")
    # The box's first Python, whatever PATH is when it is called; isolated, so that no project's files are in its way.
    line = shlex.join([python or "python3", "-I", "-S", f"{lib}/{BOXED_PACKAGE}"])
    script = f'#!/bin/sh\nexec {line} "$@"\n'
    await box.files.write(f"{programs}/kagura-host", script.encode("utf-8", "surrogateescape"), mode=0o755)
    return port, SearchPaths((programs, *_entries(path)), (lib, *_entries(python_path)))


def _entries(path: str) -> list[str]:
    return [entry for entry in path.split(":") if entry]
