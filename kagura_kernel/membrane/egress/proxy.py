"""The proxy that a box has on its loopback: its port, the variables by which programs find it, and where it leads.

Every connection through it is decided and carried by the run's `Egress`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.membrane.egress.hosts import Target
from kagura_kernel.membrane.egress.stream import GuestBoxStream
from kagura_kernel.sandbox.backend import Box, Failed, GuestStream, Listener

if TYPE_CHECKING:
    from kagura_kernel.membrane.egress.egress import Egress

PROXY_PORT = 3179
"""The proxy's port on the loopback of every box."""

_DIRECT = ("localhost", "127.0.0.1", "::1")


def proxy_variables(port: int = PROXY_PORT) -> dict[str, str]:
    """Variables for commands in a box whose proxy listens on this port of its loopback.

    What is not named here needs nothing of its own: pip, conda, wget, apt, git, Go, R, Ruby, `requests`, `httpx` and
    `urllib` read the general ones. Java, and Node before those versions, read none at all.
    """
    http = f"http://127.0.0.1:{port}"
    direct = ",".join(_DIRECT)
    general = {
        # curl, pip, conda, git, Go and nearly everything else. An https:// address is reached by CONNECT, through a
        # proxy that is spoken to in plain HTTP: the way to it is the box's own loopback.
        "HTTP_PROXY": http,
        "HTTPS_PROXY": http,
        # curl for other schemes. Not socks5h://: without PySocks, requests and pip fail on it for every address.
        "ALL_PROXY": http,
        # What a program in the box serves to another one in it does not leave the box.
        "NO_PROXY": direct,
    }
    return {
        **general,
        # curl reads `http_proxy` in lower case only, wget and apt read all of them so.
        **{name.lower(): value for name, value in general.items()},
        # npm and pnpm would find the general ones; theirs win over what an .npmrc in the project says.
        "npm_config_proxy": http,
        "npm_config_https_proxy": http,
        "npm_config_noproxy": direct,
        # Yarn 2 and later read only their own; Yarn 1 reads npm's.
        "YARN_HTTP_PROXY": http,
        "YARN_HTTPS_PROXY": http,
        # Cargo reads `https_proxy` for its registry as well; its own holds for what it fetches through libgit2 too.
        "CARGO_HTTP_PROXY": http,
        # Node's own `fetch` and `http` read no variable unless told to, and only from 22.21 and 24 on.
        "NODE_USE_ENV_PROXY": "1",
    }


def git_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings of git, each a key and its value, as variables; empty for none.

    Whoever sets `GIT_CONFIG_COUNT` replaces them.
    """
    found = {"GIT_CONFIG_COUNT": str(len(settings))} if settings else {}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def usual_variables() -> dict[str, str]:
    """What programs do better with in a box, for whoever has not set it otherwise."""
    return {
        # pip takes a host that is refused for one that fails, and asks again for eight seconds and five warnings. Each
        # of them says what to type; with none of them nothing would, so it may try again, but not for long.
        "PIP_RETRIES": "2",
        # While a person is asked about a host, its connection waits. Both would give up before an answer must be there.
        **dict.fromkeys(("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT"), f"{DEFAULTS.approval_deadline:.0f}"),
        # Distributions keep pip from their own Python lest it breaks their tools. What is installed in a box is gone
        # with it, and pip turns to the user's own folder by itself.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        # What git would ask of GitHub over SSH it asks over HTTPS: SSH knows no proxy by itself and no box has a key.
        # So a clone, and the submodules in it, find the way; where it is not granted the refusal says what to type.
        **git_variables(
            [("url.https://github.com/.insteadOf", over) for over in ("git@github.com:", "ssh://git@github.com/")]
        ),
    }


async def open_egress(box: Box, egress: Egress, port: int = PROXY_PORT, failed: Failed | None = None) -> int:
    """Give programs in the box a proxy (HTTP and SOCKS 5) whose connections `egress` decides and carries: its port.

    The proxy lasts as long as the box; 0 lets that choose the port. `failed` is told of an error that is not the
    program's: the run was called off, a fact could not be recorded. Without it such an error ends the box.

    Raises:
        SandboxUnavailable: the port is taken in the box, it has no loopback, or it is gone.
    """

    async def serve(stream: GuestStream) -> None:
        request = stream.request
        await egress.serve(GuestBoxStream(stream), request["host"], request["port"])

    return await box.listen(Listener(port, "proxy", "egress"), serve, failed)


async def forward(box: Box, egress: Egress, target: Target, failed: Failed | None = None) -> None:
    """Let programs in the box reach a target at the same port of their own loopback, in whatever protocol.

    Raises:
        SandboxUnavailable: the port cannot be listened on in the box, or the box is gone.
    """

    async def serve(stream: GuestStream) -> None:
        await egress.serve(GuestBoxStream(stream), target.host, target.port)

    await box.listen(Listener(target.port, "raw", f"forward {target}"), serve, failed)
