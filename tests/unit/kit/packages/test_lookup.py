from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.kit.packages.hosts import Found, LookUpFailed, tool_hosts
from kagura_kernel.kit.packages.lookup import MAX_KEPT, MAX_REDIRECTS, PackageLookUp
from kagura_kernel.kit.packages.registry import load_registry, parse_package, sources_of
from kagura_kernel.membrane.grant import host_sets
from kagura_kernel.testing.clock import FakeClock
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
