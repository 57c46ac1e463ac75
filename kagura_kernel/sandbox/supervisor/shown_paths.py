"""Files and directories of the host shown to a box: mounts of exactly what a name means, and no more.

A mount is held by a descriptor from the moment its name has been followed. It is what the name meant then, whatever
is put in its place afterwards. Standard library only: runs in the supervisor's children.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from kagura_kernel.sandbox.supervisor import linux


class NotShown(Exception):
    """It cannot be shown; the text says what, and why."""


def show_all(
    paths: Iterable[tuple[str, str, bool]], folder: str, uid: int | None, notes: list[str]
) -> Iterator[tuple[str, str, bool]]:
    """Mount each of them in `folder`, at a place that is made for it; (place, path in the box, whether writable).

    Names on the host are absolute, without links. Their owner becomes `uid`, as user and group; with None the box is
    who we are. `notes` takes what a reader should know.

    Raises:
        NotShown: it is not there, a link leads to it, it is neither a directory nor a file, or the system refuses.
    """
    for index, (source, target, writable) in enumerate(paths):
        place = f"{folder}/shown{index}"
        _named(source, place, uid, notes, writable=writable)
        yield place, target, writable


def show_further(
    pairs: Iterable[tuple[str, str]], folder: str, void: str, uid: int | None, notes: list[str]
) -> Iterator[tuple[str, str]]:
    """Make a read-only view of each directory in `folder`; (place, path in the box).

    Programs there can be run. Sockets and pipes are names only, and whoever reads the list of mounts does not learn
    where the directory lies, where the system has overlays; the notes say so where it has none. `void` is an empty
    directory; the rest is as for `show_all`.

    Raises:
        NotShown: it is not there, is no directory, a link leads to it, or the system refuses.
    """
    for index, (source, target) in enumerate(pairs):
        bare, veiled = f"{folder}/bare{index}", f"{folder}/further{index}"
        show_directory(source, bare, uid, notes)
        os.mkdir(veiled)
        try:
            veil(bare, void, veiled)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            notes.append(f"programs in the box can find out that {target} lies at {source} (no overlay: {why})")
            yield bare, target
        else:
            yield veiled, target


def show_directory(source: str, place: str, uid: int | None, notes: list[str]) -> None:
    """Mount one directory at a place that is made for it, read-only; programs there can be run.

    Raises:
        NotShown: as for `show_further`.
    """
    _named(source, place, uid, notes, writable=False, further=True)


def veil(lower: str, void: str, place: str) -> None:
    """Mount a read-only view of a directory in which sockets and pipes are names only.

    A socket is found by its file wherever that is mounted, whatever the network: an agent of the host that listens
    there could be spoken to. In an overlay every file is another one, and nobody listens there.

    Raises:
        OSError: there are no overlays here, or none over this file system.
    """
    plain = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_RDONLY
    linux.mount("overlay", place, "overlay", plain, f"lowerdir={lower}:{void},userxattr")


def _named(
    source: str, place: str, uid: int | None, notes: list[str], *, writable: bool, further: bool = False
) -> None:
    try:
        if note := _show(source, place, uid, writable=writable, further=further):
            notes.append(f"some of {source} may be unreadable: {note}")
    except NotShown as error:
        raise NotShown(f"{source} cannot be shown: {error}") from error


def _show(source: str, place: str, uid: int | None, *, writable: bool, further: bool) -> str:
    """Mount one; what is less about it than it should be, half a sentence."""
    found = _open(source)
    try:
        status = os.fstat(found)
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(place)
        elif further:
            raise NotShown("it is not a directory")
        elif stat.S_ISREG(status.st_mode):
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        else:
            raise NotShown("it is neither a directory nor a file")
        mount = _clone(found, alone=uid is not None)
        try:
            note = _confine(mount, status, uid, writable=writable, programs=further)
            linux.attach_mount(mount, place)
        finally:
            os.close(mount)
    except OSError as error:
        raise NotShown((error.strerror or str(error)).lower()) from error
    finally:
        os.close(found)
    return note


def _open(source: str) -> int:
    try:
        return linux.open_place(source)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotShown("it, or a folder above it, is a link") from error
        raise NotShown((error.strerror or str(error)).lower()) from error


def _clone(found: int, *, alone: bool) -> int:
    """A copy of the mount without what is mounted below, unless that cannot be left out, or `alone` insists."""
    try:
        return linux.clone_mount(found)
    except OSError as error:
        # An ordinary user must not see what root has hidden under a mount.
        if alone or error.errno != errno.EINVAL:
            raise
        return linux.clone_mount(found, below=True)


def _confine(mount: int, status: os.stat_result, uid: int | None, *, writable: bool, programs: bool) -> str:
    if uid is None:
        linux.confine_mount(mount, None, writable=writable, programs=programs)
        return ""
    owners = -1
    try:
        owners = linux.owner_map((status.st_uid, uid), (status.st_gid, uid))
        linux.confine_mount(mount, owners, writable=writable, programs=programs)
    except OSError as error:
        why = f"its file system cannot show files as the box's own ({(error.strerror or str(error)).lower()})"
        if writable:
            # What the box made there would belong to somebody who is nobody outside.
            raise NotShown(why) from error
        linux.confine_mount(mount, None, writable=False, programs=programs)
        return why
    finally:
        if owners >= 0:
            os.close(owners)
    return ""
