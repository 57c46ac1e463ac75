"""A box's own layer over the kernel's Python: packages are installed in it as anywhere, and are gone with the box.

Each folder of the environment is an overlay: the host's own files below, which nobody writes, and a part of the box's
scratch space above. Its files appear as the box's own, so that a package can be replaced and taken away too. Two kinds
of files are not there at all: configuration that boxes must not see (`pythonenv`), and, where files of the host's root
become the box's, everything that others may not read on the host. What that is takes a look at every file, so the
supervisor has it done beside its work (`begin_survey`).

Where files cannot appear as somebody else's, or belong to neither the caller nor the box, the folders that packages
are put into become the box's own and the files do not: packages can be added, and those of the host stay.

Nothing of a layer is ever run outside its box: the mounts are private to the process that becomes the box.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kagura_kernel.sandbox.supervisor import linux
from kagura_kernel.sandbox.supervisor.arguments import NO_LAYER
from kagura_kernel.sandbox.supervisor.root_layer import merge, show_mapped, unreadable

_ENTERED = 0o005
_KEPT = 60.0
# Where an installer puts something that is new.
_TARGETS = ("bin", "etc", "include", "lib", "lib64", "share")
_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Survey:
    """A look at an environment for what others may not read, perhaps still going on."""

    pid: int  # the process that looks
    over: int  # descriptor that reads as ended when it is over
    found: int  # memory file that holds the answer then; empty when it failed

    def private(self) -> dict[str, list[str]] | None:
        """Paths by folder, relative to it; waits until they are known. None when the look failed."""
        os.read(self.over, 1)
        data = os.pread(self.found, os.fstat(self.found).st_size, 0)
        return json.loads(data) if data else None

    def is_over(self) -> bool:
        """Whether nobody would have to wait for it."""
        poller = select.poll()
        poller.register(self.over, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Forget it; processes that were forked meanwhile keep their own descriptors."""
        os.close(self.over)
        os.close(self.found)


def begin_survey(folders: Iterable[str]) -> Survey:
    """Have a process of its own look through these folders; whoever reaps children reaps it.

    A file that is made, or made private, later than that may be seen by the boxes that this look was for.

    Raises:
        OSError: there can be no further process.
    """
    over, going_on = os.pipe2(os.O_CLOEXEC)
    found = os.memfd_create("survey")
    try:
        pid = os.fork()
        if pid == 0:
            # Whatever happens, this process must not go on as a second supervisor.
            with contextlib.suppress(BaseException):
                linux.die_with_parent()
                answer = json.dumps({folder: list(unreadable(folder)) for folder in folders}).encode()
                os.pwrite(found, answer, 0)
            os._exit(0)
    except OSError:
        os.close(over)
        os.close(found)
        raise
    finally:
        os.close(going_on)
    return Survey(pid, over, found)


@dataclass(slots=True)
class Surveys:
    """The latest look, renewed from time to time because files come and modes change; belongs to a supervisor."""

    latest: Survey | None = None  # the one to be used; None where no file of another owner may become a box's
    coming: Survey | None = None  # one that will replace it when it is over, so that nobody waits for it
    folders: Sequence[str] = ()  # where to look
    begun: float = 0.0  # when the last one was begun

    def begin(self, folders: Sequence[str]) -> None:
        """Have these looked through from now on, when there are any."""
        self.folders = folders
        if folders:
            self.begun = time.monotonic()
            with contextlib.suppress(OSError):
                self.latest = begin_survey(folders)

    def tend(self) -> None:
        """Take over a look that is over, and begin another when the last one is old."""
        if self.coming is not None and self.coming.is_over():
            if self.latest is not None:
                self.latest.close()
            self.latest, self.coming = self.coming, None
        if self.folders and self.coming is None and time.monotonic() - self.begun > _KEPT:
            self.begun = time.monotonic()
            with contextlib.suppress(OSError):
                self.coming = begin_survey(self.folders)


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose the files of an environment are in a box."""

    uid: int  # the box's user, as the supervisor's child knows it
    gid: int  # its group
    mapping: int | None  # descriptor of a user namespace that maps the files' owners; None shows them as they are
    root: bool  # whether this is root of the whole machine


def show_python(
    parts: tuple[tuple[str, str], ...],
    python: Mapping[str, Any],
    owners: Owners,
    survey: Survey | None,
    place: str | None,
    notes: list[str],
) -> dict[str, Any]:
    """The interpreter as the fields of `Staged`, with a layer over what packages are installed into.

    The layer is made at `place`, in the box's scratch space; None makes none. `parts` are (staged directory, path in
    the box). `notes` takes what a reader should know where there can be no layer.
    """
    hidden = tuple(python["hidden"])
    if place is None or not python["layered"]:
        return {"python": parts, "python_hidden": hidden}
    try:
        os.mkdir(place)
        layers = build_layers(place, python["layered"], hidden, owners, survey)
        own = tuple((f"{place}/own{index}", path) for index, path in enumerate(python["own"]))
        for source, _ in own:
            os.mkdir(source)
            os.chown(source, owners.uid, owners.gid)
    except OSError as error:
        notes.append(f"{NO_LAYER} ({error.strerror})")
        return {"python": parts, "python_hidden": hidden}
    layered = tuple(path for _, path in layers)
    return {
        "python": tuple(part for part in parts if part[1] not in layered),
        "python_layers": (*layers, *own),
        "python_hidden": tuple(path for path in hidden if not any(path.startswith(f"{part}/") for part in layered)),
    }


def build_layers(
    place: str, folders: Sequence[str], hidden: Sequence[str], owners: Owners, survey: Survey | None
) -> tuple[tuple[str, str], ...]:
    """Make the layer over each folder, in an empty directory of the scratch space; (merged directory, path in the box).

    Two names of one folder share a layer. What is `hidden` is not seen, and without a survey no file becomes the box's
    that was not. Raises `OSError` when there can be no layer.
    """
    private = survey.private() if survey is not None and owners.mapping is not None else None
    made: dict[str, str] = {}
    for index, folder in enumerate(folders):
        real = os.path.realpath(folder)
        if real not in made:
            covered = [path.removeprefix(f"{folder}/") for path in hidden if path.startswith(f"{folder}/")]
            secret = None if private is None else private.get(folder)
            made[real] = _overlay(f"{place}/{index}", real, covered, secret, owners)
    return tuple((made[os.path.realpath(folder)], folder) for folder in folders)


def _overlay(place: str, source: str, covered: Sequence[str], secret: Sequence[str] | None, owners: Owners) -> str:
    os.mkdir(place)
    for name in ("lower", "merged", "work"):
        os.mkdir(f"{place}/{name}")
    lower, veil, upper = (f"{place}/{name}" for name in ("lower", "veil", "upper"))
    mapped = secret is not None and _is_shown_mapped(source, lower, owners)
    if not mapped:
        linux.mount(source, lower, flags=linux.MS_BIND | linux.MS_REC)
    own = mapped or os.stat(lower).st_uid == owners.uid
    for name in (veil, upper):
        _like(lower, name, owners)
    for path in _outermost((*covered, *((secret or ()) if mapped else ()))):
        _hide(lower, veil, path, owners)
    if not own:
        for path in _targets(lower):
            if not os.path.lexists(f"{veil}/{path}"):
                _like(f"{lower}/{path}", f"{veil}/{path}", owners)
    merged = merge(place, root=owners.root)
    if not owners.root:
        linux.try_attributes(upper)
    return merged


def _is_shown_mapped(source: str, lower: str, owners: Owners) -> bool:
    """Whether the files could be shown as the box's own; nothing is mounted when not."""
    if owners.mapping is None:
        return False
    with contextlib.suppress(OSError):
        show_mapped(source, lower, owners.mapping)
        return True
    return False


def _targets(lower: str) -> Iterator[str]:
    """Folders in which an installer makes something, each after the one that it is in."""
    for part in _TARGETS:
        if _is_open(f"{lower}/{part}"):
            yield part
    # A link among them leads to one that is told by its own name.
    for part in ("", *(f"{name}/" for name in ("lib", "lib64") if _is_open(f"{lower}/{name}"))):
        for name in sorted(os.listdir(f"{lower}/{part}")):
            if name.startswith("python") and _is_open(f"{lower}/{part}{name}"):
                yield f"{part}{name}"
                inside = (f"{part}{name}/{last}" for last in _PACKAGES)
                yield from (path for path in inside if _is_open(f"{lower}/{path}"))


def _is_open(path: str) -> bool:
    """Whether it is a directory, and no link, that everybody may enter and list."""
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & _ENTERED == _ENTERED


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    """Each path that is not in another one."""
    last = "\0"
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not path.startswith(f"{last}/"):
            yield path
            last = path


def _hide(lower: str, veil: str, path: str, owners: Owners) -> None:
    """Put the overlay's sign that a path does not exist into the layer above the host's."""
    here = ""
    try:
        for name in path.split("/")[:-1]:
            here = f"{here}/{name}"
            if os.path.isdir(f"{veil}{here}"):
                continue
            found = os.stat(f"{lower}{here}", follow_symlinks=False)
            # In the layer it would be the box's, which could then enter it.
            if found.st_uid != owners.uid and found.st_mode & _ENTERED != _ENTERED:
                path = here.lstrip("/")
                break
            _like(f"{lower}{here}", f"{veil}{here}", owners)
    except FileNotFoundError:
        # What is gone meanwhile has no place to be seen at.
        return
    os.mknod(f"{veil}/{path}", stat.S_IFCHR, os.makedev(0, 0))


def _like(source: str, target: str, owners: Owners) -> None:
    """A directory with another's mode that is the box's: the topmost layer's word counts."""
    found = os.stat(source, follow_symlinks=False)
    os.mkdir(target)
    os.chown(target, owners.uid, owners.gid)
    os.chmod(target, stat.S_IMODE(found.st_mode) & 0o777 | 0o700)
