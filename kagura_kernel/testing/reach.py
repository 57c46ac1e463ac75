"""What a test may reach through a socket: loopback and unix sockets, no daemon of the machine. Only decides."""

from __future__ import annotations

import ipaddress
import os
import socket

_LOOK_UPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})

# Daemons that a machine may run anyway; no marker opens them, tests start their own.
_DAEMONS_OF_THE_MACHINE = frozenset(
    f"{folder}/{name}"
    for folder in ("/run", "/var/run")
    for name in ("docker.sock", "podman/podman.sock", "containerd/containerd.sock")
)


def refusal(event: str, arguments: tuple[object, ...], allowed: frozenset[str]) -> str:
    """Why this audit event of the `socket` module is refused to a test with these markers; empty when it is not."""
    if event in _LOOK_UPS:
        return _refuse_look_up(arguments[0], allowed)
    if event in _SENDING:
        return _refuse_address(arguments[0], arguments[1], allowed)
    return ""


def _refuse_look_up(host: object, allowed: frozenset[str]) -> str:
    name = host[0] if isinstance(host, tuple) else host
    if isinstance(name, bytes):
        name = name.decode("ascii", "replace")
    if "network" in allowed or not isinstance(name, str) or name in ("", "localhost", socket.gethostname()):
        return ""
    if _is_address(name):
        return ""
    return f"Looking up {name!r} would ask the network. Use loopback, or ask with @pytest.mark.network."


def _refuse_address(sock: object, address: object, allowed: frozenset[str]) -> str:
    family = getattr(sock, "family", None)
    if family == socket.AF_UNIX:
        return _refuse_unix(address, allowed)
    if family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return ""
    host = str(address[0])
    if "network" in allowed or host in ("", "localhost") or _is_here(host):
        return ""
    return f"Connecting to {host}:{address[1]} leaves the machine. Use loopback, or ask with @pytest.mark.network."


def _refuse_unix(address: object, allowed: frozenset[str]) -> str:
    if not isinstance(address, str | bytes):
        return ""
    path = os.path.normpath(os.fsdecode(address))
    if path in _DAEMONS_OF_THE_MACHINE:
        return f"{path} belongs to the machine, not to the tests: start a daemon of your own."
    if "docker" in os.path.basename(path) and "docker" not in allowed:  # noqa: PTH119 - a socket's name, not a file
        return f"{path} looks like a Docker daemon. Ask with @pytest.mark.docker."
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_here(host: str) -> bool:
    # Connecting to the unspecified address means this machine.
    address = ipaddress.ip_address(host.partition("%")[0]) if _is_address(host) else None
    return address is not None and (address.is_loopback or address.is_unspecified)
