"""The writable root of one box: the host's programs below a layer that is gone with the box.

/usr (and /bin, /lib… where they are directories of their own) and dpkg's database are overlays: the host's own files
below, shown read-only with the box's root as their owner, and memory of a bounded size above. What others may not read
on the host is hidden, because the box's root would own it; looked at when the box is made, so that a file which is
made private later stays visible in boxes that are there already. Everything else is written anew (`etc`).

Root in such a box is the box's own unprivileged id; every other user that a package makes or needs (1 to 65535) is an
id of a block that belongs to nobody. An ordinary user cannot have files shown as the box's own. There the folders are
the box's own and the files are not: packages can be added, and what nobody but the host's root may read stays closed.

The mounts are made by the host's root before the box exists. In the box nobody holds a power to mount, unmount or
reach the layers; what its root may do, it may do to this layer.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kagura_kernel.sandbox.supervisor import linux
from kagura_kernel.sandbox.supervisor.etc import copy_public, read_text, write_system

MEMBERS = 65535
"""How many ids besides root's a Debian system knows: 1 to 65535; `nobody` is 65534."""

OWNER = "kagura"
"""Whose lines in /etc/subuid and /etc/subgid name the block that root's boxes use."""

RANGE_INSIDE = 100_000
"""Where an ordinary user's range begins in the supervisor's own user namespace."""

# Above the ids that boxes themselves are given, and below 2^31, past which some programs take a number for negative.
_FIRST_BLOCK, _BLOCKS = 2_100_000_000, 700


@dataclass(frozen=True, slots=True)
class Block:
    """A map from the ids in a box to those of the host."""

    root_uid: int  # the user that root is outside
    root_gid: int  # the group likewise
    first_uid: int  # the user that 1 is; the others follow
    first_gid: int  # the group likewise

    def user(self, inside: int) -> int:
        """The host's id of a user in the box; one that no box has becomes the last, `nobody`'s neighbour."""
        return _outside(inside, self.root_uid, self.first_uid)

    def group(self, inside: int) -> int:
        """The host's id of a group in the box, likewise."""
        return _outside(inside, self.root_gid, self.first_gid)

    @property
    def is_inside(self) -> bool:
        """Whether these are the ids in the box themselves; what belongs to the host's users is nobody's there."""
        return self.root_uid == 0

    @property
    def uid_map(self) -> str:
        """As the kernel takes it."""
        return f"0 {self.root_uid} 1\n1 {self.first_uid} {MEMBERS}"

    @property
    def gid_map(self) -> str:
        """As the kernel takes it."""
        return f"0 {self.root_gid} 1\n1 {self.first_gid} {MEMBERS}"


def choose_block(uid: int, subuid: str = "/etc/subuid", subgid: str = "/etc/subgid") -> Block:
    """The block for a box whose root is `uid` outside, for a supervisor that may take any.

    An administrator who keeps a register of ids gives us ours by a line for `kagura` in both files, as Docker's
    userns-remap has its `dockremap`. Without one a block is drawn from a range that no distribution, container manager
    or directory service hands out: two boxes then rarely share one, and where they do they still share nothing else.
    """
    first_uid, first_gid = find_range(read_text(subuid), OWNER), find_range(read_text(subgid), OWNER)
    if first_uid is not None and first_gid is not None:
        return Block(uid, uid, first_uid, first_gid)
    first = _FIRST_BLOCK + secrets.randbelow(_BLOCKS) * (MEMBERS + 1)
    return Block(uid, uid, first, first)


def mapping_commands(
    inside: int, programs: Sequence[str], subuid: str = "/etc/subuid", subgid: str = "/etc/subgid"
) -> list[list[str]]:
    """The commands that map the caller, and its range of further ids, for a process `{pid}` of an ordinary user.

    The caller is called `inside` there; the programs are `newuidmap` and `newgidmap`. None where it has no range.
    """
    names = [str(os.geteuid())]
    with contextlib.suppress(KeyError):
        names.append(pwd.getpwuid(os.geteuid()).pw_name)
    ranges = find_range(read_text(subuid), *names), find_range(read_text(subgid), *names)
    own = os.geteuid(), os.getegid()
    return [
        [program, "{pid}", str(inside), str(me), "1", str(RANGE_INSIDE), str(first), str(MEMBERS)]
        for program, me, first in zip(programs, own, ranges, strict=True)
        if None not in ranges
    ]


def find_range(text: str, *owners: str) -> int | None:
    """The first id of the first range, in the text of a subid file, that belongs to one of these and is long enough."""
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) != 3 or fields[0] not in owners:  # noqa: PLR2004 - owner:first:count
            continue
        with contextlib.suppress(ValueError):
            if int(fields[2]) >= MEMBERS and int(fields[1]) > 0:
                return int(fields[1])
    return None


def _outside(inside: int, root: int, first: int) -> int:
    return root if inside == 0 else first + min(inside, MEMBERS) - 1


_DATABASE = "/var/lib/dpkg"
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

# Held against every service that a package wants to start: a box has no init.
_POLICY = "/usr/sbin/policy-rc.d"
_POLICY_TEXT = "#!/bin/sh\nexit 101\n"

_SEEN, _ENTERED = 0o004, 0o005


@dataclass(frozen=True, slots=True)
class RootLayer:
    """The parts of a writable root on the host's side, in the supervisor's private mounts."""

    tree: str  # what becomes /
    overlays: tuple[tuple[str, str], ...]  # (merged directory, path in the box)


def is_debian(host: str = "") -> bool:
    """Whether this system has dpkg's database, without which no package can be installed."""
    return os.path.isfile(f"{host}{_DATABASE}/status")


UNMAPPED = "packages can be added to the system's, but what the system has already cannot be replaced: that takes root"
"""What to know of a root made by an ordinary user: the kernel shows nobody but root foreign files as their own."""


def build_root(place: str, block: Block, users: int | None) -> RootLayer:
    """Make the layer in a directory that is a bounded file system in memory.

    `users` is the descriptor of the user space that maps the block; None for an ordinary user, who is in it. Raises
    `OSError` when the system refuses, or there is no room.
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
    for name in ("lower", "merged", "work"):
        os.mkdir(f"{place}/{name}")
    lower, veil, upper = (f"{place}/{name}" for name in ("lower", "veil", "upper"))
    _like(source, upper, block)
    _like(source, veil, block)
    if users is None:
        # The files stay somebody else's, but the folders become the box's own, so that something can be put there.
        linux.mount(source, lower, flags=linux.MS_BIND | linux.MS_REC)
        _copy_books(source, upper)
        _copy_folders(source, veil, block)
    else:
        show_mapped(source, lower, users)
    for path in unreadable(source):
        _hide(source, veil, path, block)
    return merge(place, root=users is not None)


def merge(place: str, *, root: bool) -> str:
    """Mount the overlay of a folder's `lower`, `veil`, `upper` and `work` at its `merged`; `root` is the machine's.

    The veil lies above what is below, and hides some of it.

    Raises:
        OSError: the system refused.
    """
    # Without redirects a layer's attributes never name a directory of the host.
    kind = "redirect_dir=nofollow,metacopy=off,index=off" if root else "userxattr"
    options = f"lowerdir={place}/veil:{place}/lower,upperdir={place}/upper,workdir={place}/work,{kind}"
    linux.mount("overlay", f"{place}/merged", "overlay", linux.MS_NOSUID | linux.MS_NODEV, options)
    return f"{place}/merged"


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
