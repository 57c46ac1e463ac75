"""A box whose root is writable: packages are installed in it as on any Debian machine, which stays as it was."""

import asyncio
import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import CommandResult, shell_command
from kagura_kernel.domain.policy import BoxLimits, CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec, GuestStream, Listener
from kagura_kernel.sandbox.bubblewrap.backend import BubblewrapBackend, _translated
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.supervisor import stage
from kagura_kernel.sandbox.supervisor.client import StartRefused

LONG = CommandLimits(total=240, idle=120)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a writable root needs root here"),
    pytest.mark.skipif(
        not Path("/var/lib/dpkg/status").exists() or shutil.which("dpkg-deb") is None,
        reason="needs a Debian system with dpkg-deb",
    ),
]

POSTINST = """#!/bin/sh
set -e
adduser --system --group --quiet --home /var/lib/hello-kagura hello-kagura
chown hello-kagura:hello-kagura /usr/share/hello-kagura
chmod 2750 /usr/share/hello-kagura
su -s /bin/sh -c 'touch /usr/share/hello-kagura/made' hello-kagura
invoke-rc.d hello-kagura start
"""


def build(folder: Path, name: str, version: str, files: dict[str, str], **scripts: str) -> Path:
    """A package of small programs and files, made by dpkg-deb."""
    tree = folder / f"{name}-{version}"
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n"
    contents = {"DEBIAN/control": f"{fields}Description: {name}\n"}
    contents |= {f"DEBIAN/{script}": text for script, text in scripts.items()}
    for path, text in {**contents, **files}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755 if text.startswith("#!") else 0o644)
    made = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True, capture_output=True)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / "notes.md").write_text("notes\n")
    return root


@pytest.fixture
def package(tmp_path: Path, project: Path) -> Iterator[Path]:
    files = {
        "usr/bin/hello-kagura": "#!/bin/sh\necho hello from a package\n",
        "usr/share/hello-kagura/data": "data\n",
        "etc/init.d/hello-kagura": "#!/bin/sh\ntouch /run/started\n",
    }
    made = build(tmp_path, "hello-kagura", "1.0", files, postinst=POSTINST)
    shutil.copy(made, project)
    yield project / made.name
    assert shutil.which("hello-kagura") is None
    assert not Path("/usr/share/hello-kagura").exists()
    assert "hello-kagura" not in Path("/etc/passwd").read_text()


@pytest.fixture
async def box(backend: BubblewrapBackend, project: Path) -> AsyncIterator[Box]:
    started = await backend.start(BoxSpec(workspace=project, writable_root=True))
    yield started
    await started.close()


def write_index(folder: Path, package: Path) -> None:
    """Make a folder with this package in it a repository."""
    described = said("dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", str(package))
    name, version, architecture = described.split()
    data = content(str(package))
    lines = {"Package": name, "Version": version, "Architecture": architecture, "Filename": f"./{package.name}"}
    lines |= {"Size": str(len(data)), "SHA256": hashlib.sha256(data).hexdigest()}
    (folder / "Packages").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))


def said(*command: str) -> str:
    """What a program of the host prints."""
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def content(path: str) -> bytes:
    """A file of the host; nothing where there is none."""
    return Path(path).read_bytes() if Path(path).exists() else b""


async def bash(box: Box, line: str) -> CommandResult:
    return await box.run(shell_command(line, limits=LONG))


async def done(box: Box, line: str) -> str:
    """What a shell line printed; it has to succeed."""
    result = await bash(box, line)
    assert result.ok, f"{line}\n{result.stdout.text}\n{result.stderr.text}"
    return result.stdout.text


# -------------------------------------------------------------------- packages


async def test_a_package_with_a_user_of_its_own_is_installed_runs_and_is_removed(box, package):
    await done(box, f"dpkg -i {package.name}")
    assert await done(box, "hello-kagura") == "hello from a package\n"
    assert await done(box, "stat -c '%U:%G %a' /usr/share/hello-kagura") == "hello-kagura:hello-kagura 2750\n"
    assert await done(box, "stat -c '%U' /usr/share/hello-kagura/made") == "hello-kagura\n"
    assert not (await bash(box, "test -e /run/started")).ok
    assert await done(box, "dpkg --audit") == ""
    await done(box, "dpkg --purge hello-kagura")
    assert not (await bash(box, "hello-kagura")).ok


async def test_apt_installs_a_package_of_the_workspace(box, package):
    await done(box, f"apt-get install -y ./{package.name} && apt-get install -y --no-download hello-kagura")
    assert await done(box, "hello-kagura") == "hello from a package\n"
    await done(box, "apt-get check && apt-get purge -y hello-kagura")


async def test_apt_updates_and_installs_from_a_repository(box, package, project):
    write_index(project, package)
    source = "rm -f /etc/apt/sources.list.d/* && echo 'deb [trusted=yes] file:/workspace ./' > /etc/apt/sources.list"
    await done(box, f"{source} && apt-get update && apt-get install -y hello-kagura")
    assert await done(box, "hello-kagura") == "hello from a package\n"


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[int]:
    """The port of a Debian mirror on the host's loopback; what it serves lies in `mirror`."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


async def test_apt_installs_from_a_mirror_through_the_boxs_proxy(box, backend, package, project, tmp_path, mirror):
    asked: list[tuple[str, int]] = []

    async def serve(stream: GuestStream) -> None:
        asked.append((stream.request["host"], stream.request["port"]))
        await stream.accept()
        await relay(stream, mirror)

    shutil.copy(package, tmp_path / "mirror")
    write_index(tmp_path / "mirror", package)
    port = await box.listen(Listener(0, "proxy"), serve)
    # Names are nothing inside: only the host resolves them.
    source = "rm -f /etc/apt/sources.list.d/* && echo 'deb [trusted=yes] http://mirror.test ./' > /etc/apt/sources.list"
    apt = f"export http_proxy=http://127.0.0.1:{port}; apt-get update && apt-get install -y hello-kagura"
    await done(box, f"{source}; rm /workspace/*.deb; {apt}")
    assert await done(box, "hello-kagura") == "hello from a package\n"
    assert set(asked) == {("mirror.test", 80)}
    # Without the proxy there is nothing to reach.
    assert not (await bash(box, "apt-get purge -y hello-kagura && apt-get update -o APT::Update::Error-Mode=any")).ok
    other = await backend.start(BoxSpec(workspace=project, writable_root=True))
    assert not (await bash(other, "hello-kagura || dpkg -s hello-kagura")).ok


async def relay(stream: GuestStream, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def there() -> None:
        while data := await stream.read(1 << 16):
            writer.write(bytes(data))
            await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(there())
    try:
        while data := await reader.read(1 << 16):
            await stream.write(data)
        await stream.write_eof()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def test_a_package_of_the_host_is_replaced_by_a_newer_one(box, tmp_path, project):
    if not said("dpkg", "-S", "/bin/hostname").startswith("hostname:"):
        pytest.skip("needs the package `hostname`")
    before = content("/bin/hostname")
    fields = {"bin/hostname": "#!/bin/sh\necho newer\n"}
    made = build(tmp_path, "hostname", "99.0", fields)
    shutil.copy(made, project)
    await done(box, f"dpkg -i --force-architecture {made.name}")
    assert await done(box, "hostname") == "newer\n"
    assert content("/bin/hostname") == before != b""


async def test_the_hosts_packages_are_known_and_its_programs_run(box):
    here = said("dpkg-query", "-W", "-f", "${Package}\n")
    assert await done(box, "dpkg-query -W -f '${Package}\\n'") == here != ""
    assert await done(box, "python3 -c 'print(6 * 7)' && apt-get check >/dev/null") == "42\n"


# ------------------------------------------------------------- the layer's life


async def test_what_was_changed_is_gone_with_the_box_and_no_other_box_sees_it(backend, box, project):
    await done(box, "echo x > /usr/bin/planted; echo x > /etc/planted; rm /usr/bin/env /usr/bin/dpkg; touch /planted")
    assert not (await bash(box, "test -e /usr/bin/env")).ok
    for spec in (BoxSpec(workspace=project, writable_root=True), BoxSpec(workspace=project)):
        other = await backend.start(spec)
        await done(other, "test -x /usr/bin/env && test -x /usr/bin/dpkg && /usr/bin/env true")
        assert not (await bash(other, "ls -d /usr/bin/planted || ls -d /etc/planted || ls -d /planted")).ok
    await box.close()
    assert [content(path) for path in ("/usr/bin/planted", "/etc/planted", "/planted")] == [b"", b"", b""]
    assert content("/usr/bin/env") != b""
    assert b"/sys/kernel tmpfs" not in content("/proc/self/mounts")


async def test_the_layer_has_an_end(backend):
    limits = BoxLimits(memory_bytes=256 * 2**20)
    box = await backend.start(BoxSpec(writable_root=True, limits=limits))
    full = await bash(box, "head -c 200M /dev/zero > /usr/lib/filling; stat -c %s /usr/lib/filling")
    assert int(full.stdout.text) <= 128 * 2**20
    await done(box, "rm /usr/lib/filling && touch /usr/lib/works-again")


async def test_the_warm_pool_gives_such_a_box_to_those_only_who_ask_for_one(project):
    pool = WarmPool(BubblewrapBackend())
    try:
        for waiting, asked in ((True, False), (False, True)):
            pool.prepare(BoxSpec(workspace=project, writable_root=waiting))
            await pool.settled()
            box = await pool.start(BoxSpec(workspace=project, writable_root=asked))
            assert await done(box, "id -u") == ("0\n" if asked else "1000\n")
            await box.close()
    finally:
        await pool.close()


# -------------------------------------------------------------------- workspace


async def test_what_root_makes_in_the_workspace_comes_back_as_ordinary_changes(box, project):
    line = "echo more >> notes.md; mkdir -p sub; echo x > sub/new; chown -R www-data:www-data sub; mkfifo sub/pipe"
    await done(box, line)
    assert await done(box, "stat -c %U sub/new notes.md") == "www-data\nroot\n"
    assert [(change.status, change.path, change.kind) for change in await box.changes()] == [
        ("modified", "notes.md", "file"),
        ("added", "sub/new", "file"),
    ]
    assert await box.files.read("sub/new") == b"x\n"
    assert said("ls", "-AR", "--ignore=.git", str(project)).split()[1:] == ["notes.md"]
    assert content(f"{project}/notes.md") == b"notes\n"


async def test_protected_parts_of_the_project_stay_protected_from_root(box):
    for line in ("touch .git/new", "rm .git/config", "chown www-data .git/config", "mv .git away", "rm -rf .git"):
        assert not (await bash(box, line)).ok, line
    assert await done(box, "cat .git/config") == "[core]\n"


def test_a_machine_without_dpkgs_books_is_told_so(monkeypatch):
    monkeypatch.setattr(stage, "is_debian", lambda: False)
    with pytest.raises(stage.StagingError) as caught:
        stage.make_users(stage.Identity(1_900_000_001))
    error = _translated(StartRefused(caught.value.part, caught.value.why), BoxSpec(writable_root=True))
    assert "no dpkg database" in str(error)
    assert "--box docker" in str(error)


def test_root_of_less_than_the_whole_machine_is_told_so():
    with pytest.raises(stage.StagingError, match="only root of the whole machine"):
        stage.make_users(None)
