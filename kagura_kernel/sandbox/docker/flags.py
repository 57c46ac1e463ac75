"""What a box is made of in Docker's words: from a spec to the body of the create call. Pure, and the same for everyone.

The flags here never change with policy, prompt or user: another user id, no capability, no new privileges, our own
list of system calls, a read-only root, no network, nothing of the host mounted but copies in volumes that can only be
read, limits on everything. Nothing of the kernel's environment goes in; labels hold no secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import BoxLimits
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import GuestConfig
from kagura_kernel.sandbox.box import COMMAND_ENV, ROOT_ENV, SYSTEM_PATH, Sizes, refuse_further, refuse_roots, sizes
from kagura_kernel.sandbox.docker.seccomp import profile
from kagura_kernel.sandbox.supervisor.arguments import HOME, ROOT_POWERS

TOO_OLD = "this release of runsc is too old for today's programs (`ls` fails in a box): install one from gVisor itself"
OPEN_PIPE = (
    "commands in this box can open the guest's pipe, which gVisor does not gate and Docker makes: one of them may read "
    "what is sent to another, or answer in the guest's place"
)

NAME = "docker"
DEFAULT_IMAGE = "kagura/python:latest"
USER = "65532:65532"
ROOT = "0:0"
BOX_LABEL = "kagura.box"  # the box's id, also its container's name
OWNER_LABEL = "kagura.owner"  # the process that something belongs to, for a sweep by another one
HOLDER_LABEL = "kagura.holder"  # the back-end object of that process, for its own clearing up
CONTENT_LABEL = "kagura.content"
FILLING = "kagura-fill-"
"""How the names of containers begin through which volumes are filled."""

_PAGE = 65536
_KERNEL_THREADS = 256


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that holds a copy of a directory of the host."""

    name: str  # its name at the daemon
    target: str  # where a box sees it, read-only


def host_threads(limits: BoxLimits) -> int:
    """How many threads of the machine a gVisor box may have.

    Its kernel limits its processes by itself, and ends when it gets no thread: it needs some for each of them, and
    some of its own.
    """
    return 2 * limits.processes + _KERNEL_THREADS


def refuse_unsupported(spec: BoxSpec, name: str = NAME) -> None:
    """Say no to what a Docker box cannot be; `name` is the back-end's.

    Raises:
        SandboxUnsupported: files of the host as they are, or directories at places that a box has already, or writable
            places of the caller's choice.
    """
    refuse_further(spec, name)
    refuse_roots(spec, name)
    if spec.shown:
        shown = f"showing {spec.shown[0].source}, or any file of the host, to a box as it is"
        raise SandboxUnsupported(name, f"{shown}: use bubblewrap, on Linux, where that is needed")


def create_body(
    spec: BoxSpec,
    image: str,
    argv: Sequence[str],
    labels: Mapping[str, str],
    cpus_there: int,
    runtime: str = "",
    places: Sequence[str] = (),
) -> dict[str, Any]:
    """The body of `POST /containers/create` for a guest's command line in an image, by id or name, that is there.

    More than `cpus_there` cores cannot be asked for. `runtime` is the daemon's name for what shall run it; empty is the
    daemon's own choice. `places` are those that the image declares as volumes.
    """
    return {
        "Image": image,
        "Entrypoint": list(argv),
        "Cmd": [],
        "User": USER,
        "Hostname": "box",
        "Env": [],
        "WorkingDir": WORKSPACE,
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},
        "NetworkDisabled": True,
        "Tty": False,
        "OpenStdin": True,
        # The end of our connection is the end of the guest's input, and that is the end of the box.
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": _host_config(spec, cpus_there, runtime, places),
    }


def with_volumes(body: Mapping[str, Any], volumes: Sequence[Volume]) -> dict[str, Any]:
    """The body for a container that sees these volumes, which it can only read."""
    mounts = [_mount(volume, writable=False) for volume in volumes]
    return {**body, "HostConfig": {**body["HostConfig"], "Mounts": mounts}}


def filling_body(image: str, volume: Volume, labels: Mapping[str, str]) -> dict[str, Any]:
    """The body for a container that is never started: through it a volume is filled, at the volume's own place."""
    host = {"Mounts": [_mount(volume, writable=True)], "NetworkMode": "none", "CapDrop": ["ALL"]}
    return {
        "Image": image,
        "Entrypoint": ["/never-started"],
        "Cmd": [],
        "User": USER,
        "Labels": dict(labels),
        "NetworkDisabled": True,
        "HostConfig": host,
    }


def _mount(volume: Volume, *, writable: bool) -> dict[str, Any]:
    # Without this what the image has at that place would be copied into an empty volume.
    options = {"NoCopy": True}
    return {
        "Type": "volume",
        "Source": volume.name,
        "Target": volume.target,
        "ReadOnly": not writable,
        "VolumeOptions": options,
    }


def writable_root_body(body: Mapping[str, Any], spec: BoxSpec, *, bounded: bool) -> dict[str, Any]:
    """The body for a box whose commands are its root and may change its system.

    Only where that root is nobody outside. What is written goes with the container; as much as the box has memory,
    where the daemon's storage driver can be told so.
    """
    host = dict(body["HostConfig"])
    host |= {"CapAdd": [power.upper() for power in ROOT_POWERS], "ReadonlyRootfs": False}
    host["Tmpfs"] = {place: how.replace("uid=65532,gid=65532", "uid=0,gid=0") for place, how in host["Tmpfs"].items()}
    if bounded:
        host["StorageOpt"] = {"size": str(spec.limits.memory_bytes)}
    return {**body, "User": ROOT, "HostConfig": host}


def _host_config(spec: BoxSpec, cpus_there: int, runtime: str, places: Sequence[str]) -> dict[str, Any]:
    limits = spec.limits
    return {
        "AutoRemove": True,
        "Binds": [],
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "CgroupnsMode": "private",
        # Half of what everything else has: when cores are short, boxes give way.
        "CpuShares": 512,
        "Devices": [],
        "GroupAdd": [],
        # The guest itself is the first process: it reaps, nothing in the box can stop or kill it, and no helper of
        # Docker's stands beside it with the pipe in its open descriptors.
        "Init": False,
        "IpcMode": "private",
        "LogConfig": {"Type": "none"},
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(min(limits.cpus, cpus_there) * 1e9),
        "NetworkMode": "none",
        # When the machine itself runs out of memory, boxes go before anything of the host.
        "OomScoreAdj": 500,
        "PidsLimit": host_threads(limits) if runtime else limits.processes,
        "Privileged": False,
        "PublishAllPorts": False,
        "ReadonlyRootfs": True,
        "RestartPolicy": {"Name": "no"},
        "Runtime": runtime,
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile(gvisor=bool(runtime))}"],
        "ShmSize": sizes(limits).shared,
        "Tmpfs": _tmpfs(sizes(limits), places, writable=spec.policy.writable),
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": limits.file_bytes, "Hard": limits.file_bytes},
            {"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files},
            # Counts all of a user's processes on a machine, so it is only good where the machine is the box's own.
            *([{"Name": "nproc", "Soft": limits.processes, "Hard": limits.processes}] if runtime else []),
        ],
    }


def _tmpfs(size: Sizes, places: Sequence[str], *, writable: bool) -> dict[str, str]:
    agent = "uid=65532,gid=65532,mode=0700"
    # A workspace that must not be written belongs to root, and nothing in the box is root.
    workspace_owner = agent if writable else "uid=0,gid=0,mode=0755"
    return {
        # A volume that an image declares would be the daemon's disk, without a bound. Ours stand at the same place.
        **{place: f"rw,exec,{_bounded(size.temporary)},{agent}" for place in places},
        WORKSPACE: f"rw,exec,{_bounded(size.workspace)},{workspace_owner}",
        "/tmp": f"rw,exec,{_bounded(size.temporary)},uid=65532,gid=65532,mode=1777",  # noqa: S108 - the box's own /tmp
        HOME: f"rw,exec,{_bounded(size.home)},{agent}",
        # Docker's own has no bound but the machine's memory for the number of files.
        "/dev/shm": f"rw,noexec,{_bounded(size.shared)},uid=65532,gid=65532,mode=1777",  # noqa: S108 - likewise
        # Message queues need no directory; without this, theirs could be written.
        "/dev/mqueue": f"ro,nosuid,nodev,noexec,size={_PAGE},mode=0555",
    }


def _bounded(size: int) -> str:
    # An empty file takes memory too, about a kilobyte that no size counts: as many files as pages are a quarter more.
    return f"nosuid,nodev,size={size},nr_inodes={max(4096, size // 4096)}"


def command_environment(image_env: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of commands: the image's own, what every program expects, and the spec's."""
    env = {"PATH": ":".join(SYSTEM_PATH), "LANG": "C.UTF-8"}
    env |= dict(line.split("=", 1) for line in image_env if "=" in line)
    return {**env, **COMMAND_ENV, **extra}


def guest_config(spec: BoxSpec, image_env: Sequence[str]) -> GuestConfig:
    """What the guest is told about the box that `spec` asks for."""
    return GuestConfig(
        protected=spec.policy.untold,
        env=command_environment(image_env, {**(_as_root(image_env) if spec.writable_root else {}), **spec.env}),
        writable=spec.policy.writable,
    )


def _as_root(image_env: Sequence[str]) -> dict[str, str]:
    """What is different for commands that are root: who they are, and that the system's own tools are found."""
    path = command_environment(image_env, {})["PATH"]
    return {**ROOT_ENV, "PATH": ":".join(dict.fromkeys([*path.split(":"), *SYSTEM_PATH]))}
