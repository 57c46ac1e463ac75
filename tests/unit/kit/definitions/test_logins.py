"""Logins for definitions that are not for everybody: whom they are shown to, and whom never."""

import base64
import json

import pytest

from kagura_kernel.domain.errors import AgentNotFound, AgentUnavailable
from kagura_kernel.kit.definitions.oci import Logins
from kagura_kernel.kit.definitions.references import AgentPlaces, resolve_agent
from tests.support.registry_server import TOKEN, Page, RegistryServer

DOCUMENT = b"name: far\n"
BASIC = "Basic " + base64.b64encode(b"ada:s3cret-word").decode()


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    return home


@pytest.fixture
def places(tmp_path, home):
    (tmp_path / "own").mkdir()
    environ = {"HOME": str(home), "PATH": str(tmp_path / "bin")}
    return AgentPlaces(tmp_path, tmp_path / "own", tmp_path / "cache", environ)


@pytest.fixture
def server():
    with RegistryServer(secure=True) as one:
        yield one


@pytest.fixture
def registry():
    with RegistryServer(token=True) as one:
        yield one


def keep_netrc(home, *hosts):
    path = home / ".netrc"
    path.write_text("".join(f"machine {host} login ada password s3cret-word\n" for host in hosts))
    path.chmod(0o600)


def keep_login(home, found):
    (home / ".docker" / "config.json").write_text(json.dumps(found))


@pytest.mark.parametrize("host", ["github.com", "raw.githubusercontent.com", "api.github.com:443"])
def test_a_token_of_github_is_for_its_hosts(host):
    assert Logins({"GITHUB_TOKEN": "ghp_x"}).of_host(host) == "Bearer ghp_x"
    assert Logins({"GH_TOKEN": "ghp_y"}).of_host(host) == "Bearer ghp_y"


@pytest.mark.parametrize(
    "host", ["example.org", "github.com.example.org", "evilgithub.com", "github.com:8443", "localhost:443", ""]
)
def test_and_for_no_other_host(host):
    assert Logins({"GITHUB_TOKEN": "ghp_x"}).of_host(host) == ""


def test_a_token_that_could_not_stand_in_a_header_is_none():
    assert Logins({"GITHUB_TOKEN": "a\r\nX-Other: b"}).of_host("github.com") == ""


def test_a_definition_is_fetched_with_the_entry_of_its_host_and_of_no_other(places, home, server):
    reference = server.serve("/agent.yaml", DOCUMENT)
    keep_netrc(home, "example.org")
    with (home / ".netrc").open("a") as file:
        file.write("default login eve password other\n")
    assert resolve_agent(reference, places, fetch=server.fetcher()).name == "far"
    keep_netrc(home, "localhost")
    assert resolve_agent(reference, places, fetch=server.fetcher()).name == "far"
    assert server.authorised == ["", BASIC]


def test_a_login_does_not_follow_to_where_its_host_leads(places, home, server):
    keep_netrc(home, "localhost")
    with RegistryServer(secure=True) as other:
        server.pages["/agent.yaml"] = Page(status=302, headers={"Location": other.serve("/there.yaml", DOCUMENT)})
        resolve_agent(f"{server.url}/agent.yaml", places, fetch=server.fetcher())
        assert (server.authorised, other.authorised) == ([BASIC], [""])


def test_a_file_of_a_project_says_nobody_whom_a_login_is_shown_to(places, home, server):
    keep_netrc(home, "localhost")
    (places.cwd / "lead.yaml").write_text(f"name: lead\nagents: {{far: '{server.serve('/far.yaml', DOCUMENT)}'}}\n")
    resolve_agent("lead.yaml", places, fetch=server.fetcher())
    (places.own / "mine.yaml").write_text((places.cwd / "lead.yaml").read_text())
    resolve_agent("mine", places, fetch=server.fetcher())
    assert server.authorised == ["", BASIC]


def test_who_has_no_login_is_told_what_would_be_taken(places, server):
    server.pages["/agent.yaml"] = Page(status=403)
    with pytest.raises(AgentUnavailable, match=r"write a login for it into ~/\.netrc"):
        resolve_agent(f"{server.url}/agent.yaml", places, fetch=server.fetcher())
    server.pages["/agent.yaml"] = Page(status=404)
    with pytest.raises(AgentNotFound):
        resolve_agent(f"{server.url}/agent.yaml", places, fetch=server.fetcher())


@pytest.mark.parametrize("how", ["stored", "helper", "containers", "netrc"])
def test_a_registry_is_shown_what_a_log_in_has_left(places, home, registry, tmp_path, how):
    reference = registry.push("far", DOCUMENT)
    stored = {"auths": {registry.host: {"auth": BASIC.removeprefix("Basic ")}}}
    if how == "stored":
        keep_login(home, stored)
    elif how == "containers":
        (home / ".config" / "containers").mkdir(parents=True)
        (home / ".config" / "containers" / "auth.json").write_text(json.dumps(stored))
    elif how == "netrc":
        keep_netrc(home, "127.0.0.1")
    else:
        keep_login(home, {"credsStore": "test", "auths": {registry.host: {}}})
        helper = tmp_path / "bin" / "docker-credential-test"
        helper.parent.mkdir()
        helper.write_text(
            f'#!/bin/sh\nread host; [ "$1 $host" = "get {registry.host}" ] || exit 1\n'
            'echo \'{"Username": "ada", "Secret": "s3cret-word"}\'\n'
        )
        helper.chmod(0o755)
    assert resolve_agent(reference, places, fetch=registry.fetcher()).name == "far"
    assert registry.authorised == ["", BASIC, f"Bearer {TOKEN}", f"Bearer {TOKEN}"]


def test_a_registrys_login_is_not_shown_to_the_token_service_of_another_host(places, home, registry):
    keep_login(home, {"auths": {registry.host: {"auth": BASIC.removeprefix("Basic ")}}})
    reference = registry.push("far", DOCUMENT)
    with RegistryServer(secure=True, token=True) as other:
        path = f"/v2/far/manifests/{reference.rpartition('@')[2]}"
        challenge = {"WWW-Authenticate": f'Bearer realm="{other.url}/token"'}
        registry.pages[path] = Page(status=401, headers=challenge)
        with pytest.raises(AgentUnavailable):
            resolve_agent(reference, places, fetch=other.fetcher())
        assert set(other.authorised) <= {""}
        assert BASIC not in registry.authorised


def test_a_registry_without_a_token_service_takes_the_login_itself(places, home, registry):
    keep_login(home, {"auths": {registry.host: {"auth": BASIC.removeprefix("Basic ")}}})
    reference = registry.push("far", DOCUMENT)
    path = f"/v2/far/manifests/{reference.rpartition('@')[2]}"
    registry.pages[path] = Page(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
    with pytest.raises(AgentUnavailable, match="it gives this to some only") as raised:
        resolve_agent(reference, places, fetch=registry.fetcher())
    assert registry.authorised == ["", BASIC]
    assert "s3cret" not in raised.value.message
