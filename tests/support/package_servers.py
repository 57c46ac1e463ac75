"""Package registries on the loopback: an index of wheels, npm, Go, a sparse index of crates, and a forge's releases.

They answer as the public ones do, hold what a test puts there, and write down what they were asked.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from kagura_kernel.kit.packages.registry import Source, Sources, word_of
from kagura_kernel.membrane.egress.hosts import parse_url

_Page = tuple[int, str, bytes]


@dataclass
class PackageServers:
    """All registries at one address, each below a path of its own."""

    address: str  # `http://127.0.0.1:PORT`
    wheels: Path  # The folder whose wheels the index has (`tests.support.wheels`)
    pages: dict[str, _Page] = field(default_factory=dict)  # Path to what is answered there
    asked: list[str] = field(default_factory=list)  # Every path that was asked for, in order
    headers: list[Mapping[str, str]] = field(default_factory=list)  # The headers of every request, names in lower case
    html: bool = False  # Whether the index answers in HTML alone, as old ones do

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return word_of(parse_url(self.address))

    @property
    def index(self) -> str:
        """What PIP_INDEX_URL is."""
        return f"{self.address}/simple"

    @property
    def sources(self) -> Sources:
        """Where installers look when these stand in for the public ones."""
        paths = {"pip": "simple", "npm": "npm", "go": "go", "cargo": "crates", "github": "api"}
        return {name: Source(f"{self.address}/{path}", (self.host,)) for name, path in paths.items()}  # type: ignore[misc]  # the installers

    def put(self, path: str, data: bytes | object, kind: str = "application/json", status: int = 200) -> None:
        """Answer this at a path; what is no bytes is sent as JSON."""
        self.pages[path] = (status, kind, data if isinstance(data, bytes) else json.dumps(data).encode())

    def put_npm(self, name: str, version: str, programs: Mapping[str, str], **more: object) -> None:
        """A package of programs, each a name and its JavaScript; `more` is added to its `package.json`."""
        about = {"name": name, "version": version, "bin": {one: f"./{one}.js" for one in programs}, **more}
        packed = tarball(
            {"package/package.json": json.dumps(about)} | {f"package/{k}.js": v for k, v in programs.items()}
        )
        place = f"/npm/{name}/-/{version}.tgz"
        self.put(place, packed, "application/octet-stream")
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(packed).digest()).decode()}"
        known = json.loads(self.pages[f"/npm/{name}"][2])["versions"] if f"/npm/{name}" in self.pages else {}
        known[version] = {**about, "dist": {"tarball": f"{self.address}{place}", "integrity": integrity}}
        self.put(f"/npm/{name}", {"name": name, "dist-tags": {"latest": version}, "versions": known})

    def put_release(self, repository: str, tag: str, files: Mapping[str, bytes], *, digests: bool = True) -> None:
        """The newest release of OWNER/REPO; `digests` says whether the forge tells their checksums."""
        assets = []
        for name, data in files.items():
            place = f"/{repository}/releases/download/{tag}/{name}"
            self.put(place, data, "application/octet-stream")
            digest = {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}"} if digests else {}
            url = {"browser_download_url": f"{self.address}{place}"}
            assets.append({"name": name, "size": len(data), **url, **digest})
        for which in (f"tags/{tag}", "latest"):
            self.put(f"/api/repos/{repository}/releases/{which}", {"tag_name": tag, "assets": assets})

    def answer(self, path: str, accept: str) -> _Page:
        if path in self.pages:
            return self.pages[path]
        if path.startswith("/simple/"):
            return self._project(path.split("/")[2], "json" in accept and not self.html)
        if path.startswith("/wheels/"):
            wheel = self.wheels / path.rpartition("/")[2]
            return (200, "application/octet-stream", wheel.read_bytes()) if wheel.is_file() else _MISSING
        return _MISSING

    def _project(self, name: str, as_json: bool) -> _Page:
        wheels = sorted(one for one in self.wheels.glob("*.whl") if one.name.startswith(f"{name.replace('-', '_')}-"))
        if not wheels:
            return _MISSING
        sums = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in wheels}
        if as_json:
            files = [{"filename": n, "url": f"/wheels/{n}", "hashes": {"sha256": s}} for n, s in sums.items()]
            page = {"meta": {"api-version": "1.0"}, "name": name, "files": files}
            return 200, "application/vnd.pypi.simple.v1+json", json.dumps(page).encode()
        links = "".join(f'<a href="../../wheels/{n}#sha256={s}">{n}</a>\n' for n, s in sums.items())
        return 200, "text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()


_MISSING: _Page = (404, "text/plain", b"not here")


def tarball(files: Mapping[str, str | bytes], mode: int = 0o755) -> bytes:
    """An archive of these files, packed with gzip."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


@contextmanager
def package_servers(wheels: Path) -> Iterator[PackageServers]:
    """Registries that hold nothing but the wheels in a folder, until the block ends."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    servers = PackageServers(f"http://127.0.0.1:{server.server_address[1]}", wheels)
    server.serves = servers  # type: ignore[attr-defined]  # its handlers look there
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield servers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer from the pages."""
        serves: PackageServers = self.server.serves  # type: ignore[attr-defined]
        path = unquote(self.path.partition("?")[0])
        serves.asked.append(path)
        serves.headers.append({name.lower(): value for name, value in self.headers.items()})
        status, kind, body = serves.answer(path, self.headers.get("Accept", ""))
        self.send_response(status)
        if status in range(300, 400):
            self.send_header("Location", body.decode())
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        """The same without its body; uv asks so first."""
        self.do_GET()

    log_message: Callable[..., None] = lambda *_: None
