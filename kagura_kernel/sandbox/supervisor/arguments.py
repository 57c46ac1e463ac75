"""The bubblewrap command line of one box, as a pure function of what the box is to be.

Everything a box sees stands here: what is not bound here does not exist inside. Standard library only: the supervisor
uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kagura_kernel.sandbox.supervisor.etc import BOX_UID

WORKSPACE = "/workspace"
HOME = "/home/agent"
NO_LAYER = (
    "packages cannot be installed into the kernel's own Python in this box, but into an environment of the box's: "
    "python3 -m venv $HOME/env"
)
"""What to know of a box that has no layer over that Python, though it may reach an index of packages."""
UPPER, LOWER = "/run/kagura/upper", "/run/kagura/lower"

# What dpkg and apt do as root: give files to others, set their modes, run as another user and stop what they started.
ROOT_POWERS = ("chown", "dac_override", "fowner", "fsetid", "setuid", "setgid", "setfcap", "kill")
# What it takes to give up the others for good; itself given up with them.
_GIVE_UP = "setpcap"

_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


@dataclass(frozen=True, slots=True)
class Staged:
    """Where the parts of one box lie on the host's side, in the supervisor's private mounts."""

    etc: str  # directory that becomes /etc
    empty: str  # an empty file
    scratch: str  # directory with `tmp`, `home` and `shm`
    workspace: str | None = None  # what becomes /workspace; None makes it an empty directory
    writable: bool = True  # whether all of the workspace may be written
    lower: str | None = None  # the untouched project, for `changes`; None when there is no overlay
    upper: str | None = None  # the overlay's upper directory, likewise
    protected: tuple[str, ...] = ()  # subpaths of the workspace that stay as they are; they exist in `lower`
    writable_parts: tuple[str, ...] = ()  # subpaths of a read-only workspace that may be written all the same
    python: tuple[tuple[str, str], ...] = ()  # (staged directory, path in the box) of the interpreter's parts
    python_links: tuple[tuple[str, str], ...] = ()  # (path in the box, target)
    # (staged directory, path in the box) of the interpreter's parts that may be written.
    python_layers: tuple[tuple[str, str], ...] = ()
    # Files and directories in the box, at their places on the host, covered by empty ones.
    python_hidden: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()  # (staged directory, path in the box), read-only
    # (staged place, path in the box, whether it may be written) of the host's own files.
    shown: tuple[tuple[str, str, bool], ...] = ()
    shims: tuple[tuple[str, str], ...] = ()  # (name, target) of programs made in /run/kagura/bin
    # What becomes /, writable, with `overlays`; None makes a root of the host's programs that nobody writes.
    root: str | None = None
    overlays: tuple[tuple[str, str], ...] = ()  # (staged directory, path in the box), writable parts of such a root


def bwrap_arguments(staged: Staged, command: Sequence[str], *, seccomp_fd: int, system: str = "") -> list[str]:
    """Everything that follows the word `bwrap`; the command is process 1 inside.

    bubblewrap reads the filter from `seccomp_fd`; `system` is a prefix of the host's root directory, for tests.
    """
    return [
        *("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--hostname", "box"),
        *("--seccomp", str(seccomp_fd)),
        *(_nobody(staged, system) if staged.root is None else _root(staged, staged.root, system)),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--bind", f"{staged.scratch}/tmp", "/tmp", "--bind", f"{staged.scratch}/home", HOME),  # noqa: S108  the box's own
        *("--bind", f"{staged.scratch}/shm", "/dev/shm"),  # noqa: S108  likewise
        *("--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run"),  # noqa: S108  likewise
        *_workspace(staged),
        # Last, since the environment may lie below /tmp or /workspace on the host, which are the box's own by now.
        *_python(staged),
        *(word for source, target in staged.extra for word in ("--ro-bind", source, target)),
        *(word for place, to, write in staged.shown for word in ("--bind" if write else "--ro-bind", place, to)),
        # The root and /dev are memory that could be filled, and some settings in /proc are anybody's; after this only
        # what was bound writable can be written.
        *("--remount-ro", "/proc", "--remount-ro", "/dev"),
        *(("--remount-ro", "/") if staged.root is None else ()),
        *("--chdir", "/", "--"),
        *(() if staged.root is None else _bounded()),
        *command,
    ]


def _nobody(staged: Staged, system: str) -> Iterator[str]:
    """An ordinary user of a system that cannot be changed."""
    yield from ("--unshare-all", "--cap-drop", "ALL", "--uid", str(BOX_UID), "--gid", str(BOX_UID))
    yield from _programs(system)
    yield from ("--ro-bind", staged.etc, "/etc")


def _root(staged: Staged, root: str, system: str) -> Iterator[str]:
    """The root of a user space that bubblewrap is started in: one of its own would know a single user."""
    for space in ("ipc", "pid", "net", "uts", "cgroup"):
        yield f"--unshare-{space}"
    yield from ("--cap-drop", "ALL")
    for power in (*ROOT_POWERS, _GIVE_UP):
        yield from ("--cap-add", f"CAP_{power.upper()}")
    yield from ("--bind", root, "/")
    for source, target in staged.overlays:
        yield from ("--bind", source, target)
    for path in _PROGRAMS:
        if os.path.islink(f"{system}{path}"):
            yield from ("--symlink", os.readlink(f"{system}{path}"), path)


def _bounded() -> Iterator[str]:
    """A program that runs the next one with these powers and no way to others: bubblewrap leaves that way open."""
    only = ",".join(("-all", *(f"+{power}" for power in ROOT_POWERS)))
    yield from ("/usr/bin/setpriv", "--bounding-set", only, "--inh-caps", only, "--ambient-caps", only)


def _programs(system: str) -> Iterator[str]:
    yield from ("--ro-bind", f"{system}/usr", "/usr")
    for path in _PROGRAMS:
        if os.path.islink(f"{system}{path}"):
            yield from ("--symlink", os.readlink(f"{system}{path}"), path)
        elif os.path.isdir(f"{system}{path}"):
            yield from ("--ro-bind", f"{system}{path}", path)
    if os.path.isdir(f"{system}/nix/store"):
        yield from ("--ro-bind", f"{system}/nix/store", "/nix/store")


def _python(staged: Staged) -> Iterator[str]:
    for source, target in staged.python:
        yield from ("--ro-bind", source, target)
    for source, target in staged.python_layers:
        yield from ("--bind", source, target)
    for path, target in staged.python_links:
        yield from ("--symlink", target, path)
    for path in staged.python_hidden:
        if os.path.isdir(path):
            yield from ("--tmpfs", path, "--remount-ro", path)
        # One that is gone meanwhile has no place to be covered at.
        elif os.path.exists(path):
            yield from ("--ro-bind", staged.empty, path)
    for name, target in staged.shims:
        yield from ("--symlink", target, f"/run/kagura/bin/{name}")


def _workspace(staged: Staged) -> Iterator[str]:
    if staged.workspace is None:
        yield from ("--dir", WORKSPACE)
        return
    yield from ("--bind" if staged.writable else "--ro-bind", staged.workspace, WORKSPACE)
    for part in staged.writable_parts:
        yield from ("--bind", f"{staged.workspace}/{part}", f"{WORKSPACE}/{part}")
    for part in staged.protected:
        yield from ("--ro-bind", f"{staged.lower}/{part}", f"{WORKSPACE}/{part}")
    if staged.upper is not None and staged.lower is not None:
        yield from ("--ro-bind", staged.upper, UPPER, "--ro-bind", staged.lower, LOWER)
