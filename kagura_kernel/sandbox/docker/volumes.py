"""Copies of directories of the host at the daemon: volumes that boxes read, filled once for each content.

A daemon may be on another machine or in another mount namespace, so nothing of the host is mounted: a directory is
read here, and sent. A volume bears a name that nobody else can know until it is full, and its name is given to nobody
before, so that a half-filled one is never seen. It belongs to the back-end object that filled it and goes with that,
by its closing, by the reaper, or by the sweep of the next start.

The directory is walked with descriptors and no link is followed, so that nothing outside it is read even while
somebody changes it. Owners are left behind, and modes are reduced to whether a file can be run: in the box everybody
may read what is there, and nobody may write it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import posixpath
import secrets
import stat
import tarfile
import tempfile
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from kagura_kernel.domain.errors import PathNotShown, SandboxUnavailable
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.sandbox.docker.engine import DockerEngine
from kagura_kernel.sandbox.docker.flags import CONTENT_LABEL, FILLING, HOLDER_LABEL, Volume, filling_body
from kagura_kernel.sandbox.docker.reaper import remove_left_volumes
from kagura_kernel.sandbox.populate import DEEPEST, DIRECTORY, REGULAR

LARGEST = 512 * 2**20
"""Bytes of content that one directory may have."""
MOST = 100_000
"""Files, directories and links that it may have."""

_RUN_BITS = 0o111

State = tuple[tuple[str | int, ...], ...]
"""Each entry's name, mode, device, number, size and times: what tells contents apart without reading them."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A directory that was read."""

    digest: str  # SHA-256, in hexadecimal, over names, kinds, contents and what can be run
    state: State  # what `state_of` tells of exactly what was read
    # What is neither a file, a directory nor a link that stays inside; relative to the directory.
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One name, in a directory that is open for as long as the walk stands at it."""

    path: str
    name: str
    folder: int
    found: os.stat_result

    @property
    def state(self) -> tuple[str | int, ...]:
        found = self.found
        times = found.st_mtime_ns, found.st_ctime_ns
        return (self.path, found.st_mode, found.st_dev, found.st_ino, found.st_size, *times)


def state_of(root: Path) -> State:
    """What is there now.

    Raises:
        PathNotShown: it is missing, no directory, behind a link, unreadable, or too much.
    """
    with closing(_walk(root)) as entries:
        return tuple(entry.state for entry in entries)


def pack(root: Path, archive: IO[bytes]) -> Packed:
    """Write the directory into `archive`, as a tar file whose first name, `.`, is the directory itself.

    Raises:
        PathNotShown: as for `state_of`, or it changed while it was read.
    """
    digest = hashlib.sha256()
    state: list[tuple[str | int, ...]] = []
    left_out: list[str] = []
    with (
        tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar,
        closing(_walk(root)) as entries,
    ):
        for entry in entries:
            state.append(entry.state)
            head = _head(entry)
            if head is None:
                left_out.append(entry.path)
                continue
            words = [head.name, head.type.decode("ascii"), head.mode, head.size, head.linkname]
            digest.update(json.dumps(words).encode("ascii"))
            try:
                _add(tar, head, entry, digest)
            except OSError as error:
                raise PathNotShown(str(root), f"{entry.path} cannot be read ({_why(error)})") from error
    return Packed(digest.hexdigest(), tuple(state), tuple(left_out))


def _walk(root: Path) -> Generator[_Entry, None, None]:
    """Every entry from the directory itself on, in an order that only names decide."""
    if os.path.realpath(root) != str(root):
        raise PathNotShown(str(root), "it, or a folder above it, is a link")
    count = size = 0
    try:
        folder = os.open(root, DIRECTORY)
    except NotADirectoryError as error:
        raise PathNotShown(str(root), "it is not a directory") from error
    except OSError as error:
        raise PathNotShown(str(root), _why(error)) from error
    try:
        yield _Entry(".", ".", folder, os.fstat(folder))
        for entry in _below(folder, "", 0):
            count += 1
            size += entry.found.st_size if stat.S_ISREG(entry.found.st_mode) else 0
            if count > MOST or size > LARGEST:
                most = f"more than {MOST} files" if count > MOST else f"larger than {LARGEST // 2**20} MiB"
                raise PathNotShown(str(root), f"it is {most}, which is more than is sent to a container")
            yield entry
    except OSError as error:
        raise PathNotShown(str(root), f"something in it cannot be read ({_why(error)})") from error
    finally:
        os.close(folder)


def _below(folder: int, above: str, depth: int) -> Iterator[_Entry]:
    with os.scandir(folder) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        entry = _Entry(f"{above}{name}", name, folder, os.stat(name, dir_fd=folder, follow_symlinks=False))
        yield entry
        if stat.S_ISDIR(entry.found.st_mode):
            if depth >= DEEPEST:
                raise OSError(errno.ELOOP, f"it is deeper than {DEEPEST} folders")
            inner = os.open(name, DIRECTORY, dir_fd=folder)
            try:
                yield from _below(inner, f"{entry.path}/", depth + 1)
            finally:
                os.close(inner)


def _head(entry: _Entry) -> tarfile.TarInfo | None:
    """What stands before its content in the archive; None when it is nothing that belongs there."""
    head = tarfile.TarInfo(entry.path)
    head.mtime = int(entry.found.st_mtime)
    mode = entry.found.st_mode
    if stat.S_ISDIR(mode):
        head.type, head.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISREG(mode):
        head.mode = 0o755 if mode & _RUN_BITS else 0o644
        head.size = entry.found.st_size
    elif stat.S_ISLNK(mode):
        head.type, head.mode = tarfile.SYMTYPE, 0o777
        head.linkname = os.readlink(entry.name, dir_fd=entry.folder)
        if not _stays_inside(entry.path, head.linkname):
            return None
    else:
        return None
    return head


def _stays_inside(path: str, target: str) -> bool:
    """Whether a link leads to a place below the directory, by its words alone."""
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return not posixpath.isabs(target) and there != ".." and not there.startswith("../")


def _add(tar: tarfile.TarFile, head: tarfile.TarInfo, entry: _Entry, digest: hashlib._Hash) -> None:
    if not head.isreg():
        tar.addfile(head)
        return
    with open(os.open(entry.name, REGULAR, dir_fd=entry.folder), "rb") as file:  # noqa: PTH123 - a descriptor
        _check_unchanged(entry, file)
        tar.addfile(head, _Hashed(file, digest))
        _check_unchanged(entry, file)


def _check_unchanged(entry: _Entry, file: IO[bytes]) -> None:
    if replace(entry, found=os.fstat(file.fileno())).state != entry.state:
        raise OSError(errno.EBUSY, "it changes at this moment")


class _Hashed:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes], digest: hashlib._Hash) -> None:
        self._file = file
        self._digest = digest

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


KEPT = 8
"""How many volumes stay for the next box; more only while boxes have them."""

_PLACE = "/filled"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Copies:
    """The directories of one box, at the daemon."""

    volumes: tuple[Volume, ...] = ()  # one for each directory
    digests: tuple[str, ...] = ()  # of their contents, likewise
    states: tuple[State, ...] = ()  # what was on the host when each was copied, likewise
    notes: tuple[str, ...] = ()  # what a reader should know


class DockerVolumes:
    """The volumes of one back-end object at one daemon."""

    def __init__(self, engine: DockerEngine, labels: Mapping[str, str]) -> None:
        self._engine = engine
        self._labels = labels  # of the back-end object
        self._filled: OrderedDict[str, str] = OrderedDict()
        self._read: dict[Path, Packed] = {}
        self._one_by_one = asyncio.Lock()

    async def copies(self, pairs: Sequence[tuple[Path, str]], image: str) -> Copies:
        """Volumes with what lies in these directories now; only what the daemon has not is sent.

        `pairs` are (directory on the host, path in the box); any image that is there will do, nothing of it is run.

        Raises:
            PathNotShown: a directory cannot be read, or is too much.
            SandboxUnavailable: the daemon does not answer, or refuses.
        """
        if not pairs:
            return Copies()
        async with self._one_by_one:
            found = [(await self._volume(source, image), target) for source, target in pairs]
        return Copies(
            tuple(Volume(name, target) for (name, _), target in found),
            tuple(packed.digest for (_, packed), _ in found),
            tuple(packed.state for (_, packed), _ in found),
            tuple(note for (_, packed), target in found for note in _notes(packed, target)),
        )

    async def whole(self, copies: Copies) -> bool:
        """Whether the volumes that a container was created with are the ones that were filled.

        Somebody may have removed one, and for a name that it does not know the daemon makes an empty one. From the
        creation of a container on nobody can remove what it has.
        """
        for volume, digest in zip(copies.volumes, copies.digests, strict=True):
            labels = await self._engine.volume_labels(volume.name) or {}
            if labels.get(CONTENT_LABEL) != digest:
                return False
        return True

    async def forget(self, copies: Copies) -> None:
        """These are not whole: remove what took their places, and fill others when they are next asked for."""
        for volume, digest in zip(copies.volumes, copies.digests, strict=True):
            if self._filled.get(digest) == volume.name:
                del self._filled[digest]
            await self._engine.remove_volume(volume.name)

    async def close(self) -> None:
        """Remove every volume; its boxes are gone already.

        Raises:
            SandboxUnavailable: the daemon does not answer.
        """
        self._filled.clear()
        await remove_left_volumes(self._engine, HOLDER_LABEL, lambda holder: holder == self._labels[HOLDER_LABEL])

    # ---------------------------------------------------------------- inside

    async def _volume(self, source: Path, image: str) -> tuple[str, Packed]:
        packed = self._read.get(source)
        if packed is None or packed.digest not in self._filled or not await _is(source, packed.state):
            packed = await self._send(source, image)
        self._read.pop(source, None)
        self._read[source] = packed
        self._filled.move_to_end(packed.digest)
        return self._filled[packed.digest], packed

    async def _send(self, source: Path, image: str) -> Packed:
        with tempfile.TemporaryFile() as archive:
            packed = await asyncio.to_thread(pack, source, archive)
            if packed.digest not in self._filled:
                archive.seek(0)
                await self._fill(packed.digest, image, archive)
        return packed

    async def _fill(self, digest: str, image: str, archive: IO[bytes]) -> None:
        """Send an archive into a new volume, through a container that is made for that and never started."""
        name, through = f"kagura-{digest[:12]}-{secrets.token_hex(8)}", f"{FILLING}{secrets.token_hex(8)}"
        try:
            await self._engine.create_volume(name, {**self._labels, CONTENT_LABEL: digest})
            await self._engine.create(through, filling_body(image, Volume(name, _PLACE), self._labels))
            await self._engine.put(through, _PLACE, archive)
            await self._engine.remove(through)
        except BaseException:
            # What cannot be removed now bears our labels, and is found by them.
            with contextlib.suppress(SandboxUnavailable):
                await self._engine.remove(through)
                await self._engine.remove_volume(name)
            raise
        self._filled[digest] = name
        await self._trim()

    async def _trim(self) -> None:
        """Remove what was not asked for lately; what a box has stays until the next look."""
        for digest, name in list(self._filled.items())[:-KEPT]:
            with contextlib.suppress(SandboxUnavailable):
                if await self._engine.remove_volume(name):
                    del self._filled[digest]
        while len(self._read) > KEPT:
            del self._read[next(iter(self._read))]


async def still_so(states: Sequence[State], pairs: Sequence[tuple[Path, str]]) -> bool:
    """Whether on the host there is still what was copied."""
    return all([await _is(source, state) for (source, _), state in zip(pairs, states, strict=True)])


async def _is(source: Path, state: State) -> bool:
    try:
        return await asyncio.to_thread(state_of, source) == state
    except PathNotShown:
        return False


def _notes(packed: Packed, target: str) -> tuple[str, ...]:
    if not packed.left_out:
        return ()
    names = ", ".join(f"{target}/{name}" for name in packed.left_out[:_SHOWN])
    more = f" and {len(packed.left_out) - _SHOWN} more" if len(packed.left_out) > _SHOWN else ""
    return (f"neither files nor links that stay inside, so not in the box: {names}{more}",)
