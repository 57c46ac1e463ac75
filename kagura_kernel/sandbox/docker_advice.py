"""What a person is told about a Docker daemon: what is missing, what would make it stronger, what it only pretends."""

from __future__ import annotations

from kagura_kernel.domain.errors import SandboxUnavailable

DEFAULT_IMAGE = "kagura/python:latest"
INSTALL_RUNTIME = (
    "Install gVisor (`apt install runsc`) and make it known to Docker: `runsc install -- --oci-seccomp` as root, "
    "then restart Docker."
)
ADD_FILTER = 'Add "--oci-seccomp" to its "runtimeArgs" in /etc/docker/daemon.json, then restart Docker.'
NOT_REMAPPED = (
    "Root in a container is root of the daemon's machine, should it ever get out: switch on user namespaces "
    '("userns-remap": "default" in /etc/docker/daemon.json) or use rootless Docker'
)
ROOT_NEEDS = (
    "a writable root at this daemon, where root in a container is root of the machine: switch on user namespaces "
    '("userns-remap": "default" in /etc/docker/daemon.json), or use rootless Docker, `--box bubblewrap` or '
    "`--box gvisor`"
)


def build_command(image: str) -> str:
    """What makes that image."""
    if image != DEFAULT_IMAGE:
        return f"Build or pull it: `docker build --tag {image} DIRECTORY` or `docker pull {image}`."
    return (
        "Build it: `docker build --file images/base.Dockerfile --tag kagura/base:latest images && "
        "docker build --file images/python.Dockerfile --tag kagura/python:latest images`."
    )


def refuse_impostor(told: str, kernel: str) -> None:
    """Say no to a runtime that is gVisor's by name only, or that has no filter of system calls in its boxes.

    Args:
        told: What a fresh box says of its kernel's release and its filter, a line each.
        kernel: Release of the machine's own kernel.

    Raises:
        SandboxUnavailable: it is none.
    """
    release, _, status = told.partition("\n")
    if release.strip() == kernel:
        raise SandboxUnavailable("the runtime runsc runs boxes on the machine's own kernel: it is not gVisor's")
    if "2" not in status:
        raise SandboxUnavailable("the runtime runsc ignores filters of system calls", ADD_FILTER)
