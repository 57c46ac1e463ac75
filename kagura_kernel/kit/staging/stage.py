"""Stages a plan: copies, redacts, swaps the finished kit in; and what lies in a staged kit, for people to read."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import KitGone, KitRefused
from kagura_kernel.domain.kit import MARKER, StagedFile
from kagura_kernel.domain.late_dataclass import dataclass, field, fields, replace
from kagura_kernel.kit import redaction
from kagura_kernel.kit.staging.home_files import Unfit, open_root
from kagura_kernel.kit.staging.plan import BYTE_ORDER_MARK, KitPlan, copy_plan
from kagura_kernel.kit.staging.planned import PlannedFile
from kagura_kernel.kit.staging.versions import (
    DEAD,
    LINK,
    MAKING,
    MANIFEST,
    STATE,
    VERSIONS,
    Built,
    Hold,
    ManifestFile,
    Shelf,
    State,
    boot,
    forget_state,
    hold_directory,
    hold_file,
    read_manifest_files,
    read_state,
    remove_tree,
    settle_tree,
    told_as_unwritable,
    write_file,
    write_state,
)

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor

_LAYOUT = 1
"""Of kits and of what is kept beside them; another number makes every kit anew."""

# File systems count time in ticks: what was written within one of them looks the same as what was there before.
_TICK = 50_000_000


def fingerprint(plan: KitPlan) -> str:
    """SHA-256 over the plan, the state of each file of it, and the rules of redaction."""
    whole = {
        "layout": _LAYOUT,
        "redaction": redaction_version(),
        "agent": [plan.agent, plan.definition],
        "skills": [
            [one.name, one.written, one.description, one.place, one.root, _states(one.files)] for one in plan.skills
        ],
        "prompts": [[one.name, one.place, one.path, one.own, _states((one.file,))] for one in plan.prompt_files],
        "agents": [[one.name, one.text] for one in plan.agents],
        "left_out": [[one.target, one.reason] for one in plan.left_out],
    }
    return hashlib.sha256(json.dumps(whole, ensure_ascii=True).encode()).hexdigest()


def is_settled(plan: KitPlan, began: int) -> bool:
    """Whether every file was last changed so long before that a later change cannot look the same.

    Args:
        plan: What was staged.
        began: When staging began, nanoseconds since 1970.
    """
    files = (*plan.staged, *(prompt.file for prompt in plan.prompt_files))
    return all(max(file.stamp.modified, file.stamp.changed) < began - _TICK for file in files)


@cache
def redaction_version() -> str:
    """What is known of secrets here: the scanner's version and the state of our own rules."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        scanner = version("kingfisher-secret-scanner")
    except PackageNotFoundError:
        scanner = ""
    rules = Path(redaction.__file__ or "").parent
    found = sorted(
        (path.relative_to(rules).as_posix(), path.stat().st_size, path.stat().st_mtime_ns)
        for path in rules.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return hashlib.sha256(json.dumps([scanner, found]).encode()).hexdigest()


def _states(files: tuple[PlannedFile, ...]) -> list[list[object]]:
    return [[file.target, file.executable, *file.stamp.values()] for file in files]


KEPT = timedelta(minutes=10)
"""How long a version stays after its latest use, when another is newer."""
FEW = 8
MANY = 64
"""Of a kit that changes all the time, so many older versions stay that long; those in use, and the newest, always."""
_STAY = ((MANY, timedelta(0)), (FEW, timedelta(seconds=30)), (0, KEPT))
FORGOTTEN = timedelta(days=30)
"""How long the kits of an agent stay after their latest use."""


def reap(shelf: Shelf, now: datetime) -> None:
    """Take away what is left over in one folder. What cannot be taken away now is tried again by the next build."""
    with contextlib.suppress(OSError):
        with shelf.turn():
            dead = [*_left_behind(shelf), *_outlived(shelf, now)]
        for path in dead:
            remove_tree(path)


def reap_forgotten(root: Path, now: datetime, *, but: str) -> None:
    """Take away the kits of agents that were not used for a long time.

    Their folders stay, with nothing in them: somebody may be about to use one.

    Args:
        root: The folder of all kits.
        now: The time.
        but: Whose kits stay, whatever their age.
    """
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            if folder.name != but and (folder / LINK).is_symlink():
                _reap_forgotten(Shelf(root, folder.name), now)


def _left_behind(shelf: Shelf) -> Iterator[Path]:
    """What processes that are gone were making, and what they had begun to take away."""
    for path in shelf.versions.iterdir():
        if path.name.startswith(DEAD):
            yield path
        elif path.name.startswith(MAKING) and (held := hold_directory(path)) is not None:
            yield _renamed(path)
            held.let_go()
    for path in (*shelf.folder.glob(f".{LINK}.*.tmp"), *shelf.folder.glob(f".{STATE}.*")):
        path.unlink(missing_ok=True)


def _outlived(shelf: Shelf, now: datetime) -> Iterator[Path]:
    newest = shelf.newest()
    unused: list[tuple[float, Path]] = []
    for path in shelf.versions.iterdir():
        name = path.name
        if name.endswith(".lock"):
            if not shelf.version(name.removesuffix(".lock")).exists() and hold_file(path, alone=True) is not None:
                path.unlink(missing_ok=True)
        elif (
            not name.startswith((DEAD, MAKING)) and name != newest and (used := _unused_since(shelf, name)) is not None
        ):
            unused.append((used, path))
    unused.sort(reverse=True)
    for number, (used, path) in enumerate(unused):
        # Whoever follows the link without holding a version has a while to read it.
        stays = next(longest for most, longest in _STAY if number >= most)
        if used < (now - stays).timestamp() or not stays:
            yield _renamed(path)
            # Whoever wants to hold it waits for its turn.
            shelf.lock_of(path.name).unlink(missing_ok=True)


def _unused_since(shelf: Shelf, digest: str) -> float | None:
    """When a version was last used, seconds since 1970; None while somebody holds it. Asked by whoever has the turn."""
    held = hold_file(shelf.lock_of(digest), alone=True)
    if held is None:
        return None
    used = shelf.lock_of(digest).stat().st_mtime
    held.let_go()
    return used


def _reap_forgotten(shelf: Shelf, now: datetime) -> None:
    with contextlib.suppress(OSError):
        with shelf.turn():
            names = [path.name for path in shelf.versions.iterdir()]
            digests = [name for name in names if not name.startswith((DEAD, MAKING)) and not name.endswith(".lock")]
            uses = [_unused_since(shelf, digest) for digest in digests]
            if any(used is None or used >= (now - FORGOTTEN).timestamp() for used in uses):
                return
            forget_state(shelf.folder)
            shelf.link.unlink(missing_ok=True)
            dead = [_renamed(shelf.version(digest)) for digest in digests]
        for path in dead:
            remove_tree(path)


def _renamed(path: Path) -> Path:
    return path.rename(path.with_name(f"{DEAD}{secrets.token_hex(8)}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit(Built):
    """A kit that is staged, and held: while it is, nobody takes its directory away. A context manager.

    Attributes:
        digest: SHA-256 over everything staged; empty for an empty kit.
    """

    directory: Path  # The version that was staged, on the host; never changed once it is there. What a box mounts.
    link: Path  # The path that stays the same for the agent and the project, and leads to the newest version
    unchanged: bool  # Whether an earlier build could be used as it was
    release: Callable[[], None] = field(repr=False, compare=False, default=lambda: None)  # Lets go of the directory

    def close(self) -> None:
        """Let go of the directory; may be called twice."""
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def build_kit(plan: KitPlan, root: Path, redactor: Redactor, *, clock: Clock | None = None) -> Kit:
    """The kit of a plan, staged below `root`; the caller closes it. Blocks; any number may build at once.

    Args:
        plan: What to stage.
        root: The folder of kits, `<data home>/kits`; made as 0700.
        redactor: Takes the secrets out; not asked when an earlier build can be used as it is.
        clock: Says how old versions are that nobody needs any more.

    Raises:
        KitRefused: The plan has problems.
        KitUnwritable: There is no room, or somebody else may write there.
        RedactionUnavailable: Secrets cannot be looked for, so nothing may be staged.
    """
    if plan.problems:
        raise KitRefused(plan.agent, plan.problems)
    clock = clock or SystemClock()
    # A box is shown a directory by a path without links; the person's own home may be behind one.
    shelf = Shelf(root.parent.resolve() / root.name, plan.key)
    with told_as_unwritable(root):
        shelf.prepare()
        mark = fingerprint(plan)
        kit = _as_before(shelf, mark, clock) or _anew(plan, shelf, mark, redactor, clock)
        reap(shelf, clock.now())
    return kit


def _as_before(shelf: Shelf, mark: str, clock: Clock) -> Kit | None:
    """The kit of an earlier build of the very same plan, if it is still there as it was."""
    state = read_state(shelf.folder)
    if state is None or state.fingerprint != mark:
        return None
    held = shelf.take(state.digest, clock.now(), thorough=state.boot != boot())
    if held is None:
        return None
    if state.boot != boot():
        with shelf.turn():
            write_state(shelf.folder, replace(state, boot=boot()))
    return _kit(shelf, state, held, clock, unchanged=True)


def _anew(plan: KitPlan, shelf: Shelf, mark: str, redactor: Redactor, clock: Clock) -> Kit:
    began = time.time_ns()
    with shelf.making() as making:
        copied = copy_plan(plan, making, redactor)
        manifest = copied.manifest
        write_file(making / MANIFEST, manifest.encoded())
        settle_tree(making)
        held, unchanged = shelf.publish(making, manifest.digest, clock.now())
    state = State(
        fingerprint=mark,
        boot=boot(),
        digest=manifest.digest,
        empty=not manifest.files,
        skills=manifest.skills,
        prompt_files=manifest.prompt_files,
        agents=manifest.agents,
        left_out=manifest.left_out,
        omitted=manifest.omitted,
        prompt_texts=copied.prompt_texts,
    )
    try:
        # In turn, so that nobody takes for left over what is being written.
        with shelf.turn():
            if is_settled(plan, began):
                write_state(shelf.folder, state)
            else:
                forget_state(shelf.folder)
    except BaseException:
        held.let_go()
        raise
    reap_forgotten(shelf.root, clock.now(), but=plan.key)
    return _kit(shelf, state, held, clock, unchanged=unchanged)


def _kit(shelf: Shelf, state: State, held: Hold, clock: Clock, *, unchanged: bool) -> Kit:
    built = {one.name: getattr(state, one.name) for one in fields(Built)}
    return Kit(
        **built | {"digest": "" if state.empty else state.digest},
        directory=shelf.version(state.digest),
        link=shelf.link,
        unchanged=unchanged,
        release=partial(_release, shelf, state.digest, held, clock),
    )


def _release(shelf: Shelf, digest: str, held: Hold, clock: Clock) -> None:
    # Where the note cannot be made, the version only counts as unused for longer than it was.
    with contextlib.suppress(OSError):
        if held.locked:
            shelf.touch(digest, clock.now())
    held.let_go()


MAX_SHOWN = 4 << 20
"""Bytes of one file that a person is shown."""

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Block:
    """A marker in a staged text."""

    start: int  # Where it begins, in characters from 0
    end: int  # Where it ends
    kind: str  # Of what kind the secret was


@dataclass(frozen=True, slots=True)
class StagedText:
    """One staged file as a person may read it."""

    target: str  # Its place below the kit's root
    text: str = field(repr=False)  # What is in it; empty for what is no text
    # Where markers stand in `text`; none in a file that nothing was taken out of, whatever stands in it
    blocks: tuple[Block, ...] = ()
    size: int = 0  # Bytes of the file
    is_text: bool = True  # Whether it is one
    cut: bool = False  # Whether `text` is only its beginning


def staged_files(root: Path, digest: str) -> tuple[StagedFile, ...]:
    """Every file of a staged kit but its manifest, by target.

    Args:
        root: The folder of kits.
        digest: Which one, as events tell it.

    Raises:
        KitGone: It is not kept any more.
    """
    return tuple(file.staged for file in _manifest(_version(root, digest)))


def read_staged(root: Path, digest: str, target: str) -> StagedText:
    """One file of a staged kit.

    Args:
        root: The folder of kits.
        digest: Which one.
        target: Which file of it, as `staged_files` tells it, or `manifest.json`.

    Raises:
        KitGone: The kit is not kept any more, or has no such file.
    """
    version = _version(root, digest)
    files = {file.staged.target: file for file in _manifest(version)}
    if target not in files and target != MANIFEST:
        raise KitGone(f"The kit has no file {target!r}")
    try:
        with open_root(version) as folder:
            size = folder.look(target).st_size
            data = folder.head(target, MAX_SHOWN)
    except (OSError, Unfit) as error:
        raise KitGone(f"The file {target!r} of the kit is gone") from error
    encoding = files[target].encoding if target in files else "utf-8"
    if not encoding:
        return StagedText(target, "", size=size, is_text=False)
    # What is cut may end in the middle of a character.
    text = codecs.getincrementaldecoder(encoding)("replace").decode(data, final=size <= len(data))
    text = text.removeprefix(BYTE_ORDER_MARK)
    markers = MARKER.finditer(text) if target not in files or files[target].staged.redactions else ()
    blocks = tuple(Block(found.start(), found.end(), found["kind"]) for found in markers)
    return StagedText(target, text, blocks, size, cut=len(data) < size)


def _version(root: Path, digest: str) -> Path:
    if _DIGEST.fullmatch(digest):
        with contextlib.suppress(OSError):
            for folder in sorted(root.iterdir()):
                version = folder / VERSIONS / digest
                if version.is_dir():
                    return version
    raise KitGone("This kit is not kept any more")


def _manifest(version: Path) -> tuple[ManifestFile, ...]:
    try:
        return read_manifest_files((version / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise KitGone("This kit is not kept any more") from error
