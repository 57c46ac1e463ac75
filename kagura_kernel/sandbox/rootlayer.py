"""The writable root of one box: the host's programs below a layer that is gone with the box.

/usr (and /bin, /lib… where they are directories of their own) and dpkg's database are overlays: the host's own files
below, shown read-only with the box's root as their owner, and memory of a bounded size above. What others may not read
on the host is hidden, because the box's root would own it; looked at when the box is made, so that a file which is
made private later stays visible in boxes that are there already. Everything else is written anew (`debianetc`).

An ordinary user cannot have files shown as the box's own. There the folders are the box's own and the files are not:
packages can be added, and what nobody but the host's root may read stays closed by itself.

The mounts are made by the host's root before the box exists. In the box nobody holds a power to mount, unmount or
reach the layers; what its root may do, it may do to this layer.

Standard library only. Runs in the keeper's children.

The parts of /etc and /var that dpkg and apt need in a box whose root is writable.

An allow-list, since /etc is where a host keeps its keys: what is not named here is not there. Shown are files of the
distribution that anybody may read: the conventions of adduser, dpkg and debconf, the keys that signed packages are
checked with, and the sources of packages. Written anew are accounts (those of the system, without passwords; nobody's
own) and apt's settings, because the host's may hold proxies, tokens and programs to run. A source with a user name in
its address is left out whole. Not shown, among others: /etc/shadow, ssh, ssl/private, machine-id, apt/auth.conf and
auth.conf.d, apt/apt.conf and apt.conf.d, environment, profile.d, cron; of /var only dpkg's database, and which packages
apt installed by itself.

Standard library only: runs in the keeper's children.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from kagura_kernel.sandbox import linux
from kagura_kernel.sandbox.etcfiles import copy_public, write_etc
from kagura_kernel.sandbox.subids import Block

# ruff: noqa: PTH101, PTH103, PTH123, PTH208
# The keeper starts without pathlib, and a path in a box is text.


_SYSTEM_IDS = 1000
_NOBODY = 65534

_SHOWN = (
    *("adduser.conf", "deluser.conf", "login.defs", "shells", "skel", "ucf.conf", "debconf.conf", "dpkg"),
    *("bash.bashrc", "profile", "host.conf", "networks", "rpc", "ethertypes", "issue", "issue.net", "libaudit.conf"),
    *("locale.alias", "locale.gen", "manpath.config", "magic.mime", "mailcap", "mailcap.order", "xml", "sgml"),
    *(f"pam.d/{name}" for name in ("common-account", "common-auth", "common-password", "common-session")),
    *(f"pam.d/{name}" for name in ("common-session-noninteractive", "other", "passwd", "chpasswd", "login")),
    *(f"pam.d/{name}" for name in ("newusers", "chsh", "chfn", "su", "su-l", "runuser", "runuser-l")),
    *("apt/trusted.gpg", "apt/trusted.gpg.d", "apt/keyrings", "apt/preferences", "apt/preferences.d"),
)
_DIRECTORIES = (
    *("apt/apt.conf.d", "apt/auth.conf.d", "apt/sources.list.d", "cron.d", "cron.daily", "default", "init.d"),
    *("logrotate.d", "pam.d", "profile.d", "security", "ssl/private", "systemd/system", "tmpfiles.d"),
    *(f"rc{level}.d" for level in "0123456S"),
)
_VAR = (
    *("backups", "cache/apt/archives/partial", "cache/debconf", "cache/ldconfig", "lib/apt/lists/partial"),
    *("lib/apt/mirrors/partial", "lib/apt/periodic", "lib/dpkg", "lib/misc", "lib/pam", "lib/ucf", "lib/systemd"),
    *("local", "log/apt", "mail", "opt", "spool"),
)
_TOPS = ("boot", "home", "media", "mnt", "opt", "root", "run", "srv", "sys", "tmp", "workspace")
# Without them nobody becomes another user (`su`, `runuser`).
_EMPTY = ("environment", "security/limits.conf", "security/pam_env.conf")
_APT_SETTINGS = """\
// A command in a box has no terminal to draw on, and descriptions of packages in every language fill memory.
Dpkg::Use-Pty "false";
Acquire::Languages "none";
Acquire::Retries "0";
// A package lies in the box's memory until it is installed, not longer.
APT::Keep-Downloaded-Packages "false";
"""

# User information in the address of a source: everything up to an @ before the path begins.
_NAMED_USER = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]*@", re.IGNORECASE)


def write_system(tree: str, host: str = "") -> None:
    """Fill the empty directory `tree`, which becomes a box's root, with all but the programs.

    Args:
        tree: The directory.
        host: Prefix of the host's root directory, for tests.

    Raises:
        OSError: there is no room.
    """
    for name in (*_TOPS, *(f"var/{name}" for name in _VAR), *(f"etc/{name}" for name in _DIRECTORIES)):
        os.makedirs(f"{tree}/{name}", exist_ok=True)
    for name in ("root", "etc/ssl/private", "etc/apt/auth.conf.d", "var/cache/ldconfig"):
        os.chmod(f"{tree}/{name}", 0o700)
    write_etc(f"{tree}/etc", f"{host}/etc")
    for name in _SHOWN:
        copy_public(f"{host}/etc/{name}", f"{tree}/etc/{name}")
    _write_accounts(f"{tree}/etc", f"{host}/etc")
    _write_sources(f"{tree}/etc/apt", f"{host}/etc/apt")
    _write(f"{tree}/etc/apt/apt.conf.d/00box", _APT_SETTINGS)
    for name in _EMPTY:
        _write(f"{tree}/etc/{name}", "")
    copy_public(f"{host}/var/lib/apt/extended_states", f"{tree}/var/lib/apt/extended_states")


def _write_accounts(target: str, source: str) -> None:
    """The accounts of the system, which dpkg's database speaks of, and the box's own; nobody can log in to any."""
    users = {fields[0]: fields for fields in _rows(f"{source}/passwd", 7) if _is_system(fields[2])}
    groups = {fields[0]: fields for fields in _rows(f"{source}/group", 4) if _is_system(fields[2])}
    passwd = [f"{name}:x:{row[2]}:{row[3]}:{name}:{row[5]}:{row[6]}" for name, row in users.items() if name != "root"]
    group = [
        f"{name}:x:{row[2]}:{','.join(member for member in row[3].split(',') if member in users)}"
        for name, row in groups.items()
        if name != "root"
    ]
    own = _read(f"{target}/passwd").splitlines(), _read(f"{target}/group").splitlines()
    passwd += [line for line in own[0] if line.split(":")[0] not in users]
    group += [line for line in own[1] if line.split(":")[0] not in groups]
    _write(f"{target}/passwd", "\n".join(["root:x:0:0:root:/root:/bin/bash", *passwd, ""]))
    _write(f"{target}/group", "\n".join(["root:x:0:", *group, ""]))
    names = ["root", *(line.split(":")[0] for line in passwd)], ["root", *(line.split(":")[0] for line in group)]
    _write(f"{target}/shadow", "".join(f"{name}:*:19000:0:99999:7:::\n" for name in names[0]), 0o640)
    _write(f"{target}/gshadow", "".join(f"{name}:*::\n" for name in names[1]), 0o640)


def _write_sources(target: str, source: str) -> None:
    """The sources of packages, without any file in which an address names a user."""
    names = ["sources.list"]
    try:
        found = sorted(os.listdir(f"{source}/sources.list.d"))
    except OSError:
        found = []
    names += [f"sources.list.d/{name}" for name in found if name.endswith((".list", ".sources"))]
    for name in names:
        try:
            with open(f"{source}/{name}", encoding="utf-8") as file:
                public = os.fstat(file.fileno()).st_mode & 0o004
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if public and not _NAMED_USER.search(text):
            _write(f"{target}/{name}", text)


def _is_system(number: str) -> bool:
    return number.isdigit() and (0 <= int(number) < _SYSTEM_IDS or int(number) == _NOBODY)


def _rows(path: str, width: int) -> list[list[str]]:
    rows = [line.split(":") for line in _read(path).splitlines()]
    return [row for row in rows if len(row) == width]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


# ruff: noqa: PTH101, PTH102, PTH108, PTH112, PTH113, PTH114, PTH116, PTH118, PTH123, PTH208
# The keeper starts without pathlib, and a path in a box is text.


_DATABASE = "/var/lib/dpkg"
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

# Held against every service that a package wants to start: a box has no init.
_POLICY = "/usr/sbin/policy-rc.d"
_POLICY_TEXT = "#!/bin/sh\nexit 101\n"

_SEEN, _ENTERED = 0o004, 0o005


@dataclass(frozen=True, slots=True)
class RootLayer:
    """The parts of a writable root on the host's side, in the keeper's private mounts.

    Attributes:
        tree: What becomes /.
        overlays: (merged directory, path in the box).
    """

    tree: str
    overlays: tuple[tuple[str, str], ...]


def is_debian(host: str = "") -> bool:
    """Whether this system has dpkg's database, without which no package can be installed."""
    return os.path.isfile(f"{host}{_DATABASE}/status")


UNMAPPED = "packages can be added to the system's, but what the system has already cannot be replaced: that takes root"
"""What to know of a root made by an ordinary user: the kernel shows nobody but root foreign files as their own."""


def build_root(place: str, block: Block, users: int | None) -> RootLayer:
    """Make the layer in a directory that is a bounded file system in memory.

    Args:
        place: The directory.
        block: Who the box's users are on the host.
        users: Descriptor of the user space that maps them so; None for an ordinary user, who is in it.

    Raises:
        OSError: the system refused, or there is no room.
    """
    tree = f"{place}/tree"
    os.mkdir(tree)
    write_system(tree)
    _give(tree, block)
    shown = [path for path in _PROGRAMS if os.path.isdir(path) and not os.path.islink(path)]
    overlays = [(_overlay(f"{place}/{index}", path, block, users), path) for index, path in enumerate(shown)]
    overlays.append((_overlay(f"{place}/database", _DATABASE, block, users), _DATABASE))
    policy = f"{overlays[0][0]}{_POLICY.removeprefix('/usr')}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(policy)
    with open(policy, "x", encoding="ascii") as file:
        file.write(_POLICY_TEXT)
    os.chown(policy, block.user(0), block.group(0))
    os.chmod(policy, 0o755)  # noqa: S103 - a program that everybody in the box may run
    return RootLayer(tree, tuple(overlays))


def _overlay(place: str, source: str, block: Block, users: int | None) -> str:
    os.mkdir(place)
    lower, veil, upper, work, merged = (f"{place}/{name}" for name in ("lower", "veil", "upper", "work", "merged"))
    for name in (lower, work, merged):
        os.mkdir(name)
    _like(source, upper, block)
    _like(source, veil, block)
    kind = ""
    if users is None:
        # The files stay somebody else's, but the folders become the box's own, so that something can be put there.
        linux.mount(source, lower, flags=linux.MS_BIND | linux.MS_REC)
        _copy_books(source, upper)
        _copy_folders(source, veil, block)
        kind = "userxattr,"
    else:
        show_mapped(source, lower, users)
    for path in unreadable(source):
        _hide(source, veil, path, block)
    # Without redirects a layer's attributes never name a directory of the host.
    options = f"{kind}lowerdir={veil}:{lower},upperdir={upper},workdir={work}"
    if users is not None:
        options += ",redirect_dir=nofollow,metacopy=off,index=off"
    linux.mount("overlay", merged, "overlay", linux.MS_NOSUID | linux.MS_NODEV, options)
    return merged


def show_mapped(source: str, lower: str, users: int) -> None:
    """Mount a directory, read-only, with its files' owners as a user namespace maps them.

    Raises:
        OSError: it cannot be shown so, or a link leads to it; nothing is mounted then.
    """
    directory = linux.open_directory(source)
    try:
        mount_fd = linux.clone_mount(directory)
        try:
            linux.map_owners(mount_fd, users)
            linux.attach_mount(mount_fd, lower)
        finally:
            os.close(mount_fd)
    finally:
        os.close(directory)


def _copy_books(source: str, upper: str) -> None:
    """What dpkg links to before it rewrites it, which nobody may do with somebody else's file."""
    if source == _DATABASE:
        for name in os.listdir(source):
            if name != "info":
                copy_public(f"{source}/{name}", f"{upper}/{name}")


def _copy_folders(source: str, veil: str, block: Block) -> None:
    for top, directories, _ in os.walk(source):
        here = top.removeprefix(source)
        directories[:] = [name for name in directories if not os.path.islink(f"{top}/{name}")]
        for name in list(directories):
            found = os.stat(f"{top}/{name}", follow_symlinks=False)
            if found.st_mode & _ENTERED == _ENTERED:
                _like(f"{top}/{name}", f"{veil}{here}/{name}", block)
            else:
                directories.remove(name)


def unreadable(source: str) -> Iterator[str]:
    """Paths below a directory, relative to it, that an ordinary user may not read or enter; nothing below those.

    Sockets, pipes and devices are among them, whatever their mode.
    """
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(f"{source}/{here}") as entries:
            for entry in entries:
                if entry.is_symlink():
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                path = f"{here}{entry.name}"
                if stat.S_ISDIR(mode) and mode & _ENTERED == _ENTERED:
                    waiting.append(f"{path}/")
                elif not (stat.S_ISREG(mode) and mode & _SEEN):
                    yield path


def _hide(source: str, veil: str, path: str, block: Block) -> None:
    """Put the overlay's sign that a path does not exist into the layer above the host's."""
    here = ""
    for name in path.split("/")[:-1]:
        here = f"{here}/{name}"
        if not os.path.isdir(f"{veil}{here}"):
            _like(f"{source}{here}", f"{veil}{here}", block)
    os.mknod(f"{veil}/{path}", stat.S_IFCHR, os.makedev(0, 0))


def _like(source: str, target: str, block: Block) -> None:
    """A directory with another's mode, and its owner as the box knows it: the topmost layer's word counts."""
    found = os.stat(source, follow_symlinks=False)
    os.mkdir(target)
    if not block.is_inside:
        os.chown(target, block.user(found.st_uid), block.group(found.st_gid))
    os.chmod(target, stat.S_IMODE(found.st_mode))


def _give(tree: str, block: Block) -> None:
    for top, directories, files in os.walk(tree):
        for path in (top, *(os.path.join(top, name) for name in (*directories, *files))):
            os.chown(path, block.user(0), block.group(0), follow_symlinks=False)
