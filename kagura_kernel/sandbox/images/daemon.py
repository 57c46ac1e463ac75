"""A Docker daemon asked about images: build, inspect, export, sweep. Blocking, for a command that does nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.docker_endpoint import FORWARDING, Endpoint, ask_version

if TYPE_CHECKING:
    from docker import APIClient

_HELLO_SECONDS = 5.0
_PATIENCE = 1800
"""Seconds without a word from the daemon: a step of a build prints nothing while it fetches."""


class ImageDaemon:
    """One daemon, for a `with`. Every method raises `SandboxUnavailable` when it does not answer or refuses."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client: APIClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def inspect(self, name: str) -> Mapping[str, Any] | None:
        """An image in Docker's words; None when it is not there."""
        import docker

        with _our_errors():
            try:
                return dict(self._api().inspect_image(name))
            except docker.errors.NotFound:
                return None

    def build(
        self, context: bytes, dockerfile: str, *, arguments: Mapping[str, str], labels: Mapping[str, str], network: str
    ) -> Iterator[Mapping[str, Any]]:
        """Build an image without a name and yield the daemon's messages; the id is in the last `aux`.

        A stage that fails is a message with `error`, no exception.
        """
        with _our_errors():
            yield from self._api().build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile=dockerfile,
                buildargs=dict(arguments),
                labels=dict(labels),
                network_mode=network or None,
                rm=True,
                forcerm=True,
                decode=True,
            )

    def pull(self, name: str) -> None:
        """Fetch an image from its registry."""
        with _our_errors():
            self._api().pull(name)

    def tag(self, image: str, name: str) -> None:
        """Give an image a name, `REPOSITORY:TAG`; it is taken from the image that had it."""
        repository, _, tag = name.rpartition(":")
        with _our_errors():
            self._api().tag(image, repository, tag)

    def sweep(self, label: str) -> None:
        """Remove images without a name that bear a label."""
        with _our_errors():
            self._api().prune_images(filters={"dangling": True, "label": label})

    def history(self, name: str) -> list[Mapping[str, Any]]:
        """The steps that made an image, newest first."""
        with _our_errors():
            return list(self._api().history(name))

    def export(self, names: Sequence[str]) -> Iterator[bytes]:
        """The images as one archive, in pieces: what `docker save` writes. A layer they share comes once."""
        with _our_errors():
            client = self._api()
            # The library's own method takes one name; the daemon takes many.
            url = f"{client.base_url}/v{client.api_version}/images/get"
            answer = client.get(url, params={"names": list(names)}, stream=True)
            try:
                answer.raise_for_status()
                yield from answer.iter_content(256 * 1024)
            finally:
                answer.close()

    def _api(self) -> APIClient:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> APIClient:
        import docker

        if self.endpoint.problem:
            raise SandboxUnavailable(self.endpoint.problem, FORWARDING)
        try:
            version = asyncio.run(ask_version(self.endpoint, _HELLO_SECONDS))
        except OSError as error:
            raise _no_daemon() from error
        tls = None
        if (certificates := self.endpoint.certificates) is not None:
            tls = docker.tls.TLSConfig(
                client_cert=(str(certificates / "cert.pem"), str(certificates / "key.pem")),
                ca_cert=str(certificates / "ca.pem") if self.endpoint.verify else None,
                verify=self.endpoint.verify,
            )
        return docker.APIClient(base_url=self.endpoint.url, version=version, timeout=_PATIENCE, tls=tls or False)


@contextlib.contextmanager
def _our_errors() -> Iterator[None]:
    import docker
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        raise SandboxUnavailable(f"Docker refused: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise _no_daemon() from error


def _no_daemon() -> SandboxUnavailable:
    # Nothing but a daemon has images: another back-end is no way out.
    return SandboxUnavailable("no Docker daemon answers", "Start it, or let DOCKER_HOST name one that runs.")
