"""The folder of one agent's kits: versions that never change, a link to the newest, and who uses which.

`<root>/<key>/versions/<digest>` is a version, `…/<digest>.lock` is held by whoever uses it, `<root>/<key>/kit` leads to
the newest. A version is made under another name, which its maker holds, and renamed when it is whole. What changes
the folder does so in turn (`.lock`), and never for longer than a rename takes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import KitUnwritable
from kagura_kernel.domain.kit import LeftOut, StagedPrompt, StagedSkill
from kagura_kernel.kit.staging.manifest import MANIFEST, read_manifest_files
from kagura_kernel.kit.staging.writing import (
    LONG_AGO,
    Hold,
    hold_directory,
    hold_file,
    remove_tree,
    replace_file,
    replace_link,
    sync,
    turn,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter


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
                raise KitUnwritable(str(self.root), "a link or a file stands where a folder should")
            if found.st_uid != os.geteuid():
                raise KitUnwritable(str(self.root), "it belongs to somebody else")
            if found.st_mode & _OTHERS:
                raise KitUnwritable(str(self.root), "others may write there")

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
        before = self.newest()
        if before != digest:
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
