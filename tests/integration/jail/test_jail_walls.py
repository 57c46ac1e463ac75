"""Plugins that no scan would let through, in real jails: what the jail alone keeps from them."""

import asyncio
import os
import secrets
import socket
import stat
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

from kagura_kernel.domain.errors import PathNotShown, PluginError, PluginFailed, PluginJailBroken
from kagura_kernel.plugins.jail import box
from kagura_kernel.plugins.jail.box import until_full
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import eventually

from .conftest import Jails, ask

MIB = 2**20

ANYTHING = """
import os, subprocess, socket, sys, time, threading

SCHEMA = {}

def create_host_functions(config):
    def run(code):
        # Whatever comes to mind.
        scope = {"config": config}
        exec(code, globals() | scope, scope)
        return scope.get("result")
    return {"small": {"run": run}}
"""
"""A plugin that does what it is told; no scan lets it through."""


async def refused(jail, code: str) -> str:
    """The kind of the error with which this ends, in the jail or with it."""
    with pytest.raises(PluginError) as caught:
        await ask(jail, "run", code)
    return caught.value.kind if isinstance(caught.value, PluginFailed) else type(caught.value).__name__


@pytest.fixture
def shown(tmp_path: Path):
    """Directories of the host, and a plan that shows them."""
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir()
    (tmp_path / "beside").mkdir()
    (tmp_path / "read" / "a.txt").write_text("a")
    (tmp_path / "one.db").write_text("one")
    (tmp_path / "secret.txt").write_text("beside")
    paths = (
        ShownPath(tmp_path / "read", "/plugin/read/0"),
        ShownPath(tmp_path / "one.db", "/plugin/read/1"),
        ShownPath(tmp_path / "write", "/plugin/write/0", writable=True),
    )
    return JailPlan(shown=paths)


@pytest_asyncio.fixture(loop_scope="module")
async def jail(jails):
    return await jails.start(ANYTHING)


# ------------------------------------------------------------------------ files


async def test_a_plugin_sees_nothing_of_the_home_of_who_runs_the_kernel(jails, tmp_path):
    marker = f"kagura-{secrets.token_hex(8)}"
    (tmp_path / marker).write_text("private")
    jail = await jails.start(ANYTHING)
    home = str(Path.home())
    seen = await ask(
        jail,
        "run",
        f"result = [os.path.exists({str(tmp_path / marker)!r}), os.path.exists({home + '/.ssh'!r}), "
        "os.path.expanduser('~'), sorted(os.listdir('/home'))]",
    )
    assert seen == [False, False, "/home/agent", ["agent"]]


async def test_its_environment_holds_nothing_of_the_kernels(jails, monkeypatch):
    monkeypatch.setenv("KAGURA_TEST_SECRET", "hidden")
    jail = await jails.start(ANYTHING)
    found = await ask(jail, "run", "result = dict(os.environ)")
    assert "hidden" not in str(found)
    # What every command in a box has, and nothing that leads anywhere.
    usual = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_CTYPE", "TERM", "TMPDIR", "PWD", "KAGURA_COMMAND"}
    assert set(found) - usual <= {"PYTHONDONTWRITEBYTECODE", "PYTHONUSERBASE", "VIRTUAL_ENV"}


async def test_what_is_shown_to_read_can_be_read_and_not_changed(jails, shown):
    jail = await jails.start(ANYTHING, shown)
    code = "result = [open('/plugin/read/0/a.txt').read(), open('/plugin/read/1').read(), os.listdir('/plugin/read/0')]"
    assert await ask(jail, "run", code) == ["a", "one", ["a.txt"]]
    for attempt in (
        "open('/plugin/read/0/new', 'w')",
        "open('/plugin/read/0/a.txt', 'a')",
        "open('/plugin/read/1', 'r+')",
        "os.unlink('/plugin/read/0/a.txt')",
        "os.chmod('/plugin/read/0/a.txt', 0o777)",
        "os.utime('/plugin/read/0/a.txt')",
        "os.rename('/plugin/read/0/a.txt', '/plugin/read/0/b.txt')",
        "open('/plugin/new', 'w')",
        "os.mkdir('/plugin/read/2')",
    ):
        assert await refused(jail, attempt) in ("OSError", "PermissionError"), attempt


async def test_what_it_writes_where_it_may_belongs_to_the_owner_of_the_directory(jails, shown, tmp_path):
    jail = await jails.start(ANYTHING, shown)
    await ask(jail, "run", "os.mkdir('/plugin/write/0/d'); open('/plugin/write/0/d/f', 'w').write('new')")
    made = tmp_path / "write" / "d" / "f"
    assert made.read_text() == "new"
    assert (made.stat().st_uid, made.stat().st_gid) == (os.geteuid(), os.getegid())
    # It is no copy: what changes outside is there at once, and what it makes is there for others.
    made.write_text("changed")
    assert await ask(jail, "run", "result = open('/plugin/write/0/d/f').read()") == "changed"


async def test_a_link_it_makes_leads_it_nowhere(jails, shown, tmp_path):
    jail = await jails.start(ANYTHING, shown)
    for place in (tmp_path / "secret.txt", Path("/etc/shadow"), tmp_path / "beside"):
        await ask(jail, "run", f"os.symlink({str(place)!r}, '/plugin/write/0/{place.name}')")
        assert await refused(jail, f"os.stat('/plugin/write/0/{place.name}')") in ("FileNotFoundError", "OSError")
    assert await refused(jail, "open('/plugin/write/0/../../secret.txt')") == "FileNotFoundError"
    assert await refused(jail, "os.link('/plugin/read/0/a.txt', '/plugin/write/0/a')") == "OSError"


async def test_what_it_writes_cannot_be_run_there_nor_run_as_its_owner_outside(jails, shown, tmp_path):
    jail = await jails.start(ANYTHING, shown)
    await ask(jail, "run", "open('/plugin/write/0/p', 'w').write('#!/bin/sh\\n'); os.chmod('/plugin/write/0/p', 0o755)")
    for attempt in (
        "subprocess.run(['/plugin/write/0/p'])",
        "os.chmod('/plugin/write/0/p', 0o4755)",
        "os.chmod('/plugin/write/0/p', 0o2755)",
        "os.open('/plugin/write/0/q', os.O_CREAT | os.O_WRONLY, 0o4755)",
        "os.fchmod(os.open('/plugin/write/0/p', os.O_RDONLY), 0o6755)",
        "os.mknod('/plugin/write/0/r', 0o104755)",
        "os.mknod('/plugin/write/0/device', 0o60600, os.makedev(8, 0))",
        "import ctypes; ctypes.CDLL(None).syscall(452, -100, b'/plugin/write/0/p', 0o4755, 0); raise PermissionError",
    ):
        assert await refused(jail, attempt) == "PermissionError", attempt
    assert not [path for path in (tmp_path / "write").iterdir() if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


async def test_a_service_that_listens_in_a_shown_directory_cannot_be_spoken_to(jails, shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listening = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for one, place in zip(listening, ("read/s", "write/s", "beside/s"), strict=True):
        one.bind(place)
        one.listen()
    try:
        jail = await jails.start(ANYTHING, shown)
        for place in ("read/0/s", "write/0/s"):
            attempt = f"socket.socket(socket.AF_UNIX).connect('/plugin/{place}')"
            assert await refused(jail, attempt) == "OSError"
        # What asyncio needs is there.
        assert await ask(jail, "run", "result = len(socket.socketpair())") == 2
    finally:
        for one in listening:
            one.close()


async def test_a_path_that_became_a_link_is_not_shown(jails, shown, tmp_path):
    (tmp_path / "read").rename(tmp_path / "moved")
    (tmp_path / "read").symlink_to("/etc")
    with pytest.raises(PathNotShown, match="is a link"):
        await jails.start(ANYTHING, shown)


async def test_a_directory_swapped_while_the_jail_runs_stays_the_one_that_was_shown(jails, shown, tmp_path):
    jail = await jails.start(ANYTHING, shown)
    (tmp_path / "read").rename(tmp_path / "moved")
    (tmp_path / "read").symlink_to("/etc")
    assert await ask(jail, "run", "result = os.listdir('/plugin/read/0')") == ["a.txt"]


# ----------------------------------------------------------------------- network


@pytest.fixture
def listener():
    """A server of the host on its loopback: its port, and who has come."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    came.append(connection.recv(100))
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


async def test_without_permissions_there_is_no_way_out_at_all(jails, listener):
    port, came = listener
    jail = await jails.start(ANYTHING)
    for attempt in (
        f"socket.create_connection(('127.0.0.1', {port}), 5)",
        "socket.create_connection(('127.0.0.1', 3179), 5)",
        "socket.create_connection(('198.18.0.1', 80), 5)",
        "socket.getaddrinfo('example.org', 443)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('198.18.0.1', 53))",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    ):
        assert await refused(jail, attempt) in ("ConnectionRefusedError", "OSError", "gaierror", "PermissionError")
    assert came == []


CONNECT = """
with socket.create_connection(('127.0.0.1', 3179), 20) as way:
    way.sendall(b'CONNECT {place} HTTP/1.1\\r\\n\\r\\n')
    result = way.recv(2000).decode()
    if ' 200 ' in result.partition('\\r')[0]:
        way.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
        result = way.recv(2000).decode()
"""


async def test_what_is_permitted_is_reached_by_the_proxy_and_nothing_else_is(jails, listener):
    port, came = listener
    plan = JailPlan(net=(NetRule("exact", "127.0.0.1", port), NetRule("name", "inside.test", 443)))
    looked_up: list[str] = []

    async def resolver(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return ["10.0.0.1", "169.254.169.254", "127.0.0.1"]

    jail = await jails.start(ANYTHING, plan, resolver=lambda: resolver)
    assert "hello" in await ask(jail, "run", CONNECT.format(place=f"127.0.0.1:{port}"))
    assert len(came) == 1
    for place in (f"127.0.0.1:{port + 1}", "outside.test:443", "inside.test:80", "localhost:22", "www.inside.test:443"):
        assert "403" in await ask(jail, "run", CONNECT.format(place=place)), place
    # A name that is not permitted is never looked up: that would tell somebody.
    assert looked_up == ["www.inside.test"]
    assert {fact.plugin for fact in jails.crossed} == {"small-plugin"}
    assert [fact.host for fact in jails.crossed if getattr(fact, "allowed", False)] == ["127.0.0.1"]
    found = await ask(jail, "run", "result = os.environ['HTTPS_PROXY']")
    assert found == "http://127.0.0.1:3179"


# --------------------------------------------------------------------- processes


async def test_no_process_outlives_its_jail(jail):
    marker = f"kagura-{secrets.token_hex(8)}"
    code = f"""
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv('/bin/sh', ['sh', '-c', 'trap "" TERM HUP INT; while :; do sleep 1; done', '{marker}'])
        os._exit(0)
"""
    await ask(jail, "run", code)
    await eventually(lambda: len(processes_with(marker)) == 3)
    await jail.close()
    await eventually(lambda: not processes_with(marker))


async def test_a_jail_whose_call_took_too_long_leaves_no_process(jails):
    clock = FakeClock()
    jail = await jails.start(ANYTHING, clock=clock)
    marker = f"kagura-{secrets.token_hex(8)}"
    code = f"subprocess.run(['/bin/sh', '-c', 'while :; do sleep 1; done', '{marker}'])"
    task = asyncio.ensure_future(ask(jail, "run", code))
    await eventually(lambda: processes_with(marker))
    await clock.advance(31)
    with pytest.raises(PluginError):
        await task
    await eventually(lambda: not processes_with(marker))


async def test_a_fork_bomb_stays_in_the_jail(jail, jails):
    code = """
for _ in range(1000):
    if os.fork() == 0:
        time.sleep(3600)
"""
    assert await refused(jail, code) in ("BlockingIOError", "PluginJailBroken")
    # The host, and another jail, have processes to start.
    other = await jails.start(ANYTHING)
    assert (
        await ask(other, "run", "result = subprocess.run(['echo', 'x'], capture_output=True).stdout.decode()") == "x\n"
    )


async def test_a_bomb_that_outruns_its_own_caller_ends_with_the_jail(jail):
    marker = f"kagura-{secrets.token_hex(8)}"
    bomb = f"import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n# {marker}"
    await ask(jail, "run", f"subprocess.Popen(['python3', '-c', {bomb!r}]); result = 1")
    await eventually(lambda: len(processes_with(marker)) > 10)
    await jail.close()
    await eventually(lambda: not processes_with(marker))


async def test_it_sees_no_process_but_its_own(jail):
    seen = await ask(
        jail,
        "run",
        "result = [open(f'/proc/{n}/cmdline').read() for n in os.listdir('/proc') if n.isdigit() "
        "and os.path.exists(f'/proc/{n}/cmdline') and n not in ('1', str(os.getpid()))]",
    )
    assert [line for line in seen if line] == []


@pytest.mark.parametrize(
    "attempt",
    [
        "os.listdir('/proc/1/fd')",
        "open('/proc/1/environ').read()",
        "open('/proc/1/mem', 'rb')",
        "open('/proc/1/fd/0', 'rb')",
        "open('/proc/1/fd/1', 'wb').write(b'garbage')",
        "os.readlink('/proc/1/cwd')",
        "os.listdir('/proc/1/root')",
        "import signal; os.kill(1, signal.SIGKILL); os.listdir('/proc/1/fd')",
        "open('/proc/sys/kernel/hostname', 'w')",
        "open('/proc/self/oom_score_adj', 'w').write('-1000')",
    ],
)
async def test_the_guest_and_the_kernel_below_are_out_of_its_reach(jail, attempt):
    assert await refused(jail, attempt) in ("PermissionError", "OSError")
    assert await ask(jail, "run", "result = 1") == 1


@pytest.mark.parametrize(
    "name", ["unshare", "mount", "ptrace", "bpf", "io_uring_setup", "keyctl", "setns", "userfaultfd"]
)
async def test_system_calls_that_open_walls_are_refused(jails, name):
    numbers = {
        "unshare": 272,
        "mount": 165,
        "ptrace": 101,
        "bpf": 321,
        "io_uring_setup": 425,
        "keyctl": 250,
        "setns": 308,
        "userfaultfd": 323,
    }
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    jail = await jails.start(ANYTHING)
    code = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True); "
        f"returned = libc.syscall({numbers[name]}, 0x10000000, 0, 0, 0, 0); "
        "result = [returned, errno.errorcode.get(ctypes.get_errno())]"
    )
    returned, why = await ask(jail, "run", code)
    assert (returned, why) in [(-1, "EPERM"), (-1, "ENOSYS")]


# ------------------------------------------------------------------ memory, disk


async def test_all_of_its_memory_is_bounded(jails):
    jail = await jails.start(ANYTHING, memory_mib=128)
    code = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    assert await refused(jail, code) in ("MemoryError", "PluginJailBroken")
    assert await ask(jail, "run", "result = 1") == 1


async def memory_is_counted(jails: Jails) -> bool:
    box = await jails.backend.start(BoxSpec())
    await box.close()
    return not any("memory is limited for each process" in note for note in box.notes)


async def test_the_memory_of_many_processes_is_bounded_together(jails):
    jail = await jails.start(ANYTHING, memory_mib=128)
    if not await memory_is_counted(jails):
        pytest.skip("memory is not counted here")
    code = """
for _ in range(20):
    if os.fork() == 0:
        x = []
        while True: x.append(bytearray(1 << 20))
for _ in range(20):
    os.wait()
"""
    with pytest.raises(PluginJailBroken):
        await ask(jail, "run", code + "os._exit(9)")
    assert await ask(jail, "run", "result = 1") == 1


@pytest.mark.parametrize("place", ["/tmp", "/home/agent", "/dev/shm", "/workspace", "/var/tmp", "/plugin", "/", "/run"])
async def test_what_it_can_fill_is_its_own_memory(jail, place):
    code = f"""
result = 0
try:
    with open('{place}/fill', 'wb') as file:
        while result < {1024 * MIB}:
            result += file.write(bytes(1 << 20))
            file.flush()
except OSError:
    pass
"""
    try:
        written = await ask(jail, "run", code)
    except PluginJailBroken:
        written = 0
    assert written < 256 * MIB


async def test_a_file_where_it_may_write_has_a_largest_size(jails, shown, tmp_path):
    jail = await jails.start(ANYTHING, shown)
    # A hole takes no room, and is bounded alike.
    assert await refused(jail, "os.truncate(os.open('/plugin/write/0/f', os.O_CREAT | os.O_RDWR, 0o600), 1 << 40)") in (
        "OSError",
        "PluginJailBroken",
    )
    assert not (tmp_path / "write" / "f").exists() or (tmp_path / "write" / "f").stat().st_size <= 512 * MIB


async def test_a_plugin_that_fills_a_disk_of_the_host_loses_its_jail_before_it_is_full(
    jails, shown, tmp_path, monkeypatch
):
    def look(path: Path) -> SimpleNamespace:
        """As though the directory had a disk of 200 MiB to itself."""
        used = sum(one.stat().st_size for one in path.iterdir()) // MIB
        return SimpleNamespace(f_blocks=200, f_frsize=MIB, f_bavail=200 - used, f_files=0, f_favail=0)

    monkeypatch.setattr(box, "until_full", partial(until_full, look=look))
    jail = await jails.start(ANYTHING, shown)
    code = "for n in range(4_000): open(f'/plugin/write/0/{n % 400}', 'wb').write(bytes(1 << 20)); time.sleep(0.001)"
    with pytest.raises(PluginJailBroken, match="MiB left"):
        await ask(jail, "run", code)
    # What it holds open is gone with it: nothing more is written.
    await jail.close()
    assert len(list((tmp_path / "write").iterdir())) < 400


async def test_a_plugin_that_prints_without_end_loses_its_jail(jail):
    with pytest.raises(PluginJailBroken, match="printed without end"):
        await ask(jail, "run", "while True: print('x' * 100_000)")
    assert len(jail.log) < 66_000
    assert await ask(jail, "run", "result = 1") == 1


async def test_a_function_that_takes_the_interpreter_along_is_ended(jails):
    clock = FakeClock()
    jail = await jails.start(ANYTHING, clock=clock)
    # Nothing else of the process runs meanwhile, the thread that reads requests neither.
    stuck = asyncio.ensure_future(ask(jail, "run", "print('stuck', flush=True)\n(1 << 40_000_000) ** 3"))
    await eventually(lambda: "stuck" in jail.log)
    await clock.advance(31)
    with pytest.raises(PluginError):
        await stuck
    assert await ask(jail, "run", "result = 1") == 1
