"""What a Docker box is made of, as the daemon tells it and as seen from inside."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import BoxFileError, SandboxUnavailable, WorkspaceTooLarge, WorkspaceUnreadable
from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.box import sizes
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.pool import WarmPool
from tests.support.docker_images import BASE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

READ_ONLY = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)

# Numbers of x86-64 where they are not the same everywhere.
REFUSED_CALLS = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = {"io_uring_setup": (425, 1, 0), "open_tree": (428, 0, 0, 0), "pidfd_getfd": (438, 0, 0, 0)}
if platform.machine() == "x86_64":
    calls |= {"ptrace": (101, 0, 0, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "keyctl": (250, 0, -3, 0),
              "userfaultfd": (323, 0), "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0),
              "unshare": (272, 0x10000000), "mount": (165, 0, 0, 0, 0, 0), "setns": (308, 0, 0),
              "vsock": (41, 40, 1, 0), "alg": (41, 38, 5, 0), "clone": (56, 0x10000011, 0, 0, 0, 0)}
for name, arguments in calls.items():
    answer = libc.syscall(*arguments)
    print(name, "allowed" if answer >= 0 else os.strerror(ctypes.get_errno()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (root / "secret.txt").write_text("for the project's eyes\n")
    (root / "secret.txt").chmod(0o600)
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / ".venv" / "lib").mkdir(parents=True)
    (root / ".venv" / "lib" / "big").write_bytes(bytes(1000))
    (root / "node_modules").mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest_asyncio.fixture
async def backend(docker_backend: DockerBackend) -> AsyncIterator[DockerBackend]:
    yield docker_backend


async def test_the_daemons_record_shows_every_wall_and_nothing_of_the_host(backend, client, project, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-real-one")
    box = await backend.start(BoxSpec(workspace=project, env={"GREETING": "hello"}))
    record = client.api.inspect_container(box.id)
    host, config = record["HostConfig"], record["Config"]
    assert config["User"] == "65532:65532"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["IpcMode"] == "private"
    assert host["PidMode"] == host["UTSMode"] == ""
    # Nothing but the guest may hold the pipe.
    assert not host["Init"]
    assert host["AutoRemove"] is True
    assert host["LogConfig"]["Type"] == "none"
    assert host["PidsLimit"] == BoxLimits().processes
    assert host["Memory"] == host["MemorySwap"] == BoxLimits().memory_bytes
    assert record["Mounts"] == []
    assert not host["Binds"]
    told = json.dumps(record)
    for secret in ("sk-not-a-real-one", str(project), "GREETING", "docker.sock", os.environ["HOME"]):
        assert secret not in told, secret


async def test_a_volume_that_an_image_declares_is_bounded_memory_and_not_the_daemons_disk(docker_endpoint, client):
    name = "kagura-test/volumes:latest"
    made = client.api.create_container(BASE, "true", user="root")
    client.api.commit(made["Id"], *name.split(":"), changes=["VOLUME /usr/share/doc/ /workspace", "USER agent"])
    client.api.remove_container(made["Id"], v=True)
    backend = DockerBackend(docker_endpoint, default_image=name)
    try:
        box = await backend.start(BoxSpec())
        assert client.api.inspect_container(box.id)["Mounts"] == []
        result = await box.run(shell_command("cd /usr/share/doc && echo kept > new && stat -f -c '%T %S %b' ."))
        assert result.ok, result.stderr.text
        kind, size, count = result.stdout.text.split()
        assert (kind, int(size) * int(count)) == ("tmpfs", sizes(BoxLimits()).temporary)
    finally:
        await backend.close()
        client.images.remove(name)


async def test_dangerous_calls_are_refused_and_threads_still_start(backend):
    box = await backend.start(BoxSpec())
    result = await box.run(Command(("python3", "-c", REFUSED_CALLS)))
    assert result.ok, result.stderr.text
    assert "allowed" not in result.stdout.text, result.stdout.text
    assert len(result.stdout.text.splitlines()) > 3
    threads = "import threading as t; x = t.Thread(target=print, args=('alive',)); x.start(); x.join()"
    assert (await box.run(Command(("python3", "-c", threads)))).stdout.text == "alive\n"
    assert not (await box.run(shell_command("unshare -U -r true"))).ok


async def test_no_program_takes_on_another_users_rights(backend):
    box = await backend.start(BoxSpec())
    found = await box.run(shell_command("find / -xdev -perm /6000 -type f 2>/dev/null"))
    assert found.stdout.text == ""


async def test_the_project_is_a_copy_and_what_is_left_out_is_told(backend, project):
    box = await backend.start(BoxSpec(workspace=project))
    listing = (await box.run(shell_command("ls -A; ./run.sh; cat secret.txt; git status --porcelain"))).stdout.text
    assert ".venv" not in listing.split()
    assert {"src", "run.sh", "secret.txt", ".git", "ran"} <= set(listing.split())
    assert any(".venv" in note and "node_modules" in note for note in box.notes)
    assert any(note.startswith(".git: a read-only copy") for note in box.notes)
    assert await box.changes() == []
    await box.run(shell_command("echo more >> secret.txt; echo x > .git/hooks/evil; rm run.sh; echo n > src/new.py"))
    changed = {change.path: change.status for change in await box.changes()}
    assert changed == {"secret.txt": "modified", "run.sh": "deleted", "src/new.py": "added"}
    assert (project / "secret.txt").read_text() == "for the project's eyes\n"


async def test_a_commit_in_the_box_fails_instead_of_being_lost(backend, project):
    box = await backend.start(BoxSpec(workspace=project))
    commit = "git -c user.name=a -c user.email=a@example.org commit --allow-empty -m lost"
    result = await box.run(shell_command(commit))
    assert not result.ok
    assert "Permission denied" in result.stderr.text


async def test_a_project_too_large_to_copy_is_refused_and_named(backend, project):
    (project / "big.bin").write_bytes(bytes(3 * 2**20))
    limits = BoxLimits(workspace_bytes=4 * 2**20)
    with pytest.raises(WorkspaceTooLarge, match="--box bubblewrap"):
        await backend.start(BoxSpec(workspace=project, limits=limits))
    with pytest.raises(WorkspaceUnreadable):
        await backend.start(BoxSpec(workspace=project / "nowhere"))


@pytest.mark.parametrize("parked", [False, True])
async def test_a_read_only_workspace_can_be_read_and_not_written(backend, project, parked):
    spec = BoxSpec(workspace=project, policy=READ_ONLY)
    if parked:
        key = backend.parking_spec(spec)
        assert key is not None
        box = await (await backend.park(key)).take(spec)
    else:
        box = await backend.start(spec)
    read = await box.run(shell_command("cat src/main.py secret.txt && ./run.sh"))
    assert read.stdout.text.endswith("ran\n"), read.stderr.text
    tries = "echo x > new; echo x >> src/main.py; rm secret.txt; mv src other; chmod 777 .; touch src/main.py; mkdir d"
    tried = await box.run(shell_command(tries + "; true"))
    assert len(tried.stderr.text.splitlines()) == 7, tried.stderr.text
    with pytest.raises(BoxFileError):
        await box.files.write("new", b"x")
    assert (await box.files.read("src/main.py")) == b"print('hello')\n"
    assert await box.changes() == []
    assert (await box.run(shell_command("echo x > /tmp/free && cat /tmp/free"))).ok


async def test_only_three_places_can_be_written_and_all_are_bounded(backend):
    limits = BoxLimits(workspace_bytes=8 * 2**20, scratch_bytes=8 * 2**20)
    box = await backend.start(BoxSpec(limits=limits))
    find = "find / -xdev -writable -not -path '/proc/*' 2>/dev/null; true"
    places = {"/workspace", "/tmp", "/home/agent"}
    assert set((await box.run(shell_command(find))).stdout.text.split()) == places
    for place in places:
        full = await box.run(shell_command(f"dd if=/dev/zero of={place}/full bs=1M count=64"))
        assert "No space left" in full.stderr.text
        program = f"rm {place}/full && echo '#!/bin/sh' > {place}/p && chmod +x {place}/p && {place}/p"
        assert (await box.run(shell_command(program))).ok


async def test_a_warm_box_comes_from_the_pool_with_the_project_in_it(backend, client, project):
    pool = WarmPool(backend)
    spec = BoxSpec(workspace=project)
    pool.prepare(spec)
    await pool.settled()
    (container,) = client.containers.list(filters={"label": f"kagura.holder={backend._holder}"})
    assert container.status == "paused"
    box = await pool.start(spec)
    assert box.warm
    assert box.id == container.name
    assert (await box.run(shell_command("./run.sh"))).stdout.text == "ran\n"
    await pool.settled()
    await pool.close()
    assert not client.containers.list(all=True, filters={"label": f"kagura.holder={backend._holder}"})


async def test_the_default_image_has_what_data_work_needs(docker_endpoint):
    backend = DockerBackend(docker_endpoint)
    box = await backend.start(BoxSpec())
    code = (
        "import pandas as p, matplotlib.pyplot as m; p.Series([1, 2]).plot(); m.savefig('plot.png'); print(p.__name__)"
    )
    result = await box.run(Command(("python", "-c", code)))
    assert result.stdout.text == "pandas\n", result.stderr.text
    assert (await box.files.read("plot.png", limit=4)) == b"\x89PNG"
    await backend.close()


async def test_twenty_boxes_at_once(backend):
    async def one(number: int) -> str:
        box = await backend.start(BoxSpec())
        return (await box.run(shell_command(f"echo {number}"))).stdout.text.strip()

    assert await asyncio.gather(*(one(number) for number in range(20))) == [str(number) for number in range(20)]


async def test_a_daemon_on_the_network_is_no_different(docker_daemon, project):
    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(docker_daemon.host.removeprefix("unix://"))
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        backend = DockerBackend(Endpoint(f"tcp://127.0.0.1:{port}"), default_image=BASE)
        assert (await backend.probe()).ok
        box = await backend.start(BoxSpec(workspace=project))
        assert (await box.run(shell_command("./run.sh; echo x > new"))).stdout.text == "ran\n"
        assert [change.path for change in await box.changes()] == ["new"]
        await box.close()
        await backend.close()
        await asyncio.sleep(0.1)


# ----------------------------------------------------------------------- probes


async def test_a_working_daemon_says_which_and_with_what(backend):
    probe = await backend.probe()
    assert probe.ok
    assert probe.reason.startswith("daemon ")
    assert probe.reason.endswith("answers, image kagura/base is built")


async def test_a_missing_image_is_answered_with_the_command_that_builds_it(backend):
    probe = await backend.probe("no/such:image")
    assert not probe.ok
    assert "docker build --tag no/such:image" in probe.install
    with pytest.raises(SandboxUnavailable, match="docker build"):
        await backend.start(BoxSpec(image="no/such:image"))


async def test_a_socket_that_nobody_answers_at_is_found_out_at_once(tmp_path):
    path = tmp_path / "silent.sock"

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    left = asyncio.Event()
    server = await asyncio.start_unix_server(say_nothing, path)
    async with server:
        for where in (path, tmp_path / "missing.sock"):
            backend = DockerBackend(Endpoint(f"unix://{where}"))
            async with asyncio.timeout(60):
                probe = await backend.probe()
            assert not probe.ok
            assert "no Docker daemon answers" in probe.reason
            assert probe.install
            await backend.close()
        await asyncio.wait_for(left.wait(), 60)


async def test_an_image_without_python_says_so(backend, client):
    client.api.tag("kagura-test/debian:bookworm", "kagura-test/bare", force=True)
    probe = await backend.probe("kagura-test/bare")
    assert not probe.ok
    assert "python3" in probe.reason
