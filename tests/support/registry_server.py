"""A host on the loopback that gives away definitions: documents by path, and artifacts as OCI registries do.

It runs in threads and listens on a free port::

    with RegistryServer(token=True) as registry:
        reference = registry.push("team/reviewer", b"name: reviewer")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from kagura_kernel.kit.definitions.fetcher import Fetcher
from kagura_kernel.testing.loopback_listener import LoopbackListener
from tests.support import tls

if TYPE_CHECKING:
    import httpx

TOKEN = "anonymous-pull"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.kagura.agent.v1+yaml"


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered at one path."""

    body: bytes = b""  # Its bytes
    status: int = 200  # HTTP status
    headers: Mapping[str, str] = field(default_factory=dict)  # Beside `Content-Length`


class RegistryServer:
    """A context manager that may be entered once.

    Args:
        secure: Whether it speaks HTTPS, as `localhost`; else plain HTTP, as `127.0.0.1`.
        token: Whether artifacts are given only to who has asked its token service.
    """

    def __init__(self, *, secure: bool = False, token: bool = False) -> None:
        self.pages: dict[str, Page] = {}  # What is answered at a path; whatever stands here goes before artifacts
        self.asked: list[str] = []  # Every request, its path with the query, in order
        self.authorised: list[str] = []  # The `Authorization` header of each, in the same order
        self._secure = secure
        self._wants_token = token
        self._artifacts: dict[str, Page] = {}
        self._listener = LoopbackListener(_handler(self))
        if secure:
            self._listener.socket = tls.serving("localhost").wrap_socket(self._listener.socket, server_side=True)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True)

    @property
    def host(self) -> str:
        """`HOST:PORT`, as it stands in references."""
        return f"{'localhost' if self._secure else '127.0.0.1'}:{self._listener.server_address[1]}"

    @property
    def url(self) -> str:
        """Where its paths begin, without the slash."""
        return f"{'https' if self._secure else 'http'}://{self.host}"

    def fetcher(self) -> Fetcher:
        """What trusts this server's certificate and uses no proxy."""
        import httpx

        transport: httpx.BaseTransport = httpx.HTTPTransport(verify=tls.trusting(), trust_env=False)
        return Fetcher(transport)

    def serve(self, path: str, document: bytes) -> str:
        """Put a document at a path; its URL."""
        self.pages[path] = Page(document)
        return self.url + path

    def push(self, name: str, document: bytes, media: str = LAYER, **changed: Any) -> str:
        """Store an artifact of one layer; its reference.

        Args:
            name: Of the repository.
            document: The layer.
            media: The layer's media type.
            changed: Fields that replace those of the manifest.
        """
        layer = {"mediaType": media, "digest": self._store(name, "blobs", document), "size": len(document)}
        empty = {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": self._store(name, "blobs", b"{}"),
            "size": 2,
        }
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": empty, "layers": [layer], **changed}
        return f"oci://{self.host}/{name}@{self._store(name, 'manifests', json.dumps(manifest).encode())}"

    def answer(self, target: str, authorisation: str) -> Page:
        """What one request gets."""
        self.asked.append(target)
        self.authorised.append(authorisation)
        path = urlsplit(target).path
        if (page := self.pages.get(path)) is not None:
            return page
        if path == "/token":
            wanted = parse_qs(urlsplit(target).query)
            known = wanted.get("service") == ["registry"] and wanted.get("scope", [""])[0].endswith(":pull")
            return Page(json.dumps({"token": TOKEN}).encode()) if known else Page(status=403)
        if path.startswith("/v2/") and self._wants_token and authorisation != f"Bearer {TOKEN}":
            challenge = f'Bearer realm="{self.url}/token",service="registry",scope="repository:any:pull"'
            return Page(status=401, headers={"WWW-Authenticate": challenge})
        return self._artifacts.get(path, Page(status=404))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._listener.shutdown()
        self._listener.cut_connections()
        self._listener.server_close()
        self._thread.join()

    def _store(self, name: str, part: str, data: bytes) -> str:
        digest = f"sha256:{sha256(data).hexdigest()}"
        self._artifacts[f"/v2/{name}/{part}/{digest}"] = Page(data)
        return digest


def _handler(server: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request after another."""

        def do_GET(self) -> None:
            page = server.answer(self.path, self.headers.get("Authorization", ""))
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    return Handler
