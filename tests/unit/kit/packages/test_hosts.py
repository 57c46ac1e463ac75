import threading
from dataclasses import dataclass

import pytest

from kagura_kernel.domain.errors import ToolHostsUnresolved
from kagura_kernel.kit.definitions.toolsets import LspToolset, McpToolset
from kagura_kernel.kit.packages.hosts import (
    Asset,
    Found,
    LookUpFailed,
    ToolHosts,
    choose,
    is_for_linux,
    parse_sums,
    tool_hosts,
)
from kagura_kernel.kit.packages.registry import Package, load_registry, parse_registry, sources_of
from kagura_kernel.membrane.egress.hosts import CARGO_INSTALL, GITHUB_RELEASES, GO_INSTALL, NPM, PYTHON_PACKAGES
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import host_sets

PIP = {target.host for target in PYTHON_PACKAGES}
NODE = {target.host for target in NPM}
GO = {target.host for target in GO_INSTALL}
CARGO = {target.host for target in CARGO_INSTALL}
GITHUB = {target.host for target in GITHUB_RELEASES}
EVERY = PIP | NODE | GO | CARGO | GITHUB
FD = Asset("fd-x86_64-unknown-linux-gnu.tar.gz", "https://forge.example/fd.tar.gz", "0" * 64)

REGISTRY = load_registry()


@dataclass
class Knows:
    """A look-up that knows these packages and fails for others."""

    packages: dict[str, Found]

    def __call__(self, package: Package) -> Found:
        if str(package) not in self.packages:
            raise LookUpFailed("there is no such package")
        return self.packages[str(package)]


def in_box(command: str, version: str = "", name: str = "tool", args: tuple[str, ...] = ()) -> McpToolset:
    return McpToolset(type="mcp", name=name, command=command, version=version, args=args)


def hosts(*toolsets: McpToolset | LspToolset, **more: object) -> ToolHosts:
    return tool_hosts(toolsets, REGISTRY, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "version", "opened"),
    [
        ("mcp-server-time", "", PIP),
        ("mcp-server-time", "2026.10.19", PIP),
        ("whatever", "pip:whatever@1.0", PIP),
        ("mcp-server-memory", "", NODE),
        ("typescript-language-server", "", NODE),
        ("gopls", "", GO),
        ("taplo", "", CARGO),
        ("anything", "cargo:taplo-cli@0.9.3", CARGO),
        ("gopls", "npm:other", NODE),
    ],
)
def test_each_installer_opens_its_own_hosts_and_no_others(command, version, opened):
    found = hosts(in_box(command, version))
    assert found.needed
    assert set(found.hosts) == opened
    assert found.unresolved == ()
    parse_grants(found.hosts)


def test_a_release_opens_its_forge_and_brings_the_files_that_were_found():
    known = Knows({"github:sharkdp/fd": Found("v10", ("forge.example",), (FD,))})
    found = hosts(in_box("fd"), look_up=known)
    assert set(found.hosts) == {*GITHUB, "forge.example"}
    plan = found.installs["tool"]
    assert (plan.package.version, plan.assets, plan.asked) == ("v10", (FD,), "")


@pytest.mark.parametrize(
    "toolset",
    [
        McpToolset(type="mcp", name="docs", url="https://mcp.example.org/mcp"),
        in_box("mcp-server-time", "off"),
        in_box("npx", "off", args=("-y", "thing")),
        in_box("/opt/tools/mcp-server-time", "pip:mcp-server-time"),
        in_box("python3", args=("-m", "my_server")),
        in_box("bash"),
    ],
    ids=lambda toolset: toolset.command or toolset.url,
)
def test_nothing_is_opened_for_what_is_never_installed(toolset):
    def nobody(package: Package) -> Found:
        raise AssertionError(package)

    assert hosts(toolset, look_up=nobody) == ToolHosts()


def test_no_toolset_needs_nothing():
    assert hosts(look_up=Knows({})) == ToolHosts(needed=False, hosts=(), unresolved=(), installs={})


@pytest.mark.parametrize(
    ("command", "opened", "installed"),
    [("npx", NODE, None), ("uvx", PIP, "pip:uv"), ("go", GO, None), ("pipx", PIP, "pip:pipx")],
)
def test_a_runner_may_ask_where_it_fetches_what_it_runs(command, opened, installed):
    found = hosts(in_box(command, args=("some-server",)))
    assert (set(found.hosts), found.unresolved) == (opened, ())
    assert {name: str(plan.package) for name, plan in found.installs.items()} == (
        {} if installed is None else {"tool": installed}
    )


def test_toolsets_together_open_what_each_needs_once_in_order():
    together = [in_box("mcp-server-time", name="a"), in_box("mcp-server-git", name="b"), in_box("gopls", name="c")]
    found = hosts(*together, in_box("bash", name="d"))
    assert found.hosts == tuple(sorted(PIP | GO))
    assert set(found.installs) == {"a", "b", "c"}


def test_the_newest_version_is_told_and_a_named_one_is_kept():
    known = Knows(
        {
            "pip:mcp-server-time": Found("2026.1.1", ("files.example",)),
            "pip:mcp-server-time@2026.10.19": Found("2026.10.19"),
        }
    )
    newest = hosts(in_box("mcp-server-time"), look_up=known).installs["tool"]
    named = hosts(in_box("mcp-server-time", "pip:mcp-server-time@2026.10.19"), look_up=known).installs["tool"]
    assert (newest.package.version, newest.asked) == ("2026.1.1", "")
    assert (named.package.version, named.asked) == ("2026.10.19", "2026.10.19")
    assert set(newest.hosts) == {*PIP, "files.example"}


def test_what_cannot_be_looked_up_is_listed_and_opens_every_installers_hosts():
    found = hosts(in_box("mcp-server-time", name="a"), in_box("gopls", "v0.1", name="b"), look_up=Knows({}))
    assert set(found.hosts) == EVERY
    assert [(one.toolset, one.command, one.version, one.reason) for one in found.unresolved] == [
        ("a", "mcp-server-time", "", "there is no such package"),
        ("b", "gopls", "v0.1", "there is no such package"),
    ]
    # It may be the host alone that could not ask.
    assert str(found.installs["b"].package) == "go:golang.org/x/tools/gopls@v0.1"


def test_a_command_that_no_registry_knows_is_listed_and_has_no_plan():
    found = hosts(in_box("nobody-knows-this"), look_up=Knows({}))
    assert set(found.hosts) == EVERY
    [one] = found.unresolved
    assert one.reason == "no registry says which package it comes from"
    assert found.installs == {}


def test_a_release_that_cannot_be_looked_up_has_no_plan_because_nothing_is_known_to_check_it_by():
    assert hosts(in_box("fd"), look_up=Knows({})).installs == {}


def test_where_the_setting_says_so_nothing_is_opened_and_each_toolset_is_named():
    with pytest.raises(ToolHostsUnresolved) as raised:
        hosts(in_box("nobody-knows-this", name="x"), in_box("gopls", name="y"), look_up=Knows({}), strict=True)
    text = str(raised.value)
    assert "x: nobody-knows-this: no registry says" in text
    assert "y: gopls: there is no such package" in text


def test_strict_does_not_matter_where_all_is_known():
    assert hosts(in_box("gopls"), strict=True) == hosts(in_box("gopls"))


def test_a_package_is_looked_up_once_and_different_ones_at_the_same_time():
    together = threading.Barrier(2, timeout=30)
    asked = []

    def look_up(package: Package) -> Found:
        asked.append(str(package))
        together.wait()
        return Found("1")

    hosts(
        in_box("mcp-server-time", name="a"),
        in_box("mcp-server-time", name="b"),
        in_box("gopls", name="c"),
        look_up=look_up,
    )
    assert sorted(asked) == ["go:golang.org/x/tools/gopls", "pip:mcp-server-time"]


def test_a_mirror_and_a_variable_take_the_place_of_the_public_hosts():
    env = {"PIP_INDEX_URL": "https://pypi.example.org:8443/simple"}
    mirrored = sources_of(env, host_sets({"npm": ("npm.example.org",)}))
    found = hosts(in_box("mcp-server-time", name="a"), in_box("mcp-server-memory", name="b"), sources=mirrored)
    assert found.hosts == ("npm.example.org", "pypi.example.org:8443")


def test_the_shipped_companions_and_a_persons_own_hosts_come_along():
    own = parse_registry(
        b"tools: {thing: {package: 'npm:thing', with: [typescript], hosts: [cdn.example.org]}}", "mine"
    ).over(REGISTRY)
    found = tool_hosts([in_box("thing"), in_box("typescript-language-server", name="ts")], own)
    assert set(found.hosts) == {*NODE, "cdn.example.org"}
    assert [str(one) for one in found.installs["tool"].companions] == ["npm:typescript"]
    assert [str(one) for one in found.installs["ts"].companions] == ["npm:typescript"]


def test_a_language_server_is_installed_like_any_other_command():
    server = LspToolset(type="lsp", name="python", command="jedi-language-server", languages={"python": ("*.py",)})
    assert str(hosts(server).installs["python"].package) == "pip:jedi-language-server"


def test_a_package_that_the_registry_knows_keeps_what_it_says_of_it():
    found = hosts(in_box("typescript-language-server", "npm:typescript-language-server@5.0.0"))
    assert [str(one) for one in found.installs["tool"].companions] == ["npm:typescript"]


# As makers really name them.
RELEASES = {
    "rust-analyzer": (
        """
        rust-analyzer-aarch64-apple-darwin.gz rust-analyzer-aarch64-unknown-linux-gnu.gz
        rust-analyzer-linux-x64.vsix rust-analyzer-x86_64-pc-windows-msvc.zip
        rust-analyzer-x86_64-unknown-linux-gnu.gz rust-analyzer-x86_64-unknown-linux-musl.gz
        rust-analyzer-alpine-x64.vsix rust-analyzer-no-server.vsix
        """,
        "rust-analyzer-x86_64-unknown-linux-gnu.gz",
        "rust-analyzer-aarch64-unknown-linux-gnu.gz",
    ),
    "clangd": (
        """
        clangd-linux-19.1.2.zip clangd-mac-19.1.2.zip clangd-windows-19.1.2.zip
        clangd-debug-symbols-windows-19.1.2.7z clangd_indexing_tools-linux-19.1.2.zip
        """,
        "clangd-linux-19.1.2.zip",
        None,
    ),
    "lua-language-server": (
        """
        lua-language-server-3.15.0-darwin-arm64.tar.gz lua-language-server-3.15.0-linux-arm64.tar.gz
        lua-language-server-3.15.0-linux-x64-musl.tar.gz lua-language-server-3.15.0-linux-x64.tar.gz
        lua-language-server-3.15.0-win32-x64.zip lua-language-server-3.15.0-submodules.zip
        """,
        "lua-language-server-3.15.0-linux-x64.tar.gz",
        "lua-language-server-3.15.0-linux-arm64.tar.gz",
    ),
    "marksman": (
        """
        marksman-linux-arm64 marksman-linux-x64 marksman-macos marksman.exe
        """,
        "marksman-linux-x64",
        "marksman-linux-arm64",
    ),
    "fd": (
        """
        fd-musl_10.3.0_amd64.deb fd-v10.3.0-aarch64-unknown-linux-gnu.tar.gz
        fd-v10.3.0-i686-unknown-linux-gnu.tar.gz fd-v10.3.0-arm-unknown-linux-gnueabihf.tar.gz
        fd-v10.3.0-x86_64-unknown-linux-gnu.tar.gz fd_10.3.0_amd64.deb
        """,
        "fd-v10.3.0-x86_64-unknown-linux-gnu.tar.gz",
        "fd-v10.3.0-aarch64-unknown-linux-gnu.tar.gz",
    ),
    "golangci-lint": (
        """
        checksums.txt golangci-lint-2.5.0-linux-amd64.deb golangci-lint-2.5.0-linux-amd64.tar.gz
        golangci-lint-2.5.0-linux-arm64.tar.gz golangci-lint-2.5.0-linux-386.tar.gz
        golangci-lint-2.5.0-linux-amd64.rpm golangci-lint-2.5.0-darwin-amd64.tar.gz
        golangci-lint-2.5.0-source.tar.gz golangci-lint-2.5.0-linux-amd64.tar.gz.sbom.json
        """,
        "golangci-lint-2.5.0-linux-amd64.tar.gz",
        "golangci-lint-2.5.0-linux-arm64.tar.gz",
    ),
    "deno": (
        """
        deno-aarch64-unknown-linux-gnu.zip deno-x86_64-unknown-linux-gnu.zip denort-x86_64-unknown-linux-gnu.zip
        deno-x86_64-unknown-linux-gnu.zip.sha256sum deno_src.tar.gz lib.deno.d.ts deno-x86_64-apple-darwin.zip
        """,
        "deno-x86_64-unknown-linux-gnu.zip",
        "deno-aarch64-unknown-linux-gnu.zip",
    ),
    "github-mcp-server": (
        """
        github-mcp-server_Darwin_arm64.tar.gz github-mcp-server_Linux_arm64.tar.gz
        github-mcp-server_Linux_i386.tar.gz github-mcp-server_Linux_x86_64.tar.gz
        github-mcp-server_Windows_x86_64.zip github-mcp-server_0.1_checksums.txt
        """,
        "github-mcp-server_Linux_x86_64.tar.gz",
        "github-mcp-server_Linux_arm64.tar.gz",
    ),
}


@pytest.mark.parametrize("command", RELEASES)
def test_the_file_for_a_machine_is_found_among_what_makers_publish(command):
    names, *wanted = RELEASES[command]
    assets = [Asset(name, f"https://forge.example/{name}", "0" * 64) for name in names.split()]
    for machine, name in zip(("x86_64", "aarch64"), wanted, strict=True):
        chosen = choose(assets, machine, command)
        assert (chosen.name if chosen else None) == name, machine


def test_a_pattern_of_the_registry_decides_alone():
    assets = [Asset(name, "", "") for name in ("tool-linux-x64.tar.gz", "tool-for-servers.tgz")]
    assert choose(assets, "x86_64", "tool", {"x86_64": "*servers*"}) == assets[1]
    assert choose(assets, "aarch64", "tool", {"x86_64": "*servers*"}) is None


def test_a_machine_that_nobody_builds_for_gets_nothing():
    assert choose([Asset("tool-linux-amd64.tar.gz", "", "")], "s390x", "tool") is None


@pytest.mark.parametrize(
    "name", ["tool.exe", "tool_1_amd64.deb", "tool-linux-amd64.tar.gz.asc", "tool-x64.msi", "README"]
)
def test_what_is_no_program_for_linux_is_left_out(name):
    assert not is_for_linux(name)


def test_checksums_are_read_as_the_usual_program_writes_them():
    text = f"{'a' * 64}  tool.tar.gz\n{'B' * 64} *./dist/other.zip\nnot a sum\n{'c' * 63}  short\n"
    assert parse_sums(text) == {"tool.tar.gz": "a" * 64, "other.zip": "b" * 64}
    assert parse_sums(f"{'d' * 64}\n", "alone.gz") == {"alone.gz": "d" * 64}
    assert parse_sums(f"{'d' * 64}\n") == {}
