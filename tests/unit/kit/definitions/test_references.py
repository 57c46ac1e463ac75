import os
from pathlib import Path

import httpx
import pytest

from kagura_kernel.domain.errors import AgentInvalid, AgentNotFound, AgentUnavailable, McpConfigInvalid
from kagura_kernel.kit.definitions.definition import parse_definition
from kagura_kernel.kit.definitions.fetcher import Fetcher
from kagura_kernel.kit.definitions.oci import parse_oci, sha256
from kagura_kernel.kit.definitions.references import AgentPlaces, known_agents, resolve_agent
from kagura_kernel.kit.definitions.toolsets import read_mcp_config
from tests.support.registry_server import TOKEN, Page, RegistryServer


@pytest.fixture
def places(tmp_path):
    found = AgentPlaces(tmp_path / "project", tmp_path / "own", tmp_path / "cache", {"HOME": str(tmp_path / "home")})
    for folder in (found.cwd, found.own, tmp_path / "home"):
        folder.mkdir(mode=0o755)
    return found


@pytest.fixture
def server():
    with RegistryServer(secure=True) as one:
        yield one


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_no_reference_is_the_usual_agent_and_a_name_is_the_persons_own_before_ours(places):
    usual = resolve_agent("", places)
    assert (usual.name, usual.kind, usual.trusted, usual.base) == ("default", "built-in", True, None)
    assert usual.definition.add_prompt_files == ("AGENTS.md", "CLAUDE.md")
    write(places.own / "reviewer.toml", 'name = "my-reviewer"\n')
    write(places.own / "tables.yaml", "name: tables\n")
    write(places.own / "NOT a name.yaml", "name: x\n")
    mine = resolve_agent("reviewer", places)
    assert (mine.name, mine.kind, mine.trusted) == ("my-reviewer", "own", True)
    assert known_agents(places) == ("default", "reviewer", "skilled", "tables")
    with pytest.raises(AgentNotFound, match="Did you mean 'tables'") as raised:
        resolve_agent("table", places)
    assert "Agents that have a name: default, reviewer, skilled, tables" in raised.value.message


def test_a_file_is_trusted_only_where_nobody_else_can_have_written_it(places, tmp_path):
    in_project = write(places.cwd / "agent.yaml", "name: a\n")
    assert not resolve_agent("agent.yaml", places).trusted
    assert resolve_agent("./agent.yaml", places).reference == str(in_project)
    own = write(places.own / "mine.yaml", "name: mine\n")
    assert resolve_agent(str(own), places).trusted
    own.chmod(0o666)
    assert not resolve_agent("mine", places).trusted
    own.unlink()
    own.symlink_to(in_project)
    linked = resolve_agent("mine", places)
    assert (linked.kind, linked.trusted, linked.base) == ("own", False, places.cwd)
    write(tmp_path / "home" / "there.yaml", "name: there\n")
    assert resolve_agent("~/there.yaml", places).name == "there"


def test_what_is_no_regular_readable_file_is_said_at_once(places):
    os.mkfifo(places.cwd / "fifo.yaml")
    (places.cwd / "folder.yaml").mkdir()
    write(places.cwd / "big.yaml", "#" * 300_000)
    for reference, why in (
        ("fifo.yaml", "no regular file"),
        ("folder.yaml", "no regular file|a directory"),
        ("/dev/zero", "no regular file"),
        ("big.yaml", "larger than 256 KiB"),
        ("nul\0.yaml", "its path is none"),
    ):
        with pytest.raises(AgentUnavailable, match=why):
            resolve_agent(reference, places)
    for reference in ("gone.yaml", "big.yaml/inner.yaml", "ftp://example.org/a.yaml"):
        with pytest.raises(AgentNotFound):
            resolve_agent(reference, places)


def test_directories_that_are_named_leave_no_descriptor_open(places):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(AgentUnavailable, match="directory"):
            resolve_agent(str(places.cwd), places)
        with pytest.raises(McpConfigInvalid, match="directory"):
            read_mcp_config(places.cwd)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_sub_agent_that_is_not_there_is_told_with_its_place(places):
    write(places.cwd / "lead.yaml", "name: lead\nagents: {one: ./gone.yaml}\n")
    with pytest.raises(AgentInvalid) as raised:
        resolve_agent("lead.yaml", places)
    assert raised.value.source == "lead.yaml"
    assert raised.value.problems == ("agents.one: there is no agent './gone.yaml'",)


def test_sub_agents_are_found_beside_their_definition_and_written_whole(places):
    write(
        places.cwd / "team" / "lead.yaml",
        "name: lead\nagents: {one: ./one.yaml, two: {description: inline}, r: reviewer}",
    )
    one = write(places.cwd / "team" / "one.yaml", "name: first\nagents: {deep: ../deep.toml}\n")
    write(places.cwd / "deep.toml", 'name = "deep"\n')
    lead = resolve_agent("team/lead.yaml", places)
    assert {key: (agent.name, agent.kind, agent.trusted) for key, agent in lead.agents.items()} == {
        "one": ("first", "file", False),
        "two": ("two", "inline", False),
        "r": ("reviewer", "built-in", True),
    }
    assert lead.agents["one"].agents["deep"].name == "deep"
    written = parse_definition(lead.to_yaml().encode(), "lead.yaml")
    assert "yaml" not in lead.to_yaml().replace("yaml: ", "")
    assert str(places.cwd) not in lead.to_yaml()
    whole = written.agents["one"]
    assert not isinstance(whole, str)
    assert whole.agents["deep"] == lead.agents["one"].agents["deep"].definition
    one.write_text("name: first\n")
    assert resolve_agent("team/lead.yaml", places).digest != lead.digest


def test_circles_depth_and_crowds_of_sub_agents_are_refused(places):
    write(places.cwd / "a.yaml", "name: a\nagents: {b: ./b.yaml}")
    write(places.cwd / "b.yaml", "name: b\nagents: {a: ./a.yaml}")
    with pytest.raises(AgentInvalid, match="lead back to it"):
        resolve_agent("a.yaml", places)
    for at in range(6):
        write(places.cwd / f"n{at}.yaml", f"name: n{at}\nagents: {{next: ./n{at + 1}.yaml}}")
    with pytest.raises(AgentInvalid, match="at most 3 deep"):
        resolve_agent("n0.yaml", places)
    write(places.cwd / "leaf.yaml", "name: leaf\n")
    many = ", ".join(f"s{at}: ./leaf.yaml" for at in range(9))
    write(places.cwd / "crowd.yaml", f"name: crowd\nagents: {{x: {{agents: {{{many}}}}}, y: {{agents: {{{many}}}}}}}")
    with pytest.raises(AgentInvalid, match="at most 16 sub-agents"):
        resolve_agent("crowd.yaml", places)


def test_a_url_is_fetched_each_time_and_a_pinned_one_once(places, server):
    document = b"name: far\nagents: {near: default}\n"
    url = server.serve("/agents/far?key=secret".partition("?")[0], document)
    agent = resolve_agent(url, places, fetch=server.fetcher())
    assert (agent.name, agent.kind, agent.trusted, agent.base) == ("far", "url", False, None)
    assert agent.document == sha256(document)
    assert agent.agents["near"].kind == "built-in"
    resolve_agent(url, places, fetch=server.fetcher())
    assert len(server.asked) == 2
    for _ in range(2):
        assert resolve_agent(f"{url}#sha256={agent.document}", places, fetch=server.fetcher()).digest == agent.digest
    assert len(server.asked) == 3
    (places.cache / agent.document).write_bytes(b"name: forged\n")
    assert resolve_agent(f"{url}#sha256={agent.document}", places, fetch=server.fetcher()).name == "far"
    server.serve("/agents/far", b"name: changed\n")
    (places.cache / agent.document).unlink()
    with pytest.raises(AgentUnavailable, match="not what was pinned"):
        resolve_agent(f"{url}#sha256={agent.document}", places, fetch=server.fetcher())
    with pytest.raises(AgentUnavailable, match="64 digits"):
        resolve_agent(f"{url}#sha256=abc", places, fetch=server.fetcher())


def test_a_url_that_leads_astray_is_refused_and_nothing_kept_stands_in(places, server):
    url = server.serve("/agent.yaml", b"name: good\n")
    resolve_agent(url, places, fetch=server.fetcher())
    for page, why in (
        (Page(status=500), "answers 500"),
        (Page(b"#" * 300_000), "larger than 256 KiB"),
        (Page(status=302, headers={"Location": "http://example.org/agent.yaml"}), "away from HTTPS"),
        (Page(status=302, headers={"Location": server.url.replace("https", "http") + "/x"}), "away from HTTPS"),
        (Page(status=302, headers={"Location": "https://me:pw@localhost/agent.yaml"}), "user name"),
        (Page(status=302, headers={"Location": "/agent.yaml"}), "more than 5 times"),
    ):
        server.pages["/agent.yaml"] = page
        with pytest.raises(AgentUnavailable, match=why):
            resolve_agent(f"{url}?token=hidden", places, fetch=server.fetcher())
    server.pages["/agent.yaml"] = Page(status=404)
    with pytest.raises(AgentNotFound) as raised:
        resolve_agent(f"{url}?token=hidden", places, fetch=server.fetcher())
    assert "hidden" not in raised.value.message
    for reference in ("http://example.org/a.yaml", "https://me:secret@example.org/a.yaml", "https://"):
        with pytest.raises(AgentUnavailable) as refused:
            resolve_agent(reference, places, fetch=server.fetcher())
        assert "me:secret" not in refused.value.message


def test_what_was_fetched_names_nothing_of_this_machine(places, server):
    write(places.own / "mine.yaml", "name: mine\n")
    server.serve("/friend.yaml", b"name: friend\n")
    for reference in ("./local.yaml", "/etc/passwd", "mine", "https://example.org/other.yaml", "~/x.yaml"):
        url = server.serve("/lead.yaml", f"name: lead\nagents: {{x: {reference!r}}}".encode())
        with pytest.raises(AgentUnavailable):
            resolve_agent(url, places, fetch=server.fetcher())
    url = server.serve("/lead.yaml", f"name: lead\nagents: {{x: '{server.url}/friend.yaml'}}".encode())
    assert resolve_agent(url, places, fetch=server.fetcher()).agents["x"].name == "friend"
    assert not any("example.org" in asked for asked in server.asked)


DOCUMENT = b"name: far\nskills: true\n"
PIN = "sha256:" + "0" * 64


@pytest.fixture
def places_of_oci(tmp_path):
    return AgentPlaces(tmp_path, tmp_path / "own", tmp_path / "cache")


@pytest.fixture
def registry():
    with RegistryServer(token=True) as one:
        yield one


def test_an_artifact_is_pulled_with_a_strangers_token_and_then_kept(places_of_oci, registry):
    reference = registry.push("team/agents/far", DOCUMENT)
    agent = resolve_agent(reference, places_of_oci, fetch=registry.fetcher())
    assert (agent.name, agent.kind, agent.trusted, agent.reference) == ("far", "oci", False, reference)
    assert [asked.partition("?")[0].split("/")[-1][:12] for asked in registry.asked] == [
        reference.rpartition("@")[2][:12],
        "token",
        reference.rpartition("@")[2][:12],
        f"sha256:{agent.document}"[:12],
    ]
    assert registry.authorised == ["", "", f"Bearer {TOKEN}", f"Bearer {TOKEN}"]
    assert resolve_agent(reference, places_of_oci, fetch=registry.fetcher()).digest == agent.digest
    assert len(registry.asked) == 4


def test_toml_and_plain_yaml_layers_are_definitions_too(places_of_oci, registry):
    toml = registry.push("toml", b'name = "far"\n', "application/vnd.kagura.agent.v1+toml")
    plain = registry.push("plain", b"name: far\n", "application/yaml")
    found = [resolve_agent(one, places_of_oci, fetch=registry.fetcher()) for one in (toml, plain)]
    assert found[0].digest == found[1].digest


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"schemaVersion": 1}, "no manifest of one artifact"),
        ({"mediaType": "application/vnd.oci.image.index.v1+json"}, "no manifest of one artifact"),
        ({"layers": []}, "0 layers that are an agent definition"),
        ({"layers": [{"mediaType": "application/yaml"}] * 2}, "2 layers"),
        ({"layers": [{"mediaType": ["application/yaml"]}]}, "0 layers"),
        ({"layers": [{"mediaType": "application/yaml", "digest": "md5:1", "size": 1}]}, "no digest"),
        ({"layers": [{"mediaType": "application/yaml", "digest": PIN, "size": 10**9}]}, "larger than"),
        ({"layers": [{"mediaType": "application/yaml", "digest": PIN, "size": 1}]}, "answers 404"),
    ],
)
def test_a_manifest_that_is_no_agents_is_refused(places_of_oci, registry, changed, why):
    reference = registry.push("far", DOCUMENT, **changed)
    with pytest.raises(AgentUnavailable, match=why):
        resolve_agent(reference, places_of_oci, fetch=registry.fetcher())


def test_what_is_not_what_its_digest_says_is_refused_wherever_it_was_swapped(places_of_oci, registry):
    reference = registry.push("far", DOCUMENT)
    resolve_agent(reference, places_of_oci, fetch=registry.fetcher())
    manifest, blob = (asked for asked in registry.asked[2:])
    for path in (manifest, blob):
        for kept in places_of_oci.cache.iterdir():
            kept.write_bytes(b"name: forged\n")
        registry.pages[path] = Page(b"name: forged\n")
        with pytest.raises(AgentUnavailable, match="not what the digest says"):
            resolve_agent(reference, places_of_oci, fetch=registry.fetcher())
        del registry.pages[path]


def test_a_blob_may_lie_elsewhere_and_the_token_does_not_follow_it(places_of_oci, registry):
    reference = registry.push("far", DOCUMENT)
    with RegistryServer(secure=True) as store:
        elsewhere = store.serve("/blob", DOCUMENT)
        fetch = store.fetcher()
        registry.pages |= _moved(registry, reference, places_of_oci, elsewhere)
        assert resolve_agent(reference, places_of_oci, fetch=fetch).name == "far"
        assert store.authorised == [""]


def _moved(registry, reference, places_of_oci, elsewhere):
    """The page that leads from the blob to another host."""
    digest = resolve_agent(reference, places_of_oci, fetch=registry.fetcher()).document
    (places_of_oci.cache / digest).unlink()
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
def test_a_registry_that_wants_more_than_a_strangers_token_is_refused(places_of_oci, registry, challenge, why):
    reference = registry.push("far", DOCUMENT)
    path = f"/v2/far/manifests/{reference.rpartition('@')[2]}"
    header = challenge.format(url=registry.url)
    registry.pages[path] = Page(status=401, headers={"WWW-Authenticate": header})
    with pytest.raises(AgentUnavailable, match=why):
        resolve_agent(reference, places_of_oci, fetch=registry.fetcher())


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


def test_a_registry_elsewhere_sends_nobody_to_a_service_of_this_machine(places_of_oci):
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        realm = 'Bearer realm="http://127.0.0.1:9/admin?delete=all",service="x"'
        return httpx.Response(401, headers={"www-authenticate": realm}, stream=httpx.ByteStream(b""))

    with pytest.raises(AgentUnavailable, match="token service is not asked over HTTPS"):
        resolve_agent(f"oci://registry.example.org/a@{PIN}", places_of_oci, fetch=Fetcher(httpx.MockTransport(answer)))
    assert asked == ["registry.example.org"]
