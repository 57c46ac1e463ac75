"""Whether git in the project would run more than git itself, asked of git when an earned grant is about to answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import HostError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.patterns.git_settings import read_settings, runs_more
from kagura_kernel.runtime.host import HostRunner

_LIMITS = CommandLimits(10.0, None)
_PLACES = ("git", "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-path", "hooks")
_SETTINGS = ("git", "config", "--list", "--show-origin", "-z")
UNCLEAR = "git does not say where its settings and hooks lie"


async def more_than_git(project: Path) -> str:
    """Why a git command in the project may run more than git itself, half a sentence; empty when it does not."""
    host = HostRunner(project)
    try:
        places = (await _said(host, _PLACES)).splitlines()
        settings = await _said(host, _SETTINGS)
    except HostError:
        return UNCLEAR
    finally:
        await host.close()
    if len(places) != 3 or not settings:  # noqa: PLR2004 - as many as were asked for
        return UNCLEAR
    try:
        root = str(await asyncio.to_thread(project.resolve))
        hooks = await asyncio.to_thread(_names, project / places[2])
    except OSError:
        return UNCLEAR
    return runs_more(read_settings(settings, places[0]), hooks, root, places[1], places[0])


async def _said(host: HostRunner, words: tuple[str, ...]) -> str:
    """What a program prints; nothing when it fails."""
    result = await host.run(Command(words, limits=_LIMITS))
    return result.stdout.data.decode("utf-8", "surrogateescape") if result.ok and not result.stdout.truncated else ""


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
