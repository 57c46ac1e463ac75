"""A real JupyterHub on loopback: its proxy, and a single-user server for each person who is let in."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from websocket import create_connection

from kagura_kernel.testing.patience import PATIENCE, wait_until

_ADMIN = "token-of-the-service-that-the-test-is"
_CONFIG = """\
import json, os, pathlib

told = json.loads(pathlib.Path(__file__).with_name("told.json").read_text())
c.JupyterHub.bind_url = told["url"]
c.JupyterHub.hub_bind_url = told["hub_url"]
c.ConfigurableHTTPProxy.api_url = told["proxy_url"]
c.ConfigurableHTTPProxy.command = told["proxy"]
c.JupyterHub.db_url = "sqlite://"
c.JupyterHub.cookie_secret = os.urandom(32)
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
# Asked by an interrupt it would ask back.
c.LocalProcessSpawner.interrupt_timeout = 0
c.SimpleLocalProcessSpawner.home_dir_template = told["homes"] + "/{username}"
c.Spawner.notebook_dir = told["homes"] + "/{username}/work"
c.Spawner.cmd = told["server"]
c.Spawner.args = told["arguments"]
c.Spawner.env_keep = []
c.JupyterHub.services = [{"name": "test", "api_token": told["token"]}]
c.JupyterHub.load_roles = [
    {"name": "test", "scopes": ["admin:users", "admin:servers", "tokens"], "services": ["test"]}
]


def prepare(spawner):
    spawner.environment = {**told["environment"], **told["people"][spawner.user.name]}


c.Spawner.pre_spawn_hook = prepare
"""


@dataclass(frozen=True, slots=True)
class Hub:
    """A running Hub."""

    url: str  # Of its proxy, with a slash at its end
    homes: Path  # Below it each person's home
    log: Path

    def person(self, name: str) -> Person:
        """Let somebody in, with a server and a token for it."""
        self._asked("POST", f"hub/api/users/{name}")
        self._asked("POST", f"hub/api/users/{name}/server")
        wait_until(lambda: self._asked("GET", f"hub/api/users/{name}")["servers"].get("", {}).get("ready"))
        token = self._asked("POST", f"hub/api/users/{name}/tokens", {"note": "the test"})["token"]
        return Person(self, name, token)

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        answer = request(method, f"{self.url}{path}", _ADMIN, body)
        assert answer.status < HTTPStatus.BAD_REQUEST, (path, answer, self.log.read_text()[-4000:])
        return answer.json if answer.body else None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a server on the Hub."""

    hub: Hub
    name: str
    token: str

    @property
    def work(self) -> Path:
        """Where their notebooks lie."""
        return self.hub.homes / self.name / "work"

    def ask(self, method: str, path: str, body: Any = None, *, of: Person | None = None) -> Answer:
        """One request to their own server, or with their token to that of somebody else."""
        return request(method, f"{self.hub.url}user/{(of or self).name}/{path}", self.token, body)

    def kagura(self, method: str, path: str, body: Any = None, *, of: Person | None = None) -> Answer:
        """One request to the routes of the extension."""
        return self.ask(method, f"kagura/api/v1/{path}", body, of=of)

    @contextmanager
    def kernel(self) -> Iterator[Kernel]:
        """A kernel of theirs, for the length of a block."""
        began = self.ask("POST", "api/kernels", {"name": "python3", "path": "book.ipynb"})
        assert began.status == HTTPStatus.CREATED, began
        kernel_id = began.json["id"]
        address = f"{self.hub.url}user/{self.name}/api/kernels/{kernel_id}/channels".replace("http:", "ws:", 1)
        with closing(create_connection(address, PATIENCE, header=[f"Authorization: token {self.token}"])) as line:
            yield Kernel(line)
        self.ask("DELETE", f"api/kernels/{kernel_id}")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel behind the Hub's proxy."""

    line: Any

    def send(self, code: str) -> str:
        """Ask for a cell to be run; the id of that."""
        content = {"code": code, "silent": False, "allow_stdin": True, "stop_on_error": False}
        message = _message("execute_request", content)
        self.line.send(json.dumps(message))
        return str(message["header"]["msg_id"])

    def follow(self, asked: str) -> str:
        """What the cell prints, shows as text, or fails with, up to its end."""
        said: list[str] = []
        while True:
            told = json.loads(self.line.recv())
            if told.get("parent_header", {}).get("msg_id") != asked:
                continue
            content = told["content"]
            match told["msg_type"]:
                case "stream":
                    said.append(content["text"])
                case "display_data" | "execute_result" | "update_display_data":
                    said.append(content["data"].get("text/plain", ""))
                case "error":
                    said.append(f"{content['ename']}: {content['evalue']}")
                case "status" if content["execution_state"] == "idle":
                    return "\n".join(said)

    def run(self, code: str) -> str:
        """Run a cell to its end."""
        return self.follow(self.send(code))


def _message(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "username": "test", "session": "test", "version": "5.3"}
    return {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}


def request(method: str, url: str, token: str, body: Any = None) -> Answer:
    """One request with a token; an error's answer is an answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = Request(url, data, {"Authorization": f"token {token}", "Content-Type": "application/json"}, method=method)
    try:
        with urlopen(asked, timeout=PATIENCE) as answer:
            return Answer(answer.status, answer.read())
    except HTTPError as error:
        return Answer(error.code, error.read())


@contextmanager
def jupyterhub(folder: Path, environment: Mapping[str, str], people: Mapping[str, Mapping[str, str]]) -> Iterator[Hub]:
    """A Hub for the length of a block.

    Args:
        folder: Where its files and the homes of its people lie.
        environment: Variables of everybody's server.
        people: Who may come, each with variables of their own.
    """
    ports = free_ports(3)
    url, hub_url, proxy_url = (f"http://127.0.0.1:{port}" for port in ports)
    homes = folder / "homes"
    for name in people:
        # A home is no project.
        (homes / name / "work").mkdir(parents=True)
    told = {
        "url": url,
        "hub_url": hub_url,
        "proxy_url": proxy_url,
        "proxy": [f"{Path(sys.executable).parent}/configurable-http-proxy"],
        "homes": str(homes),
        "server": [sys.executable, "-m", "jupyterhub.singleuser"],
        "arguments": ["--allow-root", "--ServerApp.jpserver_extensions=kagura_kernel.jupyter.server=True"],
        "token": _ADMIN,
        "environment": {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            # JupyterLab and the other extensions that are installed here would take most of the start.
            "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
            "JUPYTER_NO_CONFIG": "1",
            **{name: value for name, value in os.environ.items() if name.startswith(("COVERAGE_", "KAGURA_TEST_"))},
            **environment,
        },
        "people": {name: dict(own) for name, own in people.items()},
    }
    (folder / "told.json").write_text(json.dumps(told))
    (folder / "config.py").write_text(_CONFIG)
    log = folder / "hub.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        running = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "--config", str(folder / "config.py")],
            cwd=folder,
            env={**os.environ, "PATH": told["environment"]["PATH"]},  # type: ignore[index]
            stdout=output,
            stderr=output,
        )
        stack.callback(_stop, running)
        hub = Hub(f"{url}/", homes, log)

        def answers() -> bool:
            assert running.poll() is None, log.read_text()
            try:
                return request("GET", f"{url}/hub/api/", _ADMIN).status == HTTPStatus.OK
            except OSError:
                return False

        wait_until(answers)
        yield hub


def free_ports(number: int) -> list[int]:
    """Ports of the loopback that nobody has just now."""
    with ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in free]


def _stop(running: subprocess.Popen[bytes]) -> None:
    # It ends its servers and its proxy first.
    running.terminate()
    try:
        running.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
