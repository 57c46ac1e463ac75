"""What a person is told about a Docker daemon: what is missing, what would make it stronger, what it only pretends."""

from __future__ import annotations

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.gvisor_notes import TOO_OLD

DEFAULT_IMAGE = "kagura/python:latest"
GVISOR_LOOK = "uname -r; grep Seccomp: /proc/self/status; ls / >/dev/null || echo fails"
"""What a fresh box of gVisor is asked, for `told_by`."""
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
    from kagura_kernel.sandbox.images.recipes import DEFAULT_PREFIX, NAMES

    name = image.removeprefix(DEFAULT_PREFIX).removesuffix(":latest")
    if name in NAMES:
        return f"Build it: `kagura-kernel images build {name}`."
    return f"Build or pull it: `docker build --tag {image} DIRECTORY` or `docker pull {image}`."


def told_by(answer: str, kernel: str) -> tuple[str, ...]:
    """What a fresh box's answer to `GVISOR_LOOK` gives people to know.

    Says no to a runtime that is gVisor's by name only, or that has no filter of system calls in its boxes.

    Args:
        answer: The box's kernel's release, its filter, and whether `ls` fails, a line each.
        kernel: Release of the machine's own kernel.

    Raises:
        SandboxUnavailable: it is none.
    """
    release, _, rest = answer.partition("\n")
    status, _, lists = rest.partition("\n")
    if release.strip() == kernel:
        raise SandboxUnavailable("the runtime runsc runs boxes on the machine's own kernel: it is not gVisor's")
    if "2" not in status:
        raise SandboxUnavailable("the runtime runsc ignores filters of system calls", ADD_FILTER)
    return (TOO_OLD,) if lists.strip() else ()
