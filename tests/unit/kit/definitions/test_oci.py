from __future__ import annotations

import httpx
import pytest

from kagura_kernel.domain.errors import AgentUnavailable
from kagura_kernel.kit.definitions.fetching import Fetcher
from kagura_kernel.kit.definitions.oci import parse_oci
from kagura_kernel.kit.definitions.references import AgentPlaces, resolve_agent
from tests.support.registry_server import TOKEN, Page, RegistryServer

DOCUMENT = b"name: far\nskills: true\n"
PIN = "sha256:" + "0" * 64


@pytest.fixture
def places(tmp_path):
    return AgentPlaces(tmp_path, tmp_path / "own", tmp_path / "cache")


@pytest.fixture
def registry():
    with RegistryServer(token=True) as one:
        yield one


def test_an_artifact_is_pulled_with_a_strangers_token_and_then_kept(places, registry):
    reference = registry.push("team/agents/far", DOCUMENT)
    agent = resolve_agent(reference, places, fetch=registry.fetcher())
    assert (agent.name, agent.kind, agent.trusted, agent.reference) == ("far", "oci", False, reference)
    assert [asked.partition("?")[0].split("/")[-1][:12] for asked in registry.asked] == [
        reference.rpartition("@")[2][:12],
        "token",
        reference.rpartition("@")[2][:12],
        f"sha256:{agent.document}"[:12],
    ]
    assert registry.authorised == ["", "", f"Bearer {TOKEN}", f"Bearer {TOKEN}"]
    assert resolve_agent(reference, places, fetch=registry.fetcher()).digest == agent.digest
    assert len(registry.asked) == 4


def test_toml_and_plain_yaml_layers_are_definitions_too(places, registry):
    toml = registry.push("toml", b'name = "far"\n', "application/vnd.kagura.agent.v1+toml")
    plain = registry.push("plain", b"name: far\n", "application/yaml")
    found = [resolve_agent(one, places, fetch=registry.fetcher()) for one in (toml, plain)]
    assert found[0].digest == found[1].digest


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"schemaVersion": 1}, "no manifest of one artifact"),
        ({"mediaType": "application/vnd.oci.image.index.v1+json"}, "no manifest of one artifact"),
        ({"layers": []}, "0 layers that are an agent definition"),
        ({"layers": [{"mediaType": "application/yaml"}] * 2}, "2 layers"),
        ({"layers": [{"mediaType": "application/yaml", "digest": "md5:1", "size": 1}]}, "no digest"),
        ({"layers": [{"mediaType": "application/yaml", "digest": PIN, "size": 10**9}]}, "larger than"),
        ({"layers": [{"mediaType": "application/yaml", "digest": PIN, "size": 1}]}, "answers 404"),
    ],
)
def test_a_manifest_that_is_no_agents_is_refused(places, registry, changed, why):
    reference = registry.push("far", DOCUMENT, **changed)
    with pytest.raises(AgentUnavailable, match=why):
        resolve_agent(reference, places, fetch=registry.fetcher())


def test_what_is_not_what_its_digest_says_is_refused_wherever_it_was_swapped(places, registry):
    reference = registry.push("far", DOCUMENT)
    resolve_agent(reference, places, fetch=registry.fetcher())
    manifest, blob = (asked for asked in registry.asked[2:])
    for path in (manifest, blob):
        for kept in places.cache.iterdir():
            kept.write_bytes(b"name: forged\n")
        registry.pages[path] = Page(b"name: forged\n")
        with pytest.raises(AgentUnavailable, match="not what the digest says"):
            resolve_agent(reference, places, fetch=registry.fetcher())
        del registry.pages[path]


def test_a_blob_may_lie_elsewhere_and_the_token_does_not_follow_it(places, registry):
    reference = registry.push("far", DOCUMENT)
    with RegistryServer(secure=True) as store:
        elsewhere = store.serve("/blob", DOCUMENT)
        fetch = store.fetcher()
        registry.pages |= _moved(registry, reference, places, elsewhere)
        assert resolve_agent(reference, places, fetch=fetch).name == "far"
        assert store.authorised == [""]


def _moved(registry, reference, places, elsewhere):
    """The page that leads from the blob to another host."""
    digest = resolve_agent(reference, places, fetch=registry.fetcher()).document
    (places.cache / digest).unlink()
    return {f"/v2/far/blobs/sha256:{digest}": Page(status=307, headers={"Location": elsewhere})}


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ('Basic realm="x"', "asks for a login"),
        ('Bearer service="registry"', "asks for a login"),
        ('Bearer realm="http://example.org/token"', "over HTTPS alone"),
        ('Bearer realm="{url}/nowhere"', "gives no token"),
    ],
)
def test_a_registry_that_wants_more_than_a_strangers_token_is_refused(places, registry, challenge, why):
    reference = registry.push("far", DOCUMENT)
    path = f"/v2/far/manifests/{reference.rpartition('@')[2]}"
    header = challenge.format(url=registry.url)
    registry.pages[path] = Page(status=401, headers={"WWW-Authenticate": header})
    with pytest.raises(AgentUnavailable, match=why):
        resolve_agent(reference, places, fetch=registry.fetcher())


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("oci://example.org/name", "not pinned"),
        ("oci://example.org/name:latest", "not pinned"),
        ("oci://example.org/name@sha256:abc", "64 digits"),
        (f"oci://example.org/name@sha512:{'0' * 128}", "64 digits"),
        (f"oci://example.org/../x@{PIN}", "form"),
        (f"oci://example.org/Upper@{PIN}", "form"),
        (f"oci://example.org@{PIN}", "form"),
        (f"oci://me:pw@example.org/name@{PIN}", "form|host|64"),
        (f"oci://[::1/name@{PIN}", "no host"),
    ],
)
def test_a_reference_without_a_digest_or_of_another_form_is_refused(reference, why):
    with pytest.raises(AgentUnavailable, match=why):
        parse_oci(reference)


def test_a_reference_has_one_spelling_and_https_everywhere_but_on_this_machine():
    found = parse_oci(f"oci://EXAMPLE.org:443/team/name:v1@{PIN}")
    assert str(found) == f"oci://example.org/team/name@{PIN}"
    assert found.base == "https://example.org/v2/team/name"
    assert parse_oci(f"oci://127.0.0.1:5000/name@{PIN}").base == "http://127.0.0.1:5000/v2/name"


def test_a_registry_elsewhere_sends_nobody_to_a_service_of_this_machine(places):
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        realm = 'Bearer realm="http://127.0.0.1:9/admin?delete=all",service="x"'
        return httpx.Response(401, headers={"www-authenticate": realm}, stream=httpx.ByteStream(b""))

    with pytest.raises(AgentUnavailable, match="token service is not asked over HTTPS"):
        resolve_agent(f"oci://registry.example.org/a@{PIN}", places, fetch=Fetcher(httpx.MockTransport(answer)))
    assert asked == ["registry.example.org"]
