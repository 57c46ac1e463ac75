"""What the supervisor and the guest are told about one bubblewrap box; only decides."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import GuestConfig, guest_argv
from kagura_kernel.sandbox.box import COMMAND_ENV, ROOT_ENV, SYSTEM_PATH
from kagura_kernel.sandbox.python_view import PythonView
from kagura_kernel.sandbox.supervisor.arguments import HOME, LOWER, UPPER

SHIMS = "/run/kagura/bin"


def fitting(
    limits: BoxLimits, *, writable_root: bool = False, machine: int | None = None
) -> tuple[BoxLimits, list[str]]:
    """Limits whose file space fits into the memory it lives in, and what to say when that is less than asked for.

    A full disk is then an error in the box, and not the loss of the box. A writable root takes half of the memory.
    `machine` is the memory of the machine in bytes; None is this one's.
    """
    memory = min(limits.memory_bytes, machine or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if writable_root:
        memory -= _root_bytes(memory)
    workspace = min(limits.workspace_bytes, memory // 2)
    scratch = min(limits.scratch_bytes, memory // 4)
    fitted = replace(limits, workspace_bytes=workspace, scratch_bytes=scratch)
    if fitted == limits:
        return limits, []
    sizes = f"{workspace / 2**20:.0f} MiB of changes and {scratch / 2**20:.0f} MiB of scratch space"
    return fitted, [f"files live in memory, so the box has room for {sizes}"]


def request_for(spec: BoxSpec, limits: BoxLimits, program: str, view: PythonView, *, copy: bool) -> dict[str, Any]:
    """The supervisor's `start` message; `copy` asks for an empty workspace that is filled later."""
    whole = WORKSPACE in spec.policy.writable_roots
    below = f"{WORKSPACE}/"
    parts = [root.removeprefix(below) for root in spec.policy.writable_roots if root.startswith(below)]
    writable = spec.policy.writable and (whole or bool(parts))
    return {
        "bwrap": program,
        "argv": guest_argv(view.python),
        "workspace": str(spec.workspace) if spec.workspace else None,
        "writable": writable,
        "writable_parts": [] if whole else parts,
        "protected": list(spec.policy.read_only_subpaths),
        "extra": [[str(source), target] for source, target in spec.extra_read_only],
        "shown": [[str(one.source), one.target, one.writable] for one in spec.shown],
        "copy": copy,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "cpus": limits.cpus,
        "workspace_bytes": limits.workspace_bytes,
        "scratch_bytes": limits.scratch_bytes,
        "writable_root": spec.writable_root,
        "python_layer": spec.policy.network_access,
        "root_bytes": _root_bytes(limits.memory_bytes),
        "open_files": limits.open_files,
        "file_bytes": limits.file_bytes,
    }


def guest_config(spec: BoxSpec, view: PythonView, *, writable: bool, copy: bool) -> GuestConfig:
    """What the guest is told; `copy` says that the workspace is empty at first and filled later."""
    overlay = spec.workspace is not None and writable and not copy
    return GuestConfig(
        upper=UPPER if overlay else None,
        lower=LOWER if overlay else None,
        protected=spec.policy.untold,
        env=_environment(spec, view),
        writable=writable,
    )


def _environment(spec: BoxSpec, view: PythonView) -> dict[str, str]:
    """All that a command finds in its environment; nothing of the host's."""
    return {
        "PATH": ":".join(dict.fromkeys((*view.path, SHIMS, f"{HOME}/.local/bin", *SYSTEM_PATH))),
        **COMMAND_ENV,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict(view.env),
        **(ROOT_ENV if spec.writable_root else {}),
        **spec.env,
    }


def _root_bytes(memory: int) -> int:
    """How much may be installed: half of what the box has, so that unpacking it finds room beside it."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory, machine) // 2


def uncounted_notes(missing: tuple[str, ...]) -> list[str]:
    """What a reader should know about limits that the system cannot set."""
    words = {
        "memory": "memory is limited for each process, not for all together (memfd and System V memory are refused)",
        "pids": "processes are limited by the user's count",
        "cpu": "CPU time is not limited",
    }
    return [words[name] for name in missing]
