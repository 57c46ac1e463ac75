"""The control groups that supervisors made on this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

from kagura_kernel.sandbox.supervisor.cgroups import Tree, find_tree, group_name, process_namespace


def here() -> Tree:
    """Where this process may make groups; without homes where it may not."""
    return find_tree(Path("/proc/self/mounts").read_text(), Path("/proc/self/cgroup").read_text())


def groups_of(*supervisors: int) -> list[Path]:
    """The groups that stand in the names of these processes."""
    space = process_namespace()
    beginnings = tuple(group_name(space, supervisor, 0).removesuffix("0") for supervisor in supervisors)
    found: list[Path] = []
    for home in sorted(set(here().homes.values())):
        with contextlib.suppress(FileNotFoundError):
            found += [group for group in Path(home).iterdir() if group.name.startswith(beginnings)]
    return found
