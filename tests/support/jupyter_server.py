"""Real Jupyter servers on loopback, each with its own home, base URL and journal; every answer is checked."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from kagura_kernel.journal.leases import LeaseRow
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter import server as server_package
from kagura_kernel.testing.false_home import share_rules
from kagura_kernel.testing.patience import wait_until
from tests.support.sample_run import SampleRun

# As safe as the other one, and ten times as fast where libyaml is there.
API = yaml.load(
    (Path(server_package.__file__).parent / "openapi.yaml").read_text("utf-8"),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
)
"""The OpenAPI file."""

TOKEN = "a-token-for-one-test-session"
ROUTES = "kagura/api/v1/"


@dataclass
class Answer:
    """What a server said."""

    status: int  # HTTP status
    headers: dict[str, str]  # By name in small letters
    body: bytes  # As it came

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running Jupyter server."""

    url: str  # With its base URL
    home: Path  # The `KAGURA_HOME` of the server
    log: Path  # What it printed
    process: subprocess.Popen[bytes]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = TOKEN,
        described: bool = True,
    ) -> Answer:
        """One request below the routes of the extension; a body that is no bytes is sent as JSON.

        Whatever comes back must be what the OpenAPI file says, unless the request is `described` nowhere.
        """
        parts = urlsplit(self.url)
        assert parts.hostname
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"token {token}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, f"{parts.path}{ROUTES}{path}", data, sent)
            came = connection.getresponse()
            answer = Answer(came.status, {k.lower(): v for k, v in came.getheaders()}, came.read())
        finally:
            connection.close()
        if described:
            check(method, path, answer)
        return answer

    def get(self, path: str, **more: Any) -> Any:
        answer = self.ask("GET", path, **more)
        assert answer.status == HTTPStatus.OK, answer.body
        return answer.json

    def journal(self) -> Journal:
        """The journal, opened as a kernel does."""
        return Journal.open(self.home)


def check(method: str, path: str, answer: Answer) -> None:
    """Hold an answer against the OpenAPI file.

    Raises:
        AssertionError: the file does not have the route, the method or the status, or says something else of the body.
    """
    plain = path.partition("?")[0]
    fitting = [name for name in API["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", name), f"/{plain}")]
    assert fitting, f"{path} is not described"
    # A name comes before a place that any name fits.
    operations = API["paths"][min(fitting, key=lambda name: "{" in name)]
    operation = operations["get" if method == "HEAD" else method.lower()]
    assert str(answer.status) in operation["responses"], (method, path, answer)
    said = operation["responses"][str(answer.status)]
    if reference := said.get("$ref"):
        said = API["components"]["responses"][reference.rpartition("/")[2]]
    contents = said.get("content", {})
    if not contents or method == "HEAD":
        assert answer.body == b"", (method, path, answer)
        return
    (kind,) = contents
    assert answer.headers["content-type"].partition(";")[0] == kind
    assert answer.headers["cache-control"] == "no-store"
    if kind == "application/json":
        _validator(json.dumps(contents[kind]["schema"])).validate(answer.json)


@cache
def _validator(schema: str) -> Draft202012Validator:
    # What it finds out about references it keeps, and every answer asks about the same ones.
    return Draft202012Validator({**json.loads(schema), "components": API["components"]})


def start(base: Path, arguments: tuple[str, ...], environment: Mapping[str, str]) -> Server:
    """A server whose files all lie in a folder, with more arguments and variables; the caller stops it."""
    for name in ("home", "data", "runtime", "config", "root"):
        (base / name).mkdir(mode=0o700, exist_ok=True)
    home = base / "kagura"
    share_rules(home)
    # A grammar of addresses that is made at every start takes longer than all the rest, and jsonschema does without.
    (base / "config" / "rfc3987_syntax.py").write_text("raise ImportError\n")
    everything = os.environ | {
        "HOME": str(base / "home"),
        "KAGURA_HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(base / "config"),
        "JUPYTER_DATA_DIR": str(base / "data"),
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "PYTHONPATH": str(base / "config"),
        # JupyterLab and the other extensions that are installed here would take most of the start.
        "JUPYTER_NO_CONFIG": "1",
    }
    log = base / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyter_server",
                "--no-browser",
                "--allow-root",
                "--ServerApp.port=0",
                f"--ServerApp.root_dir={base / 'root'}",
                f"--IdentityProvider.token={TOKEN}",
                "--ServerApp.jpserver_extensions=kagura_kernel.jupyter.server=True",
                *arguments,
            ],
            env={**everything, **environment},
            stdout=output,
            stderr=output,
        )
    found: list[str] = []

    def listening() -> bool:
        assert process.poll() is None, log.read_text()
        texts = [path.read_text() for path in (base / "runtime").glob("jpserver-*.json")]
        # The file is there a moment before anything listens.
        urls = [str(json.loads(text)["url"]) for text in texts if text.endswith("}")]
        found.extend(url for url in urls if hears(url))
        return bool(found)

    try:
        wait_until(listening)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Server(found[0], home, log, process)


def hears(url: str) -> bool:
    """Whether a server answers there.

    To its end: a connection that is not accepted yet when the server is stopped has its loop look for a socket that is
    gone, which it tells with a trace.
    """
    parts = urlsplit(url)
    try:
        with closing(
            http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 80, timeout=10)
        ) as connection:
            connection.request("GET", "/api", headers={"Connection": "close"})
            connection.getresponse().read()
            return True
    except (OSError, http.client.HTTPException):
        return False


def stop(server: Server) -> None:
    """Stop it as a person does; one that does not stop fails the test."""
    server.process.terminate()
    try:
        server.process.wait(20)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
        pytest.fail(f"the server did not stop:\n{server.log.read_text()[-3000:]}")


HANDLE = "what-revokes-the-credential"
"""Nobody but a provider may ever see it."""


def minted(lease_id: str, run_id: str, now: datetime) -> LeaseRow:
    return LeaseRow(
        id=lease_id,
        lease_id=lease_id,
        run_id=run_id,
        session_id="ses-2",
        owner=process_owner(),
        provider="github",
        scope="read",
        began_at=now,
        expires_at=now + timedelta(hours=1),
        dies_at=now + timedelta(hours=2),
        total_seconds=3600.0,
        spent_seconds=900.0,
        renewals_left=5,
    )


@dataclass
class Told:
    """A journal with something in it, and a run of this very process that goes on."""

    journal: Journal
    live: SampleRun
    ended: SampleRun
