from __future__ import annotations

import pytest

from kagura_kernel.kit.packages.hosts import Asset, choose, is_for_linux, parse_sums

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
