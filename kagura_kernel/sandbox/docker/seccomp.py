"""The system calls that a Docker box may make, as the profile the daemon loads: a list of what is allowed.

It is stricter than Docker's own default: a call is here because ordinary programs (shells, compilers, Python, git)
need it. Left out on purpose, though Docker's default has some of them: io_uring, ptrace and reading another process's
memory, taking over its descriptors, keyrings, userfaultfd, perf, bpf, mounts, handles of files, NUMA placement, clock
setting, kernel modules, and every way to a new namespace. A name that an old daemon does not know is skipped by it,
which refuses that call.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from kagura_kernel.sandbox.supervisor.seccomp import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    ENOSYS,
    NEW_NAMESPACES,
    PERSONALITIES,
    TIOCLINUX,
    TIOCSTI,
)

_FILES = """
    access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat
    faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat
    fcntl fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs
    fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64 getxattr inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch ioctl lchown lchown32 lgetxattr link linkat listxattr
    llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat newfstatat open
    openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
    removexattr rename renameat renameat2 rmdir sendfile sendfile64 setxattr splice stat stat64 statfs
    statfs64 statx symlink symlinkat sync sync_file_range syncfs tee truncate truncate64 umask unlink unlinkat
    utime utimensat utimensat_time64 utimes vmsplice write writev
"""

_MEMORY = """
    brk madvise membarrier memfd_create mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap msync munlock
    munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
"""

_PROCESSES = """
    alarm capget capset execve execveat exit exit_group fork getcpu getegid getegid32 geteuid geteuid32 getgid
    getgid32 getgroups getgroups32 getpgid getpgrp getpid getppid getpriority getresgid getresgid32 getresuid
    getresuid32 getrlimit getrusage getsid gettid getuid getuid32 get_robust_list get_thread_area ioprio_get
    ioprio_set kill pause pidfd_open pidfd_send_signal prctl prlimit64 restart_syscall rseq rt_sigaction
    rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
    rt_sigtimedwait_time64 rt_tgsigqueueinfo sched_getaffinity sched_getattr sched_getparam
    sched_get_priority_max sched_get_priority_min sched_getscheduler sched_rr_get_interval
    sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
    seccomp setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setpgid setpriority
    setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid
    setuid setuid32 set_robust_list set_thread_area set_tid_address sigaltstack signalfd signalfd4 sigprocmask
    sigreturn tgkill tkill ugetrlimit uname vfork wait4 waitid waitpid arch_prctl landlock_create_ruleset
    landlock_add_rule landlock_restrict_self
"""

_TIME = """
    clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64
    getitimer gettimeofday nanosleep setitimer sysinfo time timer_create timer_delete timer_getoverrun
    timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
    timerfd_gettime64 timerfd_settime timerfd_settime64 times
"""

_WAITING = """
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 futex
    futex_time64 futex_waitv _newselect poll ppoll ppoll_time64 pselect6 pselect6_time64 select
"""

_TALKING = """
    accept accept4 bind connect getpeername getrandom getsockname getsockopt listen mq_getsetattr mq_notify
    mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget
    msgrcv msgsnd pipe pipe2 recv recvfrom recvmmsg recvmmsg_time64 recvmsg semctl semget semop semtimedop
    semtimedop_time64 send sendmmsg sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown socketpair
"""

_FAMILIES = (AF_UNIX, AF_INET, AF_INET6)
_NETLINK_ROUTE = 0


def allowed_names() -> frozenset[str]:
    """Every call that is allowed whatever its arguments (`ioctl`, but for what pushes keys into a terminal)."""
    return frozenset(f"{_FILES} {_MEMORY} {_PROCESSES} {_TIME} {_WAITING} {_TALKING}".split())


@cache
def profile(*, gvisor: bool = False) -> str:
    """The profile as JSON, as `security_opt` takes it; gVisor's kernel is given it in the only words that it knows."""
    return json.dumps(_profile(gvisor=gvisor), separators=(",", ":"))


def oci_filter() -> dict[str, Any]:
    """The same list as a bundle for gVisor says it."""
    found = _profile(gvisor=True)
    architectures = [entry["architecture"] for entry in found.pop("archMap")]
    return {**found, "architectures": architectures}


def _profile(*, gvisor: bool) -> dict[str, Any]:
    # Its flags lie in memory and cannot be judged; told that it does not exist, libraries fall back on clone.
    absent = [{"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS, "args": []}]
    if gvisor:
        # A refusal is always EPERM there; what a tracer shall judge, and there is none, does not exist.
        absent = [{"names": ["clone3"], "action": "SCMP_ACT_TRACE", "args": []}]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "archMap": [
            # The 32-bit tables have other numbers for the same deeds; a 32-bit program is refused as a whole.
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [
            {"names": sorted(allowed_names() - {"ioctl"}), "action": "SCMP_ACT_ALLOW", "args": []},
            *(_when("socket", (0, family, "SCMP_CMP_EQ")) for family in _FAMILIES),
            # What lists the interfaces; every other subsystem of the kernel that speaks netlink stays out of reach.
            _when("socket", (0, AF_NETLINK, "SCMP_CMP_EQ"), (2, _NETLINK_ROUTE, "SCMP_CMP_EQ")),
            *(_when("personality", (0, persona, "SCMP_CMP_EQ")) for persona in PERSONALITIES),
            _when("ioctl", (1, TIOCSTI, "SCMP_CMP_NE"), (1, TIOCLINUX, "SCMP_CMP_NE")),
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
            },
            *absent,
        ],
    }


def _when(name: str, *arguments: tuple[int, int, str]) -> dict[str, Any]:
    args = [{"index": index, "value": value, "op": operator} for index, value, operator in arguments]
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": args}
