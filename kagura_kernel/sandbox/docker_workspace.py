"""A project that is sent into a box which shares nothing with the host, whoever may write it there.

Containers and gVisor boxes without Docker fill their workspaces alike.
"""

from __future__ import annotations

from kagura_kernel.domain.commands import Command
from kagura_kernel.sandbox.backend import WORKSPACE, BoxChange, BoxSpec
from kagura_kernel.sandbox.boot import GuestConfig, guest_payload
from kagura_kernel.sandbox.box import PipedBox
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker_flags import sizes

LEFT_OUT = (".venv", "venv", "node_modules", "__pycache__", ".ipynb_checkpoints")
"""Not sent into the workspace from the top of the project: large, made anew by one command, or useless in a box."""

_HELLO_SECONDS = 20.0


class ReadOnlyBox(PipedBox):
    """A box whose workspace belongs to someone who has left: what its guest finds there is not its doing."""

    async def changes(self) -> list[BoxChange]:
        """None: nothing can be."""
        return []


async def send_workspace(channel: BoxChannel, spec: BoxSpec) -> tuple[str, ...]:
    """Send the spec's project through this channel; what was left out.

    Raises:
        WorkspaceError: it cannot be read, or is too large for the box.
    """
    if spec.workspace is None:
        return ()
    return await channel.populate(
        spec.workspace,
        exclude=LEFT_OUT,
        limit_bytes=sizes(spec.limits).sendable,
        protected=spec.policy.read_only_subpaths,
    )


async def send_as_root(
    channel: BoxChannel, spec: BoxSpec, env: dict[str, str], *, same_python: bool
) -> tuple[str, ...]:
    """Fill a workspace that nobody in the box may write, through a guest that runs as its root; what was left out.

    The guest leaves before any command runs: the channel, which was not started, is closed afterwards.
    """
    try:
        config = GuestConfig(workspace=WORKSPACE, env=env)
        channel.start(guest_payload(config, same_python=same_python))
        await channel.hello(_HELLO_SECONDS)
        left_out = await send_workspace(channel, spec)
        # What only its owner may read on the host is still part of the project that was handed over; and the
        # directory itself may have taken its mode from an image.
        await channel.run(Command(("chmod", "-R", "a+rX,go-w", "--", WORKSPACE)))
    finally:
        await channel.close()
    return left_out
