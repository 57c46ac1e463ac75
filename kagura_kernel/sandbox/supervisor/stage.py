"""The supervisor's private mounts: what boxes are built from, and the view of the workspace that each of them gets.

Nothing here is visible to the host or outlives the processes that hold it: every mount is made in a mount namespace
of the supervisor's own and of each box's own. As root each box runs under a user and group id that nobody else has, and
the project's files are shown to it as its own; as anybody else it runs under the caller's identity in a user namespace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kagura_kernel.sandbox.supervisor import linux
from kagura_kernel.sandbox.supervisor.arguments import Staged
from kagura_kernel.sandbox.supervisor.etc import BOX_UID, write_etc
from kagura_kernel.sandbox.supervisor.python_layer import Owners, Survey, show_python
from kagura_kernel.sandbox.supervisor.root_layer import (
    RANGE_INSIDE,
    UNMAPPED,
    Block,
    build_root,
    choose_block,
    is_debian,
)
from kagura_kernel.sandbox.supervisor.shown_paths import show_all, show_further, veil

# A directory that every Linux has, that everyone may pass, and in which no project lies: hidden by our own tmpfs.
STAGE = "/sys/kernel"
_BOX = f"{STAGE}/box"

SENT = f"{STAGE}/sent"
"""Where projects lie that came from another machine, in memory and in the supervisor's mounts alone."""

# Ids that no distribution, container manager or directory service hands out.
_FIRST_ID, _IDS = 1_900_000_000, 200_000_000

_PLAIN = linux.MS_NOSUID | linux.MS_NODEV


class StagingError(Exception):
    """A part of a box cannot be made; `part` names it so that the kernel can choose another way."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part
        self.why = why


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a box is on the host."""

    uid: int  # user and group id
    # Descriptor of a user namespace that maps the project's owner to it; None shows owners as they are.
    owner_map: int | None = None
    python_map: int | None = None  # the same of the owner of the Python that boxes see

    def close(self) -> None:
        """Close the descriptors; processes that were forked meanwhile keep their own."""
        for descriptor in {self.owner_map, self.python_map} - {None}:
            os.close(cast("int", descriptor))


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a box that has a root of its own."""

    block: Block  # who they are on the host
    space: int | None  # descriptor of the user namespace that maps them so; None when this process is in it


def is_real_root() -> bool:
    """Whether this process may take on any identity: root, and not only of a user namespace."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        return any(int(line.split()[1]) == 0 and int(line.split()[2]) > _FIRST_ID + _IDS for line in lines)


def enter_spaces(*, root: bool, mapping: Sequence[Sequence[str]] = (), inside: int = BOX_UID) -> None:
    """Leave the host's mounts and processes; the next fork is process 1 of the supervisor's own.

    An ordinary user is `inside` there, or has further ids from the `mapping` commands. Raises `StagingError` when
    namespaces are refused.
    """
    identity = os.geteuid(), os.getegid()
    own = linux.CLONE_NEWNS | linux.CLONE_NEWPID
    try:
        if mapping and not root:
            # A child waits in the old spaces; its waiting parent must not be the first of the new ones.
            if not linux.unshare_mapped(own | linux.CLONE_NEWUSER, mapping):
                raise StagingError("root", "newuidmap or newgidmap refused to map the users that packages need")
            return
        linux.unshare(own if root else own | linux.CLONE_NEWUSER)
        if not root:
            linux.map_identity(*identity, inside)
    except OSError as error:
        raise StagingError("namespaces", f"namespaces are refused ({error.strerror})") from error


def lay_out(python: Mapping[str, Any], sent_bytes: int = 0) -> None:
    """Put what all boxes share where each of them finds it, and have room for so many bytes that are sent.

    Raises `OSError` when it cannot be mounted or written.
    """
    # Mounts that the host makes later still arrive here; ours never leave.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    linux.mount("tmpfs", STAGE, "tmpfs", _PLAIN, "size=32m,mode=755")
    os.umask(0o022)
    for name in ("etc", "box", "python"):
        os.mkdir(f"{STAGE}/{name}")
    open(f"{STAGE}/empty", "x").close()
    write_etc(f"{STAGE}/etc")
    for index, path in enumerate(python["directories"]):
        _bind(path, f"{STAGE}/python/{index}")
    if sent_bytes:
        os.mkdir(SENT)
        _tmpfs(SENT, sent_bytes)


def new_identity(owner: tuple[int, int], layered: Sequence[str] = ()) -> Identity:
    """A fresh identity for a box that shows the files of `owner` as its own; as root only.

    Whoever owns the first of the `layered` folders is shown as the box too, there.
    """
    uid = _FIRST_ID + secrets.randbelow(_IDS)
    descriptors: dict[tuple[int, int] | None, int] = {}
    others: tuple[int, int] | None = None
    with contextlib.suppress(OSError):
        descriptors[owner] = linux.owner_map((owner[0], uid), (owner[1], uid))
        if layered:
            found = os.stat(layered[0])
            others = found.st_uid, found.st_gid
            if others not in descriptors:
                descriptors[others] = linux.owner_map((others[0], uid), (others[1], uid))
    return Identity(uid, descriptors.get(owner), descriptors.get(others))


def enter_box(identity: Identity | None, *, ranged: bool = False) -> tuple[int, int]:
    """Move this process into the mounts of one box, before it is known which; the ids that own the box's files.

    `ranged` makes an ordinary user's process the root of users of the box's own.

    Raises:
        OSError: the system refused.
    """
    linux.unshare(linux.CLONE_NEWNS)
    # bubblewrap looks its children up by the numbers that this space gives them; the host's /proc knows others by
    # these or, inside a container, nobody. Only who made the space may mount its /proc: before there are further users.
    linux.mount("proc", "/proc", "proc", _PLAIN | linux.MS_NOEXEC)
    if ranged:
        block = Block(BOX_UID, BOX_UID, RANGE_INSIDE, RANGE_INSIDE)
        linux.unshare_as_root(linux.CLONE_NEWUSER | linux.CLONE_NEWNS, block.uid_map, block.gid_map)
        owner = 0, 0
    elif identity is None:
        outside = os.geteuid(), os.getegid()
        # One level of its own, so that its processes are counted apart from those of other boxes.
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
        linux.map_identity(*outside, BOX_UID)
        owner = BOX_UID, BOX_UID
    else:
        owner = identity.uid, identity.uid
    _tmpfs(_BOX, 2**20)
    for name in ("scratch", "space", "lower", "shown", "void", "merged"):
        os.mkdir(f"{_BOX}/{name}")
    return owner


def build_box(
    request: Mapping[str, Any],
    python: Mapping[str, Any],
    identity: Identity | None,
    owner: tuple[int, int],
    users: Users | None = None,
    survey: Survey | None = None,
) -> tuple[Staged, list[str]]:
    """Make the parts of one box for a `start` message, and say what a reader should know.

    Args:
        request: The message.
        python: What boxes see of a Python.
        identity: Who the box is; None where it is who we are.
        owner: What `enter_box` returned.
        users: Its users, when its root is to be writable.
        survey: What of the Python others than its owner may not read.

    Raises:
        StagingError: `overlay` when there can be no copy-on-write view, `workspace` when the project cannot be shown,
            `root` when there can be no writable root.
        NotShown: another file of the host cannot be shown.
    """
    scratch = f"{_BOX}/scratch"
    _tmpfs(scratch, request["scratch_bytes"])
    for name in ("tmp", "home", "shm"):
        _owned_dir(f"{scratch}/{name}", *owner)
    notes: list[str] = []
    layer = _writable_root(request["root_bytes"], users, scratch) if users is not None else {}
    if users is not None and users.space is None:
        notes.append(UNMAPPED)
    parts = tuple((f"{STAGE}/python/{index}", path) for index, path in enumerate(python["directories"]))
    mapping = None if identity is None else identity.python_map if users is None else users.space
    owners = Owners(*owner, mapping, root=identity is not None)
    place = f"{scratch}/python" if request["python_layer"] else None
    own = None if identity is None else identity.uid
    staged = Staged(
        etc=f"{STAGE}/etc",
        empty=f"{STAGE}/empty",
        scratch=scratch,
        extra=tuple(show_further(request["extra"], _BOX, f"{_BOX}/void", own, notes)),
        shown=tuple(show_all(request["shown"], _BOX, own, notes)),
        **show_python(parts, python, owners, survey, place, notes),
        python_links=tuple((path, target) for path, target in python["links"]),
        shims=tuple((name, target) for name, target in python["shims"]),
        **_workspace_view(request, identity, owner, notes),
        **layer,
    )
    return staged, notes


def make_users(identity: Identity | None, *, ranged: bool = False) -> Users:
    """The users of a box with a writable root; `ranged` when this process is among them already.

    Raises:
        StagingError: there can be none.
    """
    if not is_debian():
        raise StagingError("root", "a writable root is made of a Debian system, and this machine has no dpkg database")
    if ranged:
        return Users(Block(0, 0, 1, 1), None)
    if identity is None:
        raise StagingError("root", "only root of the whole machine may map the users that packages need")
    block = choose_block(identity.uid)
    try:
        return Users(block, linux.user_space(block.uid_map, block.gid_map))
    except OSError as error:
        raise StagingError("root", f"the users that packages need cannot be mapped ({error.strerror})") from error


def _writable_root(size: int, users: Users, scratch: str) -> dict[str, Any]:
    # Users of the box besides its root need these as well.
    for name in ("tmp", "shm"):
        os.chmod(f"{scratch}/{name}", 0o1777)  # noqa: S103 - as everywhere
    place = f"{_BOX}/root"
    os.mkdir(place)
    _tmpfs(place, size)
    try:
        layer = build_root(place, users.block, users.space)
    except OSError as error:
        why = f"the system cannot be shown as the box's own ({error.filename or 'a layer'}: {error.strerror})"
        raise StagingError("root", why) from error
    return {"root": layer.tree, "overlays": layer.overlays}


def _workspace_view(
    request: Mapping[str, Any], identity: Identity | None, owner: tuple[int, int], notes: list[str]
) -> dict[str, Any]:
    root = request["workspace"]
    space = f"{_BOX}/space"
    _tmpfs(space, request["workspace_bytes"])
    for name in ("upper", "work"):
        _owned_dir(f"{space}/{name}", *owner)
    if root is None or request["copy"]:
        return {"workspace": f"{space}/upper", "writable": request["writable"]}
    lower = f"{_BOX}/lower"
    _show_project(root, lower, identity, notes, writable=request["writable"])
    shown = _without_listeners(lower, writable=request["writable"])
    protected = tuple(part for part in request["protected"] if _is_real(lower, part))
    if not request["writable"]:
        return {"workspace": shown, "writable": False, "lower": shown}
    merged = f"{_BOX}/merged"
    try:
        options = f"lowerdir={lower},upperdir={space}/upper,workdir={space}/work,userxattr"
        linux.mount("overlay", merged, "overlay", _PLAIN, options)
        linux.try_attributes(f"{space}/upper")
    except OSError as error:
        raise StagingError("overlay", f"no copy-on-write view ({error.strerror})") from error
    parts = tuple(part for part in request["writable_parts"] if _is_real(merged, part))
    whole = not request["writable_parts"]
    return {
        "workspace": merged,
        "writable": whole,
        "writable_parts": parts,
        "lower": shown,
        "upper": f"{space}/upper",
        "protected": protected,
    }


def _show_project(root: str, lower: str, identity: Identity | None, notes: list[str], *, writable: bool) -> None:
    """Mount the project; held by a descriptor from the moment its name has been followed, without any link."""
    try:
        directory = linux.open_directory(root)
    except OSError as error:
        link = error.errno == errno.ELOOP
        why = "it, or a folder above it, is a link now" if link else error.strerror or str(error)
        raise StagingError("workspace", why) from error
    try:
        if identity is None:
            linux.mount(f"/proc/self/fd/{directory}", lower, flags=linux.MS_BIND | linux.MS_REC)
            return
        mount_fd = linux.clone_mount(directory)
        try:
            try:
                _map_owners(mount_fd, identity)
            except OSError as error:
                why = f"its file system cannot show files as the box's own ({error.strerror})"
                if writable:
                    raise StagingError("overlay", why) from error
                notes.append(f"some of the project's files may be unreadable: {why}")
            linux.attach_mount(mount_fd, lower)
        finally:
            os.close(mount_fd)
    except OSError as error:
        raise StagingError("workspace", error.strerror or str(error)) from error
    finally:
        os.close(directory)


def _without_listeners(lower: str, *, writable: bool) -> str:
    shown = f"{_BOX}/shown"
    try:
        veil(lower, f"{_BOX}/void", shown)
    except OSError as error:
        why = f"its sockets and pipes cannot be kept out ({error.strerror})"
        raise StagingError("overlay" if writable else "workspace", why) from error
    return shown


def _map_owners(mount_fd: int, identity: Identity) -> None:
    if identity.owner_map is None:
        raise OSError(errno.EPERM, "no user namespace can be made")
    linux.map_owners(mount_fd, identity.owner_map)


def _is_real(root: str, part: str) -> bool:
    """Whether a subpath exists and no step of it is a link, which could lead out of the project."""
    here = root
    try:
        for name in part.split("/"):
            here = f"{here}/{name}"
            if name in ("", ".", "..") or stat.S_ISLNK(os.lstat(here).st_mode):
                return False
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return False
        raise
    return True


def _bind(source: str, place: str) -> None:
    if os.path.isdir(source):
        os.mkdir(place)
    else:
        open(place, "x").close()
    linux.mount(source, place, flags=linux.MS_BIND | linux.MS_REC)


def _tmpfs(place: str, size: int) -> None:
    inodes = max(4096, size // 4096)
    linux.mount("tmpfs", place, "tmpfs", _PLAIN, f"size={size},nr_inodes={inodes},mode=755")


def _owned_dir(path: str, uid: int, gid: int) -> None:
    os.mkdir(path, 0o755)
    os.chown(path, uid, gid)
