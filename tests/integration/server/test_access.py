"""Nobody gets anything from any route without being known and allowed; the routes are those of the OpenAPI file."""

import http.client
import json
import re
from contextlib import closing
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.jupyter.server.routes import BASE, handlers
from tests.support.jupyter_server import API, TOKEN
from tests.support.plugin_events import PLUGIN_BODIES
from tests.support.sample_run import SampleRun

EVERY = sorted(
    (method.upper(), path.lstrip("/"), operation["x-resource"])
    for path, operations in API["paths"].items()
    for method, operation in operations.items()
    if method in {"get", "post", "put", "patch", "delete"}
)
EVERY += sorted(("HEAD", path, resource) for method, path, resource in EVERY if method == "GET")
KINDS = {"runs": "run_id", "approvals": "approval_id", "leases": "lease_id", "plugins": "name", "memories": "memory_id"}
ACTIONS = {"GET": "read", "HEAD": "read", "POST": "write", "DELETE": "write"}
BODIES = {
    "approvals/{approval_id}/decision": {"verdict": "allow"},
    "runs/{run_id}/sentences": {"text": "Use the other file."},
    "settings": {"version": "of another file", "values": {"keep": True}},
} | PLUGIN_BODIES

# Says no to everything of ours and writes down what it was asked.
STRICT = """
from jupyter_server.auth import Authorizer

class Strict(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        if not resource.startswith("kagura"):
            return True
        with open(__file__ + ".log", "a") as log:
            print(handler.request.method, handler.request.path, action, resource, file=log)
        return False
"""

# As behind a proxy that says who it is.
HUB = """
from jupyter_server.auth import IdentityProvider, User

class Hub(IdentityProvider):
    def get_user(self, handler):
        name = handler.request.headers.get("X-Hub-User", "")
        return User(name) if name else None
"""


pytestmark = pytest.mark.usefixtures("told")


def filled(path):
    return path.format(run_id="run-live", approval_id="app-new", lease_id="lea-1", name="greeter", memory_id="mem-1")


@pytest.fixture(scope="module")
def strict(start_server):
    return start_server("--ServerApp.authorizer_class=strict.Strict", files={"strict.py": STRICT})


@pytest.fixture(scope="module")
def hub(start_server):
    return start_server(
        "--ServerApp.identity_provider_class=hub.Hub", "--ServerApp.disable_check_xsrf=True", files={"hub.py": HUB}
    )


def test_every_route_is_described():
    described = {path.replace("{", "").replace("}", "") for path in API["paths"]}
    served = set()
    for pattern, _ in handlers()[:-1]:
        name = pattern.removeprefix(BASE)
        kind = KINDS.get(name.split("/")[1], "")
        served.add(re.sub(r"\([^)]+\)", kind, name))
    assert served == described


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in EVERY])
@pytest.mark.parametrize("token", [None, "", "a-wrong-token"])
def test_nobody_gets_anything_without_a_token(server, method, path, token):
    answer = server.ask(method, filled(path), BODIES.get(path), token=token)
    assert answer.status == 403
    if method != "HEAD":
        assert answer.json["code"] in {"ERR_UNAUTHENTICATED", "ERR_FORBIDDEN"}
        assert set(answer.json) == {"code", "message"}


@pytest.mark.parametrize(("method", "path", "resource"), EVERY)
def test_nobody_gets_what_the_authorizer_refuses(strict, method, path, resource):
    answer = strict.ask(method, filled(path), BODIES.get(path))
    assert answer.status == 403
    if method != "HEAD":
        assert answer.json["code"] == "ERR_FORBIDDEN"
        assert resource in answer.json["message"]
    log = (strict.home.parent / "config" / "strict.py.log").read_text().splitlines()
    assert log[-1] == f"{method} /kagura/api/v1/{filled(path)} {ACTIONS[method]} {resource}"


def test_nothing_was_decided_by_whoever_was_refused(server):
    assert server.get("approvals/app-new")["verdict"] is None


class Browser:
    """Somebody with the cookies of a server, and no token."""

    def __init__(self, server):
        parts = urlsplit(server.url)
        self.base = parts.path
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self.cookies = {}
        self.ask("GET", "login")
        self.ask("GET", "api/status", {"Authorization": f"token {TOKEN}"})

    def close(self):
        self.connection.close()

    def ask(self, method, path, headers=None, body=None):
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.connection.request(method, self.base + path, body, {"Cookie": cookie, **(headers or {})})
        answer = self.connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie") or ():
            self.cookies.update({name: found.coded_value for name, found in SimpleCookie(line).items()})
        return answer.status, answer.read()


@pytest.fixture
def browser(server):
    """Somebody who has logged in at the server."""
    with closing(Browser(server)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for method, path, _ in EVERY if ACTIONS[method] == "write"]
)
def test_a_cookie_decides_nothing_without_the_xsrf_header(server, browser, method, path):
    place = f"kagura/api/v1/{filled(path)}"
    body = json.dumps(BODIES.get(path, {}))
    assert browser.ask("GET", "kagura/api/v1/status")[0] == 200
    for headers in ({}, {"X-XSRFToken": "guessed"}):
        status, said = browser.ask(method, place, headers, body)
        assert (status, json.loads(said)["code"]) == (403, "ERR_FORBIDDEN")
    assert server.get("approvals/app-new")["verdict"] is None

    # With the header it goes through to the journal, where nothing has this name; settings see another version.
    nothing = {
        "run_id": "run-none",
        "approval_id": "app-none",
        "lease_id": "lea-none",
        "name": "none",
        "memory_id": "none",
    }
    elsewhere = f"kagura/api/v1/{path.format(**nothing)}"
    status, said = browser.ask(method, elsewhere, {"X-XSRFToken": browser.cookies["_xsrf"]}, body)
    assert status == (409 if path == "settings" else 404)


def test_a_page_from_elsewhere_gets_nothing(server, browser):
    foreign = {"Origin": "https://evil.example", "X-XSRFToken": browser.cookies["_xsrf"]}
    status, _ = browser.ask("POST", "kagura/api/v1/approvals/app-new/decision", foreign, '{"verdict": "allow"}')
    assert status in {403, 404}
    assert browser.ask("GET", "kagura/api/v1/status", foreign)[0] in {403, 404}
    assert server.get("approvals/app-new")["verdict"] is None


def test_a_decision_bears_the_name_that_the_hub_gave(hub):
    run = SampleRun(at=SystemClock().now())
    with closing(hub.journal()) as journal:
        for event in (run.started(), run.asked("app-1", deadline=600.0), run.asked("app-2", deadline=600.0)):
            journal.append(event)
        for name, approval_id in (("ana", "app-1"), ("ben", "app-2")):
            said = hub.ask(
                "POST", f"approvals/{approval_id}/decision", {"verdict": "deny"}, headers={"X-Hub-User": name}
            )
            assert (said.status, said.json["by"]) == (200, name)
            assert Mailbox(journal).decision(approval_id).by == name
    assert hub.ask("GET", "approvals").status == 403
