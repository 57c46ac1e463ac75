"""What Docker refuses to a container by default is refused in a bubblewrap box, by calling every one of them."""

import json
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.docker_images import DEBIAN, client_of, ensure_images
from tests.support.dockerd import TestDaemon

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")

ROOT_CAN_BE_WRITABLE = os.geteuid() == 0 and Path("/var/lib/dpkg/status").exists()

_TABLE = """
    syslog=103 uselib=134 ustat=136 sysfs=139 vhangup=153 pivot_root=155 _sysctl=156 chroot=161 acct=163
    settimeofday=164 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 sethostname=170 setdomainname=171
    iopl=172 ioperm=173 create_module=174 init_module=175 delete_module=176 get_kernel_syms=177
    query_module=178 quotactl=179 nfsservctl=180 getpmsg=181 putpmsg=182 afs_syscall=183 tuxcall=184
    security=185 lookup_dcookie=212 clock_settime=227 vserver=236 mbind=237 set_mempolicy=238
    get_mempolicy=239 kexec_load=246 add_key=248 request_key=249 keyctl=250 migrate_pages=256 unshare=272
    move_pages=279 perf_event_open=298 fanotify_init=300 open_by_handle_at=304 setns=308 kcmp=312
    finit_module=313 kexec_file_load=320 bpf=321 userfaultfd=323 open_tree=428 move_mount=429 fsopen=430
    fsconfig=431 fsmount=432 fspick=433 clone3=435 pidfd_getfd=438 process_madvise=440 mount_setattr=442
    quotactl_fd=443 set_mempolicy_home_node=450
"""
DENIED = {name: int(number) for name, _, number in (word.partition("=") for word in _TABLE.split())}
"""Refused by Docker's default profile to a container without capabilities, whatever the arguments."""

# Refused for some arguments only: what to ask for.
DENIED_SO = {
    "clone(CLONE_NEWUSER)": (56, 0x10000011),
    "clone(CLONE_NEWNS)": (56, 0x00020011),
    "socket(AF_VSOCK)": (41, 40, 1, 0),
    "personality(ADDR_NO_RANDOMIZE)": (135, 0x40000),
}
# Let through by the filter, whatever the kernel then says of these arguments: else the table would prove nothing.
ALLOWED = {"getpid": 39, "read": 0, "dup": 32, "fchdir": 81, "epoll_ctl": 233, "ioctl": 16, "memfd_create": 319}

CALL_THEM = """
import ctypes, errno, json, sys
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
for name, (number, *arguments) in json.loads(sys.argv[1]).items():
    # Impossible arguments where none are given: a call that is let through complains of them and does no harm.
    words = [ctypes.c_long(value) for value in arguments or [-1] * 6]
    result = libc.syscall(ctypes.c_long(number), *words)
    answers[name] = "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
print(json.dumps(answers))
"""


async def ask(backend: BubblewrapBackend, calls: dict[str, list[int]], *, writable_root: bool) -> dict[str, str]:
    """What the system answers to these calls in a box, each with its number and its arguments."""
    box = await backend.start(BoxSpec(writable_root=writable_root))
    result = await box.run(Command(("python3", "-c", CALL_THEM, json.dumps(calls))))
    assert result.ok, result.stderr.text
    return json.loads(result.stdout.text)


@pytest.mark.parametrize("writable_root", [False, True], ids=["a box", "a box whose root is writable"])
async def test_every_call_that_docker_refuses_is_refused(backend, writable_root):
    if writable_root and not ROOT_CAN_BE_WRITABLE:
        pytest.skip("a writable root needs root on a Debian system")
    calls = {name: [number] for name, number in DENIED.items()} | {name: list(call) for name, call in DENIED_SO.items()}
    answers = await ask(backend, calls, writable_root=writable_root)
    assert set(answers) == set(calls)
    # A family of sockets that is not there is told by its own error.
    fine = {"EPERM", "ENOSYS", "EAFNOSUPPORT"}
    assert {name: answer for name, answer in answers.items() if answer not in fine} == {}
    others = await ask(backend, {name: [number] for name, number in ALLOWED.items()}, writable_root=writable_root)
    assert {name: answer for name, answer in others.items() if answer in ("EPERM", "ENOSYS")} == {}


@pytest.fixture
def allowed_by_docker(docker_daemon: TestDaemon) -> Iterator[set[str]]:
    """The calls that a container without capabilities may make under the profile that Docker itself comes with."""
    ensure_images(docker_daemon, ("base",))
    client = client_of(docker_daemon)
    container = client.containers.run(DEBIAN, ["sleep", "600"], detach=True, cap_drop=["ALL"], network_mode="none")
    try:
        # What the daemon made of its profile for this very container, as its runtime is told.
        (file,) = docker_daemon.home.glob(f"containerd/*/moby/{container.id}/config.json")
        profile = json.loads(file.read_text())["linux"]["seccomp"]
        assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
        rules = [rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
        yield {name for rule in rules for name in rule["names"]}
    finally:
        container.remove(force=True)
        client.close()


@pytest.mark.docker
def test_the_table_is_what_docker_refuses(allowed_by_docker):
    """Compared with the daemon that is installed here; an older one refuses more that is new since, never less."""
    assert allowed_by_docker & set(DENIED) == set()
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the list of all calls is not installed: apt install linux-libc-dev")
    known = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)", header.read_text()))
    assert {name: int(known[name]) for name in DENIED if name in known} == {
        name: number for name, number in DENIED.items() if name in known
    }
    refused = {name for name in known if name not in allowed_by_docker}
    # What an older daemon's profile does not know yet, or not yet allow, is all that it may refuse besides.
    assert refused - set(DENIED) <= NEWER


NEWER = {
    *("name_to_handle_at", "process_vm_readv", "process_vm_writev", "ptrace"),
    *("close_range", "epoll_pwait2", "faccessat2", "futex_waitv", "landlock_add_rule", "landlock_create_ruleset"),
    *("landlock_restrict_self", "memfd_secret", "pidfd_open", "process_mrelease", "cachestat", "fchmodat2"),
    *("pkey_alloc", "pkey_free", "pkey_mprotect", "futex_wake", "futex_wait", "futex_requeue", "map_shadow_stack"),
}
