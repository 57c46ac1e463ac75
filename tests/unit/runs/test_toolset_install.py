"""Commands are installed in boxes without walls, by the real programs, from registries on the loopback."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import platform
import shutil
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.kit.packages.hosts import Asset, InstallPlan, tool_hosts
from kagura_kernel.kit.packages.lookup import PackageLookUp
from kagura_kernel.kit.packages.registry import load_registry, parse_package
from kagura_kernel.membrane.credentials.scrub import ScrubbedBox, Scrubber
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.runs.toolset_install import Installed, install
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend
from tests.support.package_servers import PackageServers, package_servers, tarball
from tests.support.wheels import write_wheel

SCRIPT = '#!/bin/sh\necho "hello from $0" "$@"\n'
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
NEEDED = ("sh", "python3", "rm", "mkdir", "test", "ln", "awk", "cat", "sleep", "env")


class Rig:
    """A box, and programs that stand before its own."""

    def __init__(self, backend: FakeBackend, servers: PackageServers, stand_ins: Path) -> None:
        self.backend = backend
        self.servers = servers
        self.stand_ins = stand_ins
        self.more: dict[str, str] = {}
        self.search = f"{stand_ins}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"

    async def start(self) -> Rig:
        env = {
            "PIP_INDEX_URL": self.servers.index,
            "npm_config_registry": f"{self.servers.address}/npm",
            "NO_PROXY": "127.0.0.1",
        }
        inner = await self.backend.start(BoxSpec(env=env))
        self.box = ScrubbedBox(inner, Scrubber(lambda: ()), variables=lambda: {"PATH": self.search, **self.more})
        return self

    @property
    def root(self) -> str:
        return f"{ExchangeDirectory(self.box).root}/tools"

    def stand_in(self, name: str, text: str) -> None:
        place = self.stand_ins / name
        place.unlink(missing_ok=True)
        place.write_text(text)
        place.chmod(0o755)

    def only(self, *more: str) -> None:
        """From now on the box has nothing but what every box has."""
        for name in (*NEEDED, *more):
            found = sys.executable if name == "python3" else shutil.which(name)
            assert found is not None, name
            if not (self.stand_ins / name).exists():
                (self.stand_ins / name).symlink_to(found)
        self.search = str(self.stand_ins)

    def plan(self, command: str, version: str = "") -> InstallPlan:
        look_up = PackageLookUp(self.servers.sources, None, SystemClock())
        toolset = McpToolset(type="mcp", name="tool", command=command, version=version)
        return tool_hosts([toolset], load_registry(), look_up=look_up, strict=True).installs["tool"]

    async def install(self, plan: InstallPlan | None, command: str = "", **more: float) -> Installed:
        return await install(self.box, "tool", command or plan.command, plan, root=self.root, **more)  # type: ignore[union-attr]

    async def refused(self, plan: InstallPlan | None, command: str = "", **more: float) -> ToolsetError:
        with pytest.raises(ToolsetError) as raised:
            await self.install(plan, command, **more)
        return raised.value

    async def start_it(self, installed: Installed, *arguments: str) -> str:
        answer = await self.box.run(Command((*installed.argv, *arguments), env=installed.env))
        assert answer.ok, answer.stderr.text
        return answer.stdout.text

    async def sh(self, line: str) -> str:
        return (await self.box.run(shell_command(line))).stdout.text


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[PackageServers]:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "1.10"):
        write_wheel(wheels, "small-server", version, script=True)
    with package_servers(wheels) as found:
        yield found


@pytest.fixture
async def rig(servers: PackageServers, tmp_path: Path) -> AsyncIterator[Rig]:
    stand_ins = tmp_path / "stand-ins"
    stand_ins.mkdir()
    backend = FakeBackend()
    yield await Rig(backend, servers, stand_ins).start()
    await backend.close()


async def test_what_the_box_has_is_taken_as_it_is(rig):
    rig.stand_in("small-server", SCRIPT)
    found = await rig.install(rig.plan("small-server", "pip:small-server"))
    assert (found.argv, found.env, found.what) == ((str(rig.stand_ins / "small-server"),), {}, "")
    assert await rig.install(None, "small-server") == replace(found, seconds=pytest.approx(found.seconds, abs=60))
    assert "1.10" not in "".join(rig.servers.asked[1:])


async def test_what_is_not_there_and_nobody_knows_is_told_with_what_to_write(rig):
    error = await rig.refused(None, "nobody-has-this")
    assert error.code == "ERR_TOOLSET"
    assert "there is no 'nobody-has-this' in its box" in str(error)
    assert "pip:mcp-server-time" in str(error)


async def test_pip_installs_into_an_environment_of_its_own_and_an_asked_version_is_that_version(rig):
    found = await rig.install(rig.plan("small-server", "pip:small-server@1.0"))
    assert found.what == "pip:small-server@1.0"
    assert await rig.start_it(found) == "small-server 1.0\n"
    bin_folder, _, rest = found.env["PATH"].partition(":")
    assert rest == rig.search
    # What the server starts as `python3` is the box's, not what it happens to run in.
    assert os.listdir(bin_folder) == ["small-server"]  # noqa: PTH208 - a path of the box
    # A box that has it already in that version is asked for no more; in another one it is not what was asked for.
    rig.search = found.env["PATH"]
    same = await rig.install(rig.plan("small-server", "pip:small-server@1.0"))
    assert (same.argv, same.what) == (found.argv, "")
    any_will_do = await rig.install(rig.plan("small-server", "pip:small-server"))
    assert any_will_do.argv == found.argv
    other = await rig.install(rig.plan("small-server", "pip:small-server@1.10"))
    assert other.what == "pip:small-server@1.10"
    assert await rig.start_it(other) == "small-server 1.10\n"


async def test_the_newest_is_never_newer_than_what_was_looked_up(rig, servers):
    plan = rig.plan("small-server", "pip:small-server")
    write_wheel(servers.wheels, "small-server", "9.0", script=True)
    assert (await rig.install(plan)).what == "pip:small-server@1.10"


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here")
async def test_npm_installs_a_package_with_its_companion(rig, servers):
    rig.search = f"{rig.stand_ins}:{Path(shutil.which('npm')).parent}:/usr/bin:/bin"  # type: ignore[arg-type]
    program = "#!/usr/bin/env node\nconsole.log('hello from node', process.argv.slice(2).join(' '))\n"
    servers.put_npm("typescript-language-server", "5.0.0", {"typescript-language-server": program})
    servers.put_npm("typescript", "5.9.0", {"tsc": program})
    found = await rig.install(rig.plan("typescript-language-server", "5.0.0"))
    assert found.what == "npm:typescript-language-server@5.0.0"
    assert await rig.start_it(found, "--stdio") == "hello from node --stdio\n"
    assert (await rig.sh(f"ls {rig.root}/tool/node_modules")).split() == ["typescript", "typescript-language-server"]
    rig.search = found.env["PATH"]
    assert (await rig.install(rig.plan("typescript-language-server", "5.0.0"))).what == ""


def zipped(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            about = zipfile.ZipInfo(name)
            about.external_attr = 0o100755 << 16
            archive.writestr(about, text)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("fd-{machine}-linux.tar.gz", tarball({"fd-1/fd": SCRIPT, "fd-1/doc/fd": "words", "../../escaped": "x"})),
        ("fd-{machine}-linux.zip", zipped({"fd-1/bin/fd": SCRIPT, "/etc/escaped": "x"})),
        ("fd-{machine}-linux.gz", gzip.compress(SCRIPT.encode())),
        ("fd-{machine}-linux", SCRIPT.encode()),
        ("other-{machine}-linux.tgz", tarball({"x/fd-{machine}": SCRIPT})),
    ],
    ids=["tar", "zip", "gzip", "program", "another name"],
)
async def test_a_release_is_fetched_checked_and_unpacked_without_leaving_its_folder(rig, servers, name, data):
    servers.put_release("sharkdp/fd", "v10", {name.format(machine=platform.machine()): data})
    rig.only()
    found = await rig.install(rig.plan("fd"))
    assert found.what == "github:sharkdp/fd@v10"
    assert (await rig.start_it(found, "x")).endswith("/tool/bin/fd x\n")
    left = await rig.box.files.glob(f"{rig.root}/**/*escaped*")
    assert left == []


async def test_a_file_that_is_not_what_the_release_says_is_never_unpacked(rig, servers):
    name = f"fd-{platform.machine()}-linux.tar.gz"
    servers.put_release("sharkdp/fd", "v10", {name: tarball({"fd": SCRIPT})})
    plan = rig.plan("fd")
    place = "/sharkdp/fd/releases/download/v10/" + name
    size = plan.assets[0].size
    for data, status, why in (
        (tarball({"fd": "#!/bin/sh\necho other\n"})[:size], 200, "SHA-256 is another one"),
        (b"x" * (size + 1), 200, "larger than the release says"),
        (b"", 404, "could not be fetched: HTTP Error 404"),
    ):
        servers.put(place, data, "application/octet-stream", status)
        error = await rig.refused(plan)
        assert why in str(error)
    assert await rig.sh(f"ls {rig.root}") == ""


async def test_a_broken_archive_is_told_in_words(rig, servers):
    servers.put_release("sharkdp/fd", "v10", {f"fd-{platform.machine()}-linux.tar.gz": b"no archive"})
    error = await rig.refused(rig.plan("fd"))
    assert "the file could not be unpacked" in str(error)
    assert "Traceback" not in error.output


async def test_a_machine_that_nobody_builds_for_is_told(rig):
    asset = Asset("fd-sparc64-linux.tar.gz", "https://forge.example/x", "0" * 64)
    plan = InstallPlan("tool", "fd", parse_package("github:sharkdp/fd@v10"), assets=(asset,))
    assert f"has no file for Linux on {platform.machine()!r}" in str(await rig.refused(plan))


@pytest.mark.parametrize(
    ("command", "version", "line", "kept"),
    [
        ("gopls", "v0.20.0", "install golang.org/x/tools/gopls@v0.20.0", "bin"),
        ("taplo", "0.10.0", "install --root {folder} --locked --no-track --quiet --version 0.10.0 -- taplo-cli", "bin"),
    ],
    ids=["go", "cargo"],
)
async def test_go_and_cargo_are_asked_for_one_version_and_leave_nothing_but_the_program(
    rig, command, version, line, kept
):
    # What they really fetch and build would take minutes; how they are asked is what is ours.
    rig.only("dirname")
    build = '#!/bin/sh\n[ "$1" = install ] || exit 1\necho "$@" >> {log}\n'
    build += "mkdir -p {bin} {rest}\ncp {program} {bin}/{name}\n"
    rig.stand_in("cp", f'#!/bin/sh\nexec {shutil.which("cp")} "$@"\n')
    rig.stand_in("made", SCRIPT)
    places = {"log": rig.stand_ins / "log", "program": rig.stand_ins / "made", "name": command}
    folder = f"{rig.root}/tool"
    rig.stand_in("go", build.format(bin='"$GOBIN"', rest='"$GOPATH" "$GOCACHE"', **places))
    rig.stand_in("cargo", build.format(bin=f"{folder}/bin", rest='"$CARGO_HOME" "$CARGO_TARGET_DIR"', **places))
    toolset = McpToolset(type="mcp", name="tool", command=command, version=version)
    plan = tool_hosts([toolset], load_registry()).installs["tool"]
    found = await rig.install(plan)
    assert (rig.stand_ins / "log").read_text() == line.format(folder=folder) + "\n"
    assert found.what == str(plan.package)
    assert (await rig.start_it(found)).endswith(f"/tool/bin/{command}\n")
    assert sorted(one.path.rpartition("/")[2] for one in await rig.box.files.list_dir(folder)) == [kept]


@pytest.mark.parametrize(
    ("command", "what", "advice"),
    [("mcp-server-memory", "npm", "--image node"), ("gopls", "go", "an image"), ("taplo", "cargo", "an image")],
)
async def test_a_box_without_the_installer_says_so_and_what_to_do(rig, command, what, advice):
    rig.only()
    toolset = McpToolset(type="mcp", name="tool", command=command)
    error = await rig.refused(tool_hosts([toolset], load_registry()).installs["tool"])
    assert f"its box has no {what}, which installs {what}:" in str(error)
    assert advice in str(error)


async def test_an_installer_that_fails_is_told_by_its_last_words_that_matter(rig):
    rig.only()
    rig.stand_in(
        "npm",
        "#!/bin/sh\necho first >&2\necho 'npm error 404 nothing here' >&2\n"
        "echo 'npm error A complete log of this run can be found in: x' >&2\nexit 1\n",
    )
    toolset = McpToolset(type="mcp", name="tool", command="mcp-server-memory")
    error = await rig.refused(tool_hosts([toolset], load_registry()).installs["tool"])
    assert "could not be installed (npm error 404 nothing here)" in str(error)
    assert error.output.splitlines()[0] == "first"


async def test_a_package_without_the_program_is_told(rig):
    rig.plan("small-server", "pip:small-server")
    error = await rig.refused(replace(rig.plan("small-server", "pip:small-server"), command="other"), "other")
    assert "pip:small-server@1.10 was installed and has no program 'other'" in str(error)


async def test_an_installer_that_hangs_is_stopped_at_the_deadline(rig):
    rig.only()
    rig.stand_in("npm", "#!/bin/sh\nexec sleep 600\n")
    toolset = McpToolset(type="mcp", name="tool", command="mcp-server-memory")
    error = await rig.refused(tool_hosts([toolset], load_registry()).installs["tool"], seconds=0.3)
    assert "took longer than 0.3 s" in str(error)


@pytest.mark.parametrize("says", ["", "[]", "{", "[" * 5000, '{"path": 7, "search": null}'])
async def test_a_box_that_says_nonsense_has_nothing(rig, says):
    rig.only()
    rig.stand_in("python3", f"#!/bin/sh\ncat >/dev/null\necho '{says}'\n")
    assert (await rig.refused(None, "x")).code == "ERR_TOOLSET"


async def test_several_toolsets_are_installed_at_once_each_in_a_folder_of_its_own(rig):
    one, two = rig.plan("small-server", "pip:small-server@1.0"), rig.plan("small-server", "pip:small-server@1.10")
    found = await asyncio.gather(
        install(rig.box, "one", "small-server", one, root=rig.root),
        install(rig.box, "two", "small-server", two, root=rig.root),
    )
    assert [await rig.start_it(each) for each in found] == ["small-server 1.0\n", "small-server 1.10\n"]


def test_a_name_is_only_ever_a_name():
    # What the definition refuses is refused here as well: nothing of it becomes an option.
    for text in (
        "pip:--index-url=x",
        "npm:-g",
        "cargo:--git",
        "go:-x",
        "github:-o/r",
        "pip:x@--pre",
        "npm:x@file:/etc",
    ):
        with pytest.raises(ValueError, match=r"^(this is no name|what stands behind)"):
            parse_package(text)


@pytest.mark.skipif(not AUTHORITIES.exists(), reason="this system keeps its authorities elsewhere")
async def test_pip_and_uv_trust_what_the_system_trusts_unless_the_person_says_otherwise(rig, tmp_path):
    told = tmp_path / "told"
    note = f'echo "$PIP_CERT $SSL_CERT_FILE" >> {told}\nexit 1\n'
    rig.only()
    (rig.stand_ins / "python3").unlink()
    rig.stand_in("python3", f'#!/bin/sh\n[ "$1" = -I ] && exec {sys.executable} "$@"\n{note}')
    rig.stand_in("uv", f"#!/bin/sh\n{note}")
    rig.more = {"PIP_CERT": "", "REQUESTS_CA_BUNDLE": "", "SSL_CERT_FILE": ""}
    await rig.refused(rig.plan("small-server", "pip:small-server"))
    assert set(told.read_text().splitlines()) == {f"{AUTHORITIES} {AUTHORITIES}"}
    told.unlink()
    rig.more = {"PIP_CERT": "/mine.pem", "SSL_CERT_FILE": "/other.pem"}
    await rig.refused(rig.plan("small-server", "pip:small-server"))
    assert set(told.read_text().splitlines()) == {"/mine.pem /other.pem"}
