"""The project on the host: which directory may be one, and its files, reached so that no link can lead elsewhere.

A path comes from a box and is not to be trusted: it is walked from a descriptor of the project root with
`O_NOFOLLOW` at every step, so that neither a link in the project nor one swapped in meanwhile is followed. A file gives
way to another only while it is what it should be: an exchange of two names, or a rename to a name that is free, is one
step of the kernel. What stood there is looked at where nobody else finds it, and put back when it is not what was
expected, so whoever saves a file at the same moment keeps what they saved.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from kagura_kernel.domain.errors import WorkspaceRefused, WorkspaceUnreadable
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.place import expanded

# A box that saw one of these as its project would see the system, not a project.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run")
# Where daemons keep what they were told in confidence, or what is executed for them.
_STATE = ("/var/lib/containerd", "/var/lib/docker", "/var/lib/dpkg", "/var/lib/kubelet", "/var/spool/cron")
# Parts of a home directory that are keys and the settings of programs which hold keys, never a project.
_OF_HOME = (
    *(".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird"),
    *(".aws", ".azure", ".config/gcloud", ".config/gh", ".config/containers", ".docker", ".kube"),
    *(".claude", ".codex", ".ipython", ".jupyter", ".kagura", ".local/share/jupyter"),
)
# NUL, or half a character.
_NO_NAME = "no path has such a letter"
_TOPS = ("/", "/home", "/root", "/srv", "/tmp", "/var", "/opt", "/mnt", "/media", "/Users")  # noqa: S108 - refused


def check_project(path: Path, *, home: Path | None, private: Sequence[Path]) -> Path:
    """The project root, absolute and without links, fit to be shown to a box.

    Neither the home directory, nor one above it, nor what in it holds keys is ever a project; nor may one hold or lie
    in the `private` directories, ours and Jupyter's.

    Raises:
        WorkspaceUnreadable: it is missing, is no directory, or may not be read.
        WorkspaceRefused: it is a link, or a place that is never shown.
    """
    try:
        if path.is_symlink():
            raise WorkspaceRefused(str(path), f"it is a link to {path.readlink()}; name that directory itself")
        root = path.resolve(strict=True)
        with os.scandir(root) as entries:
            next(entries, None)
    except FileNotFoundError as error:
        raise WorkspaceUnreadable(str(path), "there is no such directory") from error
    except NotADirectoryError as error:
        raise WorkspaceUnreadable(str(path), "it is not a directory") from error
    except OSError as error:
        raise WorkspaceUnreadable(str(path), error.strerror or "it cannot be read") from error
    except ValueError as error:
        raise WorkspaceUnreadable(str(path), _NO_NAME) from error
    refuse_private(root, home=home, private=private)
    return root


def make_project(path: Path, *, home: Path, private: Sequence[Path]) -> Path:
    """A folder below the home directory as a project's root, made where it is missing.

    A relative path counts from the home directory. No link is followed on the way, so that what is made, and shown, is
    what was named.

    Raises:
        WorkspaceUnreadable: it cannot be made or read, or a file stands there.
        WorkspaceRefused: it does not lie below home, a link stands on the way, or it is never shown.
    """
    root = home.resolve()
    named = Path(os.path.normpath(root / expanded(path)))
    below = next((named.relative_to(top) for top in (root, home) if named.is_relative_to(top)), None)
    if below is None or not below.parts:
        raise WorkspaceRefused(str(named), "choose a folder that lies in your home directory")
    refuse_private(root / below, home=home, private=private)
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in below.parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=directory)
            further = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = further
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise WorkspaceRefused(str(named), "a file or a link stands on the way to it") from error
        raise WorkspaceUnreadable(str(named), f"it cannot be made ({error.strerror})") from error
    except ValueError as error:
        raise WorkspaceUnreadable(str(named), _NO_NAME) from error
    finally:
        os.close(directory)
    return check_project(root / below, home=home, private=private)


def refuse_private(root: Path, *, home: Path | None, private: Sequence[Path]) -> None:
    """Refuse what is never shown to a box: the system's own, home as a whole, keys, and directories of ours.

    Raises:
        WorkspaceRefused: it is, holds, or lies in such a place.
    """
    _refuse_system(root)
    if home is not None:
        _refuse_home(root, home.resolve())
    for directory in private:
        resolved = directory.resolve()
        if _covers(root, resolved) or _covers(resolved, root):
            raise WorkspaceRefused(str(root), f"the private directory {directory} lies in it, or it in that")


def _refuse_system(root: Path) -> None:
    if str(root) in _TOPS:
        raise WorkspaceRefused(str(root), "it is the top of a tree that holds more than a project")
    for system in (*_SYSTEM, *_STATE):
        if _covers(Path(system), root):
            raise WorkspaceRefused(str(root), "it belongs to the system")


def _refuse_home(root: Path, home: Path) -> None:
    if _covers(root, home):
        raise WorkspaceRefused(str(root), "it is, or holds, your home directory")
    for part in _OF_HOME:
        if _covers((home / part).resolve(), root):
            raise WorkspaceRefused(str(root), f"{part} in your home directory holds keys or settings")


def _covers(outer: Path, inner: Path) -> bool:
    return inner == outer or outer in inner.parents


# The system's own numbers, for "the name must be free" and "exchange the two".
_NEW, _EXCHANGE = (0x4, 0x2) if sys.platform == "darwin" else (0x1, 0x2)
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


class CannotExchange(Exception):
    """This system, or this file system, has no such rename, and nothing was done; never shown to people."""


def _rename(old: str, new: str, directory: int, how: int) -> None:
    """Rename in a directory, as `_NEW` to a name that must be free, or as `_EXCHANGE` let both change places.

    Raises:
        CannotExchange: not possible here; nothing was done.
        FileExistsError: the name is not free.
        OSError: one of them is missing, or the directory cannot be written.
    """
    call = _system_call()
    if call is None:
        raise CannotExchange
    number = call(directory, os.fsencode(old), directory, os.fsencode(new), how)
    if number in _UNSUPPORTED:
        raise CannotExchange
    if number:
        raise OSError(number, os.strerror(number), new)


def exchange(one: Path, other: Path) -> None:
    """Let two absolute paths of one file system change places, in one step.

    Raises:
        CannotExchange: not possible here; nothing was done.
        OSError: one of them is missing, or a directory cannot be written.
    """
    _rename(str(one), str(other), -1, _EXCHANGE)


MOST_LOOKED_AT = 20_000
"""Files of a project whose times are looked at."""

_NOT_WRITTEN = frozenset({".git", ".venv", "node_modules", "__pycache__", ".ipynb_checkpoints"})


@cache
def _system_call() -> Callable[[int, bytes, int, bytes, int], int] | None:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    function = getattr(library, "renameatx_np" if sys.platform == "darwin" else "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(from_directory: int, old: bytes, to_directory: int, new: bytes, how: int) -> int:
        return 0 if function(from_directory, old, to_directory, new, how) == 0 else ctypes.get_errno()

    return call


_TRIES = 16


class Changed(Exception):
    """Something else stands there than was expected, and stays as it is; never shown to people."""


@dataclass(frozen=True, slots=True)
class Place:
    """One name in a directory, a name beside it that nobody else uses, and what is expected to stand there."""

    directory: int  # Descriptor of the directory
    name: str  # The name that matters
    spare: str  # The name beside it
    expected: str  # Hash of what should stand there; empty for nothing
    look: Callable[[str], str]  # Hash of what stands at a name of the directory: empty for nothing, never an error


def put(place: Place) -> None:
    """What lies at the spare name takes the place; the spare name is free afterwards, but for the case below.

    Where the system has no exchange, the place is looked at once more just before it is replaced.

    Raises:
        Changed: what stood there was not expected, and stands there again. Where several others wrote at once, the
            last of them stands there, and what came before may be left at the spare name.
    """
    ours = place.look(place.spare)
    try:
        if not place.expected:
            _rename(place.spare, place.name, place.directory, _NEW)
            return
        _rename(place.spare, place.name, place.directory, _EXCHANGE)
    except CannotExchange:
        _look_and_replace(place)
        return
    except (FileExistsError, FileNotFoundError) as error:
        _remove_spare(place)
        raise Changed from error
    except OSError:
        _remove_spare(place)
        raise
    if place.look(place.spare) != place.expected:
        _put_back(place, ours)
        raise Changed
    _remove_spare(place)


def take(place: Place) -> None:
    """What stands there is removed.

    Raises:
        Changed: it was not what was expected, and stands there again, or something newer does.
    """
    try:
        _rename(place.name, place.spare, place.directory, _NEW)
    except CannotExchange:
        if place.look(place.name) != place.expected:
            raise Changed from None
        os.unlink(place.name, dir_fd=place.directory)
        return
    except FileNotFoundError as error:
        raise Changed from error
    if place.look(place.spare) == place.expected:
        _remove_spare(place)
        return
    try:
        _rename(place.spare, place.name, place.directory, _NEW)
    except FileExistsError:
        # Someone has saved it anew since: theirs is the newer one.
        _remove_spare(place)
    raise Changed


def _put_back(place: Place, ours: str) -> None:
    in_place = ours
    for _ in range(_TRIES):
        goes_back = place.look(place.spare)
        try:
            _rename(place.spare, place.name, place.directory, _EXCHANGE)
        except FileNotFoundError:
            # Ours was removed meanwhile; what it had replaced goes back to where it was.
            with contextlib.suppress(FileExistsError):
                _rename(place.spare, place.name, place.directory, _NEW)
            return
        # What came out is what was put there last: nobody wrote in between, and the newest stands in its place.
        if place.look(place.spare) == in_place:
            _remove_spare(place)
            return
        in_place = goes_back


def _look_and_replace(place: Place) -> None:
    if place.look(place.name) != place.expected:
        _remove_spare(place)
        raise Changed
    try:
        os.replace(place.spare, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except OSError:
        _remove_spare(place)
        raise


def _remove_spare(place: Place) -> None:
    # A directory that someone put there is left: it is not ours to empty.
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(place.spare, dir_fd=place.directory)


__all__ = ["MAX_PATH", "Changed", "HostState", "ProjectFiles", "UnsafePath", "link_hash", "split_path"]

MAX_PATH = 4096
_NO_FILE = "neither a file nor a link"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafePath(Exception):
    """A path from a box that could leave the project, or that runs through a link; never shown to people."""


@dataclass(frozen=True, slots=True)
class HostState:
    """One path of the project as it is now."""

    kind: str = ""  # `file`, `link`, `other`, or empty when there is nothing
    sha256: str = ""  # Of the content, or of the link's target; empty when there is nothing
    size: int = 0  # Bytes
    mode: int = 0  # Permission bits
    changed: float = 0.0  # When content or attributes last changed, seconds since 1970; cannot be set by hand
    content: bytes | None = None  # The bytes, if they were asked for and are few enough


def split_path(path: str) -> list[str]:
    """A relative path's components.

    Raises:
        UnsafePath: it is absolute, empty, too long, or has an empty, `.` or `..` component or a NUL.
    """
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePath(path)
    return parts


class ProjectFiles:
    """Reads and replaces files below one directory of the host."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def state(self, path: str, *, keep: int = 0) -> HostState:
        """What lies at a path; a link is described, not followed. `keep` bytes at most are kept as content."""
        try:
            with self._parent(path) as (parent, name):
                return _state_at(parent, name, keep)
        except (FileNotFoundError, NotADirectoryError):
            return HostState()

    def in_the_way(self, path: str) -> Iterator[str]:
        """What keeps a new file from a path: what stands there or on the way to it; of a folder there, all it holds."""
        for reached, _ in self.directories(path):
            way = reached
        parts = split_path(path)
        standing = "/".join(parts[: len(way.split("/")) + 1 if way else 1])
        if not self.state(standing).kind:
            return
        if standing != path or not stat.S_ISDIR(os.lstat(self._root / path).st_mode):
            yield standing
            return
        for directory, folders, names in os.walk(self._root / path):
            links = [name for name in folders if os.path.islink(os.path.join(directory, name))]  # noqa: PTH114, PTH118
            for name in [*names, *links] or ([] if folders else [""]):
                yield os.path.relpath(os.path.join(directory, name), self._root)  # noqa: PTH118

    def newer_than(self, since: float) -> Iterator[str]:
        """Paths of files that have changed since then, of the first that are found; not what is installed there."""
        looked_at = 0
        for directory, folders, names in os.walk(self._root):
            folders[:] = sorted(name for name in folders if name not in _NOT_WRITTEN)
            for name in sorted(names):
                with contextlib.suppress(OSError):
                    if os.lstat(path := os.path.join(directory, name)).st_ctime > since:  # noqa: PTH118
                        yield os.path.relpath(path, self._root)
            looked_at += len(names)
            if looked_at > MOST_LOOKED_AT:
                return

    def directories(self, path: str) -> Iterator[tuple[str, int]]:
        """The directories that lead to a path, root first, as far as they exist: (path, open descriptor).

        A descriptor is good until the next one is asked for. A link ends the way as a missing directory does.
        """
        walked: list[str] = []
        handle = os.open(self._root, _DIRECTORY)
        try:
            for directory in split_path(path)[:-1]:
                yield "/".join(walked), handle
                try:
                    deeper = os.open(directory, _DIRECTORY, dir_fd=handle)
                except OSError:
                    return
                os.close(handle)
                handle = deeper
                walked.append(directory)
            yield "/".join(walked), handle
        finally:
            os.close(handle)

    def target(self, path: str) -> str | None:
        """Where the link at a path points; None when there is no link, or none that can be reached without one."""
        try:
            with self._parent(path) as (parent, name):
                return os.readlink(name, dir_fd=parent)
        except OSError:
            return None

    def replace(
        self, path: str, content: bytes, mode: int, *, expected: str | None = None, is_masked: bool = False
    ) -> None:
        """Put a file in place, whole or not at all; directories on the way are made.

        `expected` is the hash of what stands there now, empty for nothing; None puts it in place of whatever it is. Of
        the mode the special bits are dropped, and where it `is_masked` what the umask of this process takes away.

        Raises:
            Changed: something else stood there; it still does.
        """
        mode &= 0o777
        with self._parent(path, create=True) as (parent, name):
            temporary = _beside(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(temporary, flags, mode if is_masked else 0o600, dir_fd=parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    if not is_masked:
                        os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            _settle(parent, name, temporary, expected)

    def link(self, path: str, target: str, *, expected: str | None = None) -> None:
        """Put a link in place; the caller has checked where it points. `expected` and errors as for `replace`."""
        with self._parent(path, create=True) as (parent, name):
            temporary = _beside(name)
            os.symlink(target, temporary, dir_fd=parent)
            _settle(parent, name, temporary, expected)

    def remove(self, path: str, *, expected: str | None = None) -> None:
        """Remove a file or link, and the directories above it that it leaves empty.

        `expected` and errors are as for `replace`.
        """
        with self._parent(path) as (parent, name):
            if expected is None:
                os.unlink(name, dir_fd=parent)
            else:
                take(_place(parent, name, _beside(name), expected))
        parts = split_path(path)[:-1]
        while parts:
            try:
                with self._parent("/".join(parts)) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except OSError:
                return
            parts.pop()

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        *directories, name = split_path(path)
        handle = os.open(self._root, _DIRECTORY)
        try:
            for directory in directories:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(directory, 0o777, dir_fd=handle)
                deeper = os.open(directory, _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = deeper
            yield handle, name
        finally:
            os.close(handle)


def _beside(name: str) -> str:
    return f".{name[:40]}.{secrets.token_hex(4)}.tmp"


def _settle(parent: int, name: str, temporary: str, expected: str | None) -> None:
    if expected is not None:
        put(_place(parent, name, temporary, expected))
        return
    try:
        os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise


def _place(parent: int, name: str, spare: str, expected: str) -> Place:
    def look(at: str) -> str:
        try:
            return _state_at(parent, at, 0).sha256 or _NO_FILE
        except FileNotFoundError:
            return ""
        except OSError:
            return _NO_FILE

    return Place(parent, name, spare, expected, look)


def _state_at(parent: int, name: str, keep: int) -> HostState:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    bits = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=parent)
        return HostState("link", link_hash(target), len(target), bits, found.st_ctime, os.fsencode(target))
    if not stat.S_ISREG(found.st_mode):
        return HostState("other", "", 0, bits, found.st_ctime)
    digest = hashlib.sha256()
    kept = bytearray()
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=parent)
    with os.fdopen(handle, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            if len(kept) <= keep:
                kept += chunk[: keep + 1 - len(kept)]
    content = bytes(kept) if len(kept) <= keep else None
    return HostState("file", digest.hexdigest(), found.st_size, bits, found.st_ctime, content)


def link_hash(target: str) -> str:
    """The hash that stands for a link: of its target, marked so that no file has the same."""
    return hashlib.sha256(b"link\0" + os.fsencode(target)).hexdigest()
