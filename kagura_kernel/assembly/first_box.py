"""What the first box waits for, started before anybody asks for it."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.sandbox.docker_endpoint import endpoint_from
from kagura_kernel.sandbox.python_view import NAMES, current_view
from kagura_kernel.sandbox.selection import AUTO, is_shared
from kagura_kernel.sandbox.supervisor.launched import launch_ahead

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings

_BUBBLEWRAP = "bubblewrap"


def start_supervisor(settings: Settings, environ: Mapping[str, str]) -> None:
    """Start the supervisor of boxes where the first box is most likely one of bubblewrap, with the folder we are in.

    It looks through the packages of this Python meanwhile; `end_spare` ends one that nobody has asked for.
    """
    if sys.platform != "linux" or settings.box not in (AUTO, _BUBBLEWRAP) or not SandboxPolicy(settings.policy).walled:
        return
    if settings.box == AUTO and not _comes_first(settings, environ):
        return
    # Whatever is wrong is told by the box that needs it.
    with contextlib.suppress(OSError):
        if shutil.which("bwrap") is not None:
            launch_ahead(current_view(Path.cwd()).as_setup(*NAMES))


def _comes_first(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether `auto` will take bubblewrap where it works."""
    if is_shared(settings.shared or None, environ.get("JUPYTERHUB_USER")):
        return False
    return settings.boxes[0] == _BUBBLEWRAP if settings.boxes else not _has_docker(environ)


def _has_docker(environ: Mapping[str, str]) -> bool:
    socket = endpoint_from(environ).socket_path
    return socket is None or Path(socket).exists()
