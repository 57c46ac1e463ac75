"""The few system calls that Python does not have, by ctypes: namespaces, mounts, mapped mounts.

Used in the supervisor's own small process only, never in the kernel. Every function raises `OSError` with the system's
errno; none keeps a descriptor it did not return. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x80000

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 0x1, 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 0x1, 0x2, 0x4, 0x00100000
_MOUNT_ATTR_NOEXEC = 0x8
# The unified table: the same numbers on x86_64 and aarch64.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x2, 0x4
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, path: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path or None)
    return result


def unshare(flags: int) -> None:
    """Put this process into namespaces of its own."""
    _checked(_libc.unshare(flags))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount or bind something; the arguments are the system call's."""
    _checked(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            os.fsencode(data) if data else None,
        ),
        target,
    )


def open_directory(path: str) -> int:
    """A descriptor of the directory of exactly this name: neither it nor anything on the way to it is a link.

    ELOOP where there is a link, ENOSYS before Linux 5.6.
    """
    return open_place(path, os.O_DIRECTORY)


def open_place(path: str, more: int = 0) -> int:
    """The same of whatever has this name; `more` are flags of `open`."""
    flags = os.O_PATH | os.O_CLOEXEC | more
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    number = _libc.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    return _checked(number, path)


def clone_mount(place: int, *, below: bool = False) -> int:
    """A descriptor of a private copy of the mount at a directory or file, without what lies above it.

    What is mounted below is in it only when `below` asks for that; EINVAL where whoever mounted it forbids to look and
    `below` does not ask.
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH | (_AT_RECURSIVE if below else 0)
    return _checked(_libc.syscall(_OPEN_TREE, place, b"", ctypes.c_uint(flags)))


def map_owners(mount_fd: int, userns_fd: int) -> None:
    """Show a detached mount's files with the owners that a user namespace maps them to, and read-only.

    EINVAL where the file system cannot, ENOSYS before Linux 5.12.
    """
    _set_mount(mount_fd, _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV, userns_fd)


def confine_mount(mount_fd: int, userns_fd: int | None, *, writable: bool, programs: bool = False) -> None:
    """Let nothing in a detached mount be a device, give an identity or, unless it may hold `programs`, be run.

    Owners are mapped as `map_owners` does, or not. Holds for everything in it, what is mounted below too; only owners
    are mapped in a mount that has nothing below. EINVAL where the file system cannot, ENOSYS before Linux 5.12.
    """
    plain = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | (0 if programs else _MOUNT_ATTR_NOEXEC)
    _set_mount(mount_fd, plain | (0 if writable else _MOUNT_ATTR_RDONLY), userns_fd)


def _set_mount(mount_fd: int, attributes: int, userns_fd: int | None) -> None:
    mapped = userns_fd is not None
    flags = _AT_EMPTY_PATH | (0 if mapped else _AT_RECURSIVE)
    wanted = attributes | (_MOUNT_ATTR_IDMAP if mapped else 0)
    request = struct.pack("=QQQQ", wanted, 0, 0, userns_fd if userns_fd is not None else 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, mount_fd, b"", ctypes.c_uint(flags), request, ctypes.c_size_t(len(request))))


def attach_mount(mount_fd: int, target: str) -> None:
    """Give a detached mount its place."""
    _checked(
        _libc.syscall(
            _MOVE_MOUNT, mount_fd, b"", _AT_FDCWD, os.fsencode(target), ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
        ),
        target,
    )


def die_with_parent() -> None:
    """Have the system kill this process when its parent ends; forgotten when the process changes its identity."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0))


def fork_as_first() -> int:
    """Fork a process that is process 1 of a space of its own: when it ends, all that it started ends with it.

    The caller has to be in a process namespace that its own user namespace made.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWPID)
        try:
            pid = os.fork()
        finally:
            # Only that child was to be born there. In the child itself, which cannot leave, this changes nothing.
            _libc.setns(own, CLONE_NEWPID)
    finally:
        os.close(own)
    return pid


def map_identity(uid: int, gid: int, inside: int) -> None:
    """After `unshare(CLONE_NEWUSER)`: call this process's own identity `inside`; it is the only one there is."""
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{inside} {uid} 1")
    write("/proc/self/gid_map", f"{inside} {gid} 1")


def owner_map(uids: tuple[int, int], gids: tuple[int, int]) -> int:
    """A descriptor of a user namespace that maps one (on disk, shown) pair of user ids and one of group ids."""
    return user_space(f"{uids[0]} {uids[1]} 1", f"{gids[0]} {gids[1]} 1")


def user_space(uid_map: str, gid_map: str) -> int:
    """A descriptor of a user namespace with these maps, in the kernel's words; nobody is in it."""
    ready_out, ready_in = os.pipe()
    hold_out, hold_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ready_out)
            os.close(hold_in)
            unshare(CLONE_NEWUSER)
            # The number by which /proc knows it, which is not the one that fork returned.
            os.write(ready_in, os.readlink("/proc/self").encode())
            os.read(hold_out, 1)
        finally:
            os._exit(0)
    os.close(ready_in)
    os.close(hold_out)
    try:
        number = os.read(ready_out, 32).decode()
        if not number:
            raise OSError(1, "no user namespace could be made")
        write(f"/proc/{number}/uid_map", uid_map)
        write(f"/proc/{number}/gid_map", gid_map)
        return os.open(f"/proc/{number}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready_out)
        os.close(hold_in)
        os.waitpid(pid, 0)


def unshare_mapped(flags: int, commands: Sequence[Sequence[str]]) -> bool:
    """Be in namespaces of one's own, a user namespace among them, whose ids these programs map from outside.

    `{pid}` stands for this process in the commands. Returns whether all of them succeeded.
    """

    def run(number: str) -> bool:
        words = [[word.replace("{pid}", number) for word in command] for command in commands]
        # They come from the kernel's own list of programs and numbers.
        return all(os.spawnve(os.P_WAIT, command[0], command, {}) == 0 for command in words)  # noqa: S606

    return _unshare_helped(flags, run)


def unshare_as_root(flags: int, uid_map: str, gid_map: str) -> None:
    """Be root in namespaces of one's own; the maps name ids of the present user namespace, over which one has power."""

    def map_users(number: str) -> bool:
        write(f"/proc/{number}/uid_map", uid_map)
        write(f"/proc/{number}/gid_map", gid_map)
        return True

    if not _unshare_helped(flags, map_users):
        raise OSError(1, "its users cannot be mapped")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _unshare_helped(flags: int, helps: Callable[[str], bool]) -> bool:
    """Unshare while a process that stays behind waits to do what can only be done from there."""
    number = os.readlink("/proc/self")
    ready_out, ready_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(ready_in)
            status = 0 if os.read(ready_out, 1) and helps(number) else 1
        finally:
            os._exit(status)
    os.close(ready_out)
    try:
        unshare(flags)
        os.write(ready_in, b"1")
    finally:
        os.close(ready_in)
        _, ended = os.waitpid(pid, 0)
    return ended == 0


def enter_spaces_of(pid: int, flags: int) -> None:
    """Be in these namespaces of a process of ours; in that of processes only the next child is. Needs Linux 5.8."""
    process = os.pidfd_open(pid)
    try:
        _checked(_libc.setns(process, flags))
    finally:
        os.close(process)


def enter_user_space(descriptor: int) -> None:
    """Be in this user namespace, with every power over it and none over what lies outside."""
    _checked(_libc.setns(descriptor, CLONE_NEWUSER))


def try_attributes(upper: str) -> None:
    """Make sure of an overlay's attributes, without which a directory cannot be replaced by one of the same name."""
    os.setxattr(upper, "user.kagura", b"1")
    os.removexattr(upper, "user.kagura")


def write(path: str, text: str) -> None:
    """Write a setting of the system's; the file is there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
