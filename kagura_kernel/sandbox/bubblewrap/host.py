"""What bubblewrap needs of this machine: programs, and settings that a person can change where they forbid boxes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.search_path import entries_outside, is_inside
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.root_layer import mapping_commands

INSTALL = "`sudo apt install bubblewrap`, or the package of your distribution."

INSTALL_UIDMAP = "Install them with `apt install uidmap`, or take a container: `--box docker`."
ADD_RANGE = (
    "Have one added to /etc/subuid and /etc/subgid: "
    "`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, or take a container: `--box docker`."
)

_SYSTEM_PROGRAMS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


def find_bwrap(given: str | None, workspace: Path | None) -> str:
    """The program that makes the walls, which must not be a file that a box has put into the project.

    Unless its path is given, it is looked for in the system's directories, then on PATH.

    Raises:
        SandboxUnavailable: there is none, or it lies in the project; the text says what to install.
    """
    if not sys.platform.startswith("linux"):
        raise SandboxUnavailable("bubblewrap needs Linux")
    projects = [str(workspace)] if workspace else _working_directory()
    path = entries_outside([*_SYSTEM_PROGRAMS, *os.environ.get("PATH", "").split(":")], projects, os.path.realpath)
    program = given or shutil.which("bwrap", path=":".join(path))
    if program is None:
        raise SandboxUnavailable("bubblewrap is not installed", INSTALL)
    if is_inside(os.path.realpath(program), [os.path.realpath(project) for project in projects]):
        raise SandboxUnavailable(f"{program} lies in the project, where a box can change it", INSTALL)
    return program


def find_mapping() -> list[list[str]]:
    """The commands that give an ordinary user's boxes users of their own.

    Raises:
        SandboxUnavailable: the programs are missing, or the user has no range of ids; the text says how to get them.
    """
    programs = [shutil.which(name, path=":".join(_SYSTEM_PROGRAMS)) for name in ("newuidmap", "newgidmap")]
    if None in programs:
        raise SandboxUnavailable("a writable root needs newuidmap and newgidmap", INSTALL_UIDMAP)
    commands = mapping_commands(BOX_UID, [program for program in programs if program])
    if not commands:
        raise SandboxUnavailable("a writable root needs a range of ids that is yours", ADD_RANGE)
    return commands


def _working_directory() -> list[str]:
    # One that was removed is nobody's project any more.
    with contextlib.suppress(OSError):
        return [str(Path.cwd())]
    return []


def advise_root(why: str) -> str:
    """What would mend that a box's root cannot be made writable, as a sentence; empty when nothing is known."""
    if "only root" in why:
        return "Run the kernel as an ordinary user or as the machine's own root, or take a container: `--box docker`."
    if "Debian" in why:
        return "Take a container with the tools in its image: `--box docker`."
    return ""
