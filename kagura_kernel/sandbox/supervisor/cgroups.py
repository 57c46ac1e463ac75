"""Where the system counts memory, processes and CPU time of all processes of a box together.

Control groups of version 1 and 2, only where this process may make one: as root, or in a part of the tree that was
delegated to the user. A name holds the supervisor's process id and the process namespace in which it is one, so that a
later supervisor can remove what one that was killed left behind, and nothing of one in a container beside it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kagura_kernel.sandbox.supervisor import linux

_PERIOD = 100_000
_WANTED = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Tree:
    """The directories below which groups can be made."""

    version: int = 0  # 1 or 2; 0 where none can be made
    homes: Mapping[str, str] = field(default_factory=dict)  # controller to directory; in version 2 all the same one

    @property
    def missing(self) -> tuple[str, ...]:
        """Controllers that cannot be used, in a fixed order."""
        return tuple(name for name in _WANTED if name not in self.homes)


@dataclass(frozen=True, slots=True)
class Group:
    """One box's group: its directories, one per hierarchy."""

    directories: tuple[str, ...] = ()

    def enter(self) -> None:
        """Move this process, and all it will start, into the group."""
        for directory in self.directories:
            linux.write(f"{directory}/cgroup.procs", "0")

    def remove(self) -> bool:
        """Remove the group; whether it is gone. A group still has to lose its last process first."""
        for directory in self.directories:
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                # Gone already: where there are several, the last process may have left one before the other.
                continue
            except OSError:
                return False
        return True

    def out_of_memory(self) -> bool:
        """Whether the system killed something in it for want of memory."""
        for directory in self.directories:
            for name in ("memory.oom_control", "memory.events"):
                with contextlib.suppress(OSError), open(f"{directory}/{name}", encoding="ascii") as lines:
                    if any(line.split()[:1] == ["oom_kill"] and line.split()[1] != "0" for line in lines):
                        return True
        return False


def find_tree(mounts: str, membership: str) -> Tree:
    """Where groups can be made, from the texts of `/proc/self/mounts` and `/proc/self/cgroup`; changes nothing."""
    points = list(_mount_points(mounts))
    paths = dict(_memberships(membership))
    homes = {}
    for controllers, point in points:
        for name in controllers.intersection(_WANTED):
            home = f"{point}{paths.get(name, '/')}".rstrip("/")
            if os.access(home, os.W_OK):
                homes[name] = home
    if homes:
        return Tree(1, homes)
    unified = next((point for controllers, point in points if not controllers), None)
    return _unified_tree(unified, paths.get("", "/")) if unified else Tree()


def group_name(namespace: int, supervisor: int, number: int) -> str:
    """What a group is called: by the supervisor that makes it and the process namespace of its process id."""
    return f"kagura-{namespace}-{supervisor}-{number}"


def process_namespace() -> int:
    """The process namespace this process is in; 0 where the system does not tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def make_group(tree: Tree, name: str) -> Group:
    """A group without limits yet; empty where none can be made.

    Raises:
        OSError: the system refused; nothing is left behind.
    """
    group = Group(tuple(sorted({f"{home}/{name}" for home in tree.homes.values()})))
    try:
        for directory in group.directories:
            os.mkdir(directory, 0o755)
    except OSError:
        group.remove()
        raise
    return group


def set_limits(tree: Tree, group: Group, *, memory_bytes: int, processes: int, cpus: float) -> None:
    """Limit what all processes of a group use together. Raises `OSError` when the system refuses."""
    if not group.directories:
        return
    name = os.path.basename(group.directories[0])
    quota = str(int(cpus * _PERIOD))
    settings = {"memory": ("memory.max", str(memory_bytes)), "pids": ("pids.max", str(processes))}
    if tree.version == 1:
        settings |= {"memory": ("memory.limit_in_bytes", str(memory_bytes)), "cpu": ("cpu.cfs_quota_us", quota)}
    else:
        settings["cpu"] = "cpu.max", f"{quota} {_PERIOD}"
    for controller, (file, value) in settings.items():
        if controller in tree.homes:
            linux.write(f"{tree.homes[controller]}/{name}/{file}", value)
    # Without swap accounting these files are missing, and swap is not counted.
    if "memory" in tree.homes:
        swap = ("memory.memsw.limit_in_bytes", str(memory_bytes)) if tree.version == 1 else ("memory.swap.max", "0")
        with contextlib.suppress(OSError):
            linux.write(f"{tree.homes['memory']}/{name}/{swap[0]}", swap[1])


def sweep(tree: Tree, namespace: int) -> None:
    """End and remove groups whose supervisor is gone; one that was killed outright could not.

    `namespace` is the process namespace that `/proc` shows. Supervisors of others cannot be seen: theirs stay.
    """
    ours = f"kagura-{namespace}-"
    for home in set(tree.homes.values()):
        for name in os.listdir(home):
            supervisor = name.removeprefix(ours).partition("-")[0] if name.startswith(ours) else ""
            if supervisor.isdigit() and not os.path.exists(f"/proc/{supervisor}"):
                _kill_all(f"{home}/{name}")
                with contextlib.suppress(OSError):
                    os.rmdir(f"{home}/{name}")


def _kill_all(directory: str) -> None:
    # Version 2 can do it in one stroke, and to processes that have no number here.
    with contextlib.suppress(OSError):
        linux.write(f"{directory}/cgroup.kill", "1")
    with contextlib.suppress(OSError):
        for pid in map(int, _read(f"{directory}/cgroup.procs").split()):
            # Those of another process space are listed as 0, and to kill 0 is to kill one's own group.
            if pid > 0:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def _mount_points(mounts: str) -> Iterator[tuple[frozenset[str], str]]:
    """Hierarchies with their controllers; the unified one has none here."""
    for line in mounts.splitlines():
        _, point, kind, options, *_ = line.split(" ")
        if kind == "cgroup":
            yield frozenset(options.split(",")), point
        elif kind == "cgroup2":
            yield frozenset(), point


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    """Controller and path in its hierarchy; the unified one is named by an empty text."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            yield name, path


def _unified_tree(point: str, path: str) -> Tree:
    """The nearest ancestor below which groups with limits may be made and processes moved."""
    # A group with processes in it can hand out no controllers, so the own group is only good when it is the root.
    here = path.rstrip("/")
    candidates = []
    while here:
        here = here.rpartition("/")[0]
        candidates.append(f"{point}{here}")
    for home in candidates or [point]:
        if not (os.access(home, os.W_OK) and os.access(f"{home}/cgroup.procs", os.W_OK)):
            continue
        with contextlib.suppress(OSError):
            enabled = _read(f"{home}/cgroup.subtree_control").split()
            usable = [name for name in _WANTED if name in enabled]
            if usable:
                return Tree(2, dict.fromkeys(usable, home))
    return Tree()


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
