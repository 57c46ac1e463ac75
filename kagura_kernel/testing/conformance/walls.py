"""What no box may see or do, as a suite: subclass `WallsConformance`, give it the fixture `backend`, run pytest.

Every test attacks from inside a real box, with what a model could write there: shell lines and Python. Paths, sockets
and processes that must stay out of reach are planted on the host first, so that a box that fails to start, or a path
that does not exist anyway, proves nothing.
"""

# ruff: noqa: S101, D102, PLR2004 - pytest runs it: asserts are its words, a name is a sentence, numbers are the point
from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.commands import Command, CommandResult, shell_command
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend

# System calls that would succeed, or complain of their arguments only, if they were let through.
_CALLS = {
    "ptrace(PTRACE_TRACEME)": ({"x86_64": 101, "aarch64": 117}, (0, 0, 0, 0)),
    "process_vm_readv": ({"x86_64": 310, "aarch64": 270}, (1, 0, 0, 0, 0, 0)),
    "unshare(CLONE_NEWUSER)": ({"x86_64": 272, "aarch64": 97}, (0x10000000,)),
    "unshare(CLONE_NEWNS)": ({"x86_64": 272, "aarch64": 97}, (0x00020000,)),
    "clone(CLONE_NEWUSER)": ({"x86_64": 56, "aarch64": 220}, (0x10000000 | 17, 0, 0, 0, 0)),
    "setns": ({"x86_64": 308, "aarch64": 268}, (0, 0)),
    "mount": ({"x86_64": 165, "aarch64": 40}, (0, 0, 0, 0, 0)),
    "open_tree": ({"x86_64": 428, "aarch64": 428}, (-100, 0, 1)),
    "keyctl(GET_KEYRING_ID)": ({"x86_64": 250, "aarch64": 219}, (0, -3, 1)),
    "add_key": ({"x86_64": 248, "aarch64": 217}, (0, 0, 0, 0, 0)),
    "bpf": ({"x86_64": 321, "aarch64": 280}, (0, 0, 0)),
    "perf_event_open": ({"x86_64": 298, "aarch64": 241}, (0, 0, 0, 0, 0)),
    "userfaultfd": ({"x86_64": 323, "aarch64": 282}, (1,)),
    "io_uring_setup": ({"x86_64": 425, "aarch64": 425}, (1, 0)),
    "open_by_handle_at": ({"x86_64": 304, "aarch64": 265}, (0, 0, 0)),
    "modify_ldt": ({"x86_64": 154}, (0, 0, 0)),
    "memfd_secret": ({"x86_64": 447, "aarch64": 447}, (0,)),
    "lsm_get_self_attr": ({"x86_64": 459, "aarch64": 459}, (100, 0, 0, 0)),
    "lsm_set_self_attr": ({"x86_64": 460, "aarch64": 460}, (100, 0, 0, 0)),
    "lsm_list_modules": ({"x86_64": 461, "aarch64": 461}, (0, 0, 0)),
    "io_setup": ({"x86_64": 206, "aarch64": 0}, (0, 0)),
}

# What is shown on purpose is not looked through, it is large: the system's programs and Python's.
_FIND = (
    "find / -xdev \\( -path /proc -o -path /sys -o -path /usr -o -name site-packages -o -path '*/lib/python3*' \\) "
    "-prune -o -name '{0}*' -print 2>/dev/null; "
    "grep -rs --exclude-dir=site-packages --exclude-dir='python3*' {0} /tmp /home /root /run /var"
)

_CHANGE_IT = (
    *("echo x >> notes.md", "rm notes.md", "touch new", "mkdir data/new", "mv data other", "chmod 755 notes.md"),
    *("ln notes.md linked", "touch notes.md", "mount -o remount,rw,bind $PWD", "umount $PWD", "rm -rf $PWD"),
    *("mv $PWD /tmp/x", "setfattr -n user.x -v 1 notes.md"),
)

_RAW_CALL = """
import ctypes, errno, json, platform, sys
numbers, arguments = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
# A call that this architecture does not have is asked for by a number that none has.
answer = libc.syscall(numbers.get(platform.machine(), 9999), *(ctypes.c_long(value) for value in arguments))
print("let through" if answer >= 0 else errno.errorcode[ctypes.get_errno()])
"""

_WRITABLE_PLACES = """
import json, os
found = []
for top, names, _ in os.walk("/"):
    if top.count("/") > 3 or top.startswith(("/proc", "/sys")):
        names.clear()
        continue
    try:
        path = os.path.join(top, ".written-by-a-box")
        with open(path, "w"):
            pass
        os.unlink(path)
        found.append(top)
    except OSError:
        pass
print(json.dumps(found))
"""

_WRITABLE_SETTINGS = """
import json, os
found = []
for top, _, names in os.walk("/proc/sys"):
    for path in (os.path.join(top, name) for name in names):
        try:
            os.close(os.open(path, os.O_WRONLY))
            found.append(path)
        except OSError:
            pass
print(json.dumps(found))
"""

_NETLINK = """
import json, socket
opened = []
for protocol in range(32):
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
        opened.append(protocol)
    except OSError:
        pass
print(json.dumps(opened))
"""

_OTHERS_OPENED = """
import json, os
opened = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    for name in ("fd/0", "fd/1", "mem"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK))
            with open(f"/proc/{pid}/cmdline") as line:
                opened.append([pid, name, line.read().replace(chr(0), " ")])
        except OSError:
            pass
print(json.dumps(opened))
"""

_CONNECT = """
import socket, sys
kind, address = sys.argv[1], sys.argv[2]
try:
    if kind == "tcp":
        socket.create_connection(("127.0.0.1", int(address)), 2).close()
    elif kind == "abstract":
        socket.socket(socket.AF_UNIX).connect(chr(0) + address)
    elif kind == "path":
        socket.socket(socket.AF_UNIX).connect(address)
    elif kind == "name":
        socket.getaddrinfo(address, 80)
    elif kind == "route":
        socket.create_connection((address, 80), 2).close()
    elif kind == "raw":
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    elif kind == "packet":
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    elif kind == "vsock":
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    print("reached")
except OSError as error:
    print("refused", type(error).__name__, error)
"""


@asynccontextmanager
async def open_box(backend: SandboxBackend, spec: BoxSpec) -> AsyncIterator[Box]:
    """A box for one test, closed after it."""
    box = await backend.start(spec)
    try:
        yield box
    finally:
        await box.close()


async def bash(box: Box, line: str) -> CommandResult:
    """Run a shell line."""
    return await box.run(shell_command(line))


async def python(box: Box, code: str, *arguments: str) -> str:
    """What a piece of Python printed, without the last line's end.

    Raises:
        AssertionError: it failed.
    """
    result = await box.run(Command(("python3", "-c", code, *arguments)))
    assert result.ok, result.stderr.text
    return result.stdout.text.rstrip("\n")


def workspace_in(folder: Path) -> Path:
    """A small project on the host."""
    root = folder / "project"
    (root / "data").mkdir(parents=True)
    (root / "data" / "table.csv").write_text("a,b\n1,2\n")
    (root / "notes.md").write_text("notes\n")
    return root


class WallsConformance:
    """Sight and power: what a box sees of the host, and what it may ask of the system."""

    image: str | None = None
    """Image for back-ends that have images; it needs bash, coreutils and Python."""

    private_places: tuple[str, ...] = (
        *("/etc/shadow", "/etc/gshadow", "/run/docker.sock", "/var/run/docker.sock", "/root/.ssh", "/root/.bashrc"),
    )
    """What nobody in a box may read."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        """A small project on the host."""
        return workspace_in(tmp_path)

    @classmethod
    def spec_of(cls, workspace: Path) -> BoxSpec:
        """The box that most tests look at."""
        return BoxSpec(workspace=workspace, image=cls.image)

    @classmethod
    def spec_in(cls, folder: Path) -> BoxSpec:
        """Likewise, with a project that is made in `folder`."""
        return cls.spec_of(workspace_in(folder))

    @pytest.fixture
    def spec(self, workspace: Path) -> BoxSpec:
        """The box that most tests start."""
        return self.spec_of(workspace)

    @pytest.fixture
    async def box(self, backend: SandboxBackend, spec: BoxSpec) -> AsyncIterator[Box]:
        """A box for those who only look; with `LendsBoxes`, one that others have looked at before."""
        async with open_box(backend, spec) as box:
            yield box

    # ------------------------------------------------------------------ sight

    async def test_files_outside_the_project_cannot_be_read(
        self, backend: SandboxBackend, spec: BoxSpec, tmp_path: Path
    ) -> None:
        secret = f"secret-{secrets.token_hex(8)}"
        places = [
            Path.home() / f"{secret}.txt",
            Path(os.environ.get("KAGURA_HOME", str(Path.home() / ".local/share"))) / f"{secret}.db",
            Path(os.environ.get("XDG_RUNTIME_DIR", str(tmp_path))) / f"{secret}.token",
            tmp_path / f"{secret}.neighbour",
        ]
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(secret)
            place.chmod(0o644)
        async with open_box(backend, spec) as box:
            assert (await bash(box, "cat /workspace/notes.md")).stdout.text == "notes\n"
            for place in places:
                assert not (await bash(box, f"cat '{place}'")).ok
            found = await bash(box, _FIND.format(secret))
            # The shell that looks is the only one that knows the word.
            assert found.stdout.data == b""

    async def test_private_places_of_the_system_cannot_be_read(self, box: Box) -> None:
        for path in self.private_places:
            assert not (await bash(box, f"cat {path} || python3 -c 'import os; os.listdir(\"{path}\")'")).ok, path

    async def test_only_the_workspace_and_scratch_space_can_be_written(self, box: Box) -> None:
        home = (await bash(box, "echo -n $HOME")).stdout.text
        places = json.loads(await python(box, _WRITABLE_PLACES))
        allowed = ("/workspace", "/tmp", "/dev/shm", home)  # noqa: S108 - places in the box
        assert [place for place in places if not place.startswith(allowed)] == []
        assert {"/workspace", "/tmp", home} <= set(places)  # noqa: S108 - likewise

    async def test_no_setting_of_the_system_can_be_written(self, box: Box) -> None:
        assert (await bash(box, "cat /proc/sys/kernel/ostype")).stdout.text == "Linux\n"
        assert json.loads(await python(box, _WRITABLE_SETTINGS)) == []

    async def test_protected_parts_of_the_project_refuse_to_be_changed(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path
    ) -> None:
        (workspace / ".git" / "hooks").mkdir(parents=True)
        (workspace / ".git" / "config").write_text("[core]\n")
        tries = ["touch .git/new", "touch .git/hooks/new", "echo x >> .git/config", "rm .git/config", "rm -rf .git"]
        async with open_box(backend, spec) as box:
            for line in tries:
                assert not (await bash(box, line)).ok, line
            assert (await bash(box, "cat .git/config")).stdout.text == "[core]\n"

    async def test_own_parts_of_the_project_change_for_the_box_alone(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path
    ) -> None:
        (workspace / ".git" / "refs").mkdir(parents=True)
        (workspace / ".git" / "config").write_text("[core]\n")
        before = _tree(workspace)
        own = replace(spec, policy=SandboxPolicy(read_only_subpaths=(".kagura",), own_subpaths=(".git",)))
        async with open_box(backend, own) as box:
            line = "echo x >> .git/config && touch .git/refs/new && mv .git/config .git/other && echo more >> notes.md"
            result = await bash(box, line)
            assert result.ok, result.stderr.text
            assert {change.path for change in await box.changes()} == {"notes.md"}
        assert _tree(workspace) == before

    async def test_a_read_only_box_cannot_write_the_workspace(self, backend: SandboxBackend, spec: BoxSpec) -> None:
        policy = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)
        async with open_box(backend, replace(spec, policy=policy)) as box:
            assert (await bash(box, "cat notes.md")).ok
            assert not (await bash(box, "echo more >> notes.md || touch new")).ok
            assert (await bash(box, "touch /tmp/scratch")).ok

    async def test_a_further_directory_can_only_be_read_and_does_not_tell_where_it_lies(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path
    ) -> None:
        word = f"place-{secrets.token_hex(8)}"
        further = workspace.parent / word / "version"
        shutil.copytree(workspace, further)
        for path in (further, further / "data", further / "notes.md"):
            path.chmod(0o777)
        listener = _listener_in(further)
        before = _tree(further)
        show = replace(spec, extra_read_only=((further, "/kagura/further"),))
        async with open_box(backend, show) as box:
            for line in _CHANGE_IT:
                assert not (await bash(box, f"cd /kagura/further && {{ {line}; }}")).ok, line
            assert (await bash(box, "cat /kagura/further/notes.md")).stdout.text == "notes\n"
            told = await bash(
                box, "cd /kagura/further; cat /proc/self/mount{info,s,stats}; pwd -P; cat /proc/1/mountinfo"
            )
            assert "/workspace" in told.stdout.text
            assert word not in told.stdout.text
            assert (await python(box, _CONNECT, "path", "/kagura/further/listener")).startswith("refused")
        listener.close()
        assert _tree(further) == before

    async def test_the_project_on_the_host_stays_as_it_was(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path
    ) -> None:
        before = _tree(workspace)
        async with open_box(backend, spec) as box:
            result = await bash(box, "echo more >> notes.md && rm -r data && mkdir data && touch data/new && ls")
            assert result.ok, result.stderr.text
            assert {change.path for change in await box.changes()} == {"data/new", "data/table.csv", "notes.md"}
        assert _tree(workspace) == before

    async def test_nothing_of_the_hosts_environment_comes_in(
        self, backend: SandboxBackend, spec: BoxSpec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        canary = secrets.token_hex(12)
        monkeypatch.setenv("A_SECRET_OF_THE_HOST", canary)
        async with open_box(backend, spec) as box:
            seen = await bash(box, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
            assert "PATH=" in seen.stdout.text
            assert canary not in seen.stdout.text
            assert "A_SECRET_OF_THE_HOST" not in seen.stdout.text

    async def test_processes_of_the_host_cannot_be_seen(self, box: Box) -> None:
        canary = f"argument-{secrets.token_hex(8)}"
        host = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", canary])  # noqa: S603, ASYNC220 - ours; returns at once
        try:
            lines = (await bash(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout.text
            count = (await bash(box, "echo /proc/[0-9]* | wc -w")).stdout.text
        finally:
            host.kill()
            host.wait()
        assert canary not in lines
        assert 1 <= int(count) <= 12

    # ---------------------------------------------------------------- network

    async def test_there_is_no_interface_but_loopback(self, box: Box) -> None:
        assert await python(box, "import socket; print([name for _, name in socket.if_nameindex()])") == "['lo']"

    async def test_a_listener_on_the_hosts_loopback_cannot_be_reached(self, box: Box) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            assert (await python(box, _CONNECT, "tcp", port)).startswith("refused")

    async def test_an_abstract_socket_of_the_host_cannot_be_reached(self, box: Box) -> None:
        name = f"kagura-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{name}")
            listener.listen()
            assert (await python(box, _CONNECT, "abstract", name)).startswith("refused")

    async def test_netlink_speaks_of_interfaces_only(self, box: Box) -> None:
        assert json.loads(await python(box, _NETLINK)) == [socket.NETLINK_ROUTE]

    async def test_no_network_is_to_be_had(self, box: Box) -> None:
        for way in (("name", "example.org"), ("route", "198.18.0.1"), ("raw", ""), ("packet", ""), ("vsock", "")):
            assert (await python(box, _CONNECT, *way)).startswith("refused"), way

    # ------------------------------------------------------------------ power

    async def test_a_process_has_no_capability_and_cannot_gain_any(self, box: Box) -> None:
        status = dict(
            line.split(":\t", 1) for line in (await bash(box, "cat /proc/self/status")).stdout.text.splitlines()
        )
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert "0" not in status["Uid"].split()

    async def test_programs_that_ask_for_more_power_fail(self, box: Box) -> None:
        tries = ["su -c id", "sudo -n id", "mount -t tmpfs none /tmp", "unshare -U id", "unshare -r id"]
        for line in tries:
            assert not (await bash(box, f"{line} </dev/null")).ok, line

    async def test_a_setuid_program_gains_nothing(
        self, backend: SandboxBackend, spec: BoxSpec, workspace: Path
    ) -> None:
        planted = workspace / "setuid-id"
        shutil.copy(shutil.which("id") or "/usr/bin/id", planted)
        planted.chmod(0o4755)
        async with open_box(backend, spec) as box:
            line = "id -u; id -ru; cp setuid-id /tmp/x && chmod 4755 /tmp/x && /tmp/x -u; ./setuid-id -u"
            own, *others = (await bash(box, line)).stdout.text.split()
        assert own != "0"
        assert set(others) <= {own}

    async def test_risky_system_calls_are_refused(self, box: Box) -> None:
        # A process for each: what one changed in itself must not decide on the next.
        answers = {name: await python(box, _RAW_CALL, json.dumps(call)) for name, call in _CALLS.items()}
        assert {name: answer for name, answer in answers.items() if answer not in ("EPERM", "ENOSYS")} == {}

    async def test_a_box_is_the_first_to_go_when_the_machine_lacks_memory(self, box: Box) -> None:
        scores = (await bash(box, "cat /proc/1/oom_score_adj /proc/self/oom_score_adj")).stdout.text.split()
        assert min(map(int, scores)) >= 500

    async def test_a_command_holds_no_descriptor_but_its_own(self, box: Box) -> None:
        look = "for n in {3..199}; do [ -e /proc/$$/fd/$n ] && readlink /proc/$$/fd/$n; done; echo none"
        assert (await bash(box, look)).stdout.text == "none\n"

    async def test_a_command_cannot_reach_into_the_guest_or_its_pipe(self, box: Box) -> None:
        assert json.loads(await python(box, _OTHERS_OPENED)) == []


def _listener_in(folder: Path) -> socket.socket:
    """A socket of the host that everybody may speak to, as a file named `listener`."""
    listener = socket.socket(socket.AF_UNIX)
    there = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    # A socket's path may not be long.
    listener.bind(f"/proc/self/fd/{there}/listener")
    os.close(there)
    (folder / "listener").chmod(0o777)
    listener.listen()
    return listener


def _tree(root: Path) -> dict[str, Any]:
    """Everything below a directory, contents included."""
    return dict(_entries(root))


def _entries(root: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        yield str(path.relative_to(root)), (status.st_mode, status.st_uid, status.st_mtime_ns, content)
