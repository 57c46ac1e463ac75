"""The system calls a box may not make, as a program for the kernel's filter.

Docker's default profile is the measure: whatever it refuses to a container without capabilities is refused here, and
beyond it what our own Docker boxes refuse as well: io_uring and its forerunner, ptrace, segments of one's own, memory
hidden from the kernel, security modules, and everything that makes a namespace. A number newer than the newest known
one does not exist in a box (`ENOSYS`), so that a newer kernel opens no new door. Foreign architectures end the process.

A box that sees files of the host as they are (`BoxSpec.shown`) may not make sockets that are found by a file's name,
since a service of the host may listen there, nor files that run as their owner, who is somebody outside.

A box with a writable root has the same filter: dpkg and apt need owners and modes of files, which no filter refuses to
anyone, and none of the calls named here; making a device is left to the kernel, which gives that power to nobody there.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000

# struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6], little-endian on both machines.
_NR, _ARCH, _ARGS = 0, 4, 16

# BPF opcodes, classic: class | size | mode and class | operation | source.
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_ABOVE = 0x15, 0x25

# CLONE_NEWNS … CLONE_NEWNET; CLONE_NEWTIME shares its bit with the exit signal and cannot be asked for in clone.
NEW_NAMESPACES = 0x7E020000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# PER_LINUX, PER_LINUX32, UNAME26, both, and the question what it is.
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16


def _numbers(table: str) -> dict[str, int]:
    return {name: int(number) for name, number in (word.split(":") for word in table.split())}


# Numbers that both machines share: everything since the unified table of Linux 5.1.
_COMMON = _numbers("""
    io_uring_setup:425 io_uring_enter:426 io_uring_register:427 open_tree:428 move_mount:429 fsopen:430
    fsconfig:431 fsmount:432 fspick:433 clone3:435 pidfd_getfd:438 process_madvise:440 mount_setattr:442
    quotactl_fd:443 memfd_secret:447 process_mrelease:448 set_mempolicy_home_node:450 statmount:457
    listmount:458 lsm_get_self_attr:459 lsm_set_self_attr:460 lsm_list_modules:461 open_tree_attr:467
""")

_X86_64 = _numbers("""
    socket:41 socketpair:53 clone:56 ioctl:16 personality:135 ptrace:101 syslog:103 uselib:134 ustat:136
    sysfs:139 vhangup:153 modify_ldt:154 pivot_root:155 _sysctl:156 adjtimex:159 chroot:161 acct:163
    settimeofday:164 mount:165 umount2:166 swapon:167 swapoff:168 reboot:169 sethostname:170 setdomainname:171
    iopl:172 ioperm:173 create_module:174 init_module:175 delete_module:176 get_kernel_syms:177 query_module:178
    quotactl:179 nfsservctl:180 getpmsg:181 putpmsg:182 afs_syscall:183 tuxcall:184 security:185 io_setup:206
    io_destroy:207 io_getevents:208 io_submit:209 io_cancel:210 lookup_dcookie:212 clock_settime:227 vserver:236
    mbind:237 set_mempolicy:238 get_mempolicy:239 kexec_load:246 add_key:248 request_key:249 keyctl:250
    migrate_pages:256 unshare:272 move_pages:279 perf_event_open:298 fanotify_init:300 fanotify_mark:301
    name_to_handle_at:303 open_by_handle_at:304 clock_adjtime:305 setns:308 process_vm_readv:310
    process_vm_writev:311 kcmp:312 finit_module:313 kexec_file_load:320 bpf:321 userfaultfd:323
    io_pgetevents:333
""")

_AARCH64 = _numbers("""
    socket:198 socketpair:199 clone:220 ioctl:29 personality:92 io_setup:0 io_destroy:1 io_submit:2 io_cancel:3
    io_getevents:4 lookup_dcookie:18 umount2:39 mount:40 pivot_root:41 nfsservctl:42 chroot:51 vhangup:58
    quotactl:60 acct:89 unshare:97 kexec_load:104 init_module:105 delete_module:106 clock_settime:112 syslog:116
    ptrace:117 reboot:142 sethostname:161 setdomainname:162 settimeofday:170 adjtimex:171 add_key:217
    request_key:218 keyctl:219 swapon:224 swapoff:225 mbind:235 get_mempolicy:236 set_mempolicy:237
    migrate_pages:238 move_pages:239 perf_event_open:241 fanotify_init:262 fanotify_mark:263
    name_to_handle_at:264 open_by_handle_at:265 clock_adjtime:266 setns:268 process_vm_readv:270
    process_vm_writev:271 kcmp:272 finit_module:273 bpf:280 userfaultfd:282 io_pgetevents:292
    kexec_file_load:294
""")

# A call whose mode lies in memory, which cannot be looked at.
_UNSEEN = {"openat2": 437}
_RUNS_AS_OWNER = 0o6000

# Refused by their arguments, or with another answer than EPERM; everything else in the tables is refused outright.
_CONDITIONAL = ("socket", "socketpair", "clone", "ioctl", "personality", "clone3")


@dataclass(frozen=True, slots=True)
class Machine:
    """One architecture as this filter knows it."""

    audit: int  # its audit number
    calls: Mapping[str, int]  # numbers of the calls that are refused, always or by their arguments
    newest: int  # the newest number that is known
    # Numbers of what makes memory without a mapping, which no limit of a process knows: refused where nobody counts a
    # box's memory as a whole.
    uncounted: Mapping[str, int]
    modes: Mapping[str, tuple[int, int]]  # calls that give a file its mode: the number, and which argument that is


MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        calls=_X86_64 | _COMMON,
        newest=467,
        uncounted=_numbers("shmget:29 memfd_create:319"),
        modes={
            "open": (2, 2),
            "creat": (85, 1),
            "chmod": (90, 1),
            "fchmod": (91, 1),
            "mknod": (133, 1),
            "openat": (257, 3),
            "mknodat": (259, 2),
            "fchmodat": (268, 2),
            "fchmodat2": (452, 2),
        },
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        calls=_AARCH64 | _COMMON,
        newest=467,
        uncounted=_numbers("shmget:194 memfd_create:279"),
        modes={"mknodat": (33, 2), "fchmod": (52, 1), "fchmodat": (53, 2), "openat": (56, 3), "fchmodat2": (452, 2)},
    ),
}
"""By `platform.machine()`; other machines have no filter and hence no box."""


@cache
def filter_program(machine: str | None = None, *, counted: bool = True, shares_files: bool = False) -> bytes:
    """The filter as `struct sock_filter[]`, which is what `bwrap --seccomp` reads; built once.

    Where no control group has `counted` the memory of the box, memory that belongs to no process cannot be had: the
    limit of each process would not hold it, and when the machine runs out of memory nobody would be found who uses it.
    `shares_files` is for a box that sees files of the host as they are. Raises `KeyError` for an unknown machine.
    """
    known = MACHINES[machine or platform.machine()]
    lines = [*_load(_ARCH), *_unless_equal(known.audit, _KILL_PROCESS), *_load(_NR)]
    # Covers x32 as well, whose numbers carry bit 30.
    lines += _when_above(known.newest, _ERRNO | ENOSYS)
    refused = {number for name, number in known.calls.items() if name not in _CONDITIONAL}
    for number in sorted(refused if counted else refused.union(known.uncounted.values())):
        lines += _when_equal(number, _ERRNO | EPERM)
    # libc falls back to clone, whose flags a filter can see.
    lines += _when_equal(known.calls["clone3"], _ERRNO | ENOSYS)
    if shares_files:
        lines += _sharing(known)
    for name, check in _argument_checks().items():
        lines += _skip_unless(known.calls[name], check)
    lines += _return(_ALLOW)
    return b"".join(lines)


def _sharing(known: Machine) -> list[bytes]:
    """What is asked beside in a box that shares files; a verdict where one is refused, else the call's number again."""
    lines = [line for number in _UNSEEN.values() for line in _when_equal(number, _ERRNO | ENOSYS)]
    no_names = [*_load_argument(0), *_when_equal(AF_UNIX, _ERRNO | EAFNOSUPPORT), *_load(_NR)]
    lines += _skip_unless(known.calls["socket"], no_names)
    for number, place in known.modes.values():
        plain = [*_load_argument(place), *_statement(_AND, _RUNS_AS_OWNER), *_unless_equal(0, _ERRNO | EPERM)]
        lines += _skip_unless(number, [*plain, *_load(_NR)])
    return lines


def _argument_checks() -> dict[str, list[bytes]]:
    """What is asked of a call's arguments; each check ends in a verdict."""
    family = [
        *_load_argument(0),
        *(line for number in (AF_UNIX, AF_INET, AF_INET6) for line in _when_equal(number, _ALLOW)),
        *_unless_equal(AF_NETLINK, _ERRNO | EAFNOSUPPORT),
        *_load_argument(2),  # only NETLINK_ROUTE, which getifaddrs uses
        *_unless_equal(0, _ERRNO | EAFNOSUPPORT),
        *_return(_ALLOW),
    ]
    return {
        "socket": family,
        "socketpair": family,
        "clone": [
            *_load_argument(0),
            *_statement(_AND, NEW_NAMESPACES),
            *_unless_equal(0, _ERRNO | EPERM),
            *_return(_ALLOW),
        ],
        # The kernel takes an ioctl's request and a personality as 32 bits: the lower half is all there is to compare.
        "ioctl": [
            *_load_argument(1),
            *_when_equal(TIOCSTI, _ERRNO | EPERM),
            *_when_equal(TIOCLINUX, _ERRNO | EPERM),
            *_return(_ALLOW),
        ],
        "personality": [
            *_load_argument(0),
            *(line for value in PERSONALITIES for line in _when_equal(value, _ALLOW)),
            *_return(_ERRNO | EPERM),
        ],
    }


def _statement(code: int, value: int, if_true: int = 0, if_false: int = 0) -> list[bytes]:
    return [struct.pack("=HBBI", code, if_true, if_false, value)]


def _load(offset: int) -> list[bytes]:
    return _statement(_LOAD, offset)


def _load_argument(index: int) -> list[bytes]:
    return _load(_ARGS + 8 * index)


def _return(verdict: int) -> list[bytes]:
    return _statement(_RETURN, verdict)


def _when_equal(value: int, verdict: int) -> list[bytes]:
    return [*_statement(_JUMP_EQUAL, value, 0, 1), *_return(verdict)]


def _unless_equal(value: int, verdict: int) -> list[bytes]:
    return [*_statement(_JUMP_EQUAL, value, 1, 0), *_return(verdict)]


def _when_above(value: int, verdict: int) -> list[bytes]:
    return [*_statement(_JUMP_ABOVE, value, 0, 1), *_return(verdict)]


def _skip_unless(value: int, block: Iterable[bytes]) -> list[bytes]:
    lines = list(block)
    return [*_statement(_JUMP_EQUAL, value, 0, len(lines)), *lines]
