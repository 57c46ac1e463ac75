import contextlib
import gzip
import json
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import example, given, strategies as st

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.kit.definitions.document import MAX_BYTES
from kagura_kernel.kit.definitions.oci import Logins
from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.kit.packages.hosts import Found, LookUpFailed, tool_hosts
from kagura_kernel.kit.packages.lookup import (
    MAX_KEPT,
    MAX_REDIRECTS,
    Asker,
    NotFound,
    PackageLookUp,
    Published,
    Unreadable,
    read_crate,
    read_go,
    read_npm,
    read_release,
    read_simple,
)
from kagura_kernel.kit.packages.registry import load_registry, may_ask, parse_package, parse_registry, sources_of
from kagura_kernel.membrane.egress.hosts import GO_INSTALL, NPM, PYTHON_PACKAGES
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import host_sets
from kagura_kernel.testing.clock import FakeClock
from tests.support.effort import examples
from tests.support.package_servers import PackageServers, package_servers
from tests.support.wheels import write_wheel


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[PackageServers]:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "1.10", "2.0rc1"):
        write_wheel(wheels, "small-server", version, script=True)
    with package_servers(wheels) as found:
        yield found


def ask(servers: PackageServers, text: str) -> Found:
    return PackageLookUp(servers.sources, None, FakeClock())(parse_package(text))


def why(servers: PackageServers, text: str) -> str:
    with pytest.raises(LookUpFailed) as raised:
        ask(servers, text)
    return str(raised.value)


@pytest.mark.parametrize("html", [False, True], ids=["as JSON", "as HTML"])
def test_an_index_tells_the_newest_finished_version_and_where_its_files_lie(servers, html):
    servers.html = html
    assert ask(servers, "pip:Small_Server[extra]") == Found("1.10", (servers.host,))
    assert ask(servers, "pip:small-server@2.0rc1").version == "2.0rc1"
    assert why(servers, "pip:small-server@3.0") == "there is no version 3.0 of small-server"
    assert why(servers, "pip:nobody-has-this") == "there is no such package"
    assert servers.asked[0] == "/simple/small-server/"


def test_a_version_that_was_taken_back_is_had_by_name_alone(servers):
    files = [{"filename": f"x-{v}.tar.gz", "url": f"../../x-{v}.tar.gz", "yanked": v == "2"} for v in ("1", "2")]
    servers.put("/simple/x/", {"files": files}, "application/vnd.pypi.simple.v1+json")
    assert ask(servers, "pip:x").version == "1"
    assert ask(servers, "pip:x@2").version == "2"


def test_npm_tells_the_latest_and_where_its_tarball_lies(servers):
    servers.put_npm("@scope/server", "1.2.3", {"server": ""})
    servers.put(
        "/npm/far",
        {"dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"dist": {"tarball": "https://cdn.example/x"}}}},
    )
    assert ask(servers, "npm:@scope/server") == Found("1.2.3", (servers.host,))
    assert ask(servers, "npm:@scope/server@1.2.3").version == "1.2.3"
    assert ask(servers, "npm:far").hosts == ("cdn.example",)
    assert why(servers, "npm:@scope/server@9.9.9") == "there is no version 9.9.9 of @scope/server"


def test_a_go_packages_module_is_what_its_path_begins_with(servers):
    servers.put("/go/github.com/!some!one/tools/@latest", {"Version": "v0.3.1"})
    servers.put("/go/github.com/!some!one/tools/@v/v0.3.0.info", {"Version": "v0.3.0"})
    assert ask(servers, "go:github.com/SomeOne/tools/cmd/server").version == "v0.3.1"
    assert ask(servers, "go:github.com/SomeOne/tools/cmd/server@v0.3.0").version == "v0.3.0"
    assert why(servers, "go:github.com/SomeOne/others") == "there is no such module"


def test_a_sparse_index_tells_the_newest_crate_that_was_not_taken_back(servers):
    lines = [("1.2.0", False), ("1.10.0", False), ("2.0.0", True), ("3.0.0-rc.1", False)]
    body = "\n".join(json.dumps({"name": "taplo-cli", "vers": v, "yanked": y}) for v, y in lines)
    servers.put("/crates/ta/pl/taplo-cli", body.encode(), "text/plain")
    assert ask(servers, "cargo:taplo-cli").version == "1.10.0"
    assert ask(servers, "cargo:taplo-cli@2.0.0").version == "2.0.0"
    assert why(servers, "cargo:taplo-cli@4.0.0") == "there is no version 4.0.0 of taplo-cli"


def test_a_release_brings_its_files_for_linux_with_the_checksums_of_the_forge(servers):
    servers.put_release(
        "owner/tool", "v1", {"tool-linux-x64.tar.gz": b"program", "tool-windows.zip": b"no", "x.txt": b""}
    )
    found = ask(servers, "github:owner/tool")
    assert (found.version, found.hosts) == ("v1", (servers.host,))
    [asset] = found.assets
    assert (asset.name, asset.size, len(asset.sha256)) == ("tool-linux-x64.tar.gz", 7, 64)
    assert ask(servers, "github:owner/tool@v1") == found


def test_checksums_that_the_forge_does_not_tell_come_from_the_releases_own_files(servers):
    one, two = f"{'1' * 64}  tool-linux-x64.gz\n", f"{'2' * 64}\n"
    files = {"tool-linux-x64.gz": b"a", "tool-linux-arm64.gz": b"b", "checksums.txt": one.encode()}
    servers.put_release("owner/tool", "v1", files | {"tool-linux-arm64.gz.sha256": two.encode()}, digests=False)
    sums = {one.name: one.sha256 for one in ask(servers, "github:owner/tool").assets}
    assert sums == {"tool-linux-x64.gz": "1" * 64, "tool-linux-arm64.gz": "2" * 64}


def test_a_release_without_a_checksum_is_no_release_that_can_be_installed(servers):
    servers.put_release("owner/tool", "v1", {"tool-linux-x64.gz": b"a"}, digests=False)
    assert why(servers, "github:owner/tool") == "its release v1 cannot be used: none of its files has a checksum"
    servers.put_release("owner/mac", "v1", {"tool-darwin.zip": b"a"})
    assert why(servers, "github:owner/mac").endswith("none of its files is for Linux")


def test_no_credential_goes_along_and_nothing_is_remembered_from_one_registry_to_the_next(
    servers, monkeypatch, private_home
):
    (private_home / ".netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(private_home / ".netrc"))
    ask(servers, "pip:small-server")
    ask(servers, "pip:small-server@1.0")
    assert len(servers.headers) == 2
    assert not any({"authorization", "cookie"} & set(one) for one in servers.headers)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"files": {}}',
        b'{"tag_name": 1, "assets": 2}',
        b"[" * 100_000,
        b'{"Version": "v1\\n"}',
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failed_look_up_and_no_fault_of_ours(servers, page):
    for path in ("/simple/x/", "/npm/x", "/go/a.example/x/@latest", "/crates/1/x", "/api/repos/o/r/releases/latest"):
        servers.put(path, page, "application/vnd.pypi.simple.v1+json")
    for text in ("pip:x", "npm:x", "go:a.example/x", "cargo:x", "github:o/r"):
        assert why(servers, text)


def test_a_failing_server_is_told_by_its_number_and_a_silent_one_by_its_error(servers):
    servers.put("/npm/x", b"", status=503)
    assert why(servers, "npm:x") == "it answers 503"

    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("me:hunter2@a.example", request=request)

    with pytest.raises(LookUpFailed, match=r"^the registry cannot be reached$"):
        PackageLookUp(servers.sources, None, FakeClock(), httpx.MockTransport(gone))(parse_package("npm:x"))


def test_githubs_token_is_shown_to_the_host_that_tells_of_releases_and_to_no_other():
    shown: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        shown.append((request.url.host, request.headers.get("authorization", "")))
        if request.url.host == "api.github.com":
            return httpx.Response(302, headers={"location": "https://files.example.org/x"})
        return httpx.Response(404)

    login = Logins({"GITHUB_TOKEN": "ghp_x"}).of_host
    for package in ("github:o/r", "npm:x"):
        with pytest.raises(LookUpFailed):
            PackageLookUp(sources_of({}), None, FakeClock(), httpx.MockTransport(answer), login=login)(
                parse_package(package)
            )
    assert shown[:2] == [("api.github.com", "Bearer ghp_x"), ("files.example.org", "")]
    assert [told for _, told in shown[2:]] == [""]


def test_redirects_are_followed_but_not_away_from_https_and_not_for_ever():
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"location": "http://a.example/x" if len(asked) == 2 else "/again"})

    look_up = PackageLookUp(sources_of({}), None, FakeClock(), httpx.MockTransport(answer))
    with pytest.raises(LookUpFailed, match="over HTTPS alone"):
        look_up(parse_package("npm:x"))
    assert len(asked) == 2
    with pytest.raises(LookUpFailed, match="leads on more than"):
        look_up(parse_package("npm:y"))
    assert len(asked) == 2 + MAX_REDIRECTS + 1


def test_an_answer_of_any_size_ends_at_the_bound():
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 2**20

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    with pytest.raises(LookUpFailed, match="more than 32 MiB"):
        PackageLookUp(sources_of({}), None, FakeClock(), transport)(parse_package("npm:x"))


def test_what_a_registry_has_packed_unasked_stays_packed():
    packed = gzip.compress(gzip.compress(b"\0" * 100_000))
    answer = httpx.Response(200, headers={"content-encoding": "gzip, gzip"}, stream=httpx.ByteStream(packed))
    with Asker("https://a.example", httpx.MockTransport(lambda _: answer)) as asker:
        assert asker.ask("https://a.example/")[0] == packed


def test_an_answer_that_comes_in_drops_ends_at_the_deadline():
    def drops() -> Iterator[bytes]:
        while True:
            time.sleep(0.005)
            yield b" "

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=drops()))
    with pytest.raises(LookUpFailed, match=r"^it takes longer than 0.05 s$"):
        PackageLookUp(sources_of({}), None, FakeClock(), transport, seconds=0.05)(parse_package("npm:x"))


def test_no_answer_opens_an_address_of_somebodys_network(servers):
    links = ["https://10.0.0.5/x-1.tar.gz", "https://[fd00::1]/x-1.tar.gz", "http://169.254.169.254/x-1.tar.gz"]
    files = [{"filename": "x-1.tar.gz", "url": url} for url in [*links, "https://files.example/x-1.tar.gz"]]
    servers.put("/simple/x/", {"files": files}, "application/vnd.pypi.simple.v1+json")
    assert ask(servers, "pip:x").hosts == ("files.example",)


def test_where_a_mirror_stands_in_nobody_is_asked():
    def nobody(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request)

    sources = sources_of({}, host_sets({"npm": ("npm.example",), "github": ("forge.example",)}))
    look_up = PackageLookUp(sources, None, FakeClock(), httpx.MockTransport(nobody))
    assert look_up(parse_package("npm:x@1.0.0")) == Found("1.0.0")
    with pytest.raises(LookUpFailed, match="github has a mirror"):
        look_up(parse_package("github:o/r"))


class TestWhatIsKept:
    async def test_an_answer_holds_for_a_day_and_is_nobody_elses(self, servers, tmp_path):
        clock, cache = FakeClock(), tmp_path / "home" / "tool-registry"
        servers.put_release("owner/tool", "v1", {"tool-linux-x64.gz": b"a"})

        def look_up(text: str) -> Found:
            return PackageLookUp(servers.sources, cache, clock)(parse_package(text))

        first = look_up("github:owner/tool")
        asked = len(servers.asked)
        assert look_up("github:owner/tool") == first
        assert len(servers.asked) == asked
        look_up("pip:small-server")
        assert len(servers.asked) == asked + 1
        await clock.advance(timedelta(days=1).total_seconds() + 1)
        look_up("github:owner/tool")
        assert len(servers.asked) == asked + 2
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
        assert {stat.S_IMODE(one.stat().st_mode) for one in cache.iterdir()} == {0o600}

    def test_a_failure_is_not_kept(self, servers, tmp_path):
        look_up = PackageLookUp(servers.sources, tmp_path / "cache", FakeClock())
        with pytest.raises(LookUpFailed):
            look_up(parse_package("npm:later"))
        servers.put_npm("later", "1.0.0", {"later": ""})
        assert look_up(parse_package("npm:later")).version == "1.0.0"

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"at": "x", "package": 1}', b'{"at": null}'])
    def test_a_damaged_file_is_asked_for_again(self, servers, tmp_path, damage):
        cache = tmp_path / "cache"
        look_up = PackageLookUp(servers.sources, cache, FakeClock())
        look_up(parse_package("pip:small-server"))
        [kept] = cache.iterdir()
        kept.write_bytes(damage)
        assert look_up(parse_package("pip:small-server")).version == "1.10"

    def test_a_place_that_cannot_be_written_costs_a_question_and_no_more(self, servers, tmp_path):
        (tmp_path / "cache").write_text("a file")
        look_up = PackageLookUp(servers.sources, tmp_path / "cache", FakeClock())
        assert look_up(parse_package("pip:small-server")).version == "1.10"

    def test_it_does_not_grow_for_ever(self, servers, tmp_path):
        cache = tmp_path / "cache"
        cache.mkdir()
        for number in range(MAX_KEPT + 5):
            (cache / f"{number}.json").touch()
        PackageLookUp(servers.sources, cache, FakeClock())(parse_package("pip:small-server"))
        assert len(list(cache.iterdir())) == MAX_KEPT


def test_hosts_of_toolsets_come_from_real_answers(servers):
    servers.put_npm("typescript-language-server", "5.0.0", {"typescript-language-server": ""})
    toolsets = [
        McpToolset(type="mcp", name="ts", command="typescript-language-server"),
        McpToolset(type="mcp", name="small", command="small-server", version="pip:small-server@1.0"),
    ]
    look_up = PackageLookUp(servers.sources, None, FakeClock())
    found = tool_hosts(toolsets, load_registry(), look_up=look_up, sources=servers.sources, strict=True)
    assert found.hosts == (servers.host,)
    assert {name: str(plan.package) for name, plan in found.installs.items()} == {
        "ts": "npm:typescript-language-server@5.0.0",
        "small": "pip:small-server@1.0",
    }


_OF_INDEXES = ["files", "filename", "url", "yanked", "dist-tags", "versions", "latest", "1.0.0", "dist", "tarball"]
_OF_OTHERS = ["Version", "vers", "tag_name", "assets", "name", "browser_download_url", "digest", "size"]
KEYS = st.sampled_from([*_OF_INDEXES, *_OF_OTHERS])
TEXTS = st.sampled_from(
    [
        "1.0.0",
        "v1.0.0",
        "x-1.0.0.tar.gz",
        "https://[",
        "//[x",
        "../..",
        "sha256:",
        "tool-linux-x64",
        "https://a.example/x",
    ]
) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
ANSWERS = VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200)


@examples(50, 300, "kagura_kernel/kit/packages/")
@given(ANSWERS, st.sampled_from(["", "1.0.0", "latest"]), st.sampled_from(["text/html", "application/json"]))
def test_whatever_a_registry_answers_is_read_or_refused_in_our_words(data, asked, kind):
    read = (
        lambda: read_simple(data, kind, "https://a.example/simple/x/", "x", asked),
        lambda: read_npm(data, "x", asked),
        lambda: read_go(data),
        lambda: read_crate(data, "x", asked),
        lambda: read_release(data),
    )
    for one in read:
        with contextlib.suppress(NotFound, Unreadable):
            found = one()
            version = found.version if isinstance(found, Published) else found[0]
            assert isinstance(version, str)


@given(st.binary(max_size=300))
@example(b"<![\x00")
def test_a_page_of_links_is_read_whatever_stands_in_them(junk):
    page = b"<a href='x-1.0.tar.gz'>x</a><a href='http://['>y</a><a>z</a><a href='x-99999.tar.gz' data-yanked>" + junk
    with contextlib.suppress(NotFound):
        assert read_simple(page, "text/html", "https://a.example/simple/x/", "x", "").version


PIP = tuple(target.host for target in PYTHON_PACKAGES)


def test_without_settings_the_public_registries_are_asked():
    found = sources_of({})
    assert found["pip"].hosts == PIP
    assert found["pip"].url == f"https://{PIP[0]}/simple"
    assert found["npm"].url == f"https://{NPM[0].host}"
    assert all(source.url.startswith("https://") for source in found.values())


@pytest.mark.parametrize(
    ("env", "url", "hosts"),
    [
        ({"PIP_INDEX_URL": "https://a.example/simple/"}, "https://a.example/simple", {"a.example"}),
        ({"UV_DEFAULT_INDEX": "https://a.example:8443/x"}, "https://a.example:8443/x", {"a.example:8443"}),
        ({"PIP_EXTRA_INDEX_URL": "https://b.example/simple"}, f"https://{PIP[0]}/simple", {*PIP, "b.example"}),
        ({"UV_INDEX": "ours=https://b.example/s"}, f"https://{PIP[0]}/simple", {*PIP, "b.example"}),
        ({"PIP_INDEX_URL": f"https://{PIP[0]}/simple"}, f"https://{PIP[0]}/simple", set(PIP)),
        # Plain HTTP is asked by nobody but the box, if its run may.
        ({"PIP_INDEX_URL": "http://a.example/simple"}, "", {"a.example:80"}),
        ({"PIP_INDEX_URL": "http://127.0.0.1:3141/root"}, "http://127.0.0.1:3141/root", {"127.0.0.1:3141"}),
        # What holds a user name was never said to be reached.
        ({"PIP_INDEX_URL": "https://me:hunter2@a.example/simple"}, "", set()),
        ({"PIP_FIND_LINKS": "/srv/wheels"}, f"https://{PIP[0]}/simple", set(PIP)),
    ],
)
def test_variables_say_where_pip_and_uv_look(env, url, hosts):
    found = sources_of(env)["pip"]
    assert (found.url, set(found.hosts)) == (url, hosts)


def test_variables_say_where_npm_and_go_look():
    found = sources_of({"npm_config_registry": "https://npm.example", "GOPROXY": "https://go.example|direct"})
    assert (found["npm"].url, found["npm"].hosts) == ("https://npm.example", ("npm.example",))
    assert (found["go"].url, found["go"].hosts) == ("https://go.example", ("go.example",))
    sums = GO_INSTALL[1].host
    assert sums in sources_of({})["go"].hosts
    assert sums not in sources_of({"GOSUMDB": "off"})["go"].hosts


def test_a_mirror_replaces_the_hosts_and_nobody_is_asked_unless_a_variable_says_where():
    sets = host_sets({"python-packages": ("mirror.example:8080",)})
    alone = sources_of({}, sets)["pip"]
    assert (alone.url, alone.hosts) == ("", ("mirror.example:8080",))
    both = sources_of({"PIP_INDEX_URL": "https://mirror.example/simple"}, sets)["pip"]
    assert (both.url, set(both.hosts)) == ("https://mirror.example/simple", {"mirror.example:8080", "mirror.example"})


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://a.example/x", True),
        ("http://localhost:1/x", True),
        ("http://[::1]:1/x", True),
        ("http://a.example/x", False),
        ("https://me@a.example/", False),
        ("ftp://a.example", False),
        ("https:///x", False),
        ("", False),
    ],
)
def test_only_https_and_this_machine_are_asked(url, allowed):
    assert may_ask(url) is allowed


def problems(text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as raised:
        parse_registry(text if isinstance(text, bytes) else text.encode(), "mine")
    return raised.value.problems


def test_what_is_shipped_can_be_read_and_covers_every_installer():
    shipped = load_registry()
    assert {tool.package.installer for tool in shipped.tools.values()} == {"pip", "npm", "go", "cargo", "github"}
    assert str(shipped.tools["mcp-server-time"].package) == "pip:mcp-server-time"
    assert "python3" in shipped.present
    assert shipped.runners["npx"] == "npm"
    assert not shipped.present & set(shipped.tools)


def test_a_persons_own_file_replaces_single_commands_and_adds_others(tmp_path):
    own = tmp_path / "tools.yaml"
    own.write_text(
        """
tools:
  gopls: github:example/gopls-builds@v1
  our-server: {package: pip:our-server, hosts: ["packages.example.org", "files.example.org:8443"]}
  bash: npm:bash-in-js
runners: {our-runner: pip}
present: [our-shell]
"""
    )
    found = load_registry(own)
    assert str(found.tools["gopls"].package) == "github:example/gopls-builds@v1"
    assert found.tools["our-server"].hosts == ("packages.example.org", "files.example.org:8443")
    parse_grants(found.tools["our-server"].hosts)
    assert found.runners["our-runner"] == "pip"
    assert found.runners["npx"] == "npm"
    assert "our-shell" in found.present
    # Whoever says where it comes from does not take the box's.
    assert "bash" not in found.present
    assert "mcp-server-time" in found.tools


def test_it_may_be_written_in_toml(tmp_path):
    own = tmp_path / "tools.toml"
    own.write_text('present = ["ours"]\n[tools]\nthing = "pip:thing@1.0"\n')
    assert str(load_registry(own).tools["thing"].package) == "pip:thing@1.0"


def test_patterns_of_file_names_belong_to_releases():
    text = "tools: {x: {package: 'github:o/r', assets: {x86_64: 'x-*-amd64.zip'}}}"
    assert parse_registry(text.encode(), "mine").tools["x"].assets == {"x86_64": "x-*-amd64.zip"}
    assert "github alone" in problems(text.replace("github:o/r", "pip:r"))[0]


def test_everything_that_is_wrong_is_told_at_once_and_no_value_is_repeated():
    told = problems(
        """
tols: {}
tools:
  a: pip
  b: "pip:--index-url=https://hunter2.example"
  c: {package: "npm:x", wiht: [y]}
  d: 7
  "../e": pip:e
  f: {package: "pip:f", hosts: ["me:hunter2@example.org", "a b"]}
  g: {package: "github:o/r", assets: [x]}
runners: {h: brew}
present: ["rm -rf"]
"""
    )
    text = "\n".join(told)
    assert "hunter2" not in text
    places = ("tools", "tools.a.package", "tools.b.package", "tools.c", "tools.d", "tools.f.hosts", "tools.g.assets")
    for place in (*places, "runners.h", "present"):
        assert any(line.startswith(f"{place}: ") for line in told), (place, told)
    assert "it says 'tols', which is none of tools, runners, present, did you mean 'tools'?" in told
    assert any("did you mean 'with'?" in line for line in told)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"tools: [",
        b"- a\n- b",
        b"",
        b"tools: !!python/object/apply:os.system ['true']",
        b"tools: {a: 'pip:a'}\ntools: {a: 'pip:b'}",
        b"[" * 5000,
        b"x" * (MAX_BYTES + 1),
    ],
    ids=["no text", "unfinished", "a list", "empty", "a tag", "a key twice", "deep", "large"],
)
def test_what_is_no_registry_is_refused_in_words(text):
    assert problems(text)


def test_a_file_that_is_not_there_is_told_with_its_name(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file") as raised:
        load_registry(tmp_path / "none.yaml")
    assert "none.yaml" in raised.value.source


@pytest.mark.parametrize("url", ["https://files.example/\ud800", "https://xn--a/sums", "https://[::1/"])
def test_checksums_at_what_is_no_address_are_none(servers, url):
    release = {
        "tag_name": "v1",
        "assets": [
            {"name": "tool-linux-x64.tar.gz", "browser_download_url": "https://files.example/tool"},
            {"name": "checksums.txt", "browser_download_url": url},
        ],
    }
    servers.put("/api/repos/owner/tool/releases/latest", release)
    assert why(servers, "github:owner/tool") == "its release v1 cannot be used: none of its files has a checksum"
