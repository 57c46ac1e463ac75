"""A cell installs a package with `--net python-packages`, and without it a person reads why not and what to type.

An index on the loopback of this machine stands in for the real one, as a company's mirror would. Everything between
the cell's words and the rows of the journal is real: the engine, the membrane, and boxes with walls.
"""

import base64
import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.events import ToolFinished
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.docker_images import PYTHON

NAME = "packages.test"

# An environment of the box's own. Its programs are not started by name, since scratch space may be mounted so that
# nothing in it is.
INSTALL = """
python3 -m venv $HOME/env
$HOME/env/bin/python -m pip install --no-cache-dir small-package
$HOME/env/bin/python -c 'import small_package; print(small_package.hello())'
"""


def wheel(name: str, module: str, requires: Sequence[str] = ()) -> tuple[str, bytes]:
    about = f"{name.replace('-', '_')}-1.0.dist-info"
    needs = "".join(f"Requires-Dist: {other}\n" for other in requires)
    files = {
        f"{name.replace('-', '_')}.py": module,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},sha256={digest(text.encode())},{len(text)}" for path, text in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name.replace('-', '_')}-1.0-py3-none-any.whl", packed.getvalue()


def digest(data: bytes) -> str:
    """As RECORD files have it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Index(http.server.BaseHTTPRequestHandler):
    """A simple repository (PEP 503) of two packages, one of which needs the other."""

    wheels: ClassVar[dict[str, bytes]] = dict(
        [
            wheel("small-package", "import other_package\nhello = other_package.hello\n", ["other-package"]),
            wheel("other-package", "def hello():\n    return 'hello from a wheel'\n"),
        ]
    )

    def do_GET(self) -> None:
        self.server.asked.append((self.headers["Host"], self.path))  # type: ignore[attr-defined]
        *_, place, last = self.path.split("/")
        wheels = {name: data for name, data in self.wheels.items() if name.startswith(place.replace("-", "_"))}
        if self.path.startswith("/simple/") and not last and wheels:
            links = [f'<a href="/files/{n}#sha256={hashlib.sha256(d).hexdigest()}">{n}</a>' for n, d in wheels.items()]
            self._answer(200, "text/html", f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode())
        elif last in self.wheels:
            self._answer(200, "application/octet-stream", self.wheels[last])
        else:
            self._answer(404, "text/plain", b"not here")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def run(walls, index, tmp_path: Path, project: Path) -> Iterator[Callable[..., tuple[RunOutcome, str]]]:
    """Runs a cell of bash where the index has this name: its outcome, and what it showed, errors too."""
    made: list[Cockpit] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        del port
        assert host == NAME
        return ["127.0.0.1"]

    def launch(code: str, host: str, *net: str, scheme: str = "http", **env: str) -> tuple[RunOutcome, str]:
        port = index.server_address[1]
        pip = {"PIP_INDEX_URL": f"{scheme}://{host}:{port}/simple/", "PIP_TRUSTED_HOST": host}
        # The name alone would not do: it leads to an address that is not public.
        mirror = tuple(dict.fromkeys((f"{host}:{port}", f"127.0.0.1:{port}")))
        settings = Settings(
            mirrors={"python-packages": mirror} if host else {},
            env=(pip if host else {}) | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | env,
            image=PYTHON,
        )
        cockpit = fake_cockpit(tmp_path / "home", backend=walls(), settings=settings, resolver=lambda: resolve)
        made.append(cockpit)
        shown: list[str] = []
        handle = cockpit.launch(RunRequest(task=code, language="bash", net=net, headless=True, project=project))
        handle.subscribe(lambda event: shown.append(event.text) if isinstance(event, ToolFinished) else None)
        return handle.result(100), "".join(shown)

    yield launch
    for cockpit in made:
        cockpit.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", [NAME, "127.0.0.1"], ids=["by name, through the proxy", "on its own loopback"])
def test_pip_installs_a_package_and_what_it_needs_with_the_set_granted(host, run, index):
    outcome, shown = run(INSTALL, host, "python-packages")
    assert outcome.status == "done", shown
    assert outcome.text.endswith("Successfully installed other-package-1.0 small-package-1.0\nhello from a wheel\n")
    where = f"{host}:{index.server_address[1]}"
    assert index.asked == [
        (where, "/simple/small-package/"),
        (where, "/files/small_package-1.0-py3-none-any.whl"),
        (where, "/simple/other-package/"),
        (where, "/files/other_package-1.0-py3-none-any.whl"),
    ]


@pytest.mark.timeout(600)
def test_a_plain_pip_install_is_all_it_takes_and_lasts_as_long_as_the_box(run):
    plain = "pip install --no-cache-dir small-package\n"
    use = "python -c 'import small_package; print(small_package.hello())'"
    outcome, shown = run(plain + use, NAME, "python-packages")
    assert outcome.status == "done", shown
    assert outcome.text.endswith("Successfully installed other-package-1.0 small-package-1.0\nhello from a wheel\n")
    later, shown = run(use, NAME, "python-packages")
    assert later.status == "failed"
    assert "No module named 'small_package'" in shown


def test_the_systems_own_python_takes_packages_too(run):
    python = "/usr/bin/python3"
    install = f"{python} -m pip install --no-cache-dir small-package"
    use = f"{python} -c 'import small_package; print(small_package.hello())'"
    outcome, shown = run(f"{python} -m pip --version || exit 0\n{install} && {use}", NAME, "python-packages")
    if "No module named pip" in shown:
        pytest.skip("the system of this box has no pip")
    assert outcome.text.endswith("hello from a wheel\n"), shown


@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", [NAME, ""], ids=["a mirror", "the public index"])
def test_without_the_set_pip_says_why_and_what_to_type(host, run, index):
    where = f"{host}:{index.server_address[1]}" if host else "pypi.org:443"
    outcome, shown = run(INSTALL, host, scheme="https")
    assert outcome.status == "failed"
    reasons = [line for line in shown.splitlines() if f"{where} is not granted" in line]
    # As often as pip tries again: quick, and short enough to be read.
    assert len(reasons) == 2, shown
    assert all("Grant it with: --net python-packages" in line for line in reasons)
    assert index.asked == []


def test_what_a_person_set_about_trying_again_holds(run):
    line = 'python3 -c \'import os; print(os.environ["PIP_RETRIES"], os.environ["HTTPS_PROXY"])\''
    outcome, _ = run(line, NAME, PIP_RETRIES="7", HTTPS_PROXY="http://elsewhere.test")
    assert outcome.text == "7 http://127.0.0.1:3179\n"
