"""What one gVisor box without Docker is made of: the steps that make its root, and its OCI bundle. Only decides.

It shows what a bubblewrap box shows, because that is asked what it would show. The places that can be written are
memory of the box's own; nothing of the project is mounted, it travels over the pipe as into a container.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv
from kagura_kernel.sandbox.box import Sizes, sizes
from kagura_kernel.sandbox.bubblewrap.python_view import PythonView
from kagura_kernel.sandbox.bubblewrap.request import SHIMS, guest_config, request_for
from kagura_kernel.sandbox.docker.flags import host_threads
from kagura_kernel.sandbox.docker.seccomp import oci_filter
from kagura_kernel.sandbox.supervisor.arguments import HOME, NO_LAYER, Staged, bwrap_arguments
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.gvisor import EMPTY, ETC, HOLLOW

_ARITY = {
    **dict.fromkeys(("--ro-bind", "--bind", "--symlink"), 2),
    **dict.fromkeys(("--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"), 0),
}
_TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - the box's own
_MEMORY = (WORKSPACE, HOME, *_TEMPORARY)

Step = tuple[str, str, str]


def job_for(spec: BoxSpec, view: PythonView, runsc: Sequence[str]) -> dict[str, Any]:
    """The supervisor's job; `runsc` is the program and its options."""
    steps = list(_steps(spec, view))
    limits = spec.limits
    return {
        "runsc": list(runsc),
        "steps": [step for step in steps if not _in_memory(step)],
        "bundle": _bundle(spec, view, [step for step in steps if _in_memory(step)]),
        "memory_bytes": limits.memory_bytes,
        "processes": host_threads(limits),
        "cpus": limits.cpus,
    }


def guest_config_for(spec: BoxSpec, view: PythonView) -> GuestConfig:
    """What the guest is told."""
    request = request_for(spec, spec.limits, "", view, copy=True)
    return guest_config(spec, view, {**request, "writable": spec.policy.writable})


def notes_for(spec: BoxSpec, view: PythonView) -> tuple[str, ...]:
    """What to know of such a box: runsc shows the kernel's Python as it is, for reading only."""
    return (NO_LAYER,) if spec.policy.network_access and view.layered else ()


def _steps(spec: BoxSpec, view: PythonView) -> Iterator[Step]:
    """How the root is made: (what to do, what is shown or linked to, where in the box)."""
    staged = Staged(
        etc=ETC,
        empty=EMPTY,
        scratch="",
        python=tuple((path, path) for path in view.directories),
        python_links=view.links,
        python_hidden=view.hidden,
        shims=tuple((name, view.python) for name in ("python", "python3")),
    )
    yield from (("folder", "", path) for path in (*_MEMORY, "/proc", "/dev", "/sys", "/run", "/var", SHIMS))
    words = bwrap_arguments(staged, (), seccomp_fd=-1)
    at = 0
    while at < len(words) and words[at] != "--":
        count = _ARITY.get(words[at], 1)
        match words[at : at + 1 + count]:
            case ["--ro-bind", source, target]:
                yield "show", source, target
            case ["--symlink", source, target]:
                yield "link", source, target
            case ["--tmpfs", target]:
                yield "show", HOLLOW, target
        at += 1 + count
    yield from (("further", str(source), target) for source, target in spec.extra_read_only)


def _in_memory(step: Step) -> bool:
    """Whether its place is hidden by memory of the box, so that it can only be shown on top of that."""
    action, _, target = step
    return action == "show" and any(target.startswith(f"{place}/") for place in _MEMORY)


def _bundle(spec: BoxSpec, view: PythonView, shown: Sequence[Step]) -> dict[str, Any]:
    limits = spec.limits
    numbers = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": limits.processes,
    }
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": BOX_UID, "gid": BOX_UID},
            "args": guest_argv(view.python),
            "env": [],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {},
            "rlimits": [{"type": name, "soft": value, "hard": value} for name, value in numbers.items()],
        },
        # Relative to the bundle.
        "root": {"path": "../root", "readonly": True},
        "hostname": "box",
        "mounts": [*_mounts(sizes(limits), writable=spec.policy.writable), *map(_on_top, shown)],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "seccomp": oci_filter(),
        },
    }


def _mounts(size: Sizes, *, writable: bool) -> Iterator[dict[str, Any]]:
    # A workspace that must not be written belongs to root, and nothing in the box is root.
    owner = BOX_UID if writable else 0
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": ["ro", "nosuid", "nodev", "noexec"]}
    yield _tmpfs(WORKSPACE, size.workspace, owner, "0755")
    yield _tmpfs(HOME, size.home, BOX_UID, "0700")
    yield _tmpfs("/tmp", size.temporary, 0, "1777")  # noqa: S108 - the box's own
    yield _tmpfs("/dev/shm", size.shared, 0, "1777", "noexec")  # noqa: S108 - likewise


def _tmpfs(place: str, size: int, owner: int, mode: str, *more: str) -> dict[str, Any]:
    options = ["nosuid", "nodev", *more, f"size={size}", f"uid={owner}", f"gid={owner}", f"mode={mode}"]
    return {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": options}


def _on_top(step: Step) -> dict[str, Any]:
    return {"destination": step[2], "type": "bind", "source": step[1], "options": ["ro", "rbind"]}
