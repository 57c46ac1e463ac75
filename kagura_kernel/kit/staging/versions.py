"""The folder of one agent's kits: versions that never change, a link to the newest, and who uses which.

`<root>/<key>/versions/<digest>` is a version, `…/<digest>.lock` is held by whoever uses it, `<root>/<key>/kit` leads to
the newest. A version is made under another name, which its maker holds, and renamed when it is whole. What changes
the folder does so in turn (`.lock`), and never for longer than a rename takes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import KitUnwritable
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal.settings_text import replace_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MANIFEST = "manifest.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One staged file, as the manifest has it."""

    staged: StagedFile  # Its place, size and redactions
    sha256: str  # Of its bytes
    encoding: str = ""  # Python's name of it; empty for what is no text
    executable: bool = False  # Whether it may be run


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a kit holds."""

    agent: str  # The agent's name
    definition: str  # SHA-256 of its definition
    files: tuple[ManifestFile, ...] = ()  # By target
    skills: tuple[StagedSkill, ...] = ()  # By name
    prompt_files: tuple[StagedPrompt, ...] = ()  # In the order in which a brain reads them
    agents: tuple[str, ...] = ()  # Names of sub-agents
    left_out: tuple[LeftOut, ...] = ()  # What was not staged
    omitted: int = 0  # How many more were not staged
    _bytes: list[bytes] = field(default_factory=list, repr=False, compare=False)

    def encoded(self) -> bytes:
        """The manifest's file; equal for equal kits."""
        if not self._bytes:
            whole = {
                "version": VERSION,
                "agent": {"name": self.agent, "definition": self.definition},
                "skills": [_skill(skill) for skill in self.skills],
                "prompt_files": [_prompt(prompt) for prompt in self.prompt_files],
                "agents": list(self.agents),
                "files": [_file(file) for file in self.files],
                "left_out": [{"target": one.target, "reason": one.reason} for one in self.left_out],
                "omitted": self.omitted,
            }
            self._bytes.append(f"{json.dumps(whole, indent=1, ensure_ascii=False)}\n".encode())
        return self._bytes[0]

    @property
    def digest(self) -> str:
        """SHA-256 over everything in the kit: over the manifest, which has that of each file."""
        return hashlib.sha256(self.encoded()).hexdigest()


def read_manifest_files(data: bytes) -> tuple[ManifestFile, ...]:
    """The files that a manifest of this version lists.

    Raises:
        ValueError: it is none.
    """
    try:
        return tuple(
            ManifestFile(
                StagedFile(str(one["target"]), int(one["size"]), int(one["redactions"]), tuple(map(str, one["kinds"]))),
                str(one["sha256"]),
                str(one["encoding"]),
                bool(one["executable"]),
            )
            for one in json.loads(data)["files"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it is no manifest of a kit") from error


def bounded(left_out: Sequence[LeftOut], most: int) -> tuple[tuple[LeftOut, ...], int]:
    """The first of what was left out, by target, and how many more there are."""
    ordered = sorted(set(left_out), key=lambda one: (one.target, one.reason))
    return tuple(ordered[:most]), max(0, len(ordered) - most)


def _skill(skill: StagedSkill) -> dict[str, Any]:
    return {"name": skill.name, "root": skill.root, "files": [file.target for file in skill.files]}


def _prompt(prompt: StagedPrompt) -> dict[str, Any]:
    return {"name": prompt.name, "place": prompt.place, "path": prompt.path}


def _file(file: ManifestFile) -> dict[str, Any]:
    return {
        "target": file.staged.target,
        "size": file.staged.size,
        "sha256": file.sha256,
        "encoding": file.encoding,
        "executable": file.executable,
        "redactions": file.staged.redactions,
        "kinds": list(file.staged.kinds),
    }


_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

PATIENCE = 60.0
"""Seconds for which another process may hold a folder of kits before it counts as stuck."""
_PAUSE = 0.005


class Hold:
    """Something that is locked until it is let go, or until this process ends."""

    def __init__(self, handle: int) -> None:
        self._end = weakref.finalize(self, os.close, handle)

    @property
    def locked(self) -> bool:
        """Whether it was not let go yet."""
        return self._end.alive

    def let_go(self) -> None:
        """Unlock; may be called twice."""
        self._end()


def hold_directory(path: Path) -> Hold | None:
    """A directory for oneself; None when somebody else has it. Raises OSError."""
    return _hold(os.open(path, _DIRECTORY), fcntl.LOCK_EX)


def hold_file(path: Path, *, alone: bool) -> Hold | None:
    """A file, made if need be, for oneself or with others; None when it cannot be had now. Raises OSError."""
    return _hold(os.open(path, _FILE, 0o600), fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until nobody else has the file, and have it for as long as the block lasts.

    Raises:
        OSError: it cannot be had; ETIMEDOUT when somebody does not let go of it.
    """
    give_up = time.monotonic() + PATIENCE
    while (held := hold_file(path, alone=True)) is None:
        if time.monotonic() > give_up:
            raise TimeoutError(errno.ETIMEDOUT, "another process does not let go of it")
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        held.let_go()


def _hold(handle: int, how: int) -> Hold | None:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if error.errno in _TAKEN:
            return None
        raise
    return Hold(handle)


LONG_AGO = 315_532_800_000_000_000
"""The time of every staged file, 1980 in nanoseconds: equal kits are equal, and every archive can hold it."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SYNCING = 16
_THERE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def told_as_unwritable(place: Path) -> Iterator[None]:
    """What goes wrong while writing, told of what stands in the way where that is known, else of the whole place.

    Raises:
        KitUnwritable: something could not be written.
    """
    try:
        yield
    except OSError as error:
        named = str(error.filename2 or error.filename)
        where = named if named.startswith(f"{place}/") else str(place)
        raise KitUnwritable(where, (error.strerror or "unknown reason").lower()) from error


def write_file(path: Path, data: bytes, *, executable: bool = False) -> None:
    """A new file with all of the data, not yet on the disk for certain; raises OSError."""
    handle = os.open(path, _NEW, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fchmod(handle, 0o755 if executable else 0o644)
        os.utime(handle, ns=(LONG_AGO, LONG_AGO))
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """A directory that everybody in a box may enter; those above it up to a staged one as well. Raises OSError."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=0o755)
        path.chmod(0o755)


def settle_tree(root: Path) -> None:
    """Put everything below and at `root` on the disk, and give every directory its fixed time; raises OSError.

    That is done when all is written, and by several threads, since most file systems then write it at once and not
    file by file.
    """
    from concurrent.futures import ThreadPoolExecutor

    walked = list(os.walk(root, topdown=False))
    with ThreadPoolExecutor(_SYNCING) as pool:
        for _ in pool.map(sync, (Path(folder, name) for folder, _, names in walked for name in names)):
            pass
        for _ in pool.map(lambda folder: sync(Path(folder), time=LONG_AGO), (folder for folder, _, _ in walked)):
            pass


def sync(path: Path, *, time: int | None = None) -> None:
    """Put a file, or the names in a directory, on the disk, and give it a time; raises OSError."""
    handle = os.open(path, _THERE)
    try:
        if time is not None:
            os.utime(handle, ns=(time, time))
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_link(path: Path, target: str) -> None:
    """Let a link lead somewhere else from one moment to the next; raises OSError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.symlink_to(target)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def remove_tree(path: Path) -> None:
    """Take a directory of ours away as far as it can be; what stays is tried again by the next build."""
    shutil.rmtree(path, ignore_errors=True)


STATE = "state.json"
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What came of a build."""

    digest: str  # SHA-256 over everything staged: the name of the version
    empty: bool  # Whether nothing was staged but the manifest, so that a box needs no kit
    skills: tuple[StagedSkill, ...]  # By name; those of the workspace too
    prompt_files: tuple[StagedPrompt, ...]  # In the order in which a brain reads them; those of the workspace too
    agents: tuple[str, ...]  # Names of sub-agents
    left_out: tuple[LeftOut, ...]  # What was not staged, at most 200
    omitted: int  # How many more were not staged
    # Name and redacted text of each prompt file that the agent itself asked for, in that order
    prompt_texts: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Built):
    """The latest build, and what it was made of."""

    fingerprint: str  # Of what it was made
    boot: str  # Since when the machine was running; what was written before may have been lost with its power


def read_state(folder: Path) -> State | None:
    """The latest build of a folder; None when there was none, or it cannot be read: then everything is made anew."""
    try:
        with (folder / STATE).open("rb") as file:
            data = file.read(_MAX_BYTES)
        return _adapter().validate_json(data)
    except (OSError, ValueError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Remember a build; raises OSError."""
    replace_file(folder / STATE, _adapter().dump_json(state))


def forget_state(folder: Path) -> None:
    """Let the next build make everything anew."""
    with contextlib.suppress(OSError):
        (folder / STATE).unlink(missing_ok=True)


@cache
def boot() -> str:
    """What tells this run of the machine from those before; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@cache
def _adapter() -> TypeAdapter[State]:
    from pydantic import TypeAdapter

    return TypeAdapter(State)


LINK = "kit"
VERSIONS = "versions"
LOCK = ".lock"
MAKING = "making-"
DEAD = "dead-"

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Shelf:
    """The folder of one agent's kits. What it does raises OSError where nothing else is said.

    Args:
        root: The folder of all kits.
        key: Whose kits.
    """

    def __init__(self, root: Path, key: str) -> None:
        self.root = root
        self.folder = root / key
        self.versions = self.folder / VERSIONS
        self.link = self.folder / LINK

    def prepare(self) -> None:
        """Make the folders that are missing.

        Raises:
            KitUnwritable: somebody else may write there.
        """
        self.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.root, self.folder, self.versions):
            folder.mkdir(exist_ok=True, mode=0o700)
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode):
                raise KitUnwritable(str(folder), "a link or a file stands where a folder should")
            if found.st_uid != os.geteuid():
                raise KitUnwritable(str(folder), "it belongs to somebody else")
            if found.st_mode & _OTHERS:
                raise KitUnwritable(str(folder), "others may write there")

    def version(self, digest: str) -> Path:
        """Where a version lies."""
        return self.versions / digest

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else changes the folder meanwhile."""
        with turn(self.folder / LOCK):
            yield

    @contextmanager
    def making(self) -> Iterator[Path]:
        """An empty directory to make a version in; what is left of it at the end is taken away."""
        path = self.versions / f"{MAKING}{os.getpid()}-{secrets.token_hex(4)}"
        with self.turn():
            path.mkdir(mode=0o755)
            path.chmod(0o755)
            held = hold_directory(path)
        try:
            yield path
        finally:
            remove_tree(path)
            if held is not None:
                held.let_go()

    def publish(self, made: Path, digest: str, now: datetime) -> tuple[Hold, bool]:
        """Let what was made be the version of this digest, and the newest; whether it was there already."""
        with self.turn():
            there = self.version(digest).is_dir()
            if there and not is_whole(self.version(digest), digest, thorough=True):
                self._set_aside(digest)
                there = False
            if not there:
                made.rename(self.version(digest))
            held = self._use(digest, now)
            self._lead_to(digest)
            sync(self.versions)
            sync(self.folder)
        return held, there

    def take(self, digest: str, now: datetime, *, thorough: bool) -> Hold | None:
        """Use a version that is there and as it was staged, and let it be the newest; None when it is not.

        Args:
            digest: Which one.
            now: The time.
            thorough: Whether to read every byte, and not only what the system says of each file.
        """
        with self.turn():
            if not self.version(digest).is_dir():
                return None
            held = self._use(digest, now)
            self._lead_to(digest)
        if is_whole(self.version(digest), digest, thorough=thorough):
            return held
        held.let_go()
        return None

    def newest(self) -> str:
        """The digest of the version that the link leads to; empty when it leads to none."""
        try:
            return self.link.readlink().name
        except OSError:
            return ""

    def lock_of(self, digest: str) -> Path:
        """The file that is held by whoever uses a version; its time is that of the latest use."""
        return self.versions / f"{digest}.lock"

    def touch(self, digest: str, now: datetime) -> None:
        """Note that a version was in use until now."""
        seconds = now.timestamp()
        os.utime(self.lock_of(digest), (seconds, seconds))

    def _use(self, digest: str, now: datetime) -> Hold:
        held = hold_file(self.lock_of(digest), alone=False)
        if held is None:  # only whoever has the turn holds one alone
            raise BlockingIOError("a version is held by somebody who has no turn")
        self.touch(digest, now)
        return held

    def _lead_to(self, digest: str) -> None:
        if self.newest() != digest:
            replace_link(self.link, f"{VERSIONS}/{digest}")

    def _set_aside(self, digest: str) -> None:
        self.version(digest).rename(self.versions / f"{DEAD}{secrets.token_hex(8)}")


def is_whole(version: Path, digest: str, *, thorough: bool) -> bool:
    """Whether a version is as it was staged.

    What the system says of each file and directory tells that, as long as the machine was not switched off since;
    where that is odd, or everything is to be read, the bytes decide.
    """
    try:
        data = (version / MANIFEST).read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            return False
        files = {file.staged.target: file for file in read_manifest_files(data)}
        if not thorough and _looks_whole(version, {target: file.staged.size for target, file in files.items()}):
            return True
        return set(_files(version)) == {*files, MANIFEST} and all(
            hashlib.sha256((version / target).read_bytes()).hexdigest() == file.sha256 for target, file in files.items()
        )
    except (OSError, ValueError):
        return False


def _files(version: Path) -> Iterator[str]:
    """The plain files of a version; anything else stands there under a name that no file has."""
    for folder, folders, names in os.walk(version):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode):
                yield path.relative_to(version).as_posix() if stat.S_ISREG(mode) else ""


def _looks_whole(version: Path, sizes: dict[str, int]) -> bool:
    # A name that came, went or changed left its mark in the time of its directory.
    folders = {""}
    for target in sizes:
        while (target := target.rpartition("/")[0]) not in folders:
            folders.add(target)
    if any(os.lstat(f"{version}/{folder}").st_mtime_ns != LONG_AGO for folder in folders):
        return False
    for target, size in sizes.items():
        found = os.lstat(f"{version}/{target}")
        if not stat.S_ISREG(found.st_mode) or found.st_size != size or found.st_mtime_ns != LONG_AGO:
            return False
    return True
