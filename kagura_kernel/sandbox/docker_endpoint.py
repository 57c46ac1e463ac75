"""Where the Docker daemon listens, read from the variables that Docker's own client reads; and the library's client.

Imports `docker` only when something is asked, because that takes a while. Its errors become ours here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.late_dataclass import dataclass

if TYPE_CHECKING:
    from docker import APIClient

FORWARDING = (
    "For a machine behind ssh forward its socket: `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST` and "
    "DOCKER_HOST=unix:///tmp/docker.sock."
)
DEFAULT_HOST = "unix:///var/run/docker.sock"
_KNOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A daemon's address."""

    url: str = DEFAULT_HOST  # `unix:///path` or `tcp://host:port`
    # Directory with `ca.pem`, `cert.pem` and `key.pem` when it is spoken to over TLS.
    certificates: Path | None = None
    verify: bool = True  # whether the daemon's certificate must be signed by that `ca.pem`
    problem: str = ""  # why it cannot be used at all; empty when it can

    @property
    def socket_path(self) -> str | None:
        """The socket's path; None for a daemon on the network."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of a daemon on the network."""
        host, _, port = self.url.removeprefix("tcp://").rstrip("/").rpartition(":")
        return host.strip("[]"), int(port)

    def tls(self) -> ssl.SSLContext | None:
        """What a connection is wrapped in; None when it is not."""
        if self.certificates is None:
            return None
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem") if self.verify else None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(str(self.certificates / "cert.pem"), str(self.certificates / "key.pem"))
        return context


async def open_stream(endpoint: Endpoint, limit: int = 64 * 1024) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the daemon, read in lines of at most `limit` bytes. Raises `OSError` when nobody is there."""
    if (path := endpoint.socket_path) is not None:
        return await asyncio.open_unix_connection(path, limit=limit)
    host, port = endpoint.address
    return await asyncio.open_connection(host, port, ssl=endpoint.tls(), limit=limit)


async def ask_version(endpoint: Endpoint, seconds: float) -> str:
    """The version of the interface that the daemon speaks, by its shortest answer; the question whether it is there.

    Raises:
        OSError: nobody is there, or it takes longer than so many seconds, or it is no Docker daemon.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await open_stream(endpoint)
        try:
            writer.write(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError("it does not speak Docker's language") from error
        finally:
            writer.close()
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "api-version":
            return value.strip()
    raise ConnectionError("it does not speak Docker's language")


def endpoint_from(environment: Mapping[str, str]) -> Endpoint:
    """The daemon that `DOCKER_HOST`, `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH` name, or this machine's.

    An address of a kind that is not spoken here is no error yet: other back-ends do without Docker.
    """
    url = environment.get("DOCKER_HOST", "").strip() or _default_host(environment)
    if url.startswith("unix://"):
        return Endpoint(url)
    host, _, port = url.removeprefix("tcp://").rstrip("/").rpartition(":")
    if not url.startswith("tcp://") or not host or not port.isdigit():
        return Endpoint(url, problem=f"DOCKER_HOST is {url!r}, neither unix:///path nor tcp://host:port")
    verify = bool(environment.get("DOCKER_TLS_VERIFY"))
    where = environment.get("DOCKER_CERT_PATH") or (f"{environment.get('HOME', '')}/.docker" if verify else "")
    return Endpoint(url, Path(where) if where else None, verify)


def _default_host(environment: Mapping[str, str]) -> str:
    """The user's own daemon where it answers, else the system's, or the one of Docker Desktop in the home directory.

    Root in a container of a rootless daemon is nobody else's root, which is why it comes first.
    """
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and _answers(rootless := f"{runtime.rstrip('/')}/docker.sock"):
        return f"unix://{rootless}"
    desktop = Path(environment.get("HOME", "/nonexistent")) / ".docker" / "run" / "docker.sock"
    if not Path("/var/run/docker.sock").exists() and desktop.exists():
        return f"unix://{desktop}"
    return DEFAULT_HOST


def _answers(path: str) -> bool:
    """Whether somebody listens there; a socket's file stays when its daemon is gone."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_KNOCK_SECONDS)
        try:
            connection.connect(path)
        except OSError:
            return False
    return True


def client_of(endpoint: Endpoint, api: str, patience: int) -> APIClient:
    """The library's client of a daemon that speaks this version; any call may take so many seconds."""
    import docker

    tls = None
    if (certificates := endpoint.certificates) is not None:
        tls = docker.tls.TLSConfig(
            client_cert=(str(certificates / "cert.pem"), str(certificates / "key.pem")),
            ca_cert=str(certificates / "ca.pem") if endpoint.verify else None,
            verify=endpoint.verify,
        )
    return docker.APIClient(base_url=endpoint.url, version=api, timeout=patience, tls=tls or False)


@contextlib.contextmanager
def our_errors(cure: str) -> Iterator[None]:
    """The library's errors as ours; `cure` is what to do where no daemon answers.

    Raises:
        SandboxUnavailable: the daemon refused, or does not answer.
    """
    import docker
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        raise SandboxUnavailable(f"Docker refused: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise no_daemon(cure) from error


def no_daemon(cure: str) -> SandboxUnavailable:
    """The error for a daemon that is not there."""
    return SandboxUnavailable("no Docker daemon answers", cure)
